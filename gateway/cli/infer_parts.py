"""`tidegate infer` for large files: profile their parts in other processes, and merge the profiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.infer.infer import Inference
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.workers import TaskProgress, local_workers, processors
from tidegate.gateway.sources.file_parts import (
    FilePart,
    FileParts,
    MapInWorkers,
    file_parts,
    in_tasks,
    is_files,
    numbered,
)
from tidegate.gateway.sources.open_source import SourceOptions
from tidegate.gateway.sources.source import Source

_TASK_BYTES: Final = 256 << 20
"""Larger than a task of `judge`, because a profile is larger than counts."""
_NUMBER_BITS: Final = 40
"""The low bits of a position hold the record's number in its file; the bits above hold the index of its part."""


class FilesInParts:
    """Files whose parts are profiled in workers, with the attributes of a source that messages show."""

    framing: str = "none"

    def __init__(self, name: str, options: SourceOptions, in_workers: MapInWorkers) -> None:
        """Find the files. Raises SettingsError for files that cannot be read in parts."""
        self._in_workers = in_workers
        self._files, self._parts = file_parts(name, options.format, tuple(options.nulls), options.default)
        self.title = self._files.title
        self.stem = self._files.stem
        self.avro_schema: Any = self._files.avro_schema

    @property
    def has_tasks(self) -> bool:
        """Return whether the files are large enough for more than one task."""
        return len(in_tasks(self._parts, _TASK_BYTES)) > 1

    def infer(self) -> Inference:
        """Profile all records. Raises SettingsError, and Unavailable if the workers fail."""
        whole = Inference(avro_schema=self.avro_schema)
        self._parts = numbered(self._files, self._parts, self._in_workers)
        tasks = in_tasks(self._parts, _TASK_BYTES)
        work = _Work(self._files, most_held=max(whole.most_held // len(tasks), 1))
        progress = TaskProgress(self.title, sum(part.size for part in self._parts))
        # `accumulate` yields one more index than there are tasks: the end of the last one.
        items = list(zip(accumulate(map(len, tasks), initial=0), tasks, strict=False))
        with reading(progress) as show:
            for task, found in zip(tasks, self._in_workers(work, items), strict=True):
                whole.merge(found)
                progress.add(task)
                show(whole.records)
        return whole

    def places(self, positions: Sequence[int]) -> str:
        """Name positions, such as `may.jsonl line 12, june.jsonl line 1`."""
        mask = (1 << _NUMBER_BITS) - 1
        found = [(self._parts[each >> _NUMBER_BITS], each & mask) for each in positions]
        return self._files.places(found)


def large_files(name: str, options: SourceOptions) -> FilesInParts | None:
    """Return the files of a source if several local processes read them faster than one; otherwise None."""
    if processors() == 1 or not is_files(name):
        return None
    found = FilesInParts(name, options, local_workers)
    return found if found.has_tasks else None


def require_schema(source: Source, schema: Any, title: str) -> None:
    """Raise SettingsError for an Avro file whose schema is not that of the first file; `title` names the files."""
    if source.avro_schema != schema:
        raise SettingsError(f"{title} have more than one Avro schema: infer from files of one schema")


@dataclass(frozen=True, slots=True)
class _Work:
    """The function that a worker calls: profile the parts of one task. The indices of parts are unique across tasks."""

    files: FileParts
    most_held: int

    def __call__(self, task: tuple[int, tuple[FilePart, ...]]) -> Inference:
        first, parts = task
        schema = self.files.avro_schema
        inference = Inference(avro_schema=schema, most_held=self.most_held)
        for index, part in enumerate(parts, first):
            with self.files.open(part) as source:
                require_schema(source, schema, self.files.title)
                for chunk in source.chunks():
                    moved = chunk.moved(index << _NUMBER_BITS)
                    inference.add(moved.batch, moved.positions, untyped=source.is_untyped)
                    for each in moved.unreadable:
                        inference.broken.add_row(each.position, each.reason, each.pointer)
        return inference
