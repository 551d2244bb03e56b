"""Each Arrow type as the JSON that the documentation promises, for the judge and for a proposal alike."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Interface
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from tidegate.contracts.columns.json_rows import json_record, json_rows, require_json
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.infer.infer import Inference

ID: Final = UUID("12345678-9abc-def0-1234-56789abcdef0")
UUIDS: Final = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ID.bytes], pa.binary(16)))
NULLS_BESIDE_A_TIME: Final = pa.struct([("a", pa.list_(pa.null(), 3)), ("b", pa.timestamp("ns"))])
BERLIN: Final = ZoneInfo("Europe/Berlin")


def keep_null(_pointer: str) -> bool:
    return False


def union() -> pa.Array:
    return pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([90_500], pa.duration("ms")), "90.5"),
        (pa.array([-1], pa.duration("ns")), "-0.000000001"),
        (pa.array([2**63 - 1], pa.duration("s")), "9223372036854775807"),
        (pa.array([1_000], pa.timestamp("ns")), '"1970-01-01T00:00:00.000001"'),
        (pa.array([1_001], pa.timestamp("ns", "Europe/Berlin")), '"1970-01-01T00:00:00.000001001Z"'),
        (
            pa.array([datetime(2026, 1, 31, 12, tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin")),
            '"2026-01-31T12:00:00Z"',
        ),
        (pa.array([10**18], pa.timestamp("us", "UTC")), '"33658-09-27T01:46:40Z"'),
        (pa.array([4 * 10**6], pa.int32()).cast(pa.date32()), '"12921-08-18"'),
        (pa.array([1_001], pa.time64("ns")), '"00:00:00.000001001"'),
        (pa.array([time(23, 59)], pa.time64("us")), '"23:59:00"'),
        (pa.array([[(7, 1), (7, 2)]], pa.map_(pa.int32(), pa.int8())), '{"7":2}'),
        (pa.array([[(0, 1)]], pa.map_(pa.timestamp("ns"), pa.duration("s"))), '{"1970-01-01T00:00:00":1}'),
        (pa.array([[1, None]], pa.list_(pa.timestamp("ns"), 2)), '["1970-01-01T00:00:00.000000001",null]'),
        (
            pa.array([{"a": [None] * 3, "b": 0}], NULLS_BESIDE_A_TIME),
            '{"a":[null,null,null],"b":"1970-01-01T00:00:00"}',
        ),
        (pa.array([None]), "null"),
        (UUIDS, f'"{ID}"'),
        (pa.StructArray.from_arrays([UUIDS], ["id"]), f'{{"id":"{ID}"}}'),
        (pa.array([b"\xff\x00"], pa.binary(2)), '"/wA="'),
        (pa.array([Decimal("1E+3")], pa.decimal128(5, 1)), "1000.0"),
    ],
)
def test_a_value_of_each_type(column: pa.Array, text: str) -> None:
    table = pa.record_batch([column], ["x"])
    assert json_rows(table, keep_null).to_pylist() == [f'{{"x":{text}}}'.encode()]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(days=-1, microseconds=5), "-86399.999995"),
        (time(1, tzinfo=UTC), '"01:00:00+00:00"'),
        (datetime(2026, 1, 1, tzinfo=BERLIN), '"2025-12-31T23:00:00Z"'),
        (datetime(1, 1, 1, tzinfo=BERLIN), '"0001-01-01T00:00:00+00:53"'),
        (IPv4Interface("10.0.0.1/24"), '"10.0.0.1/24"'),
        (float("nan"), "NaN"),
    ],
)
def test_a_value_of_a_database(value: Any, text: str) -> None:
    assert json_record({"x": value}, keep_null) == f'{{"x":{text}}}'.encode()


def test_text_that_is_not_utf_8_stays_for_the_judge_to_refuse() -> None:
    table = pa.record_batch([pa.array([b"\xff", b"a"]).view(pa.string())], ["x"])
    assert json_rows(table, keep_null).to_pylist() == [b'{"x":"\xff"}', b'{"x":"a"}']
    inference = Inference()
    inference.add(table, np.array([1, 2]))
    assert inference.records == 2


@pytest.mark.parametrize(
    ("names", "columns", "message"),
    [
        (["x"], [union()], r"the column /x is of type sparse_union"),
        (
            ["x"],
            [pa.array([[({"k": 1}, 1)]], pa.map_(pa.struct([("k", pa.int8())]), pa.int8()))],
            "/x is of type map",
        ),
        (["x", "x"], [pa.array([1]), pa.array([2])], "two columns are named `x`, and .* rename one"),
        (
            ["x"],
            [pa.StructArray.from_arrays([pa.array([1])] * 2, ["k", "k"])],
            "members of the column /x are named `k`, and .* rename one",
        ),
    ],
)
def test_what_json_has_no_value_for_is_refused_by_name(
    names: list[str], columns: list[pa.Array], message: str
) -> None:
    table = pa.record_batch(columns, names)
    with pytest.raises(SettingsError, match=message):
        require_json(table.schema)
    with pytest.raises(SettingsError, match=message):
        Inference().add(table, np.array([1]))
