"""Files of records in parts that are read at the same time, each by the reader that reads a whole file.

Lines of a file without compression, and row groups of Parquet, are read from the middle of a file. All other files are one
part: a quoted cell of CSV may hold a line end, and what is compressed can only be read from its beginning.
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
"""About so much is read at once: a few seconds of judging."""
_VALUE_BYTES: Final = 8
_BLOCK: Final = 1 << 20
Item = TypeVar("Item")
Result = TypeVar("Result")


class MapInWorkers(Protocol):
    """Calls a function for each item in other processes, maybe of other machines; yields the results in their order."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[Result]:
        """Yield the results. Raises the TidegateError of an item, and Unavailable."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file, or the part of one that `span` of `FileSource` names; `size` is in bytes, about.

    `before` is the number of records before it in its file. `file_size` shows a reader elsewhere that it has the same file.
    """

    path: Path
    file_size: int
    size: int
    span: range | None = None
    before: int = 0


@dataclass(frozen=True, slots=True)
class FileParts:
    """Files of one format, in the order of their names, and how their parts are read.

    `root` is the folder that the files are in, None for a pattern and for one file; `avro_schema` is that of the first.
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
        """Open a part. Raises SettingsError if this machine has not the same file under its path."""
        return PartSource(self, part)

    def places(self, records: Sequence[tuple[FilePart, int]]) -> str:
        """Name records by their parts and their numbers in their files."""
        if self.is_one_file:
            return named(self.format.noun, [number for _, number in records])
        found = (place_in(part.path, self.root, self.format, number) for part, number in records)
        return ", ".join(found) or "no position is known"


class PartSource(FileSource):
    """A part of a file; its positions are those of the whole file."""

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
        """Name positions."""
        return self._files.places([(self._part, number) for number in positions])


def file_parts(
    name: str,
    kind: FileFormat | None,
    nulls: tuple[str, ...],
    default: FileFormat | None,
) -> tuple[FileParts, list[FilePart]]:
    """Return the parts of a file, folder or pattern of files, in their order, and how they are read.

    Those of lines are not `numbered` yet, which reads the files.
    `kind`, `nulls` and `default` are those of `FileSource`. Raises SettingsError for what cannot be read so.
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
    """Return the parts with the number of records before each in its file, which is known for all but lines."""
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
    """Return the parts in their order, small ones together up to `size`, by default that of a part.

    A task for each of many small files would take longer.
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
    """Return whether a source is a file, or a folder or a pattern of files."""
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
    """Yield parts of about _PART_BYTES that end at line ends."""
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
    """Yield runs of row groups of about _PART_BYTES; a file has the sizes of its row groups at its end."""
    try:
        metadata = pq.read_metadata(whole.path)
    except (pa.ArrowInvalid, OSError) as error:
        raise SettingsError(f"{whole.path} cannot be read as Parquet: {first_line(error)}") from None
    first, size, before, rows = 0, 0, 0, 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        # Encoded values may take a bit each; reading them takes as long as if they took their width.
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
