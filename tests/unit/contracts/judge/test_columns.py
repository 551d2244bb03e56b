"""Which columns a contract has, and what stands in them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests import documents
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro_leaves import encoded_long


def test_columns_follow_from_the_schema(make_plan: Any) -> None:
    plan = make_plan(
        {
            "properties": {
                "id": {"type": "string"},
                "age": {"type": ["integer", "null"]},
                "charge": {"type": "number"},
                "is urgent": {"type": "boolean"},
                "day": {"type": "string", "format": "date"},
                "_at": {"type": "string", "format": "date-time"},
                "codes": {"type": "array"},
                "any": True,
                "2nd": {"enum": ["a", "b"]},
            }
        }
    )
    assert plan.columns == pa.schema(
        [
            ("id", pa.string()),
            ("age", pa.int64()),
            ("charge", pa.float64()),
            ("is_urgent", pa.bool_()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("codes", pa.string()),
            ("any", pa.string()),
            ("c_2nd", pa.string()),
        ]
    )


def test_dates_are_strings_where_formats_only_document(make_plan: Any) -> None:
    schema = {"properties": {"day": {"type": "string", "format": "date"}}}
    assert make_plan(schema, formats="annotate").columns.types == [pa.string()]


def test_columns_follow_from_an_avro_schema(make_plan: Any) -> None:
    def logical(kind: str, name: str, **others: int) -> dict[str, Any]:
        return {"type": kind, "logicalType": name, **others}

    types = {
        "day": logical("int", "date"),
        "at": logical("long", "timestamp-millis"),
        "here": logical("long", "local-timestamp-nanos"),
        "charge": ["null", logical("bytes", "decimal", precision=6, scale=2)],
        "raw": "bytes",
        "size": "int",
        "share": "float",
        "kind": {"type": "enum", "name": "K", "symbols": ["A"]},
        "bag": {"type": "map", "values": "long"},
    }
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    plan = make_plan({"type": "record", "name": "R", "fields": fields}, kind="avro")
    assert plan.columns.types == [
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
        pa.decimal128(6, 2),
        pa.binary(),
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.string(),
    ]
    payload = b"\x02\x02\xd0\x0f\x02\x02\x64\x02\xff\x05" + bytes(4) + b"\x00" + b"\x00"
    (row,) = plan.judge_typed(pa.array([payload])).to_pylist()
    assert row["columns"] == {
        "day": date(1970, 1, 2),
        "at": datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC),
        "here": datetime(1970, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 - the type has no zone
        "charge": Decimal("1.00"),
        "raw": b"\xff",
        "size": -3,
        "share": 0.0,
        "kind": "A",
        "bag": "{}",
    }


@pytest.mark.parametrize(
    "kinds",
    [
        ["null", {"type": "int", "logicalType": "date"}, "long"],
        [{"type": "long", "logicalType": "timestamp-millis"}, "int", "null"],
        [{"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "timestamp-millis"}],
    ],
)
def test_an_integer_that_may_be_a_time_or_not_is_a_long(make_plan: Any, kinds: list[Any]) -> None:
    """A long of 5 was stored as 1970-01-06, and one of 19723000 was refused."""
    fields = [{"name": "v", "type": kinds}]
    plan = make_plan({"type": "record", "name": "R", "fields": fields}, kind="avro")
    assert plan.columns.types == [pa.int64()]
    branch = encoded_long(next(index for index, kind in enumerate(kinds) if kind != "null"))
    payloads = pa.array([branch + encoded_long(number) for number in (5, 19_723_000)])
    assert [row["columns"] for row in plan.judge_typed(payloads).to_pylist()] == [{"v": 5}, {"v": 19_723_000}]


def test_an_integer_of_a_union_with_text_is_still_a_time(make_plan: Any) -> None:
    kinds = ["null", {"type": "int", "logicalType": "date"}]
    fields = [{"name": "v", "type": kinds}, {"name": "w", "type": [*kinds, "string"]}]
    plan = make_plan({"type": "record", "name": "R", "fields": fields}, kind="avro")
    assert plan.columns.types == [pa.date32(), pa.string()]


@pytest.mark.parametrize(
    ("others", "pointer", "message"),
    [
        (
            {"columns": [{"name": "x", "from": "/ag", "type": "int"}]},
            "/columns/0/from",
            "the schema declares no field `/ag`; did you mean `/age`?",
        ),
        (
            {"columns": [{"name": "x", "from": "/age", "type": "lng"}]},
            "/columns/0/type",
            "no column type is named `lng`; did you mean `long`?",
        ),
        (
            {"columns": [{"name": "x", "from": "/age", "type": "decimal(39,2)"}]},
            "/columns/0/type",
            "no column type is named `decimal(39,2)`; did you mean `decimal(p,s)`?",
        ),
        (
            {"columns": [{"name": "x", "from": "/age", "type": "string"}]},
            "/columns/0/type",
            "a column of type string never holds what `/age` is: integer",
        ),
        ({"primary_key": ["agee"]}, "/primary_key/0", "no column is named `agee`; did you mean `age`?"),
    ],
)
def test_wrong_columns(make_plan: Any, others: dict[str, Any], pointer: str, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        make_plan({"properties": {"age": {"type": "integer"}}}, **others)
    assert [(each.pointer, each.message) for each in caught.value.problems] == [(pointer, message)]


def test_two_names_that_engines_do_not_tell_apart(make_plan: Any) -> None:
    with pytest.raises(ContractError) as caught:
        make_plan({"properties": {"Ward": {"type": "string"}, "ward": {"type": "string"}}})
    assert [(each.pointer, each.message) for each in caught.value.problems] == [
        (
            "/schema/definition/properties/ward",
            "`/ward` and `/Ward` would both be column ward; name the columns under `columns`",
        )
    ]


def test_a_field_of_several_types_is_a_column_of_json(make_plan: Any) -> None:
    """No contract has to give columns only because a table would need them: a topic has none."""
    plan = make_plan({"properties": {"a": {"type": ["string", "integer"]}}})
    assert [(column.name, column.type) for column in plan.typed_columns] == [("a", "json")]
    judged = plan.judge_typed(pa.array([b'{"a": "x"}', b'{"a": 1}', b"{}"], pa.binary()))
    assert judged.field("columns").field("a").to_pylist() == ['"x"', "1", None]


COLUMNS = [
    {"name": "n", "from": "/n", "type": "int"},
    {"name": "charge", "from": "/charge", "type": "decimal(6,2)"},
    {"name": "postcode", "from": "/address/postcode", "type": "string"},
    {"name": "day", "from": "/day", "type": "date"},
    {"name": "at", "from": "/at", "type": "timestamp"},
    {"name": "first", "from": "/codes/0", "type": "json"},
]
SCHEMA = {
    "required": ["n"],
    "properties": {
        "n": {"type": ["integer", "null"]},
        "charge": {"type": "number"},
        "address": {"properties": {"postcode": {"type": "string"}}},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "codes": {"type": "array", "items": True},
    },
}
WHOLE = (
    b'{"n":1,"charge":0.1,"address":{"postcode":"AB1 2CD"},"day":"2024-02-29","at":"2024-01-01T01:00:00.5+01:00",'
    b'"codes":[{"a":[0.1,null]}]}'
)
ROW = {
    "n": 1,
    "charge": Decimal("0.10"),
    "postcode": "AB1 2CD",
    "day": date(2024, 2, 29),
    "at": datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC),
    "first": '{"a":[0.1,null]}',
}
NULLS = dict.fromkeys(ROW)


def test_rows_are_returned_with_their_verdicts(make_plan: Any) -> None:
    plan = make_plan(SCHEMA, columns=COLUMNS, tombstones="pass")
    values = [
        WHOLE,
        b"{",
        b'{"n":null}',
        b'{"n":2147483648}',
        None,
        b"{}",
        WHOLE,
        b'{"n":2,"address":[],"codes":[]}',
    ]
    judged = plan.judge_typed(pa.array(values)).to_pylist()
    assert [row["columns"] for row in judged] == [
        ROW,
        None,
        NULLS,
        None,
        NULLS,
        None,
        ROW,
        NULLS | {"n": 2},
    ]
    assert [[slot.code for slot in plan.failed_slots(row["failed"])] for row in judged] == [
        [],
        ["decode"],
        [],
        ["column"],
        [],
        ["schema"],
        [],
        [],
    ]


def test_a_number_near_a_decimal_of_many_places_is_not_rounded_to_it(make_plan: Any) -> None:
    columns = [{"name": "n", "from": "/n", "type": "decimal(38,23)"}]
    plan = make_plan({"properties": {"n": {"type": "number"}}}, columns=columns)
    values = pa.array([b'{"n":1.0999999999999998e-22}', b'{"n":1.1e-22}'])
    for each in (plan, documents.strict(plan)):
        assert each.judge_typed(values).field("columns").to_pylist() == [None, {"n": Decimal("1.1E-22")}]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1.000000059604644775390626", 1.0000001192092896),  # nearest to its double is 1.0
        ("1.000000059604644775390625", 1.0),
        ("1.000000178813934326171874", 1.0000001192092896),
        ("-1.000000059604644775390626", -1.0000001192092896),
        ("72057598332895233", 72057602627862528.0),
        ("72057598332895232", 72057594037927936.0),
        ("0.7006492321624086e-45", 1.401298464324817e-45),
        ("340282346638528859811704183484516925440", 3.4028234663852886e38),
    ],
)
def test_a_column_of_type_float_holds_the_nearest(make_plan: Any, written: str, expected: float) -> None:
    columns = [{"name": "n", "from": "/n", "type": "float"}]
    plan = make_plan({"properties": {"n": {"type": "number"}}}, columns=columns)
    for each in (plan, documents.strict(plan)):
        judged = each.judge_typed(pa.array([f'{{"n":{written}}}'.encode()]))
        assert judged.field("columns").to_pylist() == [{"n": expected}]


def test_one_odd_value_changes_no_other(make_plan: Any) -> None:
    plan = make_plan(SCHEMA, columns=COLUMNS)
    odd = WHOLE.replace(b"0.1,", b"1e1,", 1).replace(b'"n":1', b'"n":1.0').replace(b"T01:00", b"t01:00")
    judged = plan.judge_typed(pa.array([WHOLE, odd] * 1500)).to_pylist()
    assert [row["columns"] for row in judged] == [ROW, ROW | {"charge": Decimal("10.00")}] * 1500


def test_a_value_that_is_only_alerted_about_is_null(make_plan: Any) -> None:
    plan = make_plan(SCHEMA, columns=COLUMNS, on_violation="alert")
    (row,) = plan.judge_typed(pa.array([b'{"n":true,"day":"x"}'])).to_pylist()
    assert row["columns"] == NULLS
    assert [slot.code for slot in plan.failed_slots(row["failed"])] == ["schema", "column"]


def test_nothing_is_judged_in_no_time(make_plan: Any) -> None:
    plan = make_plan(SCHEMA, columns=COLUMNS)
    assert plan.judge_typed(pa.array([], pa.binary())).to_pylist() == []
    assert make_plan(True).judge_typed(pa.array([b"1"])).to_pylist() == [
        {"disposition": 0, "failed": None, "columns": {}}
    ]
