"""Rules and columns on Avro records: logical types compare as what they mean."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tidegate.contracts.errors import ContractError
from tidegate.contracts.verdict import Disposition


def logical(kind: str, name: str, **others: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **others}


CONTACT = {
    "type": "record",
    "name": "Contact",
    "fields": [
        {"name": "city", "type": "string"},
        {"name": "next", "type": ["null", "Contact"], "default": None},
    ],
}
FIELDS: dict[str, tuple[Any, Any]] = {
    "day": (logical("int", "date"), date(2024, 1, 1)),
    "later": (["null", logical("int", "date")], date(2024, 1, 2)),
    "millis": (logical("long", "timestamp-millis"), datetime(2024, 1, 1, tzinfo=UTC)),
    "micros": (logical("long", "timestamp-micros"), datetime(2024, 1, 1, tzinfo=UTC)),
    "here": (logical("long", "local-timestamp-millis"), datetime(2024, 1, 1)),  # noqa: DTZ001 - the type has no zone
    "charge": (logical("bytes", "decimal", precision=8, scale=2), Decimal("12.50")),
    "paid": ({"type": "fixed", "name": "Paid", "size": 4, **logical("fixed", "decimal", precision=8, scale=2)}, Decimal("12.40")),
    "share": ("double", 0.5),
    "size": ("long", 7),
    "ward": ({"type": "enum", "name": "Ward", "symbols": ["icu", "general"]}, "icu"),
    "urgent": ("boolean", True),
    "contact": (CONTACT, {"city": "Bern", "next": {"city": "Basel", "next": None}}),
    "codes": ({"type": "array", "items": "string"}, ["A1", "B2"]),
    "labels": ({"type": "map", "values": "string"}, {"x": "y"}),
    "mixed": (["null", "string", "long"], 5),
}  # fmt: skip
SCHEMA = {
    "type": "record",
    "name": "Admission",
    "fields": [{"name": name, "type": kind} for name, (kind, _) in FIELDS.items()],
}
PARSED = fastavro.parse_schema(SCHEMA)
RECORD = {name: value for name, (_, value) in FIELDS.items()}
COLUMNS = [{"name": "size", "from": "/size", "type": "long"}]


def encoded(**changes: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, PARSED, RECORD | changes)
    return file.getvalue()


@pytest.mark.parametrize(
    ("rule", "holds", "broken_by"),
    [
        ({"kind": "range", "field": "/day", "after": "1900-01-01"}, {}, {"day": date(1900, 1, 1)}),
        ({"kind": "range", "field": "/later", "not_after": "2024-01-02"}, {"later": None}, {"later": date(2024, 1, 3)}),
        ({"kind": "forbidden", "field": "/day", "values": ["1900-01-01"]}, {}, {"day": date(1900, 1, 1)}),
        ({"kind": "one_of", "field": "/day", "values": ["2024-01-01"]}, {}, {"day": date(1900, 1, 1)}),
        ({"kind": "ordered", "fields": ["/day", "/later"]}, {"later": None}, {"later": date(2023, 12, 31)}),
        (
            {"kind": "ordered", "fields": ["/millis", "/micros"]},
            {},
            {"micros": datetime(2023, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)},
        ),
        (
            {"kind": "range", "field": "/micros", "before": "2024-01-01T00:00:00.000001Z"},
            {},
            {"micros": datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)},
        ),
        (
            {"kind": "range", "field": "/here", "not_before": "2024-01-01T00:00:00"},
            {},
            {"here": datetime(2023, 12, 31)},  # noqa: DTZ001 - the type has no zone
        ),
        ({"kind": "range", "field": "/charge", "minimum": 12.5}, {}, {"charge": Decimal("12.49")}),
        ({"kind": "ordered", "fields": ["/paid", "/charge"]}, {}, {"paid": Decimal("12.51")}),
        ({"kind": "ordered", "fields": ["/share", "/charge"]}, {"share": 12.5}, {"share": 12.51}),
        ({"kind": "forbidden", "field": "/charge", "values": [0]}, {}, {"charge": Decimal("0.00")}),
        ({"kind": "range", "field": "/share", "maximum": 1}, {}, {"share": float("nan")}),
        ({"kind": "range", "field": "/share", "maximum": 1}, {}, {"share": float("inf")}),
        ({"kind": "forbidden", "field": "/ward", "values": ["general"]}, {}, {"ward": "general"}),
        ({"kind": "forbidden", "field": "/urgent", "values": [False]}, {}, {"urgent": False}),
        ({"kind": "matches", "field": "/contact/city", "pattern": "^B"}, {}, {"contact": {"city": "Zug", "next": None}}),
        ({"kind": "matches", "field": "/contact/next/city", "pattern": "^Basel$"}, {}, {"contact": RECORD["contact"] | {"next": {"city": "x", "next": None}}}),
        ({"kind": "matches", "field": "/codes/1", "pattern": "^B"}, {"codes": ["x"]}, {"codes": ["A1", "x"]}),
        ({"kind": "one_of", "field": "/labels/x", "values": ["y"]}, {"labels": {}}, {"labels": {"x": "z"}}),
        ({"kind": "forbidden", "field": "/mixed", "values": ["a", 6]}, {"mixed": "b"}, {"mixed": 6}),
        ({"kind": "cel", "expr": "this.contact.city != 'Zug' && this.charge > 1.0"}, {}, {"contact": {"city": "Zug", "next": None}}),
    ],
)  # fmt: skip
def test_rules(
    make_plan: Any, rule: dict[str, Any], holds: dict[str, Any], broken_by: dict[str, Any]
) -> None:
    plan = make_plan(SCHEMA, rule, kind="avro", columns=COLUMNS)
    values = [encoded(), encoded(**holds), encoded(**broken_by)]
    expected = [Disposition.ACCEPTED, Disposition.ACCEPTED, Disposition.QUARANTINED]
    assert plan.judge(pa.array(values)).field("disposition").to_pylist() == expected
    assert [plan.explain(value).disposition for value in values] == expected


LONGEST = 2**63 - 1
UNITS = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_moments_of_every_unit_compare_as_moments_whatever_their_year(
    make_plan: Any, unit: str, *, is_local: bool
) -> None:
    zone = "" if is_local else "Z"
    at = logical("long", f"{'local-' if is_local else ''}timestamp-{unit}")
    schema = {"type": "record", "name": "R", "fields": [{"name": "at", "type": at}]}
    rules = [
        {"kind": "range", "field": "/at", "not_before": f"1969-12-31T23:59:59{zone}"},
        {"kind": "range", "field": "/at", "before": f"9999-12-31T23:59:59{zone}"},
    ]
    column = {"name": "at", "from": "/at", "type": "timestamp_ntz" if is_local else "timestamp"}
    plan = make_plan(schema, *rules, kind="avro", columns=[column])
    bare = make_plan(schema, kind="avro", columns=[column])
    second = UNITS[unit]
    is_far = LONGEST // second > 300_000_000_000  # the year 9999; nanoseconds end in 2262
    for number, broken in (
        (-1, []),
        (-second, []),
        (-second - 1, ["rule-0"]),
        (0, []),
        (LONGEST, ["rule-1"] if is_far else []),
        (-LONGEST - 1, ["rule-0"]),
    ):
        file = io.BytesIO()
        fastavro.schemaless_writer(file, fastavro.parse_schema(schema), {"at": number})
        value = file.getvalue()
        assert [each.code for each in plan.explain(value).violations] == broken, number
        (judged,) = plan.judge(pa.array([value])).to_pylist()
        assert judged["disposition"] == (Disposition.QUARANTINED if broken else Disposition.ACCEPTED)
        # What a table's timestamps do not hold is a violation, never another moment.
        (typed,) = bare.judge_typed(pa.array([value])).to_pylist()
        explained = bare.explain(value, typed=True)
        assert typed["disposition"] == explained.disposition
        if typed["columns"] is None:
            assert [each.code for each in explained.violations] == ["at"]
            assert number in {LONGEST, -LONGEST - 1} or unit == "nanos"  # a billionth is no millionth
        else:
            found = typed["columns"]["at"]
            moment = found if is_local else found.replace(tzinfo=None)
            microseconds = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001 - as the column has it
            assert microseconds * second == number * 10**6


@pytest.mark.parametrize(
    ("rule", "pointer", "message"),
    [
        (
            {"kind": "range", "field": "/dya", "after": "1900-01-01"},
            "/rules/0/field",
            "the schema declares no field `/dya`; did you mean `/day`?",
        ),
        (
            {"kind": "range", "field": "/day", "after": "0000-01-01"},
            "/rules/0/after",
            "the field holds dates; write a date, such as 1900-01-01",
        ),
        (
            {"kind": "range", "field": "/here", "after": "2024-01-01T00:00:00Z"},
            "/rules/0/after",
            "the field holds local times; write a date and time without a zone, such as 1900-01-01T00:00:00",
        ),
        (
            {"kind": "ordered", "fields": ["/millis", "/here"]},
            "/rules/0/fields/1",
            "`/here` holds local times and `/millis` date-times: they do not compare; say how with `compare_as: date` or `compare_as: timestamp`",
        ),
        (
            {"kind": "matches", "field": "/labels/x/y", "pattern": "x"},
            "/rules/0/field",
            "the schema declares no field `/labels/x/y`; did you mean `/labels`?",
        ),
    ],
)
def test_refused_rules(make_plan: Any, rule: dict[str, Any], pointer: str, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        make_plan(SCHEMA, rule, kind="avro", columns=COLUMNS)
    assert [(each.pointer, each.message) for each in caught.value.problems] == [(pointer, message)]


@pytest.mark.parametrize(
    ("kind", "path", "changes", "expected"),
    [
        ("date", "/day", {}, date(2024, 1, 1)),
        ("timestamp", "/millis", {}, datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamp_ntz", "/here", {}, datetime(2024, 1, 1)),  # noqa: DTZ001 - the type has no zone
        ("decimal(8,2)", "/charge", {}, Decimal("12.50")),
        ("decimal(8,1)", "/charge", {}, Decimal("12.5")),
        ("decimal(2,1)", "/charge", {}, None),
        ("decimal(8,2)", "/share", {"share": float("nan")}, None),
        ("double", "/share", {"share": float("inf")}, float("inf")),
        ("double", "/charge", {}, 12.5),
        ("long", "/charge", {}, None),
        ("long", "/share", {"share": 2.0}, 2),
        ("json", "/contact", {}, '{"city":"Bern","next":{"city":"Basel","next":null}}'),
        ("json", "/charge", {}, "12.50"),
        ("json", "/share", {"share": float("nan")}, None),
        ("string", "/ward", {}, "icu"),
    ],
)
def test_columns(make_plan: Any, kind: str, path: str, changes: dict[str, Any], expected: Any) -> None:
    plan = make_plan(SCHEMA, kind="avro", columns=[{"name": "v", "from": path, "type": kind}])
    value = encoded(**changes)
    (row,) = plan.judge_typed(pa.array([value])).to_pylist()
    if expected is None:
        assert [slot.code for slot in plan.failed_slots(row["failed"])] == ["column"]
        assert [each.code for each in plan.explain(value, typed=True).violations] == ["v"]
    else:
        assert row["columns"] == {"v": expected}
        assert plan.explain(value, typed=True).violations == ()


def test_a_decimal_that_is_declared_wrong_is_bytes(make_plan: Any) -> None:
    plan = make_plan(logical("bytes", "decimal", precision=0), kind="avro")
    assert plan.explain(b"\x02\xff").disposition is Disposition.ACCEPTED
    fields = [{"name": "v", "type": logical("bytes", "decimal", precision=0)}]
    plan = make_plan({"type": "record", "name": "R", "fields": fields}, kind="avro")
    assert plan.columns.types == [pa.binary()]


def test_bytes_in_json_columns_are_written_as_avro_writes_them(make_plan: Any) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "v", "type": {"type": "array", "items": "bytes"}}],
    }
    plan = make_plan(schema, kind="avro")
    (row,) = plan.judge_typed(pa.array([b"\x02\x04\xffA\x00"])).to_pylist()
    assert row["columns"] == {"v": '["ÿA"]'}
