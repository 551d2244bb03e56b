"""Split files of records into parts that are read in parallel, each with the reader for whole files.

Uncompressed files of lines, and Parquet files, can have several parts. All other files are one part: a quoted cell of
CSV may contain a line end, and compressed data can only be read from its beginning.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources import tables
from tidegate.gateway.sources.bytes_of_files import Section, first_line
from tidegate.gateway.sources.files import FileFormat, FileSource
from tidegate.gateway.sources.many_files import files_of, is_pattern, place_in, require_format
from tidegate.gateway.sources.source import Chunk, named

_PART_BYTES: Final = 64 << 20
"""Approximate size of a part: a few seconds of judging."""
_VALUE_BYTES: Final = 8
_BLOCK: Final = 1 << 20
Item = TypeVar("Item")
Result = TypeVar("Result")


class MapInWorkers(Protocol):
    """A function that runs `work` for each item in other processes, possibly on other machines."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[Result]:
        """Yield the results in the order of the items. Raises the TidegateError of an item, and Unavailable."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file, or the part given by `span` (see `FileSource`); `size` is the approximate number of bytes.

    `before` is the number of records before it in its file. With `file_size`, a worker checks that it has the same file.
    """

    path: Path
    file_size: int
    size: int
    span: range | None = None
    before: int = 0


@dataclass(frozen=True, slots=True)
class FileParts:
    """The common properties of files of one format, for reading their parts.

    `root` is the folder of the files; None for a pattern or a single file. `avro_schema` is that of the first file.
    """

    title: str
    stem: str
    format: FileFormat
    avro_schema: Any
    first: Path
    root: Path | None
    is_one_file: bool
    kind: FileFormat | None
    nulls: tuple[str, ...]
    default: FileFormat | None

    def open(self, part: FilePart) -> PartSource:
        """Open a part. Raises SettingsError if this machine does not have the same file under its path."""
        return PartSource(self, part)

    def places(self, records: Sequence[tuple[FilePart, int]]) -> str:
        """Name records, given by their parts and their numbers in the files."""
        if self.is_one_file:
            return named(self.format.noun, [number for _, number in records])
        found = (place_in(part.path, self.root, self.format, number) for part, number in records)
        return ", ".join(found) or "no position is known"


class PartSource(FileSource):
    """A part of a file, with the positions of the whole file."""

    def __init__(self, files: FileParts, part: FilePart) -> None:
        _require_same_file(part)
        super().__init__(part.path, files.kind, files.nulls, default=files.default, span=part.span)
        self._files, self._part = files, part
        try:
            require_format(part.path, self.format, files.first, files.format)
        except SettingsError:
            self.__exit__(None, None, None)
            raise

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records."""
        return (chunk.moved(self._part.before) for chunk in super().chunks())

    def places(self, positions: Sequence[int]) -> str:
        """Name positions of the whole file."""
        return self._files.places([(self._part, number) for number in positions])


def file_parts(
    name: str,
    kind: FileFormat | None,
    nulls: tuple[str, ...],
    default: FileFormat | None,
) -> tuple[FileParts, list[FilePart]]:
    """Return the common properties and the parts, in order, of a file, or a folder or pattern of files.

    For files of lines, `before` of each part needs `numbered`, which reads the files. `kind`, `nulls` and `default` are
    those of `FileSource`. Raises SettingsError for a source that cannot be read in parts.
    """
    paths = _paths(name)
    path = Path(name)
    with FileSource(paths[0], kind, nulls, default=default) as first:
        found, schema = first.format, first.avro_schema
    is_one_file = path.is_file()
    title = path.name if is_one_file else f"{len(paths):,} files of {name}"
    root = path if path.is_dir() else None
    stem = path.name.split(".", 1)[0]
    files = FileParts(title, stem, found, schema, paths[0], root, is_one_file, kind, nulls, default)
    parts = [part for each in paths for part in _parts(files, each)]
    return files, parts


def numbered(files: FileParts, parts: list[FilePart], in_workers: MapInWorkers) -> list[FilePart]:
    """Return the parts with `before` set. Only files of lines are read for this; other formats have it already."""
    if files.format is not FileFormat.LINES:
        return parts
    is_followed = [part.path == after.path for part, after in pairwise(parts)] + [False]
    counts = in_workers(_lines_in, [part for part, is_it in zip(parts, is_followed, strict=True) if is_it])
    before, found = 0, []
    for part, is_it in zip(parts, is_followed, strict=True):
        found.append(replace(part, before=before))
        before = before + next(counts) if is_it else 0
    return found


def in_tasks(parts: Sequence[FilePart], size: int | None = None) -> list[tuple[FilePart, ...]]:
    """Group consecutive parts into tasks of up to `size` bytes, by default _PART_BYTES; a larger part is one task.

    One task for each of many small files would be slower.
    """
    most = size or _PART_BYTES
    tasks: list[list[FilePart]] = []
    taken = 0
    for part in parts:
        if not tasks or taken + part.size > most:
            tasks.append([])
            taken = 0
        tasks[-1].append(part)
        taken += part.size
    return [tuple(task) for task in tasks]


def is_files(name: str) -> bool:
    """Return whether a source is a file, or a folder or pattern of files, but no table."""
    path = Path(name)
    if path.is_dir():
        return not tables.is_delta(path) and not tables.is_iceberg(path)
    return path.is_file() or (not path.exists() and is_pattern(name))


def _paths(name: str) -> list[Path]:
    path = Path(name)
    if is_files(name):
        return [path] if path.is_file() else files_of(name)
    if name == "-" or path.exists() or name.startswith(("iceberg:", "postgresql:", "kafka:")):
        raise SettingsError(f"--spark reads files, folders and patterns of files; leave it out for {name}")
    raise SettingsError(f"there is no file {name}; --spark reads files, folders and patterns of files")


def _require_same_file(part: FilePart) -> None:
    """Raise SettingsError if the file is missing here or has another size."""
    try:
        size = part.path.stat().st_size
    except OSError as error:
        raise SettingsError(
            f"{socket.gethostname()} cannot read {part.path}: {error.strerror}; each executor needs the files under the "
            "same path"
        ) from None
    if size != part.file_size:
        raise SettingsError(
            f"{part.path} had {part.file_size:,} bytes, and has {size:,} on {socket.gethostname()}: it is written to, or "
            "another file is there; read a copy"
        )


def _parts(files: FileParts, path: Path) -> Iterator[FilePart]:
    """Yield the parts of a file."""
    size = path.stat().st_size
    whole = FilePart(path, size, size)
    if size <= _PART_BYTES or files.format not in (FileFormat.LINES, FileFormat.PARQUET):
        yield whole
        return
    with files.open(whole) as file:
        if not file.is_seekable:
            yield whole
            return
    if files.format is FileFormat.PARQUET:
        yield from _row_groups(whole)
        return
    for span in _line_spans(path, size):
        yield replace(whole, size=len(span), span=span)


def _line_spans(path: Path, size: int) -> Iterator[range]:
    """Yield byte ranges of about _PART_BYTES that end at line ends."""
    start = 0
    with path.open("rb") as file:
        while start + _PART_BYTES < size:
            file.seek(start + _PART_BYTES)
            while (piece := file.readline(_BLOCK)) and not piece.endswith(b"\n"):
                pass
            yield range(start, file.tell())
            start = file.tell()
    if start < size:
        yield range(start, size)


def _row_groups(whole: FilePart) -> Iterator[FilePart]:
    """Yield parts of consecutive row groups, of about _PART_BYTES, by the metadata of the file. Raises SettingsError."""
    try:
        metadata = pq.read_metadata(whole.path)
    except (pa.ArrowInvalid, OSError) as error:
        raise SettingsError(f"{whole.path} cannot be read as Parquet: {first_line(error)}") from None
    first, size, before, rows = 0, 0, 0, 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        # Encoded values may take one bit each, but reading them takes as long as at their full width.
        size += max(group.total_byte_size, group.num_rows * group.num_columns * _VALUE_BYTES)
        rows += group.num_rows
        if size >= _PART_BYTES or index == metadata.num_row_groups - 1:
            yield replace(whole, size=size, span=range(first, index + 1), before=before)
            first, size, before, rows = index + 1, 0, before + rows, 0


def _lines_in(part: FilePart) -> int:
    """Return the number of line ends in a part."""
    _require_same_file(part)
    with part.path.open("rb") as file:
        section = Section(file, part.span or range(part.file_size))
        return sum(block.count(b"\n") for block in iter(lambda: section.read(_BLOCK), b""))
