"""Numbers beyond 2^53 in rules: a double stands for the decimal that it is written as, not for its binary value."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests.documents import contract_with, plan_with
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.document.model import Compatibility
from tidegate.contracts.verdict import Disposition

ONE = 10**23
"""The double 1e23 is 99999999999999991611392."""
BELOW, EQUAL, ABOVE = (
    ["99999999999999999999999", "9e22"],
    ["1e23", str(ONE), "1.0e23"],
    [str(ONE + 1), "2e23"],
)
ACCEPTED = [
    ("minimum", [*EQUAL, *ABOVE]),
    ("exclusive_minimum", ABOVE),
    ("maximum", [*EQUAL, *BELOW]),
    ("exclusive_maximum", BELOW),
    ("forbidden", [*BELOW, *ABOVE]),
    ("one_of", EQUAL),
]


def rule_of(kind: str, bound: Any) -> dict[str, Any]:
    part = (
        {"kind": kind, "values": [bound]}
        if kind in {"forbidden", "one_of"}
        else {"kind": "range", kind: bound}
    )
    return {"id": "r", "field": "/n", **part}


@pytest.mark.parametrize("fastpath", [True, False])
@pytest.mark.parametrize(
    ("kind", "accepted", "bound"),
    [
        (kind, accepted, bound)
        for kind, accepted in ACCEPTED
        for bound in (1e23, ONE, str(ONE))
        if not (isinstance(bound, str) and kind in {"forbidden", "one_of"})  # a text in a list is a text
    ],
)
@pytest.mark.parametrize("type_name", ["number", ["number", "string"]])
def test_a_record_has_one_verdict_however_its_number_is_written(
    kind: str, accepted: list[str], bound: Any, type_name: Any, fastpath: bool
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": type_name}}}
    plan = plan_with(schema, rules=[rule_of(kind, bound)], fastpath=fastpath)
    numbers = [*BELOW, *EQUAL, *ABOVE]
    judged = plan.judge(pa.array([b'{"n":%s}' % each.encode() for each in numbers])).field("disposition")
    passed = [each for each, value in zip(numbers, judged.to_pylist(), strict=True) if value == 0]
    assert sorted(passed) == sorted(accepted)


@pytest.mark.parametrize("fastpath", [True, False])
@pytest.mark.parametrize("bound", [1e23, ONE])
@pytest.mark.parametrize(
    ("kind", "accepts"),
    [("minimum", 1), ("maximum", 1), ("forbidden", 0), ("one_of", 1), ("exclusive_minimum", 0)],
)
def test_a_double_of_avro_equals_the_number_that_it_stands_for(
    kind: str, accepts: int, bound: Any, fastpath: bool
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "double"}]}
    plan = plan_with(schema, kind="avro", rules=[rule_of(kind, bound)], fastpath=fastpath)
    judged = plan.judge(pa.array([encoded(schema, {"n": 1e23})])).field("disposition").to_pylist()
    assert (judged == [Disposition.ACCEPTED]) == bool(accepts)


@pytest.mark.parametrize("fastpath", [True, False])
def test_a_double_of_avro_is_in_order_with_an_integer(fastpath: bool) -> None:
    """The double 2^60 is written 1152921504606847000."""
    members = [{"name": "a", "type": "long"}, {"name": "b", "type": "double"}]
    schema = {"type": "record", "name": "R", "fields": members}
    rule = {"id": "r", "kind": "ordered", "fields": ["/a", "/b"]}
    plan = plan_with(schema, kind="avro", rules=[rule], fastpath=fastpath)
    longs = (1152921504606847000, 1152921504606847001)
    records = pa.array([encoded(schema, {"a": each, "b": 2.0**60}) for each in longs])
    judged = plan.judge(records).field("disposition").to_pylist()
    assert judged == [Disposition.ACCEPTED, Disposition.QUARANTINED]


def encoded(schema: Any, record: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, record)
    return written.getvalue()


@pytest.mark.parametrize("type_name", ["integer", "number"])
@pytest.mark.parametrize("kind", ["minimum", "maximum", "forbidden", "one_of"])
def test_a_bound_written_otherwise_is_the_same_bound(kind: str, type_name: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": type_name}}}
    other = ONE if kind in {"forbidden", "one_of"} else str(ONE)
    old, new = (contract_with(schema, rules=[rule_of(kind, bound)]) for bound in (1e23, other))
    assert compare(old, new, level=Compatibility.FULL).is_compatible
