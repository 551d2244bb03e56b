from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import fastavro

from contracts.evidence import EventPointer, Evidence
from contracts.model import DataContract
from contracts.plan import compile_plan
from gateway.desk.quarantine import QuarantinedRecord
from gateway.desk.record_views import RecordView, View, record_view

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Admission",
    "fields": [{"name": "age", "type": "int"}, {"name": "patient", "type": "string"}],
}
AVRO: dict[str, Any] = {
    "apiVersion": "tidegate/v1",
    "kind": "DataContract",
    "id": "adm",
    "version": "1.0.0",
    "topic": "adm",
    "schema": {"type": "avro", "definition": SCHEMA},
    "rules": [{"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999]}],
}


def encoded(age: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), {"age": age, "patient": "SECRET"})
    return out.getvalue()


def view_of(value: bytes | None, document: dict[str, Any] | None, view: View = View.FORMATTED) -> RecordView:
    contract = DataContract.model_validate(document) if document else None
    violations = compile_plan(contract).explain(value).violations if contract else ()
    record = QuarantinedRecord(
        EventPointer("adm.quarantine", 0, 0),
        datetime(2026, 1, 1, tzinfo=UTC),
        b"key",
        value,
        (("origin", b"here"), ("tidegate.rules", b"age-is-known")),
        Evidence(EventPointer("adm", 0, 7), "adm", "adm@1.0.0", ("age-is-known",), violations),
    )
    return record_view(record, contract, view)


def text_of(view: RecordView) -> str:
    lines = "".join(piece.text for line in view.lines for piece in line.pieces)
    cells = "".join(cell.character for row in view.hex_rows for cell in row.cells)
    return lines + cells


def test_avro_is_decoded_and_marked() -> None:
    view = view_of(encoded(999), AVRO)
    assert view.is_decoded
    assert text_of(view) == '{"age": 999,"patient": "SECRET"}'
    marks = [piece.text for line in view.lines for piece in line.pieces if piece.mark]
    assert marks == ["999"]
    assert "SECRET" in text_of(view_of(encoded(999), AVRO, View.HEX))


def test_avro_of_a_contract_that_classifies_fields_hides_its_bytes() -> None:
    classified = {**AVRO, "classification": {"/patient": "pii"}}
    for value in (encoded(999), encoded(999)[:-1], b"\xff" * 20):
        for view in View:
            assert "SECRE" not in text_of(view_of(value, classified, view))
            assert view_of(value, classified, view).hides


def test_avro_that_cannot_be_decoded_is_shown_as_bytes() -> None:
    view = view_of(b"\xff" * 3, AVRO)
    assert not view.is_decoded
    assert "\\xff" in text_of(view)


def test_key_and_foreign_headers_are_hidden_where_fields_are_classified() -> None:
    plain = view_of(b"x", AVRO)
    assert plain.key.runs == (("key", False),)
    assert [(field.name, field.is_hidden) for field in plain.headers] == [
        ("origin", False),
        ("tidegate.rules", False),
    ]
    for hiding in (view_of(b"x", {**AVRO, "classification": {"/patient": "pii"}}), view_of(b"x", None)):
        assert (hiding.key.is_hidden, hiding.key.runs) == (True, ())
        assert [(field.name, field.is_hidden) for field in hiding.headers] == [
            ("origin", True),
            ("tidegate.rules", False),
        ]


def test_tombstones_and_records_without_evidence_have_a_page() -> None:
    assert view_of(None, AVRO).size is None
    bare = QuarantinedRecord(EventPointer("adm.quarantine", 0, 0), None, None, b"secret", (), None)
    view = record_view(bare, None, View.FORMATTED)
    assert (view.reasons, view.stream, view.hides) == ((), None, True)
    assert "secret" not in text_of(view)
