"""The folder on the driver's disk that holds records until their batch is decided."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.session import is_local
from tidegate.spark_jobs.sinks.sink import MicroBatch
from tidegate.spark_jobs.worker.record_spool import (
    CHUNK_BYTES,
    RECORDS,
    REFUSED,
    InFiles,
    Packing,
    RecordFile,
    RecordParts,
    SpooledRecords,
    unpacked,
)
from tidegate.spark_jobs.worker.result_kinds import (
    COLUMNS,
    RESULT,
    AcceptedPiece,
    Piece,
    RefusedFile,
    RefusedPiece,
    read_results,
)
from tidegate.spark_jobs.worker.task_results import TaskResults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark_jobs.settings import JobSettings

_PIECES: Final[dict[type[Piece], pa.Schema]] = {AcceptedPiece: RECORDS, RefusedPiece: REFUSED}
"""Kinds of result that hold packed records, and their schemas."""


_Size = tuple[int, int]
"""Number and bytes of a piece."""


class Spool:
    """The folder of one attempt.

    It is named after the epoch. So a resumed task of an earlier instance finds its folder deleted, and cannot overwrite
    a file of this instance.
    """

    def __init__(self, settings: JobSettings, contract_id: str, epoch: int) -> None:
        self._all = settings.scratch(contract_id) / "spool"
        self._folder = self._all / str(epoch)
        self.is_shared = is_local(settings)
        """Whether workers write to this folder themselves."""

    def clear(self) -> None:
        """Create the folder, and delete the files of earlier attempts, which can no longer publish them."""
        shutil.rmtree(self._all, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)

    def parts(self, kind: str) -> RecordParts:
        """Return how tasks hand over records of this kind: in files of this folder, or packed in their results."""
        return InFiles(str(self._folder), kind) if self.is_shared else Packing()

    @contextmanager
    def kept(self, judged: DataFrame) -> Iterator[DataFrame]:
        """Persist the results of the tasks in Spark if they are fetched more than once."""
        if self.is_shared:
            yield judged
            return
        kept = judged.persist()
        try:
            yield kept
        finally:
            kept.unpersist()

    def results(self, judged: DataFrame, batch: MicroBatch) -> TaskResults:
        """Run the tasks, and collect the refused records. `judged` has the schema RESULT."""
        pieces = {COLUMNS[kind] for kind in _PIECES}
        others = [name for name in RESULT.names if name not in pieces]
        rows = judged.selectExpr(*others, *map(_size, pieces)).toArrow()
        if self.is_shared:
            refused = SpooledRecords(tuple(each.name for each in read_results(rows, RefusedFile)))
        else:
            refused = self._fetch(judged, rows, RefusedPiece)
        return TaskResults(rows, batch.plan, batch.asked, refused)

    def accepted(self, judged: DataFrame, results: TaskResults) -> SpooledRecords:
        """Return the accepted records: in the files that tasks have written here, or collected from Spark."""
        files = results.parts()
        if files:
            return SpooledRecords(tuple(files))
        return self._fetch(judged, results.rows, AcceptedPiece)

    def _fetch(self, judged: DataFrame, rows: pa.Table, kind: type[Piece]) -> SpooledRecords:
        """Collect packed records in groups, so that a large batch does not exceed the limit of one collect."""
        found = rows.column(COLUMNS[kind]).combine_chunks()
        sizes = sorted((each["number"], each["bytes"]) for each in found.drop_null().to_pylist())
        if not sizes:
            return SpooledRecords(())
        with RecordFile(self._folder / f"{uuid4().hex}.{COLUMNS[kind]}", _PIECES[kind]) as file:
            for group in _groups(sizes):
                for records in unpacked(_collected(judged, group, kind)):
                    file.write(records)
        return SpooledRecords(tuple(file.written))


def _size(column: str) -> str:
    """Return the SQL for number and bytes of packed records instead of the records."""
    sizes = f"named_struct('number', {column}.number, 'bytes', CAST(length({column}.records) AS BIGINT))"
    return f"IF({column} IS NULL, NULL, {sizes}) AS {column}"


def _groups(sizes: Sequence[_Size]) -> Iterator[Sequence[_Size]]:
    """Yield groups of consecutive pieces of at most CHUNK_BYTES; a larger piece is a group of its own."""
    first = total = 0
    for index, (_, size) in enumerate(sizes):
        if index > first and total + size > CHUNK_BYTES:
            yield sizes[first:index]
            first, total = index, 0
        total += size
    yield sizes[first:]


def _collected(judged: DataFrame, group: Sequence[_Size], kind: type[Piece]) -> list[bytes]:
    """Collect the records of some pieces.

    Raises Unavailable if the pieces differ from those that the tasks returned, because Spark has judged them again.
    """
    number = F.col(f"{COLUMNS[kind]}.number")
    found = read_results(judged.filter(number.between(group[0][0], group[-1][0])).toArrow(), kind)
    found.sort(key=lambda each: each.number)
    if [(each.number, len(each.records)) for each in found] != group:
        raise Unavailable(
            "records that Spark has kept were others when they were fetched: an executor was lost"
        )
    return [each.records for each in found]
