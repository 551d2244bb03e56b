"""A contract that is inferred from a typed file accepts the rows of that file, whatever their types."""

from __future__ import annotations

import tempfile
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.infer.infer import Inference
from tidegate.contracts.judge.plan import compile_plan
from tidegate.gateway.sources.files import FileSource
from tidegate.gateway.sources.record_reader import RecordReader

LONG: Final = st.integers(-(2**63), 2**63 - 1)
NANOSECONDS: Final = st.sampled_from([0, 1, 999, 1_000, -1, 1_769_860_800_000_000_001]) | LONG.filter(
    lambda each: each > -(2**63)
)
"""The smallest integer is not a time: some libraries take it for a missing one."""
SCALARS: Final[tuple[tuple[pa.DataType, st.SearchStrategy[Any]], ...]] = (
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), LONG),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float16(), st.sampled_from([0.0, 1.5, -2.0])),
    (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.decimal128(38, 10), st.decimals(-(10**20), 10**20, places=10)),
    (pa.decimal128(20, 0), st.decimals(-(10**19), 10**19, places=0)),
    (pa.decimal256(60, 30), st.decimals(-(10**10), 10**10, places=30)),
    (pa.string(), st.text(max_size=4)),
    (pa.large_string(), st.sampled_from(["a", "2026-01-31", "PT1.5S"])),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["er", "icu"])),
    (pa.binary(), st.binary(max_size=4)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.date32(), st.dates()),
    (pa.time32("ms"), st.integers(0, 86_399_999)),
    (pa.time64("us"), st.integers(0, 86_399_999_999)),
    (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    (pa.timestamp("ms", "UTC"), st.datetimes(timezones=st.just(UTC))),
    (pa.timestamp("us", "Europe/Berlin"), st.datetimes(timezones=st.just(UTC))),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("ns", "UTC"), NANOSECONDS),
    (pa.timestamp("ns"), NANOSECONDS),
    *((pa.duration(unit), LONG) for unit in ("s", "ms", "us", "ns")),
    (pa.null(), st.none()),
)
KEYS: Final = (pa.string(), pa.int32(), pa.bool_(), pa.date32(), pa.timestamp("ns"), pa.decimal128(5, 2))


def columns() -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """Types of columns, each with its values."""
    return st.recursive(st.sampled_from(SCALARS), nested, max_leaves=4)


def nested(
    inner: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    keys = st.sampled_from([each for each in SCALARS if each[0] in KEYS])
    return (
        inner.map(lambda of: (pa.list_(of[0]), st.lists(st.none() | of[1], max_size=3)))
        | inner.map(lambda of: (pa.list_(of[0], 2), st.lists(st.none() | of[1], min_size=2, max_size=2)))
        | st.tuples(inner, inner).map(
            lambda of: (
                pa.struct([("a", of[0][0]), ("b/*", of[1][0])]),
                st.fixed_dictionaries({"a": st.none() | of[0][1], "b/*": st.none() | of[1][1]}),
            )
        )
        | st.tuples(keys, inner).map(
            lambda of: (
                pa.map_(of[0][0], of[1][0]),
                st.lists(st.tuples(of[0][1], st.none() | of[1][1]), max_size=2),
            )
        )
    )


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    found = draw(st.lists(columns(), min_size=1, max_size=4))
    arrays = {}
    for index, (kind, values) in enumerate(found):
        nulls = draw(st.sampled_from([st.none() | values, values]))
        arrays[f"c{index}"] = pa.array(draw(st.lists(nulls, min_size=5, max_size=5)), kind)
    return pa.table(arrays)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_a_file_is_judged_by_the_mapping_that_it_was_inferred_by(table: pa.Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        pq.write_table(pa.concat_tables([table] * 40), path)
        with FileSource(path) as source:
            inference = Inference()
            for chunk in source.chunks():
                inference.add(chunk.batch, chunk.positions)
        contract = DataContract.model_validate(inference.finish("test.rows").document)
        plan = compile_plan(contract)
        with FileSource(path) as source:
            for block in RecordReader(source, contract).blocks():
                values = pa.array(block.values, pa.large_binary())
                for value, verdict in zip(block.values, plan.explain_each(values), strict=True):
                    assert not verdict.violations, (value, verdict.violations)
