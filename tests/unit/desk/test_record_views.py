from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import fastavro
import pytest

from tests.hostile_avro import HOSTILE
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.stream.evidence import EventPointer, Evidence
from tidegate.contracts.verdict import Severity, Stage, Violation
from tidegate.gateway.http.desk.quarantine_views import _position
from tidegate.gateway.http.desk.record_views import RecordView, View, record_view
from tidegate.gateway.http.desk.rendering import page
from tidegate.gateway.http.problems import InvalidBody
from tidegate.gateway.streams.quarantine import QuarantinedRecord
from tidegate.gateway.streams.quarantine_records import Viewer

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

OURS = (
    *("tidegate.source", "tidegate.ledger", "tidegate.contract", "tidegate.rules", "tidegate.violations"),
    *("tidegate.timestamp", "tidegate.generation", "tidegate.judged-at", "tidegate.format"),
)
SOURCE = ("tidegate.source", b"adm/0/7")
EVIDENCE = Evidence(EventPointer("adm", 0, 7), "adm", "adm@1.0.0", (), ())


def encoded(age: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), {"age": age, "patient": "SECRET"})
    return out.getvalue()


def view_of(
    value: bytes | None, document: dict[str, Any] | None, view: View = View.FORMATTED, *revealed: str
) -> RecordView:
    contract = DataContract.model_validate(document) if document else None
    plan = compile_plan(contract) if contract else None
    violations = plan.explain(value).violations if plan else ()
    record = QuarantinedRecord(
        EventPointer("adm.quarantine", 0, 0),
        datetime(2026, 1, 1, tzinfo=UTC),
        b"key",
        value,
        (("origin", b"here"), SOURCE, ("tidegate.rules", b"age-is-known")),
        Evidence(EventPointer("adm", 0, 7), "adm", "adm@1.0.0", ("age-is-known",), violations),
    )
    return record_view(record, Viewer(contract, plan, frozenset(revealed)), view)


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


@pytest.mark.parametrize(("schema", "value"), HOSTILE)
def test_hostile_avro_is_shown_as_bytes(schema: dict[str, Any], value: bytes) -> None:
    document = {**AVRO, "schema": {"type": "avro", "definition": schema}, "rules": []}
    assert not view_of(value, document).is_decoded


def test_key_and_foreign_headers_are_hidden_where_fields_are_classified() -> None:
    plain = view_of(b"x", AVRO)
    assert plain.key.runs == (("key", False),)
    assert [(field.name, field.is_hidden) for field in plain.headers] == [
        ("origin", False),
        ("tidegate.source", False),
        ("tidegate.rules", False),
    ]
    for hiding in (view_of(b"x", {**AVRO, "classification": {"/patient": "pii"}}), view_of(b"x", None)):
        assert (hiding.key.is_hidden, hiding.key.runs) == (True, ())
        assert [(field.name, field.is_hidden) for field in hiding.headers] == [
            ("origin", True),
            ("tidegate.source", False),
            ("tidegate.rules", False),
        ]


def test_tombstones_and_records_of_an_unknown_version_have_a_page() -> None:
    assert view_of(None, AVRO).size is None
    bare = QuarantinedRecord(EventPointer("adm.quarantine", 0, 0), None, None, b"secret", (), EVIDENCE)
    view = record_view(bare, Viewer(None, None), View.FORMATTED)
    assert (view.reasons, view.stream, view.hides) == ((), "adm", True)
    assert "secret" not in text_of(view)


def test_an_unreadable_record_of_a_contract_that_classifies_fields_is_one_bar() -> None:
    document = {
        **AVRO,
        "rules": [],
        "schema": {"type": "json-schema", "definition": {"properties": {"a": {}}}},
        "classification": {"/a": "pii"},
    }
    view = view_of(b'{"b": 1, "c" SECRET}', document)
    assert [piece.kind for line in view.lines for piece in line.pieces] == ["mask"]
    assert [each.part for each in view.hidden] == ["body", "headers", "key"]
    assert "SECRET" in text_of(view_of(b'{"b": 1, "c" SECRET}', document, View.FORMATTED, "body"))


@pytest.mark.parametrize("classes", [{}, {"classification": {"/patient": "pii"}}])
def test_headers_that_a_producer_named_like_ours_are_hidden_too(classes: dict[str, Any]) -> None:
    """Tidegate writes no generation 0 and no format 1, so only the position tells whose header it is."""
    contract = DataContract.model_validate({**AVRO, **classes})
    producers = [(name, b"SECRET") for name in (*OURS, "tidegate.mine")]
    ours = (SOURCE, ("tidegate.rules", b"age-is-known"), ("tidegate.judged-at", b"1"))
    record = QuarantinedRecord(
        EventPointer("adm.quarantine", 0, 0), None, None, b"x", (*producers, *ours), EVIDENCE
    )
    view = record_view(record, Viewer(contract, None), View.FORMATTED)
    assert [each.name for each in view.headers] == [name for name, _ in (*producers, *ours)]
    assert [each.is_hidden for each in view.headers] == [bool(classes)] * len(producers) + [False] * len(ours)
    bare = replace(record, headers=ours, key=None, value=None)
    assert not record_view(bare, Viewer(contract, None), View.FORMATTED).hides


def test_avro_of_an_unknown_writer_is_hidden_where_fields_are_classified() -> None:
    """Read with another schema than it was written with, a value may show up in any field."""
    classified = {**AVRO, "classification": {"/age": "pii"}, "framing": "confluent-prefix", "rules": []}
    value = b"\0\0\0\0\7" + encoded(40)
    contract = DataContract.model_validate(classified)
    plan = compile_plan(contract)
    violation = Violation(Stage.RULE, "gone", "", Severity.ERROR, "is refused")
    record = QuarantinedRecord(
        EventPointer("adm.quarantine", 0, 0), None, None, value, (),
        Evidence(EventPointer("adm", 0, 7), "adm", "adm@1.0.0", (), (violation,)),
    )  # fmt: skip
    own = WriterSchema(7, UUID(int=7), "avro", json.dumps(SCHEMA))
    for writers, is_shown in (
        (None, False),
        (WriterSchemas((), is_current=True), False),
        (WriterSchemas((own,), is_current=True), True),
    ):
        viewer = Viewer(contract, plan.with_writers(writers))
        assert ("SECRET" in text_of(record_view(record, viewer, View.FORMATTED))) is is_shown


def test_a_page_without_reveal_names_whom_to_ask() -> None:
    contract = DataContract.model_validate({**AVRO, "classification": {"/patient": "pii"}})
    record = QuarantinedRecord(EventPointer("adm.quarantine", 0, 0), None, b"k", encoded(9), (), EVIDENCE)
    for may_reveal, expected in (
        (True, "Show hidden values"),
        (False, "ask somebody with the role approver"),
    ):
        viewer = Viewer(contract, None, may_reveal=may_reveal)
        view = record_view(record, viewer, View.FORMATTED)
        text = bytes(page("record.html", view=view, beside=None).body).decode()
        assert (expected in text, "<form" in text) == (True, may_reveal)


@pytest.mark.parametrize("text", ["0/9223372036854775808", "2147483648/0", "0/" + "9" * 40, "0/-1", "7"])
def test_a_source_position_that_no_topic_has_is_refused(text: str) -> None:
    """A database fails on a number that its columns cannot hold."""
    with pytest.raises(InvalidBody, match="position"):
        _position(text)
    assert _position("topic/2147483647/9223372036854775807") == (2**31 - 1, 2**63 - 1)
