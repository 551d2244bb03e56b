"""The plan as a value: slots, dispositions, arrays in, arrays out, pickling."""

from __future__ import annotations

import json
import pickle
import threading
from typing import Any

import pyarrow as pa
import pytest

from tests import documents
from tidegate.contracts.judge.plan import Slot
from tidegate.contracts.judge.verdict_arrays import VERDICT_TYPE
from tidegate.contracts.verdict import Disposition, Severity, Stage

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def forbid(number: int, **others: Any) -> dict[str, Any]:
    return {"kind": "forbidden", "field": "/n", "values": [number], **others}


def test_slots_are_the_stages_then_the_rules(make_plan: Any) -> None:
    plan = make_plan(SCHEMA, forbid(1, id="one"), forbid(2, id="two", severity="warning"))
    assert plan.slots == (
        Slot(Stage.FRAME, "frame", Severity.ERROR),
        Slot(Stage.DECODE, "decode", Severity.ERROR),
        Slot(Stage.SCHEMA, "schema", Severity.ERROR),
        Slot(Stage.COLUMN, "column", Severity.ERROR),
        Slot(Stage.RULE, "one", Severity.ERROR),
        Slot(Stage.RULE, "two", Severity.WARNING),
    )


def test_failed_is_a_bit_set_least_significant_first(make_plan: Any) -> None:
    plan = make_plan(SCHEMA, *(forbid(number % 3) for number in range(20)))
    judged = plan.judge(pa.array([b'{"n":0}', b'{"n":7}', b"{}", b"{"]))
    assert judged.type == VERDICT_TYPE
    zeros = sum(1 << 4 + number for number in range(0, 20, 3))
    assert judged.to_pylist() == [
        {"disposition": Disposition.QUARANTINED, "failed": zeros.to_bytes(3, "little")},
        {"disposition": Disposition.ACCEPTED, "failed": None},
        {"disposition": Disposition.QUARANTINED, "failed": b"\x04"},
        {"disposition": Disposition.QUARANTINED, "failed": b"\x02"},
    ]
    assert [slot.code for slot in plan.failed_slots(zeros.to_bytes(3, "little"))] == [
        f"rule-{number}" for number in range(0, 20, 3)
    ]
    assert plan.failed_slots(None) == ()


@pytest.mark.parametrize(
    ("contract", "rules", "expected"),
    [
        ("quarantine", [forbid(1)], Disposition.QUARANTINED),
        ("drop", [forbid(1)], Disposition.DROPPED),
        ("alert", [forbid(1)], Disposition.ALERTED),
        ("fail", [forbid(1)], Disposition.FAILED),
        ("fail", [forbid(1, severity="warning")], Disposition.WARNED),
        ("fail", [forbid(1, on_violation="drop")], Disposition.DROPPED),
        ("quarantine", [forbid(1, on_violation="drop"), forbid(1)], Disposition.QUARANTINED),
        ("quarantine", [forbid(1, severity="warning"), forbid(1, on_violation="alert")], Disposition.ALERTED),
    ],
)
def test_a_record_takes_the_highest_disposition(
    make_plan: Any, contract: str, rules: list[dict[str, Any]], expected: Disposition
) -> None:
    plan = make_plan(SCHEMA, *rules, on_violation=contract)
    assert plan.judge(pa.array([b'{"n":1}'])).to_pylist()[0]["disposition"] == expected
    assert plan.explain(b'{"n":1}').disposition is expected


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_arrays_of_any_shape(make_plan: Any, kind: pa.DataType) -> None:
    plan = make_plan(SCHEMA, framing="auto")
    values = pa.array([None, b'{"n":1}', b'\0\0\0\0\1{"n":1}', b"x", None], kind)
    dispositions = plan.judge(values).field("disposition").to_pylist()
    assert dispositions == [4, 0, 0, 4, 4]
    for start in range(6):
        for length in range(6 - start):
            judged = plan.judge(values.slice(start, length))
            assert judged.field("disposition").to_pylist() == dispositions[start : start + length]
    assert len(plan.judge(pa.nulls(3, kind))) == 3


def test_a_plan_travels_and_keeps_the_order_of_its_columns(make_plan: Any) -> None:
    schema = {"properties": {"z": {"type": "string"}, "a": {"type": "integer"}}}
    plan = make_plan(schema, {"kind": "cel", "expr": "this.a > 1"})
    arrived = pickle.loads(pickle.dumps(plan))  # noqa: S301 - our own bytes
    assert arrived.columns.names == ["z", "a"]
    assert arrived.fingerprint == plan.fingerprint
    assert arrived.judge(pa.array([b'{"a":1}'])) == plan.judge(pa.array([b'{"a":1}']))
    assert pickle.loads(pickle.dumps(arrived)) is arrived  # noqa: S301 - compiled once in a process


def test_threads_share_a_plan(make_plan: Any) -> None:
    plan = make_plan(SCHEMA, {"kind": "cel", "expr": "this.n % 3 != 0"}, forbid(4))
    values = pa.array([b'{"n":%d}' % number for number in range(300)])
    expected = plan.judge(values)
    judged: list[pa.Array] = []
    threads = [threading.Thread(target=lambda: judged.append(plan.judge(values))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert judged == [expected] * 8


@pytest.mark.parametrize("fields", [600, 640, 680, 700, 900])
def test_patterns_that_need_more_memory_than_they_are_given_go_the_exact_way(fields: int) -> None:
    names = [f"f{index}" for index in range(fields)]
    text = {"type": "string", "pattern": "^[a-z]{1000}$"}
    plan = documents.plan_with({"type": "object", "properties": dict.fromkeys(names, text)})
    good = dict.fromkeys(names, "a" * 1000)
    values = [json.dumps(each).encode() for each in (good, {**good, "f0": "A" * 1000})]
    assert plan.judge(pa.array(values)).field("disposition").to_pylist() == [
        Disposition.ACCEPTED,
        Disposition.QUARANTINED,
    ]
