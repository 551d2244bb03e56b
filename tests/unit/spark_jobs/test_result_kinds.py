"""What workers return: each kind of result is one class and one struct column, and comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from types import UnionType
from typing import get_args

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from tests.documents import plan_with
from tidegate.contracts.stream.decide import FailedRecord, Tally
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.record_spool import SpooledRecords
from tidegate.spark_jobs.worker.request import EMPTY_REQUEST
from tidegate.spark_jobs.worker.result_kinds import (
    COLUMNS,
    RESULT,
    RESULT_TYPE,
    AcceptedPart,
    AcceptedPiece,
    BytesRead,
    DroppedBitmap,
    ExpectationPartials,
    LibraryRows,
    MarkedRows,
    RecordCount,
    RefusedFile,
    RefusedPiece,
    Result,
    ShadowFound,
    as_batch,
    read_results,
)
from tidegate.spark_jobs.worker.task_results import TaskResults

EACH: list[Result] = [
    RecordCount(1, int(Disposition.QUARANTINED), b"\x01\x00", 1 << 40),
    RecordCount(0, int(Disposition.ACCEPTED), None, 1),
    FailedRecord(2, 7, None),
    BytesRead(1, 1 << 40),
    DroppedBitmap(1, BitMap64([3, 1 << 40]).serialize()),
    AcceptedPart("3@tidegate-1-00000-1"),
    RefusedFile("/tmp/00000-1.refused"),  # noqa: S108 - a name, and no file
    MarkedRows(b"\x00\xff"),
    ExpectationPartials(b"\x80"),
    LibraryRows(b"\xff"),
    ShadowFound(b"{}"),
    AcceptedPiece(1 << 32, b"a"),
    RefusedPiece((1 << 32) + 1, b""),
]


def kinds_of(union: object) -> set[object]:
    return {
        kind
        for each in get_args(union)
        for kind in (kinds_of(each) if isinstance(each, UnionType) else [each])
    }


def test_each_kind_of_result_has_a_column() -> None:
    assert set(COLUMNS) == kinds_of(Result) == {type(each) for each in EACH}
    assert [*COLUMNS.values()] == RESULT.names == RESULT_TYPE.names


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_result_comes_back_as_it_was(kind: type) -> None:
    rows = pa.Table.from_batches([as_batch(EACH[:5]), as_batch(EACH[5:]), as_batch([])])

    found = read_results(rows, kind)

    assert found == [each for each in EACH if type(each) is kind]
    assert len(found) > 0


def test_a_row_holds_one_result() -> None:
    for row in as_batch(EACH).to_pylist():
        assert sum(value is not None for value in row.values()) == 1


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        as_batch([replace(BytesRead(1, 1), bytes="many")])  # type: ignore[arg-type] # what is shown


def test_the_results_of_all_tasks_are_put_together() -> None:
    tasks: list[list[Result]] = [
        [
            RecordCount(0, 0, None, 3),
            RecordCount(0, 4, b"\x01", 1),
            FailedRecord(1, 4, b"\x02"),
            BytesRead(0, 10),
            DroppedBitmap(0, BitMap64([1]).serialize()),
            AcceptedPart("a"),
        ],
        [
            RecordCount(0, 0, None, 2),
            RecordCount(1, 0, None, 1),
            FailedRecord(0, 9, None),
            FailedRecord(1, 3, None),
            BytesRead(0, 5),
            DroppedBitmap(0, BitMap64([2]).serialize()),
            AcceptedPart("b"),
        ],
    ]
    rows = pa.Table.from_batches([as_batch(each) for each in tasks])
    results = TaskResults(rows, plan_with({}), EMPTY_REQUEST, SpooledRecords(()))

    assert set(results.tallies) == {
        Tally(Disposition.ACCEPTED, None, 5, 0),
        Tally(Disposition.QUARANTINED, b"\x01", 1, 0),
        Tally(Disposition.ACCEPTED, None, 1, 1),
    }
    assert results.first_failed() == FailedRecord(0, 9, None)
    assert results.bytes_read() == {0: 15}
    assert list(results.dropped()) == [(0, 1), (0, 2)]
    assert results.parts() == ["a", "b"]
    assert results.shadow_result() is None


def test_records_that_were_left_out_count_as_dropped() -> None:
    left_out = Positions([(0, 4), (1, 2), (1, 3)])
    rows = pa.Table.from_batches([as_batch([RecordCount(0, 0, None, 3)])])
    results = TaskResults(rows, plan_with({}), EMPTY_REQUEST, SpooledRecords(()), left_out)

    assert set(results.tallies) == {
        Tally(Disposition.ACCEPTED, None, 3, 0),
        Tally(Disposition.DROPPED, None, 1, 0),
        Tally(Disposition.DROPPED, None, 2, 1),
    }
    assert list(results.dropped()) == list(left_out)
    assert len(left_out) == 3
