"""A registry on loopback that notes what it is asked, and what clients register there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka.schema_registry import Rule, RuleSet, Schema
from starlette.types import ASGIApp, Message, Receive, Scope, Send

AVRO = '{"type":"record","name":"Admission","namespace":"hospital","fields":[{"name":"age","type":"int"}]}'
WIDER = (
    '{"type":"record","name":"Admission","namespace":"hospital","fields":[{"name":"age","type":"int"},'
    '{"name":"ward","type":"string","default":""}]}'
)
JSON = '{"type":"object","title":"Admission","properties":{"age":{"type":"integer"}}}'


class Recorder:
    """Stands before the application and notes requests as they come over the wire, and the status of each answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.exchanges: list[tuple[str, str, int]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = scope["raw_path"].decode()
                query = scope["query_string"].decode()
                self.exchanges.append((scope["method"], f"{path}?{query}".rstrip("?"), message["status"]))
            await send(message)

        await self._app(scope, receive, noted)


@dataclass(frozen=True)
class Registry:
    """A registry that is served on loopback."""

    url: str
    recorder: Recorder


def schema(text: str, **more: Any) -> Schema:
    return Schema(text, "JSON" if text.startswith('{"type":"object"') else "AVRO", **more)


def rules() -> RuleSet:
    """Refuse the placeholder 999, in the client when it asks for the latest version."""
    rule = Rule.from_dict(
        {
            "name": "ageIsKnown",
            "kind": "CONDITION",
            "mode": "WRITE",
            "type": "CEL",
            "expr": "message.age != 999",
        }
    )
    return RuleSet(None, [rule])
