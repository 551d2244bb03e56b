"""Confluent's Python client, unmodified: its serializers with a rule set, and its registry in memory."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from confluent_kafka.schema_registry import Rule, RuleKind, RuleMode, RuleSet, Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
from confluent_kafka.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

_CLIENT: Final = SchemaRegistryClient.new_client({"url": "mock://conditions"})
_PREFIX: Final = 5
_REGISTRY: Final = RuleRegistry()
_REGISTRY.register_executor(CelExecutor())
_REGISTRY.register_executor(CelFieldExecutor())
_numbers = count()


class Producer:
    """A serializer for records of a schema with rules."""

    def __init__(self, schema_type: str, schema: dict[str, Any], rules: Sequence[dict[str, Any]]) -> None:
        topic, text = f"t{next(_numbers)}", json.dumps(schema)
        found = RuleSet(None, [_rule(rule) for rule in rules])
        _CLIENT.register_schema(f"{topic}-value", Schema(text, schema_type, [], None, found))
        settings = {"auto.register.schemas": False, "use.latest.version": True}
        self._serialize = (
            AvroSerializer(_CLIENT, text, conf=settings, rule_registry=_REGISTRY)
            if schema_type == "AVRO"
            else JSONSerializer(text, _CLIENT, conf=settings, rule_registry=_REGISTRY)
        )
        self._context = SerializationContext(topic, MessageField.VALUE)

    def write(self, record: dict[str, Any]) -> bytes | None:
        """Return what the client writes for a record, without the prefix; None if a rule refuses it."""
        try:
            written = self._serialize(copy.deepcopy(record), self._context)
        except SerializationError as error:
            if isinstance(error.__cause__, SchemaRegistryError):
                raise
            return None
        assert written is not None
        return bytes(written[_PREFIX:])


def _rule(rule: dict[str, Any]) -> Rule:
    kind, mode = RuleKind[rule["kind"]], RuleMode[rule["mode"]]
    return Rule(
        rule["name"], None, kind, mode, rule["type"], rule.get("tags"), None, rule["expr"], None, None, False
    )
