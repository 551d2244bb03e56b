"""The folder in which records wait on the driver's disk until their batch is decided, and how they get there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.session import is_local
from tidegate.spark_jobs.sinks.sink import MicroBatch
from tidegate.spark_jobs.worker.data_files import RESULT
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
from tidegate.spark_jobs.worker.task_results import TaskResults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark_jobs.settings import JobSettings

_PACKED: Final = {"kept": RECORDS, "refused": REFUSED}
"""Columns of RESULT that hold packed records, and their schemas."""


class Spool:
    """The folder of one attempt.

    It is named after the epoch: a task of an earlier instance that wakes up finds its folder gone and writes over no file
    of this one.
    """

    def __init__(self, settings: JobSettings, contract_id: str, epoch: int) -> None:
        self._all = settings.checkpoints.absolute() / f"{contract_id}.spool"
        self._folder = self._all / str(epoch)
        self.is_shared = is_local(settings)
        """Whether workers write here themselves."""

    def clear(self) -> None:
        """Make the folder, and delete what earlier attempts have left: they can publish it no more."""
        shutil.rmtree(self._all, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)

    def parts(self, kind: str) -> RecordParts:
        """Return how tasks hand over records of this kind."""
        return InFiles(str(self._folder), kind) if self.is_shared else Packing()

    @contextmanager
    def kept(self, judged: DataFrame) -> Iterator[DataFrame]:
        """Have Spark keep what the tasks give, where it is fetched more than once."""
        if self.is_shared:
            yield judged
            return
        kept = judged.persist()
        try:
            yield kept
        finally:
            kept.unpersist()

    def results(self, judged: DataFrame, batch: MicroBatch) -> TaskResults:
        """Run the tasks, and bring what they refuse here. `judged` are rows of RESULT."""
        others = [name for name in RESULT.names if name not in _PACKED]
        sizes = [F.length(name).cast("long").alias(_size(name)) for name in _PACKED]
        rows = judged.select(*others, *sizes).toArrow()
        if self.is_shared:
            refused = SpooledRecords(tuple(rows.column("refused_file").drop_null().to_pylist()))
        else:
            refused = self._fetch(judged, rows, "refused")
        return TaskResults(rows, batch.plan, batch.asked, refused)

    def accepted(self, judged: DataFrame, results: TaskResults) -> SpooledRecords:
        """Bring here what the tasks accept and Spark keeps; name the files where they have written it here."""
        files = results.files()
        return SpooledRecords(tuple(files)) if files else self._fetch(judged, results.rows, "kept")

    def _fetch(self, judged: DataFrame, rows: pa.Table, column: str) -> SpooledRecords:
        """Bring packed records here, in parts that Spark collects whatever the batch holds."""
        has_size = pc.field(_size(column)).is_valid()
        sizes = rows.filter(has_size).select(["piece", _size(column)]).sort_by("piece")
        if not sizes.num_rows:
            return SpooledRecords(())
        with RecordFile(self._folder / f"{uuid4().hex}.{column}", _PACKED[column]) as file:
            for group in _groups(sizes):
                for records in unpacked(_collected(judged, group, column).chunks):
                    file.write(records)
        return SpooledRecords(tuple(file.written))


def _size(column: str) -> str:
    """Name the column of the sizes of packed records, in bytes."""
    return f"{column}_bytes"


def _groups(sizes: pa.Table) -> Iterator[pa.Table]:
    """Yield consecutive pieces that have at most CHUNK_BYTES together, or one."""
    first = total = 0
    for index, size in enumerate(sizes.column(1).to_pylist()):
        if index > first and total + size > CHUNK_BYTES:
            yield sizes.slice(first, index - first)
            first, total = index, 0
        total += size
    yield sizes.slice(first)


def _collected(judged: DataFrame, group: pa.Table, column: str) -> pa.ChunkedArray:
    """Collect some pieces. Raise Unavailable when they are others than the tasks have told: they were judged again since."""
    first, last = group.column("piece")[0].as_py(), group.column("piece")[-1].as_py()
    wanted = judged.filter(F.col("piece").between(first, last) & F.col(column).isNotNull())
    found = wanted.select("piece", column).toArrow().sort_by("piece")
    packed = found.column(column)
    is_same = found.column("piece").to_pylist() == group.column("piece").to_pylist()
    if not is_same or pc.binary_length(packed).to_pylist() != group.column(1).to_pylist():
        raise Unavailable(
            "records that Spark has kept were others when they were fetched: an executor was lost"
        )
    return packed
