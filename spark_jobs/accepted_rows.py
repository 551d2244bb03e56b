"""Accepted records between the workers, who have judged them, and whoever writes them to a topic once their batch is decided.

Through Spark a record would be copied five times on its way to the driver, and turned into rows and back. Where workers
and driver share a disk they share files there instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

import pyarrow as pa

from contracts.errors import Unavailable
from spark_jobs.data_files import RECORDS, as_records


class AcceptedRows(Protocol):
    """The accepted records of a judged batch, held until it is written."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give batches of RECORDS."""
        ...

    def release(self) -> None:
        """Let go of them."""
        ...


@dataclass(frozen=True, slots=True)
class Spooling:
    """A target of `judge_and_write`: files in a folder that the driver sees too."""

    folder: str

    is_typed: ClassVar[bool] = False

    def open(self, task: str) -> SpoolFile:
        """Open the file of one attempt of one task."""
        return SpoolFile(Path(self.folder, f"{task}.arrow"))


class SpoolFile:
    """One file, made when the first rows are written; an Arrow stream of RECORDS."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._open = ExitStack()
        self.written: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()
        if self._writer is not None and error[0] is None:
            self.written.append(str(self._path))

    def write(
        self,
        columns: pa.StructArray | None,  # noqa: ARG002 - bytes are kept, not columns
        batch: pa.RecordBatch,
        is_written: pa.Array | None,
    ) -> None:
        """Keep the records of a batch of the columns of INPUT; those that `is_written` names, if not all."""
        rows = as_records(batch if is_written is None else batch.filter(is_written))
        if not rows.num_rows:
            return
        if self._writer is None:
            file = self._open.enter_context(pa.OSFile(str(self._path), "wb"))
            self._writer = self._open.enter_context(pa.ipc.new_stream(file, RECORDS))
        self._writer.write_batch(rows)


@dataclass(frozen=True, slots=True)
class SpooledRows:
    """Accepted records in files."""

    files: tuple[str, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the files where they lie. Raises Unavailable for one that is gone: the batch is judged again then."""
        for file in self.files:
            try:
                source = pa.memory_map(file)
            except OSError as error:
                raise Unavailable(f"{file}: {error.strerror or 'it cannot be read'}") from error
            with source:
                yield from pa.ipc.open_stream(source)

    def release(self) -> None:
        """Delete the files."""
        for file in self.files:
            Path(file).unlink(missing_ok=True)


class Packing:
    """A target of `judge_and_write`: the records go through Spark, many in a value."""

    is_typed: ClassVar[bool] = False

    def open(self, task: str) -> Packed:  # noqa: ARG002 - nothing is named after the task
        """Open the part of one task."""
        return Packed()


class Packed:
    """The accepted records of one task."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open."""

    def write(
        self,
        columns: pa.StructArray | None,  # noqa: ARG002 - bytes are kept, not columns
        batch: pa.RecordBatch,
        is_written: pa.Array | None,
    ) -> bytes:
        """Pack the records of a batch of the columns of INPUT; those that `is_written` names, if not all."""
        rows = as_records(batch if is_written is None else batch.filter(is_written))
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, RECORDS) as writer:
            writer.write_batch(rows)
        return bytes(buffer.getvalue())


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Accepted records in the driver's memory, an array of binary as `Packing` gives it."""

    packed: pa.ChunkedArray

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Unpack them."""
        return unpacked(self.packed.chunks)

    def release(self) -> None:
        """Nothing to give back: the memory goes with this value."""


def unpacked(arrays: Iterable[pa.Array]) -> Iterator[pa.RecordBatch]:
    """Give batches of RECORDS from arrays of binary."""
    for array in arrays:
        for value in array:
            yield from pa.ipc.open_stream(value.as_buffer())
