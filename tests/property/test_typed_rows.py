"""A typed row gets the verdict of the JSON record that it was made from."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import orjson
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate import Contract

PLACES: Final = {"name": st.text(max_size=3), "born": st.dates()}
VALUES: Final = {
    "n": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(allow_nan=False, allow_infinity=False),
    "d": st.decimals(-(10**6), 10**6, places=3),
    "s": st.text(max_size=4),
    "b": st.booleans(),
    "day": st.dates(),
    "at": st.datetimes(timezones=st.just(UTC)),
    "local": st.datetimes(),
    "list": st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=3),
    "bytes": st.binary(max_size=3),
    "time": st.times(),
    "word": st.sampled_from(["a", "bc", ""]),
    "berlin": st.datetimes(
        datetime(1971, 1, 1),  # noqa: DTZ001 - `timezones` adds the zone
        datetime(2100, 1, 1),  # noqa: DTZ001 - the same
        timezones=st.just(ZoneInfo("Europe/Berlin")),
    ),
    "took": st.timedeltas(timedelta(0), timedelta(days=9)),
    "counts": st.dictionaries(st.text(max_size=2), st.integers(-1, 3), max_size=3).map(dict.items).map(list),
    "stays": st.lists(
        st.fixed_dictionaries(
            {"ward": st.none() | st.text(max_size=2), "days": st.none() | st.integers(-1, 3)}
        ),
        max_size=3,
    ),
    "object": st.fixed_dictionaries({"name": st.none() | PLACES["name"], "born": st.none() | PLACES["born"]}),
}
TYPES: Final = pa.schema(
    [
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(12, 3)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("list", pa.list_(pa.int64())),
        ("bytes", pa.binary()),
        ("time", pa.time64("us")),
        ("word", pa.dictionary(pa.int8(), pa.string())),
        ("berlin", pa.timestamp("us", "Europe/Berlin")),
        ("took", pa.duration("us")),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("stays", pa.list_(pa.struct([("ward", pa.string()), ("days", pa.int64())]))),
        ("object", pa.struct([("name", pa.string()), ("born", pa.date32())])),
    ]
)
CONTRACT: Final = """\
apiVersion: tidegate/v1
kind: DataContract
id: rows
version: 1.0.0
topic: rows
schema:
  type: json-schema
  definition:
    type: object
    required: [n, s]
    properties:
      n: {type: [integer, "null"], minimum: -5}
      f: {type: number, maximum: 1000}
      d: {type: number, multipleOf: 0.5}
      s: {type: string, minLength: 2}
      b: {const: true}
      day: {type: string, format: date}
      at: {type: string, format: date-time}
      local: {type: string, format: date-time-local}
      list: {type: array, items: {type: integer, maximum: 2}, maxItems: 2}
      bytes: {type: string, maxLength: 2}
      time: {type: string, pattern: "^0"}
      word: {enum: [a, bc]}
      berlin: {type: string, format: date-time}
      took: {type: number, multipleOf: 0.5}
      counts: {type: object, additionalProperties: {minimum: 0}, maxProperties: 2}
      stays: {type: array, items: {type: object, required: [ward], properties: {ward: {type: string}, days: {type: integer, minimum: 0}}}}
      object: {type: object, required: [name], properties: {name: {type: string}, born: {type: string, format: date}}}
rules:
  - {id: day, kind: range, field: /day, after: 1900-01-01}
  - {id: at, kind: range, field: /at, not_before: 1970-01-01T00:00:00Z}
  - {id: sum, kind: cel, expr: "!has(this.n) || this.n == null || this.n != 7"}
"""
contract = Contract.parse(CONTRACT)
NULLABLE: Final = {"n"}
"""Fields that the schema lets be null: a null of any other field is left out of the record."""

rows = st.fixed_dictionaries({}, optional={name: st.none() | values for name, values in VALUES.items()})


def record_of(row: dict[str, Any]) -> bytes:
    """Write the record by hand: the mapping that the documentation promises."""
    record = {name: row.get(name) for name in TYPES.names if row.get(name) is not None or name in NULLABLE}
    for name in record.keys() & {"counts", "object"}:
        record[name] = without_nulls(dict(record[name]))
    if "stays" in record:
        record["stays"] = [without_nulls(each) for each in record["stays"]]
    if "time" in record:
        record["time"] = record["time"].isoformat()
    return orjson.dumps(record, default=exact, option=orjson.OPT_UTC_Z)


def without_nulls(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def exact(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, timedelta):
        value = Decimal(value // timedelta(microseconds=1)) / 1_000_000
    assert isinstance(value, Decimal), value
    return orjson.Fragment(f"{value:f}".encode())


@settings(max_examples=examples(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(rows, min_size=1, max_size=6))
def test_a_row_gets_the_verdict_of_its_record(given_rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(given_rows, schema=TYPES)
    verdicts = contract.judge_table(table).column("verdict").to_pylist()
    for row, verdict in zip(given_rows, verdicts, strict=True):
        expected = contract.judge(record_of(row))
        assert verdict["accepted"] == expected.is_accepted, row
        assert [each["code"] for each in verdict["violations"]] == [each.code for each in expected.violations]


def test_times_without_a_fraction_are_written_without_one() -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert record_of({"at": at, "n": None}) == b'{"n":null,"at":"2026-01-31T12:00:00Z"}'
