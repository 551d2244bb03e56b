"""Transfer of records from the workers, which judge them, to the driver, which writes them to a topic later.

If workers and driver share a disk, they share files. Otherwise the records are packed, many in one value, and passed
through Spark; the driver fetches them in groups into its own files (`sinks/spool.py`). In both cases the driver reads
at most CHUNK_BYTES at a time, or one larger record.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.ledger import Position

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of a piece with more than one record."""

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

RECORDS: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("timestamp_ms", pa.int64()),
    ]
)
"""Records for output topics; `partition` and `offset` are those of the source."""

REFUSED: Final = RECORDS.append(pa.field("failed", pa.binary()))
"""Refused records, with the slots that they failed as `judge` returns them."""


def as_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with the columns of INPUT as rows of RECORDS."""
    kept = ("partition", "offset", "key", "value")
    milliseconds = pc.floor_temporal(batch.column("timestamp"), unit="millisecond").cast(pa.int64())
    arrays = [
        *(batch.column(name) for name in kept),
        _headers(batch.column("headers")),
        pc.divide(milliseconds, 1000),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _headers(texts: pa.Array) -> pa.Array:
    """Parse headers that Spark has written as JSON; records without headers have null."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _HEADERS)
    return pa.array([None if text is None else header_pairs(text) for text in texts.to_pylist()], _HEADERS)


def header_pairs(text: str) -> list[tuple[str, bytes | None]]:
    """Parse the headers of a record from Spark's `to_json`: values in base64, no member `value` for a null."""
    return [(each["key"], b64decode(each["value"]) if "value" in each else None) for each in json.loads(text)]


def pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces of at most CHUNK_BYTES, or of one larger record."""
    if rows.num_rows > 1 and rows.nbytes > CHUNK_BYTES:
        half = rows.num_rows // 2
        yield from pieces(rows.slice(0, half))
        yield from pieces(rows.slice(half))
    elif rows.num_rows:
        yield rows


def divided(
    rows: pa.RecordBatch, positions: Collection[Position]
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """Split rows by their columns partition and offset: those not at one of the positions, and those that are.

    The second part is None if it would be empty.
    """
    if not positions:
        return rows, None
    partitions, offsets = np.asarray(rows.column("partition")), np.asarray(rows.column("offset"))
    is_there = np.zeros(rows.num_rows, bool)
    for partition, offset in positions:
        is_there |= (partitions == partition) & (offsets == offset)
    if not is_there.any():
        return rows, None
    return rows.filter(pa.array(~is_there)), rows.filter(pa.array(is_there))


class RecordPart(AbstractContextManager["RecordPart"], Protocol):
    """The records of one attempt of one task; complete when the context exits without an error."""

    written: list[str]
    """Names of the written files, set when they are complete."""

    def write(self, rows: pa.RecordBatch) -> list[bytes]:
        """Write some rows. Return the packed records that Spark must pass on."""
        ...


class RecordParts(Protocol):
    """The way in which tasks pass records to the driver; it is pickled for the workers."""

    def open(self, task: str, schema: pa.Schema) -> RecordPart:
        """Open the part of one attempt of one task, whose rows have this schema."""
        ...


@dataclass(frozen=True, slots=True)
class InFiles:
    """Files in a folder that the driver can read too; their names end with `kind`."""

    folder: str
    kind: str

    def open(self, task: str, schema: pa.Schema) -> RecordFile:
        """Open the file of one attempt of one task."""
        return RecordFile(Path(self.folder, f"{task}.{self.kind}"), schema)


class RecordFile:
    """A part in a file, as an Arrow stream. The file is created with the first rows."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._open = ExitStack()
        self.written: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()
        if self._writer is not None and error[0] is None:
            self.written.append(str(self._path))

    def write(self, rows: pa.RecordBatch) -> list[bytes]:
        """Write some rows to the file; return no packed records."""
        for piece in pieces(rows):
            if self._writer is None:
                file = self._open.enter_context(pa.OSFile(str(self._path), "wb"))
                self._writer = self._open.enter_context(pa.ipc.new_stream(file, self._schema))
            self._writer.write_batch(piece)
        return []


class Packing:
    """Records are packed, many in one value, and passed through Spark."""

    def open(self, task: str, schema: pa.Schema) -> Packed:  # noqa: ARG002 - there is no file to name
        """Open the part of one task."""
        return Packed(schema)


class Packed:
    """A part whose records are packed as Arrow streams, one for each piece."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.written: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing, because no file is open."""

    def write(self, rows: pa.RecordBatch) -> list[bytes]:
        """Return some rows packed."""
        return [self._pack(piece) for piece in pieces(rows)]

    def _pack(self, rows: pa.RecordBatch) -> bytes:
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, self._schema) as writer:
            writer.write_batch(rows)
        return bytes(buffer.getvalue())


def unpacked(packed: Iterable[bytes | pa.Buffer]) -> Iterator[pa.RecordBatch]:
    """Yield the records that `Packed` has packed."""
    for each in packed:
        yield from pa.ipc.open_stream(each)


@dataclass(frozen=True, slots=True)
class RecordTarget:
    """A target of `judge_and_write` that keeps accepted records in their original form."""

    parts: RecordParts

    is_typed: ClassVar[bool] = False

    def open(self, task: str) -> RecordTargetPart:
        """Open the part of one attempt of one task."""
        return RecordTargetPart(self.parts.open(task, RECORDS))


class RecordTargetPart:
    """The accepted records of one attempt of one task."""

    def __init__(self, part: RecordPart) -> None:
        self._part = part
        self.written = part.written

    def __enter__(self) -> Self:
        self._part.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._part.__exit__(*error)  # type: ignore[arg-type] # the three of any context manager

    def write(
        self,
        columns: pa.StructArray | None,  # noqa: ARG002 - the original bytes are kept, not the columns
        batch: pa.RecordBatch,
        is_written: pa.Array | None,
        judged_by: pa.Array | None = None,  # noqa: ARG002 - the driver finds it again when it writes the headers
    ) -> list[bytes]:
        """Write the records of a batch with the columns of INPUT; only where `is_written` is true, or all if None."""
        return self._part.write(as_records(batch if is_written is None else batch.filter(is_written)))


@dataclass(frozen=True, slots=True)
class SpooledRecords:
    """Records in files that the driver can read."""

    files: tuple[str, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records. Raises Unavailable if a file is missing; then the batch is judged again."""
        for file in self.files:
            try:
                source = pa.memory_map(file)
            except OSError as error:
                raise Unavailable(f"{file}: {error.strerror or 'it cannot be read'}") from error
            with source:
                yield from pa.ipc.open_stream(source)

    def partitions(self) -> set[int]:
        """Return the source partitions of the records."""
        return {each for rows in self.batches() for each in pc.unique(rows.column("partition")).to_pylist()}

    def release(self) -> None:
        """Delete the files."""
        for file in self.files:
            Path(file).unlink(missing_ok=True)
