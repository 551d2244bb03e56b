"""Fixes of Avro records: with the schema that each was written with, or not at all."""

from __future__ import annotations

import io
import json
import math
import pickle
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import ConflictError
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.fix.model import Fix
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.stream.avro_fix import AvroFix
from tidegate.contracts.stream.replay_preview import RefusedRecord, ReplayPreview, fix_for

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Admission",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "age", "type": ["null", "int"]},
        {"name": "stay", "type": "double"},
        {"name": "photo", "type": "bytes"},
        {"name": "charge", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {
            "name": "wards",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Ward", "fields": [{"name": "code", "type": "string"}]},
            },
        },
    ],
}
RECORD = {
    "id": "A1",
    "age": 999,
    "stay": 1.5,
    "photo": b"\0\xff",
    "charge": Decimal("12.50"),
    "wards": [{"code": " icu"}, {"code": "er"}],
}
SENTINEL = {"action": "map", "field": "/age", "values": [{"from": 999, "to": None}]}


def fix(*steps: dict[str, Any]) -> Fix:
    return parse_fix(json.dumps({"fix": "f", "steps": steps}), name="fix.json")


def encoded(record: dict[str, Any], schema: dict[str, Any] = SCHEMA) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def decoded(value: bytes | None, schema: dict[str, Any] = SCHEMA) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(value or b""), fastavro.parse_schema(schema), None)


def applied(*steps: dict[str, Any], value: bytes | None = None) -> bytes | None:
    return AvroFix(fix(*steps), json.dumps(SCHEMA), None).apply(encoded(RECORD) if value is None else value)


def test_a_record_is_changed_and_encoded_with_its_schema() -> None:
    trim = {"action": "trim", "field": "/wards/*/code"}
    changed = decoded(applied(SENTINEL, trim, {"action": "set", "field": "/stay", "value": 2}))
    assert changed == {**RECORD, "age": None, "stay": 2.0, "wards": [{"code": "icu"}, {"code": "er"}]}


def test_what_is_no_integer_and_no_item_leaves_the_other_steps() -> None:
    steps = {"action": "cast", "field": "/stay", "to": "integer"}, {"action": "trim", "field": "/wards/²"}
    changed = decoded(applied(SENTINEL, *steps, value=encoded({**RECORD, "stay": math.inf})))
    assert (changed["age"], changed["stay"]) == (None, math.inf)


def test_a_record_with_a_nan_is_changed_and_keeps_it() -> None:
    schema = {
        **SCHEMA,
        "fields": [*SCHEMA["fields"], {"name": "rates", "type": {"type": "map", "values": "float"}}],
    }
    value = encoded({**RECORD, "stay": math.nan, "rates": {"a": math.nan, "b": 0.5}}, schema)
    expected = encoded({**RECORD, "age": None, "stay": math.nan, "rates": {"a": math.nan, "b": 0.5}}, schema)
    assert AvroFix(fix(SENTINEL), json.dumps(schema), None).apply(value) == expected
    no_float = {"action": "set", "field": "/rates/b", "value": 0.1}
    assert AvroFix(fix(no_float), json.dumps(schema), None).apply(value) is value


@pytest.mark.parametrize(
    "step",
    [
        {"action": "map", "field": "/age", "values": [{"from": 998, "to": None}]},  # changes nothing
        {"action": "drop", "field": "/id"},  # the schema cannot hold these
        {"action": "rename", "field": "/id", "to": "identity"},
        {"action": "set", "field": "/id", "value": None},
        {"action": "set", "field": "/age", "value": 1.5},
        {"action": "set", "field": "/age", "value": 3_000_000_000},
        {"action": "cast", "field": "/stay", "to": "string"},
        {"action": "set", "field": "/charge", "value": 12.505},
        {"action": "set", "field": "/more", "value": 1},
    ],
)
def test_what_changes_nothing_or_does_not_fit_the_schema_leaves_the_bytes(step: dict[str, Any]) -> None:
    value = encoded(RECORD)
    assert applied(step, value=value) is value


@pytest.mark.parametrize("value", [b"", b"\x02", encoded(RECORD) + b"\0", b"\xff" * 40])
def test_bytes_that_are_no_record_stay(value: bytes) -> None:
    assert applied(SENTINEL, value=value) is value
    assert AvroFix(fix(SENTINEL), json.dumps(SCHEMA), None).apply(None) is None


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


OLD: dict[str, Any] = {**SCHEMA, "fields": SCHEMA["fields"][:2]}


def test_each_record_keeps_its_schema_id_and_the_schema_that_it_was_written_with() -> None:
    ready = AvroFix(fix(SENTINEL), json.dumps(SCHEMA), {7: json.dumps(OLD), 8: json.dumps(SCHEMA)})
    copy = pickle.loads(pickle.dumps(ready))  # noqa: S301 - pickled here
    old = framed(7, encoded({"id": "A1", "age": 999}, OLD))
    for each in (ready, copy):
        assert each.apply(old) == framed(7, encoded({"id": "A1", "age": None}, OLD))
        assert each.apply(framed(8, encoded(RECORD))) == framed(8, encoded({**RECORD, "age": None}))
    for other in (framed(9, encoded(RECORD)), encoded(RECORD), b"\0\0\0"):
        assert ready.apply(other) is other


def contract(**changes: Any) -> DataContract:
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "adm",
            "version": "1.0.0",
            "topic": "adm",
            "schema": {"type": "avro", "definition": SCHEMA},
            "rules": [{"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999]}],
            **changes,
        }
    )


def refused(value: bytes) -> RefusedRecord:
    return RefusedRecord(None, value, (), 0, 0)


def test_a_preview_judges_the_encoded_record() -> None:
    plan = compile_plan(contract())
    preview = ReplayPreview()
    values = [encoded({**RECORD, "age": age}) for age in (999, 999, 42)]
    preview.add(map(refused, values), plan, fix_for(fix(SENTINEL), plan))
    assert (preview.passing, preview.failing, preview.changed) == (3, 0, 2)


def test_framed_records_need_the_schemas_of_the_registry() -> None:
    plan = compile_plan(contract(framing="confluent-prefix"))
    with pytest.raises(ConflictError, match="no registry is at hand"):
        fix_for(fix(SENTINEL), plan)
    known = plan.with_writers(
        WriterSchemas((WriterSchema(7, UUID(int=7), "avro", json.dumps(SCHEMA)),), is_current=True)
    )
    changed = fix_for(fix(SENTINEL), known).apply(framed(7, encoded(RECORD)))
    assert known.judge(pa.array([changed])).field("disposition").to_pylist() == [0]
    with pytest.raises(ConflictError, match="whose schema a header names"):
        fix_for(fix(SENTINEL), compile_plan(contract(framing="confluent-header")))
