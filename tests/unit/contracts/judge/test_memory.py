"""What a record takes while it is judged, beside its length: the bound of docs/explanation/verdicts.md."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidegate.contracts.verdict import Stage

_BYTES_PER_BYTE = 250
_ONE_FIELD = {"type": "record", "name": "R", "fields": [{"name": "is", "type": "boolean"}]}
_DEFAULTS = 20
_MORE = {
    **_ONE_FIELD,
    "fields": [
        {"name": "is", "type": "boolean"},
        *({"name": f"n{number}", "type": "null"} for number in range(_DEFAULTS)),
    ],
}


@pytest.mark.parametrize(
    ("kind", "schema", "value", "free_fields"),
    [
        ("json-schema", True, b"[" + b"[]," * 20_000 + b"0]", 0),
        ("json-schema", True, b"[" + b"{}," * 20_000 + b"0]", 0),
        ("json-schema", True, b"[" + b'{"":0},' * 10_000 + b"0]", 0),
        ("json-schema", True, b"[" + b"1e1," * 20_000 + b"1e400]", 0),
        ("json-schema", True, b"[" + '"é",'.encode() * 10_000 + b"0]", 0),
        ("json-schema", {"uniqueItems": True}, b"[" + b"[]," * 3_000 + b"0]", 0),
        ("avro", {"type": "array", "items": "boolean"}, b"\x80\xea\x30" + b"\x01" * 400_000 + b"\x00", 0),
        (
            "avro",
            {"type": "array", "items": {"type": "array", "items": "int"}},
            b"\xc0\x9a\x0c" + bytes(100_001),
            0,
        ),
        ("avro", {"type": "array", "items": _ONE_FIELD}, b"\xc0\x9a\x0c" + bytes(100_001), 0),
        ("avro", {"type": "array", "items": _MORE}, b"\xa0\x9c\x01" + bytes(10_001), _DEFAULTS),
    ],
)
def test_a_record_takes_memory_in_proportion_to_its_length(
    make_plan: Any, fits: Any, kind: str, schema: Any, value: bytes, free_fields: int
) -> None:
    plan = make_plan(schema, kind=kind, columns=[])
    values = pa.array([value], pa.binary())
    assert {violation.stage for violation in plan.explain(value).violations} <= {Stage.SCHEMA}

    def judge() -> None:
        plan.judge(values)
        plan.explain(value)

    assert fits(judge, 100_000 + len(value) * (_BYTES_PER_BYTE + 100 * free_fields))


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "range", "field": "/t", "after": "2020-01-01T00:00:00Z"},
        {"kind": "forbidden", "field": "/t", "values": ["2020-01-01T00:00:00Z"]},
        {"kind": "ordered", "fields": ["/t", "/u"]},
    ],
)
def test_a_text_beside_times_is_not_multiplied_by_their_unit(
    make_plan: Any, fits: Any, rule: dict[str, Any]
) -> None:
    either = ["string", {"type": "long", "logicalType": "timestamp-micros"}]
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": either} for name in "tu"]}
    plan = make_plan(schema, kind="avro", rules=[{"id": "r", **rule}], columns=[])
    text = b"\x00\xa0\x1f" + b"x" * 2_000
    values = pa.array([text * 2] * 40, pa.binary())  # so many that code is generated
    assert set(plan.judge(values).field("disposition").to_pylist()) == {0}
    assert fits(lambda: plan.judge(values), 100_000 + len(text) * 2 * 40 * _BYTES_PER_BYTE // 50)
