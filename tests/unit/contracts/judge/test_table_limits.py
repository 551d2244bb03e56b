"""What a table cannot hold although the types of its columns could: such records are refused, whatever the policy."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegate.contracts.columns.table_limits import TableLimits, read_key, write_key
from tidegate.contracts.errors import ContractError
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.verdict import Disposition, Stage

SCHEMA = {"properties": {"id": {"type": "string"}, "ward": {"type": "string"}, "beds": {"type": "integer"}}}
KEYED = TableLimits(key=("id",))
NO_NUL = TableLimits(holds_nul=False)


def judged(
    plan: EnforcementPlan, *values: object, keys: list[bytes | None] | None = None
) -> list[tuple[int, Any]]:
    """Judge records in an array, and hold each to what is explained of it alone."""
    raw = [None if value is None else json.dumps(value).encode() for value in values]
    keys = keys or [None] * len(raw)
    values, given = pa.array(raw, pa.binary()), pa.array(keys, pa.binary())
    found = plan.judge_typed(values, keys=given)
    together = list(plan.explain_each(values, typed=True, keys=given))
    by_slots = plan.explain_each(values, typed=True, keys=given, failed=found.field("failed"))
    assert list(by_slots) == together
    for value, key, each, verdict in zip(raw, keys, found.to_pylist(), together, strict=True):
        assert verdict == plan.explain(value, typed=True, key=key)
        assert verdict.disposition == each["disposition"]
        assert {slot.stage for slot in plan.failed_slots(each["failed"])} == {
            violation.stage for violation in verdict.violations
        }
    return [(each["disposition"], each["columns"]) for each in found.to_pylist()]


ROW = {"id": "a", "ward": "icu", "beds": 2}
QUARANTINED = (Disposition.QUARANTINED, None)


@pytest.mark.parametrize(
    ("limits", "record", "column", "message"),
    [
        (NO_NUL, {"id": "a", "ward": "i\0"}, "ward", "column ward cannot hold the character U+0000 (NUL)"),
        (KEYED, {"ward": "icu"}, "id", "column id is null, and it tells the table's rows apart (primary_key)"),
        (KEYED, None, "id", "column id is null, and it tells the table's rows apart (primary_key)"),
        (TableLimits(key=("ward", "id"), max_key_bytes=5), {"id": "é", "ward": "1234"}, "id",
         "the primary key has more than the 5 bytes that the table's index can hold"),
    ],
    ids=["NUL", "no key", "a tombstone that passes", "a long key"],
)  # fmt: skip
def test_a_record_that_the_table_cannot_hold_is_refused_with_the_reason(
    make_plan: Any, limits: TableLimits, record: object, column: str, message: str
) -> None:
    plan = make_plan(SCHEMA, tombstones="pass").for_table(limits)
    assert judged(plan, ROW, record, ROW) == [(0, ROW), QUARANTINED, (0, ROW)]
    value = None if record is None else json.dumps(record).encode()
    (violation,) = plan.explain(value, typed=True).violations
    assert (violation.stage, violation.code, violation.pointer) == (Stage.COLUMN, column, f"/{column}")
    assert violation.message == message


def test_without_a_table_nothing_of_it_is_asked(make_plan: Any) -> None:
    assert [each for each, _ in judged(make_plan(SCHEMA), {"id": "\0"}, {})] == [0, 0]


@pytest.mark.parametrize(
    ("policy", "disposition"), [("drop", Disposition.DROPPED), ("fail", Disposition.FAILED)]
)
def test_the_contract_says_what_becomes_of_such_records(
    make_plan: Any, policy: str, disposition: Disposition
) -> None:
    plan = make_plan(SCHEMA, on_violation=policy)
    assert judged(plan.for_table(NO_NUL), {"id": "\0"}) == [(disposition, None)]
    # A record that is not written has no row to be told apart, and so nothing to refuse again.
    both = TableLimits(key=("id",), holds_nul=False)
    assert judged(plan.for_table(both), {"ward": "\0"}) == [(disposition, None)]


def test_a_record_that_would_only_alert_is_written_if_it_can_be(make_plan: Any) -> None:
    """The column is null then; a primary key cannot be."""
    plan = make_plan(SCHEMA, on_violation="alert")
    limits = TableLimits(key=("id",), holds_nul=False)
    blank = {"id": "a", "ward": None, "beds": None}
    assert judged(plan.for_table(limits), {"id": "a", "ward": "\0"}) == [(Disposition.ALERTED, blank)]
    for record in ({"ward": "\0"}, {"id": "\0", "ward": "\0"}, {"id": "a\0"}, 17):
        assert judged(plan.for_table(limits), record) == [QUARANTINED], record
    wide = make_plan(SCHEMA, on_violation="alert", columns=[{"name": "beds", "from": "/beds", "type": "int"}])
    assert judged(wide.for_table(TableLimits(key=("beds",))), {"beds": 2**31}) == [QUARANTINED]


def test_a_tombstone_deletes_the_row_of_its_kafka_key(make_plan: Any) -> None:
    plan = make_plan(SCHEMA, tombstones="delete").for_table(TableLimits(key=("id",), deletes=True))
    row = {"id": "b", "ward": None, "beds": None}
    found = judged(plan, None, ROW, None, None, None, keys=[b"b", b"z", b'{"id": "b"}', b"\xff", None])
    assert found == [(0, row), (0, ROW), (0, row), QUARANTINED, QUARANTINED]
    assert judged(plan, ROW, keys=[b"z"]) == [(0, ROW)]


MASK_KEY = MaskKey.of("m" * 32)
HASHED = {"mask": {"/id": "hash"}, "columns": [{"name": "id", "from": "/id", "type": "string"}]}
AS_JSON = {"columns": [{"name": "id", "from": "/id", "type": "json"}]}


def deleting(make_plan: Any, of_id: Any, **changes: Any) -> EnforcementPlan:
    schema = {"properties": {"id": of_id}}
    contract = make_plan(schema, **{"primary_key": ["id"], **changes}).contract
    contract = contract.model_copy(update={"tombstones": "delete"})
    return compile_plan(contract, MASK_KEY).for_table(TableLimits(key=("id",), deletes=True))


@pytest.mark.parametrize("changes", [HASHED, AS_JSON])
@pytest.mark.parametrize(
    ("kind", "value", "keys"),
    [
        ("string", "a", [b"a", b'"a"', b'{"id": "a"}']),
        ("string", "5", [b"5", b'"5"', b'{"id": "5"}', b'{"id": 5}']),
        ("string", "true", [b"true", b'{"id": true}']),
        ("integer", 5, [b"5", b'"5"', b'{"id": 5}', b'{"id": "5"}']),
        (["number", "null"], 0.5, [b"0.5", b'{"id": 0.5}']),
        ("number", 2**70, [b"%d" % 2**70]),
        ("boolean", True, [b"true", b'"true"', b'{"id": true}']),
    ],
)
def test_a_key_in_whose_column_types_differ_is_read_as_the_type_of_its_field(
    make_plan: Any, changes: dict[str, Any], kind: Any, value: Any, keys: list[bytes]
) -> None:
    """A token, and JSON, of the number 5 is another than that of the text 5."""
    plan = deleting(make_plan, {"type": kind}, **changes)
    (_, written), *deleted = judged(plan, {"id": value}, *[None] * len(keys), keys=[None, *keys])
    assert deleted == [(0, written)] * len(keys)
    assert written["id"] is not None
    # The key with which `tidegate send` writes a record is one of those that delete it.
    made = write_key({"id": value}, plan.typed_columns)
    assert made is not None
    assert read_key(made, plan.typed_columns) == written


def test_equal_numbers_of_a_hashed_key_are_one_key(make_plan: Any) -> None:
    plan = deleting(make_plan, {"type": "number"}, **HASHED)
    token = MASK_KEY.token(5)
    assert judged(plan, *[None] * 3, keys=[b"5.0", b"5e0", b'{"id": 5.00}']) == [(0, {"id": token})] * 3


@pytest.mark.parametrize("kind", ["integer", "boolean"])
def test_a_kafka_key_of_another_type_than_the_hashed_field_deletes_nothing(make_plan: Any, kind: str) -> None:
    plan = deleting(make_plan, {"type": kind}, **HASHED)
    assert judged(plan, None, None, keys=[b"x", b'{"id": [1]}']) == [QUARANTINED] * 2


@pytest.mark.parametrize("changes", [HASHED, AS_JSON])
@pytest.mark.parametrize("of_id", [{}, {"type": ["string", "integer"]}, {"type": ["boolean", "number"]}])
def test_a_key_that_may_be_text_or_a_number_is_refused_where_nulls_delete(
    make_plan: Any, changes: dict[str, Any], of_id: Any
) -> None:
    with pytest.raises(ContractError) as refused:
        deleting(make_plan, of_id, **changes)
    (problem,) = refused.value.problems
    assert problem.pointer == "/primary_key/0"
    assert problem.message.startswith(
        "with `tombstones: delete`, a Kafka key does not say which type `/id` has: "
    )
    make_plan({"properties": {"id": of_id}}, primary_key=["id"], **changes)  # nothing is deleted here


def test_limits_travel_with_the_plan(make_plan: Any) -> None:
    plan = pickle.loads(pickle.dumps(make_plan(SCHEMA).for_table(KEYED)))  # noqa: S301 - our own
    assert judged(plan, {}) == [QUARANTINED]


@pytest.mark.parametrize(
    ("key", "names", "wanted"),
    [
        (b"a-1", ("id",), {"id": "a-1"}),
        (b'"a-1"', ("id",), {"id": "a-1"}),
        (b"17", ("id",), {"id": "17"}),
        (b"17", ("beds",), {"beds": 17}),
        (b"17.5", ("beds",), {}),
        (b'{"id": 17, "more": 1}', ("id",), {"id": "17"}),
        (b'{"id": "a", "beds": 2}', ("id", "beds"), {"id": "a", "beds": 2}),
        (b'{"id": "a", "beds": "2"}', ("id", "beds"), {"id": "a", "beds": 2}),
        (b'{"charge": 1.50}', ("charge",), {"charge": Decimal("1.50")}),
        (b'{"id": true}', ("id",), {"id": "true"}),
        (b'{"id": "a"}', ("id", "beds"), {"id": "a"}),
        (b'{"id": null}', ("id",), {}),
        (b'{"id": [1]}', ("id",), {}),
        (b"[" * 100_000, ("id",), {"id": "[" * 100_000}),
        (b"a", ("id", "beds"), {}),
        (b"\xff", ("id",), {}),
        (b"", ("id",), {}),
        (None, ("id",), {}),
    ],
)
def test_what_a_kafka_key_says_of_the_primary_key(
    make_plan: Any, key: bytes | None, names: tuple[str, ...], wanted: dict[str, object]
) -> None:
    columns = [
        {"name": "id", "from": "/id", "type": "string"},
        {"name": "beds", "from": "/beds", "type": "long"},
        {"name": "charge", "from": "/charge", "type": "decimal(12,2)"},
    ]
    schema = {"properties": {**SCHEMA["properties"], "charge": {"type": "number"}}}
    plan = make_plan(schema, columns=columns)
    assert read_key(key, [column for column in plan.typed_columns if column.name in names]) == wanted
