"""NaN, which an Avro double can be: in no order with any number, so a rule about order is broken, and no rule raises."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from tests import documents
from tidegate.contracts.explain.account import Explainer
from tidegate.contracts.verdict import Disposition

AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "x", "type": "double"},
        {"name": "amount", "type": AMOUNT},
        {"name": "many", "type": {"type": "array", "items": "double"}},
    ],
}
NAN = struct.pack("<d", float("nan"))
RECORD = NAN + b"\x02\x64" + b"\x02" + NAN + b"\0"
"""x is NaN, the amount is 1.00, and one NaN is in `many`."""


@pytest.mark.parametrize("fastpath", [True, False])
@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"kind": "range", "field": "/x", "maximum": 0.5}, "x NaN is above 0.5"),
        ({"kind": "range", "field": "/x", "minimum": "9007199254740993.5"}, "x NaN is below 9007199254740993.5"),
        ({"kind": "range", "field": "/many/*", "maximum": "9007199254740993.5"}, "many/0 NaN is above 9007199254740993.5"),
        ({"kind": "ordered", "fields": ["/x", "/amount"]}, "amount 1.00 is in no order with x NaN"),
        ({"kind": "ordered", "fields": ["/amount", "/x"]}, "x NaN is in no order with amount 1.00"),
    ],
)  # fmt: skip
def test_it_breaks_a_rule_about_order(rule: dict[str, Any], sentence: str, fastpath: bool) -> None:
    plan = documents.plan_with(SCHEMA, kind="avro", fastpath=fastpath, rules=[{"id": "r", **rule}])
    (judged,) = plan.judge(pa.array([RECORD])).to_pylist()
    assert judged["disposition"] == Disposition.QUARANTINED
    verdict = plan.explain(RECORD)
    assert [violation.code for violation in verdict.violations] == ["r"]
    (told,) = Explainer.of(plan).explain(RECORD, verdict.violations)
    assert told.sentence == sentence
