"""Refused records of a line, and requests to replay them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import httpx

from tests.integration.enforce.line import Line
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.evidence import headers_of, read_provenance
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import ReplayRequest, digest_of_refusals, runs_of
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics

MENDED: dict[str, Any] = {
    "fix": "amount-sentinel",
    "steps": [{"action": "map", "field": "/amount", "values": [{"from": 999, "to": 1}]}],
}
"""A fix of the records that `line.row` makes with the amount 999."""


def refusals(line: Line) -> dict[Position, Position]:
    """Return the place of each refused record in the quarantine topic, and its source position."""
    kafka, topic = line.settings.kafka, quarantine_topic(line.topic)
    found = {}
    for message in read_committed(kafka, topic, {}, Topics(kafka).latest(topic)):
        provenance = read_provenance(headers_of(message))
        assert provenance is not None
        place = (message.partition() or 0, message.offset() or 0)
        found[place] = (provenance.source.partition, provenance.source.offset)
    return found


def request(line: Line, places: Any = None, **changes: Any) -> ReplayRequest:
    """Request a replay of all refused records that there are now, or of those at some places, of the job of this process."""
    asked = new_request(line, places, **changes)
    line.replays.open.append(asked)
    return asked


def new_request(line: Line, places: Any = None, **changes: Any) -> ReplayRequest:
    """Return such a request, which is made nowhere yet."""
    topic = quarantine_topic(line.topic)
    identity = Topics(line.settings.kafka).identity(topic)
    assert identity is not None
    positions = Positions(sorted(refusals(line) if places is None else places))
    given = changes.pop("fix", None)
    fix = None if given is None else parse_fix(json.dumps(given), name="fix.json")
    return ReplayRequest.model_validate(
        {
            **changes,
            "id": uuid4(),
            "stream": line.contract_id,
            "topic": topic,
            "topic_id": identity[0],
            "positions": runs_of(positions),
            "records": len(positions),
            "digest": digest_of_refusals(topic, positions),
            "fix": fix and fix.text,
            "fingerprint": fix and fix.fingerprint,
            "append_late": changes.get("append_late", line.settings.sink == "kafka"),
        }
    )


def post_request(asked: ReplayRequest, registry_url: str) -> UUID:
    """Request it of a registry; return the id that it has there."""
    order = asked.model_dump(mode="json", exclude={"id", "stream"})
    answer = httpx.post(f"{registry_url}/api/v1/streams/{asked.stream}/replays", json=order, timeout=60)
    assert answer.status_code == 201, answer.text
    return UUID(answer.json()["id"])
