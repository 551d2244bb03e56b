"""Read the files of a folder or pattern, one after the other, as one source."""

from __future__ import annotations

import glob
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources.files import FileFormat, FileSource
from tidegate.gateway.sources.source import Chunk

_PATTERN = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Return whether a name has shell wildcards: `*`, `?` or `[...]`; `**` means any number of folders."""
    return not _PATTERN.isdisjoint(name)


def files_of(name: str) -> list[Path]:
    """Return the files that match a pattern, or the files in and below a folder, sorted by path.

    In a folder, names with an initial `.` or `_` are skipped, as in Spark: they are markers or unfinished files.

    Raises SettingsError if there is none.
    """
    if is_pattern(name) and not Path(name).exists():
        found = [Path(each) for each in glob.glob(name, recursive=True)]  # noqa: PTH207 - absolute patterns too
    else:
        folder = Path(name)
        found = [each for each in folder.rglob("*") if not _is_hidden(each.relative_to(folder))]
    files = sorted(each for each in found if each.is_file())
    if not files:
        raise SettingsError(f"{name} has no files")
    return files


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def require_format(path: Path, kind: FileFormat, first: Path, expected: FileFormat) -> None:
    """Raise SettingsError if the format of a file is not that of the first file."""
    if kind is not expected:
        raise SettingsError(
            f"{path} is {kind}, and {first} is {expected}: read files of one format at a time"
        )


def place_in(path: Path, root: Path | None, kind: FileFormat, number: int) -> str:
    """Name a record by file and number, such as `may.jsonl line 12`. The path is relative to `root`, if given."""
    return f"{path.relative_to(root) if root else path} {kind.noun} {number:,}"


class FilesSource:
    """Several files as one source, with records numbered across files. One file is open at a time.

    `avro_schema` is that of the current file. Reading raises SettingsError for files of different formats.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[Path],
        kind: FileFormat | None,
        nulls: Sequence[str],
        default: FileFormat | None,
    ) -> None:
        self._paths, self._kind, self._nulls, self._default = paths, kind, nulls, default
        self.is_whole = True
        self._root = Path(name) if Path(name).is_dir() else None
        self.title = f"{len(paths):,} files of {name}"
        self.stem = Path(name).name.split(".", 1)[0]
        self.size: int | None = sum(path.stat().st_size for path in paths)
        self.framing = "none"
        self._current = self._read(paths[0])
        self._format = self._current.format
        self.avro_schema: Any = self._current.avro_schema
        self.is_untyped = self._current.is_untyped
        self._ends: list[int] = []
        """The number of records up to the end of each file that has been read."""
        self._records = 0
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._current.__exit__(kind, error, trace)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records of each file."""
        for index, path in enumerate(self._paths):
            if index:
                self._current = self._opened(path)
                self.avro_schema = self._current.avro_schema
            with self._current as file:
                before = self._records
                for chunk in file.chunks():
                    self._records = before + chunk.last
                    yield chunk.moved(before)
            self._ends.append(self._records)
            self._bytes += path.stat().st_size

    def progress(self) -> int:
        """Return the number of bytes of the files that have been read."""
        return self._bytes + self._current.progress()

    def places(self, positions: Sequence[int]) -> str:
        """Name positions, such as `may.jsonl line 12, june.jsonl line 1`."""
        return ", ".join(self._place(each) for each in positions) or "no position is known"

    def _place(self, position: int) -> str:
        index = bisect_left(self._ends, position)
        number = position - (self._ends[index - 1] if index else 0)
        return place_in(self._paths[index], self._root, self._format, number)

    def _read(self, path: Path) -> FileSource:
        return FileSource(path, self._kind, self._nulls, default=self._default)

    def _opened(self, path: Path) -> FileSource:
        file = self._read(path)
        try:
            require_format(path, file.format, self._paths[0], self._format)
        except SettingsError:
            file.__exit__(None, None, None)
            raise
        return file
