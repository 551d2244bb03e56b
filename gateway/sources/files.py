"""Read files of records: JSON Lines, JSON arrays, CSV, Parquet and Avro containers, also with gzip or zstd."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.contracts.errors import ContractError, SettingsError
from tidegate.contracts.formats.avro_reader import EncodedSize
from tidegate.gateway.sources.bytes_of_files import (
    Section,
    beginning,
    first_line,
    open_bytes,
    skip_byte_order_mark,
)
from tidegate.gateway.sources.csv_rows import csv_chunks
from tidegate.gateway.sources.json_arrays import array_elements
from tidegate.gateway.sources.record_files import line_batches
from tidegate.gateway.sources.source import (
    BATCH_RECORDS,
    LONGEST_RECORD,
    Chunk,
    named,
    table_chunks,
    value_chunks,
)

_MOST_AVRO_BLOCK: Final = 1 << 28


class FileFormat(StrEnum):
    """The formats of files of records."""

    LINES = "jsonl"
    ARRAY = "json"
    CSV = "csv"
    PARQUET = "parquet"
    AVRO = "avro"

    @property
    def noun(self) -> str:
        """Return the noun for one record of the format, in messages."""
        return {FileFormat.LINES: "line", FileFormat.CSV: "row", FileFormat.PARQUET: "row"}.get(
            self, "record"
        )


class FileSource:
    """One file of records.

    `nulls` are the texts that mean null in CSV, in addition to an empty cell. `default` is the format of text that is
    not recognised. With `at_once`, lines are returned as they arrive instead of in large chunks. `span` limits reading to
    a part of an uncompressed file: a byte range of whole lines, or a range of Parquet row groups. Positions count from
    its start.
    """

    def __init__(
        self,
        path: Path,
        kind: FileFormat | None = None,
        nulls: Sequence[str] = (),
        *,
        default: FileFormat | None = None,
        at_once: bool = False,
        span: range | None = None,
    ) -> None:
        self._reader, self._file = open_bytes(path)
        self._at_once = at_once
        self._span = span
        try:
            self._detect(path, kind, default)
        except BaseException:
            self._reader.close()
            raise
        self._nulls = nulls

    def _detect(self, path: Path, kind: FileFormat | None, default: FileFormat | None) -> None:
        """Set the format and the properties of a `Source`."""
        self.format = kind or _format_of(path, beginning(self._reader), default)
        self.title = "standard input" if str(path) == "-" else path.name
        self.stem = "records" if str(path) == "-" else path.name.split(".", 1)[0]
        self.size = path.stat().st_size if str(path) != "-" else None
        self.is_untyped = self.format is FileFormat.CSV
        self.avro_schema: Any = None
        self.framing = "none"
        self.is_whole = True
        if self.format is FileFormat.AVRO:
            self._container = _opened_container(self._reader, self.title)
            self.avro_schema = self._container.writer_schema

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records."""
        match self.format:
            case FileFormat.LINES:
                lines = line_batches(self._section(), LONGEST_RECORD)
                return value_chunks(lines, at_once=self._at_once)
            case FileFormat.ARRAY:
                return value_chunks(array_elements(self._reader, self.title))
            case FileFormat.AVRO:
                return value_chunks(_container_records(self._container, self.title))
            case FileFormat.CSV:
                return csv_chunks(self._reader, self.title, self._nulls)
            case FileFormat.PARQUET:
                return table_chunks(self._parquet_batches())

    @property
    def is_seekable(self) -> bool:
        """Return whether it can be read from any offset: it is neither compressed nor a pipe."""
        return self._reader.seekable()

    def progress(self) -> int:
        """Return the number of bytes of the file that have been read."""
        try:
            return self._file.tell()
        except (OSError, ValueError):  # a pipe or a closed file
            return 0

    def places(self, positions: Sequence[int]) -> str:
        """Return positions as text, such as `lines 3, 17`."""
        return named(self.format.noun, positions)

    def _section(self) -> io.BufferedReader[Any]:
        section = self._reader if self._span is None else io.BufferedReader(Section(self._reader, self._span))
        if self._span is None or self._span.start == 0:
            skip_byte_order_mark(section)
        return section

    def _parquet_batches(self) -> Iterator[pa.RecordBatch]:
        if not self._reader.seekable():
            raise SettingsError(
                f"{self.title} is Parquet, which is read from a file: it cannot be piped or compressed again"
            )
        try:
            # With a buffer, a row group is not read into memory at once.
            file = pq.ParquetFile(self._reader, pre_buffer=False, buffer_size=1 << 20)
            yield from file.iter_batches(batch_size=BATCH_RECORDS, row_groups=self._span)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise SettingsError(f"{self.title} cannot be read as Parquet: {first_line(error)}") from None


def _format_of(path: Path, start: bytes, default: FileFormat | None) -> FileFormat:
    """Return the format by the first bytes or the name; `default` for other text. Raises SettingsError."""
    if start.startswith(b"PAR1"):
        return FileFormat.PARQUET
    if start.startswith(b"Obj\x01"):
        return FileFormat.AVRO
    names = [part.lower() for part in path.name.split(".")[1:]]
    if {"csv", "tsv", "tab"} & set(names):
        return FileFormat.CSV
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"["):
        return FileFormat.ARRAY
    if text.startswith(b"{") or {"jsonl", "ndjson", "json"} & set(names):
        return FileFormat.LINES
    if default is not None and b"\0" not in start:
        return default
    if not start:
        name = "standard input" if str(path) == "-" else path
        raise SettingsError(f"{name} is empty: it has no records")
    raise SettingsError(
        f"{path} is in none of the formats JSON Lines, JSON array, CSV, Parquet and Avro; name its format "
        "(infer: --input-format, judge: --records)"
    )


def _opened_container(stream: BinaryIO, name: str) -> Any:
    try:
        return fastavro.block_reader(stream)
    except (ValueError, EOFError, KeyError, IndexError, fastavro.schema.SchemaParseException) as error:
        raise SettingsError(f"{name} cannot be read as an Avro container: {first_line(error)}") from None


def _container_records(container: Any, name: str) -> Iterator[list[bytes]]:
    """Yield the records of an Avro container by block, each in Avro's binary encoding without a frame.

    Raises SettingsError.
    """
    try:
        size = EncodedSize(container.writer_schema)
    except ContractError as error:
        raise SettingsError(f"{name} has a schema that cannot be read: {first_line(error)}") from None
    try:
        for block in container:
            data: bytes = block.bytes_.getvalue()
            if len(data) > _MOST_AVRO_BLOCK:
                raise SettingsError(
                    f"{name} has a block of {len(data):,} bytes, more than {_MOST_AVRO_BLOCK:,}"
                )
            if block.num_records > max(len(data), BATCH_RECORDS):  # records without fields have no bytes
                raise SettingsError(
                    f"{name} is damaged: a block of {len(data):,} bytes counts {block.num_records:,} records"
                )
            values = []
            start = 0
            for _ in range(block.num_records):
                end = size.end(data, start)
                values.append(data[start:end])
                start = end
            yield values
    except (ValueError, EOFError, IndexError, OverflowError, RecursionError, TypeError) as error:
        raise SettingsError(f"{name} is damaged: {first_line(error)}") from None
