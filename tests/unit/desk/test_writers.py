"""The page of a refused record reads it with the schema that it names, as the registry lists it."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from sqlalchemy import text

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.evidence import EventPointer, Evidence
from tidegate.contracts.verdict import Severity, Stage, Violation
from tidegate.gateway.access.principal import ANONYMOUS
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.record_access import viewer_of
from tidegate.gateway.http.desk.record_views import View, record_view
from tidegate.gateway.streams.quarantine import QuarantinedRecord

OLD = {"type": "record", "name": "Stay", "fields": [{"name": "age", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Stay",
    "fields": [{"name": "ward", "type": "string", "default": "?"}, {"name": "age", "type": "long"}],
}
CONTRACT: dict[str, Any] = {
    "apiVersion": "tidegate/v1",
    "kind": "DataContract",
    "id": "stays",
    "topic": "stays",
    "framing": "confluent-prefix",
    "rules": [{"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [63]}],
}


def record_of(value: bytes) -> QuarantinedRecord:
    violation = Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "age is forbidden")
    evidence = Evidence(EventPointer("stays", 0, 0), "stays", "stays@1.1.0", ("age-is-known",), (violation,))
    return QuarantinedRecord(EventPointer("stays.quarantine", 0, 0), None, None, value, (), evidence)


def published(factory: Factory, version: str, schema: Any) -> bytes:
    document = {**CONTRACT, "version": version, "schema": {"type": "avro", "definition": schema}}
    found = factory.registry().publish(orjson.dumps(document), "stays.json").version
    return b"\0" + found.registry_id.to_bytes(4, "big")


def test_each_record_is_shown_as_its_writer_wrote_it(factory: Factory) -> None:
    old, new = published(factory, "1.0.0", OLD), published(factory, "1.1.0", NEW)
    for value, shown in (
        (old + b"\x7e", {"ward": "?", "age": 63}),
        (new + b"\x02i\x7e", {"ward": "i", "age": 63}),
        (b"\0\0\0\1\0\x7e", None),  # of a schema that is not registered
    ):
        record = record_of(value)
        looking = viewer_of(factory, ANONYMOUS, record.evidence.contract, "stays-value")
        view = record_view(record, looking, View.FORMATTED)
        assert view.is_decoded is (shown is not None)
        if shown is not None:
            lines = "".join(piece.text for line in view.lines for piece in line.pieces)
            assert json.loads(lines) == shown
            assert view.reasons[0].explanation.sentence == "age is 63, a placeholder value"


def test_without_the_registrys_database_nothing_is_guessed(factory: Factory) -> None:
    old = published(factory, "1.1.0", OLD)
    record = record_of(old + b"\x7e")
    with factory.database._engine.begin() as connection:
        connection.execute(text("ALTER TABLE subject_versions RENAME TO gone"))
    with pytest.raises(Unavailable):
        viewer_of(factory, ANONYMOUS, record.evidence.contract, "stays-value")
