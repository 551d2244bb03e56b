"""Ranges, freshness and order of numbers, durations and moments: fixed, from now on, and mixed."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.document.times import instant_key
from tidegate.contracts.errors import ContractError
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.rules.clock import Moments, date_of, offset_of_now, span_of
from tidegate.contracts.rules.values import duration_bytes_key, read_duration
from tidegate.contracts.verdict import Disposition

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "number"},
        "s": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "until": {"type": "string", "format": "date-time"},
        "here": {"type": "string", "format": "date-time-local"},
        "took": {"type": "string", "format": "duration"},
        "limit": {"type": "string", "format": "duration"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}},
    },
}  # fmt: skip
NANOSECONDS = 10**9
NOON = int(datetime(2024, 3, 10, 12, tzinfo=UTC).timestamp()) * NANOSECONDS


def contract_of(
    *rules: dict[str, Any], schema: Any = SCHEMA, kind: str = "json-schema", **others: Any
) -> DataContract:
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "shop.orders",
            "version": "1.0.0",
            "topic": "shop.orders",
            "schema": {"type": kind, "definition": schema},
            "rules": [{"id": f"rule-{index}"} | rule for index, rule in enumerate(rules)],
            **others,
        }
    )


def plan_of(*rules: dict[str, Any], **others: Any) -> EnforcementPlan:
    return compile_plan(contract_of(*rules, **others))


def holds(plan: EnforcementPlan, record: Any, moments: Moments | None = None) -> bool:
    """Judge in every way, which all say the same."""
    value = json.dumps(record).encode()
    values = pa.array([value])
    explained = plan.explain(value, typed=True, moments=moments).disposition
    assert plan.judge(values, moments).to_pylist()[0]["disposition"] == explained
    assert plan.judge_typed(values, moments).to_pylist()[0]["disposition"] == explained
    return explained is Disposition.ACCEPTED


def at(text: str) -> Moments:
    """Make the moments of one record, written then, in a batch judged at noon."""
    return Moments(NOON, pa.array([datetime.fromisoformat(text)], pa.timestamp("ms", "UTC")))


@pytest.mark.parametrize(
    ("rule", "record", "expected"),
    [
        ({"minimum": "0.30000000000000001"}, b'{"n": 0.3}', False),
        ({"minimum": "0.30000000000000001"}, b'{"n": 0.30000000000000001}', True),
        ({"minimum": "0.30000000000000001"}, b'{"n": 1}', True),
        ({"maximum": "12345678901234567.89"}, b'{"n": 12345678901234567.89}', True),
        ({"maximum": "12345678901234567.89"}, b'{"n": 12345678901234567.90}', False),
        ({"exclusive_maximum": "123456789012345678901234"}, b'{"n": 123456789012345678901234}', False),
        ({"exclusive_maximum": "123456789012345678901234"}, b'{"n": 123456789012345678901233}', True),
    ],
)  # fmt: skip
def test_a_bound_as_text_is_an_exact_number(rule: Any, record: bytes, *, expected: bool) -> None:
    plan = plan_of(
        {"kind": "range", "field": "/n", **rule}, columns=[{"name": "s", "from": "/s", "type": "string"}]
    )
    assert expected == (plan.explain(record).disposition is Disposition.ACCEPTED)
    assert expected == (plan.judge(pa.array([record])).to_pylist()[0]["disposition"] == 0)


@pytest.mark.parametrize(
    ("rule", "took", "expected"),
    [
        ({"minimum": "PT15M"}, "PT900S", True),
        ({"exclusive_minimum": "PT15M"}, "PT900S", False),
        ({"maximum": "P1D"}, "PT24H", True),
        ({"maximum": "P1D"}, "PT24H1S", False),
        ({"maximum": "P1W"}, "P7D", True),
        ({"maximum": "P31D"}, "P1M", True),
        ({"maximum": "P30D"}, "P1M", False),
        ({"minimum": "P30D"}, "P1M", False),
        ({"minimum": "P27D"}, "P1M", True),
        ({"maximum": "P1Y"}, "P12M", True),
        ({"maximum": "PT1S"}, "no duration", True),
        ({"maximum": "PT4H"}, "PT1000000000S", False),
        ({"maximum": "PT4H"}, "PT0000000014400S", True),
        ({"maximum": "PT4H"}, f"PT{'9' * 10_000}M", False),
        ({"maximum": "PT4H"}, f"P{'0' * 10_000}D", True),
        ({"maximum": "PT1S"}, f"PT1.{'9' * 10_000}S", False),
        ({"maximum": "PT1S"}, f"PT0.{'9' * 10_000}S", True),
    ],
)
def test_durations_lie_in_a_range(rule: Any, took: str, *, expected: bool) -> None:
    document = contract_of({"kind": "range", "field": "/took", **rule}).model_dump(
        by_alias=True, exclude_defaults=True
    )
    document["schema"]["formats"] = "annotate"
    assert expected == holds(compile_plan(DataContract.model_validate(document)), {"took": took})


def test_durations_of_avro_lie_in_a_range() -> None:
    fixed = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "took", "type": fixed}]}
    plan = plan_of({"kind": "range", "field": "/took", "maximum": "P2D"}, schema=schema, kind="avro")
    two_days = b"\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"
    longer = two_days[:8] + b"\x01\x00\x00\x00"
    assert [plan.explain(value).disposition for value in (two_days, longer)] == [
        Disposition.ACCEPTED,
        Disposition.QUARANTINED,
    ]
    assert duration_bytes_key(two_days) == read_duration("PT48H")


def test_durations_equal_and_follow_each_other() -> None:
    listed = plan_of({"kind": "forbidden", "field": "/took", "values": ["P7D"]})
    assert not holds(listed, {"took": "P1W"})
    assert holds(listed, {"took": "P8D"})
    order = plan_of({"kind": "ordered", "fields": ["/took", "/limit"]})
    assert holds(order, {"took": "PT59M", "limit": "PT1H"})
    assert not holds(order, {"took": "PT61M", "limit": "PT1H"})


@pytest.mark.parametrize(
    ("rule", "record", "moment", "expected"),
    [
        ({"field": "/at", "not_after": "now + 5 minutes"}, {"at": "2024-01-01T00:05:00Z"}, "2024-01-01T00:00:00Z", True),
        ({"field": "/at", "not_after": "now + 5 minutes"}, {"at": "2024-01-01T00:05:01Z"}, "2024-01-01T00:00:00Z", False),
        ({"field": "/at", "not_after": "now+PT5M"}, {"at": "2024-01-01T02:05:00+02:00"}, "2024-01-01T00:00:00Z", True),
        ({"field": "/at", "before": "now"}, {"at": "2024-01-01T00:00:00Z"}, "2024-01-01T00:00:00Z", False),
        ({"field": "/at", "not_before": "now - 1 day"}, {"at": "2023-12-31T00:00:00Z"}, "2024-01-01T00:00:00Z", True),
        ({"field": "/at", "not_before": "now - 1 day"}, {"at": "2023-12-30T23:59:59Z"}, "2024-01-01T00:00:00Z", False),
        ({"field": "/at", "not_before": "2024-01-01T00:00:00Z", "not_after": "now"}, {"at": "2023-01-01T00:00:00Z"}, "2024-01-02T00:00:00Z", False),
        ({"field": "/at", "not_after": "now", "now": "batch"}, {"at": "2024-03-10T12:00:00Z"}, "2024-01-01T00:00:00Z", True),
        ({"field": "/at", "not_after": "now", "now": "batch"}, {"at": "2024-03-10T12:00:00.000000001Z"}, "2024-05-01T00:00:00Z", False),
        ({"field": "/day", "not_after": "now"}, {"day": "2024-01-01"}, "2024-01-01T00:00:00Z", True),
        ({"field": "/day", "not_after": "now"}, {"day": "2024-01-02"}, "2024-01-01T23:59:59Z", False),
        ({"field": "/day", "not_after": "now + 1 day"}, {"day": "2024-01-02"}, "2024-01-01T00:00:00Z", True),
        ({"field": "/lines/*/at", "not_after": "now"}, {"lines": [{"at": "2024-01-02T00:00:00Z"}]}, "2024-01-01T00:00:00Z", False),
        ({"field": "/at", "not_after": "now"}, {}, "2024-01-01T00:00:00Z", True),
        ({"field": "/at", "not_after": "now", "nulls": "violate"}, {}, "2024-01-01T00:00:00Z", False),
    ],
)  # fmt: skip
def test_a_bound_counts_from_the_moment_of_the_record_or_of_its_batch(
    rule: Any, record: Any, moment: str, *, expected: bool
) -> None:
    assert expected == holds(plan_of({"kind": "range", **rule}), record, at(moment))


@pytest.mark.parametrize(
    ("rule", "sent", "expected"),
    [
        ({"max_age": "15 minutes"}, "2023-12-31T23:45:00Z", True),
        ({"max_age": "15 minutes"}, "2023-12-31T23:44:59Z", False),
        ({"max_age": "PT15M"}, "2023-12-31T23:44:59Z", False),
        ({"max_age": "P1D"}, "2034-01-01T00:00:00Z", True),
        ({"max_age": "P1D", "max_ahead": "1 hour"}, "2024-01-01T01:00:00Z", True),
        ({"max_age": "P1D", "max_ahead": "1 hour"}, "2024-01-01T01:00:01Z", False),
        ({"max_age": "100 days", "now": "batch"}, "2023-12-31T23:45:00Z", True),
        ({"max_age": "10 days", "now": "batch"}, "2023-12-31T23:45:00Z", False),
    ],
)
def test_a_moment_is_fresh(rule: Any, sent: str, *, expected: bool) -> None:
    plan = plan_of({"kind": "freshness", "field": "/at", **rule})
    assert expected == holds(plan, {"at": sent}, at("2024-01-01T00:00:00Z"))


@pytest.mark.parametrize("field", ["/at", "/**/at"])
def test_each_record_has_its_own_now_in_the_quick_way_and_the_exact_one(field: str) -> None:
    rule = {"kind": "range", "field": field, "not_after": "now"}
    plan = plan_of(rule, {"kind": "range", "field": "/n", "minimum": 0})
    # The schema of the second plan is none for the quick way.
    exact = plan_of(rule, schema={**SCHEMA, "minProperties": 1})
    values = [json.dumps({"at": f"2024-01-01T00:00:{second:02}Z", "n": 1}).encode() for second in range(20)]
    stamps = [None if second % 5 == 0 else datetime(2024, 1, 1, 0, 0, 10, tzinfo=UTC) for second in range(20)]
    moments = Moments(
        int(datetime(2024, 1, 1, 0, 0, 4, tzinfo=UTC).timestamp()) * NANOSECONDS,
        pa.array(stamps, pa.timestamp("us", "UTC")),
    )
    expected = [second <= (4 if second % 5 == 0 else 10) for second in range(20)]
    for each in (plan, exact, pickle.loads(pickle.dumps(plan))):  # noqa: S301 - our own
        for judged in (each.judge(pa.array(values), moments), each.judge_typed(pa.array(values), moments)):
            assert [code == 0 for code in judged.field(0).to_pylist()] == expected
    assert plan.uses_now
    assert not plan_of({"kind": "range", "field": "/n", "minimum": 0}).uses_now


def test_without_moments_now_is_the_moment_of_the_call() -> None:
    plan = plan_of({"kind": "freshness", "field": "/at", "max_age": "P1D", "max_ahead": "P1D"})
    assert holds(plan, {"at": datetime.now(UTC).isoformat()})
    assert not holds(plan, {"at": "2001-01-01T00:00:00Z"})


def test_a_plan_keeps_the_moment_of_a_batch() -> None:
    plan = plan_of({"kind": "range", "field": "/at", "not_after": "now", "now": "batch"}).with_now(NOON)
    values = pa.array([b'{"at": "2024-03-10T12:00:00Z"}', b'{"at": "2024-03-10T12:00:01Z"}'])
    for each in (plan, pickle.loads(pickle.dumps(plan))):  # noqa: S301 - our own
        assert each.judge(values).field(0).to_pylist() == [0, int(Disposition.QUARANTINED)]
        assert each.explain(values[1].as_py()).disposition is Disposition.QUARANTINED
        beside = Moments(records=pa.array([None, 0], pa.timestamp("ms")))
        assert each.judge(values, beside).field(0).to_pylist() == [0, int(Disposition.QUARANTINED)]


def test_no_timestamp_of_kafka_raises() -> None:
    plan = plan_of(
        {"kind": "range", "field": "/day", "not_after": "now"},
        {"kind": "range", "field": "/at", "not_after": "now"},
    )
    stamps = pa.array([2**63 - 1, -1, -(2**63), 0], pa.int64()).cast(pa.timestamp("ms"))
    values = pa.array([b'{"day": "2024-03-10", "at": "2024-03-10T00:00:00Z"}'] * 4)
    judged = plan.judge(values, Moments(NOON, stamps))
    assert [code == 0 for code in judged.field(0).to_pylist()] == [True, True, True, False]


@pytest.mark.parametrize(
    ("rule", "record", "expected"),
    [
        ({"fields": ["/day", "/at"], "compare_as": "date"}, {"day": "2024-01-01", "at": "2024-01-01T00:00:00Z"}, True),
        ({"fields": ["/day", "/at"], "compare_as": "date", "strict": True}, {"day": "2024-01-01", "at": "2024-01-01T10:00:00Z"}, False),
        ({"fields": ["/at", "/day"], "compare_as": "date"}, {"day": "2024-01-01", "at": "2024-01-01T23:00:00Z"}, True),
        ({"fields": ["/at", "/day"], "compare_as": "timestamp"}, {"day": "2024-01-01", "at": "2024-01-01T23:00:00Z"}, False),
        ({"fields": ["/at", "/day"], "compare_as": "timestamp"}, {"day": "2024-01-01", "at": "2024-01-01T00:00:00Z"}, True),
        ({"fields": ["/at", "/day"], "compare_as": "date"}, {"day": "2024-01-01", "at": "2024-01-02T01:00:00+02:00"}, True),
        ({"fields": ["/here", "/at"], "compare_as": "timestamp"}, {"here": "2024-01-01T00:00:01", "at": "2024-01-01T00:00:00Z"}, False),
        ({"fields": ["/at", "/until"], "compare_as": "date", "strict": True}, {"at": "2024-01-01T00:00:00Z", "until": "2024-01-01T23:00:00Z"}, False),
        ({"fields": ["/day", "/at"], "compare_as": "date"}, {"day": "0001-01-01", "at": "2024-01-01T00:00:00Z"}, True),
        ({"fields": ["/day", "/at", "/until"], "compare_as": "timestamp"}, {"day": "2024-01-01", "until": "2023-12-31T00:00:00Z"}, False),
    ],
)  # fmt: skip
def test_dates_and_timestamps_compare_as_declared(rule: Any, record: Any, *, expected: bool) -> None:
    assert expected == holds(plan_of({"kind": "ordered", **rule}), record)


def test_times_without_a_zone_lie_in_a_range() -> None:
    plan = plan_of({"kind": "range", "field": "/here", "after": "2024-01-01T00:00:00"})
    assert holds(plan, {"here": "2024-01-01T00:00:00.5"})
    assert not holds(plan, {"here": "2024-01-01T00:00:00"})


@pytest.mark.parametrize("between", ["T", "t", " "])
def test_a_time_without_a_zone_is_read_alike_by_rule_and_column(between: str) -> None:
    columns = [{"name": "here", "from": "/here", "type": "timestamp_ntz"}]
    plan = plan_of({"kind": "range", "field": "/here", "after": "2025-01-01T00:00:00"}, columns=columns)
    assert holds(plan, {"here": f"2025-01-02{between}00:00:00"})
    assert not holds(plan, {"here": f"2024-01-01{between}00:00:00"})


@pytest.mark.parametrize(
    ("rule", "place", "message"),
    [
        ({"kind": "range", "field": "/here", "not_after": "now"}, "/not_after", "the field holds local times, which have no time zone: how far they are from now is unknown"),
        ({"kind": "freshness", "field": "/here", "max_age": "1 day"}, "/field", "the field holds local times, which have no time zone: how far they are from now is unknown"),
        ({"kind": "freshness", "field": "/s", "max_age": "1 day"}, "/field", "the field holds no dates or date-times: give it the format date or date-time in the schema"),
        ({"kind": "freshness", "field": "/at", "max_age": "a while"}, "/max_age", "`a while` is not a span of time; write a span, such as `15 minutes` or `PT15M`"),
        ({"kind": "freshness", "field": "/at", "max_age": "P1M"}, "/max_age", "`P1M` is not a span of time; write a span, such as `15 minutes` or `PT15M`"),
        ({"kind": "freshness", "field": "/att", "max_age": "1 day"}, "/field", "the schema declares no field `/att`; did you mean `/at`?"),
        ({"kind": "range", "field": "/at", "not_after": "now + 5 parsecs"}, "/not_after", "the field holds date-times; write a date-time with its offset, such as 1900-01-01T00:00:00Z, or `now + 5 minutes`"),
        ({"kind": "range", "field": "/took", "not_after": "2024-01-01"}, "/field", "the field holds no dates or date-times: give it the format date or date-time in the schema; durations take minimum and maximum"),
        ({"kind": "range", "field": "/took", "minimum": 5}, "/minimum", "the field holds durations; write a duration of ISO 8601, such as PT15M"),
        ({"kind": "range", "field": "/n", "minimum": "PT5M"}, "/minimum", "the field holds numbers; write one, as text only where no double is exact"),
        ({"kind": "ordered", "fields": ["/day", "/at"]}, "/fields/1", "`/at` holds date-times and `/day` dates: they do not compare; say how with `compare_as: date` or `compare_as: timestamp`"),
        ({"kind": "ordered", "fields": ["/day", "/n"]}, "/fields/1", "`/n` holds numbers and `/day` dates: they do not compare"),
        ({"kind": "ordered", "fields": ["/at", "/n"], "compare_as": "date"}, "/fields/1", "`/n` holds numbers, and `compare_as` is about dates and timestamps"),
    ],
)  # fmt: skip
def test_what_does_not_compare_is_refused(rule: Any, place: str, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        plan_of(rule)
    assert [(each.pointer, each.message) for each in caught.value.problems] == [(f"/rules/0{place}", message)]


def test_fields_that_do_not_compare_are_named_although_another_field_is_unknown() -> None:
    with pytest.raises(ContractError) as caught:
        plan_of({"kind": "ordered", "fields": ["/unknown", "/n", "/day"]})
    assert [(each.pointer, each.message) for each in caught.value.problems] == [
        ("/rules/0/fields/0", "the schema declares no field `/unknown`"),
        ("/rules/0/fields/2", "`/day` holds dates and `/n` numbers: they do not compare"),
    ]


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ({"kind": "ordered", "fields": ["/start", "/end"]}, "/rules/0/fields/0"),
        ({"kind": "range", "field": "/start", "not_before": "1900-01-01"}, "/rules/0/field"),
    ],
)
def test_an_avro_union_of_several_units_has_no_order(rule: dict[str, Any], place: str) -> None:
    """Days were compared with milliseconds, as plain integers: records in order were refused."""
    either = [{"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"}]
    fields = [{"name": "start", "type": either}, {"name": "end", "type": "long"}]
    with pytest.raises(ContractError, match="date or timestamp-millis") as caught:
        plan_of(rule, schema={"type": "record", "name": "Period", "fields": fields}, kind="avro")
    assert [problem.pointer for problem in caught.value.problems] == [place]


def logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


@pytest.mark.parametrize(
    ("kinds", "rule", "held"),
    [
        (["null", logical("int", "date"), "long"], {"not_after": "2030-01-01"}, "date or a plain integer"),
        (["long", logical("int", "date")], {"not_after": "2030-01-01"}, "date or a plain integer"),
        ([logical("long", "timestamp-millis"), "int"], {"after": "2030-01-01T00:00:00Z"}, "timestamp-millis or a plain integer"),
        ([logical("int", "time-millis"), logical("long", "timestamp-millis"), "string"], {"after": "2030-01-01T00:00:00Z"}, "timestamp-millis or a plain integer"),
        (["bytes", {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}], {"minimum": "PT1M"}, "duration or plain bytes"),
    ],
)  # fmt: skip
def test_a_rule_about_a_time_that_may_be_a_plain_value_is_refused(
    kinds: list[Any], rule: dict[str, Any], held: str
) -> None:
    """A plain 999999 was compared as the day 999999, and refused."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kinds}]}
    with pytest.raises(ContractError, match=f"the field may hold {held}") as caught:
        plan_of({"kind": "range", "field": "/v", **rule}, schema=schema, kind="avro")
    assert [problem.pointer for problem in caught.value.problems] == ["/rules/0/field"]
    with pytest.raises(ContractError, match=f"has no order.*{held}"):
        plan_of({"kind": "ordered", "fields": ["/v", "/v"]}, schema=schema, kind="avro")


@pytest.mark.parametrize(
    ("offset", "is_one"),
    [
        ("+05:59", True),
        ("-23:59", True),
        ("+05:60", False),
        ("+05:99", False),
        ("-24:00", False),
        ("+0530", False),
    ],
)
def test_the_minutes_of_an_offset_end_at_59(offset: str, is_one: bool) -> None:
    """Source: RFC 3339 section 5.6, time-minute."""
    text = f"2026-01-01T00:00:00{offset}"
    assert (instant_key(text) is not None) == is_one
    plan = plan_of(columns=[{"name": "s", "from": "/s", "type": "timestamp"}])
    record = json.dumps({"s": text}).encode()
    assert (plan.explain(record, typed=True).disposition is Disposition.ACCEPTED) == is_one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", 0),
        ("now + 5 minutes", 300 * NANOSECONDS),
        ("now - 1 week", -604_800 * NANOSECONDS),
        ("now + P1DT1S", 86_401 * NANOSECONDS),
        ("now - P1W", -604_800 * NANOSECONDS),
        ("now +", None),
        ("now + P1M", None),
        ("now + P", None),
        ("now + PT", None),
        ("nowhere", None),
        ("2024-01-01", None),
    ],
)
def test_offsets_of_now(text: str, expected: int | None) -> None:
    assert expected == offset_of_now(text)


def test_spans_and_days() -> None:
    assert span_of("1 hour") == span_of("60 minutes") == span_of("PT1H") == 3600 * NANOSECONDS
    assert span_of("1") is None
    assert date_of(-1) == "1969-12-31"
    assert date_of(10**40) == "9999-12-31"
    assert date_of(-(10**40)) == "0001-01-01"


def test_rules_name_a_set_of_the_contract() -> None:
    sets = {"wards": {"values": ["icu", "er"]}, "ages": {"values": [999]}}
    plan = plan_of(
        {"kind": "one_of", "field": "/s", "set": "wards"},
        {"kind": "forbidden", "field": "/n", "set": "ages"},
        reference_sets=sets,
    )
    assert holds(plan, {"s": "icu", "n": 1})
    assert not holds(plan, {"s": "x"})
    assert not holds(plan, {"n": 999})


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"set": "ward"}, ("/rules/0/set", "the contract has no reference set `ward`; did you mean `wards`?")),
        ({}, ("/rules/0", "give either `values` or the name of a reference set as `set`")),
        ({"set": "wards", "values": ["x"]}, ("/rules/0", "give either `values` or the name of a reference set as `set`")),
    ],
)  # fmt: skip
def test_a_set_that_is_not_there_is_refused(rule: Any, problem: tuple[str, str]) -> None:
    with pytest.raises(ContractError) as caught:
        plan_of({"kind": "one_of", "field": "/s", **rule}, reference_sets={"wards": {"values": ["icu"]}})
    assert [(each.pointer, each.message) for each in caught.value.problems] == [problem]


@pytest.mark.parametrize(
    ("old", "new", "compatible"),
    [
        ({"kind": "range", "field": "/at", "not_after": "now + 5 minutes"}, {"kind": "range", "field": "/at", "not_after": "now + 1 hour"}, True),
        ({"kind": "range", "field": "/at", "not_after": "now + 5 minutes"}, {"kind": "range", "field": "/at", "not_after": "now + 1 minute"}, False),
        ({"kind": "range", "field": "/at", "not_before": "now - 1 day"}, {"kind": "freshness", "field": "/at", "max_age": "2 days"}, True),
        ({"kind": "range", "field": "/at", "not_before": "now - 1 day"}, {"kind": "freshness", "field": "/at", "max_age": "2 days", "now": "batch"}, False),
        ({"kind": "freshness", "field": "/at", "max_age": "2 days"}, {"kind": "freshness", "field": "/at", "max_age": "1 day"}, False),
        ({"kind": "freshness", "field": "/at", "max_age": "1 day"}, {"kind": "freshness", "field": "/at", "max_age": "1 day", "max_ahead": "9 days"}, False),
        ({"kind": "range", "field": "/day", "not_before": "now"}, {"kind": "range", "field": "/day", "after": "now - 1 hour"}, False),
        ({"kind": "range", "field": "/n", "minimum": "0.30000000000000001"}, {"kind": "range", "field": "/n", "minimum": 0.3}, True),
        ({"kind": "range", "field": "/n", "minimum": 0.3}, {"kind": "range", "field": "/n", "minimum": "0.30000000000000001"}, False),
        ({"kind": "range", "field": "/took", "maximum": "P1D"}, {"kind": "range", "field": "/took", "maximum": "P1D"}, True),
        ({"kind": "forbidden", "field": "/took", "values": ["P1D"]}, {"kind": "forbidden", "field": "/took", "values": ["PT24H"]}, False),
        ({"kind": "ordered", "fields": ["/at", "/until"]}, {"kind": "ordered", "fields": ["/at", "/until"], "compare_as": "date"}, False),
        ({"kind": "one_of", "field": "/s", "set": "few"}, {"kind": "one_of", "field": "/s", "set": "more"}, True),
        ({"kind": "one_of", "field": "/s", "set": "more"}, {"kind": "one_of", "field": "/s", "values": ["a"]}, False),
    ],
)  # fmt: skip
def test_rules_are_compared(old: Any, new: Any, *, compatible: bool) -> None:
    sets = {"few": {"values": ["a"]}, "more": {"values": ["a", "b"]}}
    comparison = compare(
        contract_of(old, reference_sets=sets),
        contract_of(new, reference_sets=sets),
        level=Compatibility.BACKWARD,
    )
    assert compatible == comparison.is_compatible, comparison.findings


EITHER: dict[str, Any] = {"anyOf": [{"type": "string", "format": name} for name in ("date", "date-time")]}
PERIOD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "start": EITHER,
        "end": EITHER,
        "seen": {"type": "string", "format": "date-time"},
        "born": {"type": "string", "format": "date"},
    },
}


class TestDateOrDateTime:
    """A field that holds dates or date-times, as in FHIR: a date compares by the day that the other is written with."""

    @pytest.mark.parametrize(
        ("start", "end", "in_order", "in_strict_order"),
        [
            ("2024-03-10", "2024-03-11", True, True),
            ("2024-03-10", "2024-03-10", True, False),
            ("2024-03-11", "2024-03-10", False, False),
            ("2024-03-10T10:00:00Z", "2024-03-10T11:00:00+02:00", False, False),
            ("2024-03-10T11:00:00+02:00", "2024-03-10T10:00:00Z", True, True),
            ("2024-03-10T10:00:00Z", "2024-03-10", True, False),
            ("2024-03-10", "2024-03-10T10:00:00Z", True, False),
            ("2024-03-10", "2024-03-10T00:30:00+02:00", True, False),  # on the day before in UTC
            ("2024-03-10T10:00:00Z", "2024-03-09", False, False),
            ("2024-03-10", "2024-03-11T00:00:00Z", True, True),
        ],
    )
    def test_ordered(self, start: str, end: str, in_order: bool, in_strict_order: bool) -> None:
        rule = {"kind": "ordered", "fields": ["/start", "/end"]}
        record = {"start": start, "end": end}
        assert holds(plan_of(rule, schema=PERIOD), record) is in_order
        assert holds(plan_of({**rule, "strict": True}, schema=PERIOD), record) is in_strict_order

    def test_with_a_field_that_holds_one_of_them(self) -> None:
        plan = plan_of(
            {"kind": "ordered", "fields": ["/start", "/seen"]},
            {"kind": "ordered", "fields": ["/born", "/start"]},
            schema=PERIOD,
        )
        assert holds(plan, {"start": "2024-03-10", "seen": "2024-03-10T00:00:00Z", "born": "2024-03-10"})
        assert not holds(plan, {"start": "2024-03-11", "seen": "2024-03-10T23:59:59Z"})
        assert not holds(plan, {"start": "2024-03-10T00:00:00Z", "born": "2024-03-11"})

    @pytest.mark.parametrize(
        ("bounds", "value", "inside"),
        [
            ({"after": "1900-01-01"}, "1900-01-01", False),
            ({"after": "1900-01-01"}, "1900-01-01T00:00:00Z", False),
            ({"after": "1900-01-01"}, "1900-01-02T00:00:00Z", True),
            ({"not_after": "2024-03-10"}, "2024-03-10T23:59:59-05:00", True),
            ({"not_after": "2024-03-10"}, "2024-03-11", False),
            ({"not_before": "2024-03-10T12:00:00Z"}, "2024-03-10", True),
            ({"not_before": "2024-03-10T12:00:00Z"}, "2024-03-10T11:59:59Z", False),
            ({"not_after": "now + 5 minutes"}, "2024-03-10", True),
            ({"not_after": "now + 5 minutes"}, "2024-03-10T12:05:01Z", False),
            ({"not_after": "now + 5 minutes"}, "2024-03-11", False),
        ],
    )
    def test_range(self, bounds: dict[str, str], value: str, inside: bool) -> None:
        plan = plan_of({"kind": "range", "field": "/start", **bounds}, schema=PERIOD)
        assert holds(plan, {"start": value}, Moments(batch=NOON)) is inside

    def test_freshness(self) -> None:
        plan = plan_of({"kind": "freshness", "field": "/start", "max_age": "P1D"}, schema=PERIOD)
        moments = Moments(batch=NOON)
        assert holds(plan, {"start": "2024-03-09"}, moments)
        assert not holds(plan, {"start": "2024-03-08"}, moments)
        assert not holds(plan, {"start": "2024-03-09T11:59:59Z"}, moments)

    def test_nothing_follows_from_such_an_order(self) -> None:
        """Three fields may be in order one by one, and the first and the last of them not."""
        schema = {"type": "object", "properties": dict.fromkeys(("a", "b", "c"), EITHER)}
        record = {"a": "2024-03-10T10:00:00Z", "b": "2024-03-10", "c": "2024-03-10T09:00:00Z"}
        three = {"kind": "ordered", "fields": ["/a", "/b", "/c"]}
        outer = {"kind": "ordered", "fields": ["/a", "/c"]}
        assert holds(plan_of(three, schema=schema), record)
        assert not holds(plan_of(outer, schema=schema), record)
        old, new = (contract_of(rule, schema=schema) for rule in (three, outer))
        assert not compare(old, new, level=Compatibility.BACKWARD).is_compatible
        assert compare(old, old, level=Compatibility.FULL).is_compatible
