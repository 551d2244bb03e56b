"""Compatibility groups: a record is judged by the newest version of the group of the schema that it names."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from tidegate.contracts.errors import ContractError, Unavailable
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.groups import MOST_GROUPS, GroupPlan, group_plans
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.verdict import Disposition

WARD, UNIT = {"type": "string"}, {"type": "string"}
AGE = {"kind": "range", "field": "/age", "maximum": 100}
V1 = {"type": "object", "required": ["ward"], "properties": {"ward": WARD, "age": {"type": "integer"}}}
V2 = {"type": "object", "required": ["unit"], "properties": {"unit": UNIT, "age": {"type": "integer"}}}
WRITERS = WriterSchemas(
    tuple(WriterSchema(number, UUID(int=number), "json-schema", "true") for number in (1, 2, 3, 4)),
    is_current=True,
)
"""Schemas 1 and 3 are of group 1, schema 2 of group 2, and schema 4 of a group without an enforced version."""

Make = Callable[..., EnforcementPlan]


def value(number: int | None, record: Any) -> bytes:
    return (b"" if number is None else b"\0" + number.to_bytes(4, "big")) + json.dumps(record).encode()


@pytest.fixture(scope="module")
def grouped(make_plan: Any) -> Make:
    def make(*, first: Any = None, writers: WriterSchemas | None = WRITERS, **newest: Any) -> EnforcementPlan:
        framing = newest.pop("framing", "auto")
        one = make_plan(V1, AGE | {"id": "old-age"}, AGE | {"id": "age"}, framing=framing, **(first or {}))
        two = make_plan(V2, AGE | {"id": "age"}, version="2.0.0", framing=framing, **newest)
        groups = (
            GroupPlan("1", frozenset({1, 3}), one),
            GroupPlan("2", frozenset({2}), two),
            GroupPlan("gone", frozenset({4}), None),
        )
        return group_plans(groups, "2").with_writers(writers)

    return make


def codes(plan: EnforcementPlan, values: list[bytes | None], headers: Any = None) -> list[tuple[str, ...]]:
    """The codes of each record; `judge`, `judge_typed` and both ways to explain agree on them."""
    array = pa.array(values, pa.large_binary())
    judged, typed = plan.judge(array, headers=headers), plan.judge_typed(array, headers=headers)
    assert judged.field(0).to_pylist() == typed.field(0).to_pylist()
    verdicts = list(plan.explain_each(array, headers=headers))
    assert verdicts == list(plan.explain_each(array, headers=headers, failed=judged.field(1)))
    assert [each.disposition for each in verdicts] == judged.field(0).to_pylist()
    for verdict, failed in zip(verdicts, judged.field(1).to_pylist(), strict=True):
        stages = {
            (each.stage, each.code if each.stage == "rule" else each.stage) for each in verdict.violations
        }
        assert {(slot.stage, slot.code) for slot in plan.failed_slots(failed)} == stages
    return [tuple(each.code for each in verdict.violations) for verdict in verdicts]


def test_each_group_has_its_own_schema_rules_and_columns(grouped: Make) -> None:
    plan = grouped()
    values = [
        value(1, {"ward": "icu", "age": 63}),
        value(2, {"unit": "icu", "age": 163}),
        value(3, {"ward": "icu", "age": 163}),
        value(2, {"ward": "icu"}),
        value(1, {"unit": "icu"}),
        value(4, {"unit": "icu"}),
        value(9, {"unit": "icu"}),
        b"\0\0",
    ]
    expected = [
        (),
        ("age",),
        ("old-age", "age"),
        ("required",),
        ("required",),
        ("frame.group-not-enforced",),
        ("frame.unknown-schema",),
        ("frame.truncated",),
    ]
    assert codes(plan, [*values]) == expected
    assert codes(pickle.loads(pickle.dumps(plan)), [*values]) == expected  # noqa: S301 - our own
    route = plan.route(pa.array(values, pa.binary()))
    assert route is not None
    newest = [False, True, False, True, False, False, True, True]
    assert route.is_newest.to_pylist() == newest
    one, two = "hospital.admissions@1.0.0", "hospital.admissions@2.0.0"
    assert route.contracts.to_pylist() == [one, two, one, two, one, two, two, two]
    assert plan.columns.names == ["unit", "age", "ward"]
    assert [plan.record_of(each) for each in values[:2]] == [
        {"ward": "icu", "age": 63},
        {"unit": "icu", "age": 163},
    ]


@pytest.mark.parametrize(
    ("unframed", "expected"),
    [(None, "frame.group-unnamed"), ("1", ""), ("2", "required"), ("gone", "frame.group-unnamed")],
)
def test_a_record_without_a_schema_id_is_of_the_group_that_the_contract_names(
    grouped: Make, unframed: str | None, expected: str
) -> None:
    plan = grouped(unframed_group=unframed)
    found = codes(plan, [value(None, {"ward": "icu"}), value(1, {"ward": "icu"})])
    assert found == [(expected,) if expected else (), ()]


def test_what_has_to_be_framed_is_missing_its_frame_and_no_group(grouped: Make) -> None:
    assert codes(grouped(framing="confluent-prefix"), [value(None, {"unit": "icu"})]) == [("frame.missing",)]


def test_the_only_enforced_group_judges_unframed_records(make_plan: Any) -> None:
    plan = make_plan(V1, framing="auto")
    groups = (GroupPlan("1", frozenset({1}), plan), GroupPlan("2", frozenset({2}), None))
    found = group_plans(groups, "1").with_writers(WRITERS)
    assert codes(found, [value(None, {"ward": "icu"}), value(2, {"ward": "icu"})]) == [
        (),
        ("frame.group-not-enforced",),
    ]


def test_headers_name_the_group_too(grouped: Make) -> None:
    plan = grouped(framing="confluent-header")
    headers = [WRITERS.by_id[1].header, WRITERS.by_id[2].header, None, b"?", b"\1" + bytes(16)]
    values: list[bytes | None] = [value(None, {"ward": "icu"})] * 5
    assert plan.reads_headers
    assert codes(plan, values, pa.array(headers, pa.binary())) == [
        (),
        ("required",),
        ("frame.missing",),
        ("frame.invalid",),
        ("frame.unknown-schema",),
    ]


def test_a_schema_that_the_groups_lack_waits_while_the_registry_does_not_answer(grouped: Make) -> None:
    away = WriterSchemas(
        (*WRITERS.schemas, WriterSchema(9, UUID(int=9), "json-schema", "true")), is_current=False
    )
    plan = grouped(writers=away)
    assert codes(plan, [value(1, {"ward": "icu"})]) == [()]
    with pytest.raises(Unavailable, match="it must answer before"):
        plan.judge(pa.array([value(9, {"ward": "icu"})], pa.binary()))


@pytest.mark.parametrize("tombstones", ["pass", "refuse"])
def test_a_tombstone_is_judged_by_the_newest_version(grouped: Make, tombstones: str) -> None:
    plan = grouped(tombstones=tombstones, first={"tombstones": tombstones})
    expected = () if tombstones == "pass" else ("value.null",)
    assert codes(plan, [None, value(1, {"ward": "icu"})]) == [expected, ()]


def test_a_refused_record_that_is_written_all_the_same_has_null_columns(grouped: Make) -> None:
    plan = grouped(on_violation="alert")
    judged = plan.judge_typed(pa.array([value(4, {}), value(1, {"ward": "icu", "age": 1})], pa.binary()))
    assert judged.to_pylist() == [
        {
            "disposition": Disposition.ALERTED,
            "failed": b"\1",
            "columns": {"unit": None, "age": None, "ward": None},
        },
        {"disposition": 0, "failed": None, "columns": {"unit": None, "age": 1, "ward": "icu"}},
    ]


def test_a_column_of_two_groups_has_the_wider_type(grouped: Make) -> None:
    narrow = [
        {"name": "age", "from": "/age", "type": "int"},
        {"name": "ward", "from": "/ward", "type": "string"},
    ]
    plan = grouped(first={"columns": narrow})
    judged = plan.judge_typed(
        pa.array([value(1, {"ward": "a", "age": 2**40}), value(1, {"ward": "a", "age": 7})], pa.binary())
    )
    assert plan.columns.field("age").type == pa.int64()
    assert [each and each["age"] for each in judged.field("columns").to_pylist()] == [None, 7]
    assert judged.field("disposition").to_pylist() == [Disposition.QUARANTINED, Disposition.ACCEPTED]


def test_moments_and_limits_concern_each_group(grouped: Make) -> None:
    plan = grouped()
    assert not plan.uses_now
    assert [each.name for each in plan.plans] == ["hospital.admissions@1.0.0", "hospital.admissions@2.0.0"]
    assert not plan.drops_records
    assert grouped(first={"on_violation": "drop"}).drops_records
    assert plan.fingerprint != plan.plans[1].fingerprint
    assert plan.fingerprint == grouped().with_now(5).fingerprint


def test_a_mixed_batch_gets_the_verdicts_of_its_records(grouped: Make) -> None:
    rng = random.Random(7)  # noqa: S311 - no secret
    plan = grouped()
    records = [{"ward": "a"}, {"unit": "a"}, {"ward": "a", "unit": "b", "age": 101}, {"age": "x"}, [], 7]
    values = [
        None if rng.random() < 0.05 else value(rng.choice([1, 2, 3, 4, 9, None]), rng.choice(records))
        for _ in range(300)
    ]
    alone = [codes(plan, [each])[0] for each in values]
    assert codes(plan, values) == alone
    empty = plan.judge_typed(pa.array([], pa.binary()))
    assert len(empty) == 0
    assert empty.type == plan.judge_typed(pa.array(values, pa.binary())).type


COLUMNS = [{"name": "age", "from": "/age", "type": "string"}]
DELETED = {"tombstones": "delete", "primary_key": ["id"]}
CONFLICTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"columns": [{"name": "unit", "from": "/age", "type": "long"}]},
        {},
        r"column unit is string in 2\.0\.0 \(field /unit\) and long in 1\.0\.0 \(field /age\), and both are written",
    ),
    (
        {"columns": [{"name": "Age", "from": "/age", "type": "long"}]},
        {},
        "the columns age of .* and Age of .* differ only in case",
    ),
    (
        {
            "mask": {"/unit": "hash"},
            "columns": [{"name": "unit", "from": "/unit", "type": "string"}],
            "schema": V2,
        },
        {},
        r"column unit is not masked in 2\.0\.0 .* and masked \(hash\) in 1\.0\.0",
    ),
    (
        {**DELETED, "columns": [{"name": "id", "from": "/ward", "type": "json"}]},
        {**DELETED, "columns": [{"name": "id", "from": "/age", "type": "json"}]},
        r"the key id is number in 2\.0\.0 \(field /age\) and string in 1\.0\.0 \(field /ward\), and a Kafka key",
    ),
    ({"primary_key": ["ward"]}, {}, r"primary_key is empty in 2\.0\.0 and ward in 1\.0\.0"),
    ({"tombstones": "pass"}, {}, r"tombstones is refuse in 2\.0\.0 and pass in 1\.0\.0"),
    ({"key_mask": "redact"}, {}, r"key_mask is not set in 2\.0\.0 and redact in 1\.0\.0"),
]


@pytest.mark.parametrize(("first", "newest", "sentence"), CONFLICTS)
def test_versions_that_cannot_write_one_table_are_refused(
    make_plan: Any, first: dict[str, Any], newest: dict[str, Any], sentence: str
) -> None:
    schema = {**first}.pop("schema", V1)
    one = make_plan(schema, framing="auto", **{key: each for key, each in first.items() if key != "schema"})
    two = make_plan(V2, version="2.0.0", framing="auto", **newest)
    groups = (GroupPlan("1", frozenset({1}), one), GroupPlan("2", frozenset({2}), two))
    with pytest.raises(ContractError, match=sentence):
        group_plans(groups, "2")


def test_unframed_and_framed_groups_are_not_mixed(make_plan: Any) -> None:
    groups = (
        GroupPlan("1", frozenset({1}), make_plan(V1, framing="none")),
        GroupPlan("2", frozenset({2}), make_plan(V2, version="2.0.0", framing="auto")),
    )
    with pytest.raises(ContractError, match=r"framing is auto in 2\.0\.0 and none in 1\.0\.0"):
        group_plans(groups, "2")


def test_groups_are_bounded(make_plan: Any) -> None:
    plans = [make_plan(V1, framing="auto", version=f"{number}.0.0") for number in range(1, MOST_GROUPS + 2)]
    groups = [GroupPlan(str(number), frozenset({number}), plan) for number, plan in enumerate(plans)]
    assert group_plans(groups[1:], "16").contract.version == "17.0.0"
    with pytest.raises(ContractError, match="17 compatibility groups have an enforced version, and 16 may"):
        group_plans(groups, "16")
