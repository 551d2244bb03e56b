"""`tidegate infer --spark`: parts of files are profiled in the workers of Spark, and their profiles are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.infer.infer import Inference
from tidegate.gateway.cli.reading import reading
from tidegate.gateway.cli.spark_workers import TaskProgress, spark_workers
from tidegate.gateway.sources.file_parts import FilePart, FileParts, file_parts, in_tasks
from tidegate.gateway.sources.open_source import SourceOptions

_TASK_BYTES: Final = 256 << 20
"""A profile is larger than counts, so a task reads more than one of `judge` does."""
_NUMBER_BITS: Final = 40
"""A position is the number of a record in its file, and above these bits the index of its part."""


class FilesInSpark:
    """Files that Spark profiles; has what is said about a source."""

    framing: str = "none"

    def __init__(self, name: str, options: SourceOptions, spark_master: str | None) -> None:
        """Find the files. Raises SettingsError for what cannot be read in parts."""
        self._in_workers = spark_workers(spark_master)
        self._files, self._parts = file_parts(
            name, options.format, tuple(options.nulls), options.default, self._in_workers
        )
        self.title = self._files.title
        self.stem = self._files.stem
        self.avro_schema: Any = self._files.avro_schema

    def infer(self) -> Inference:
        """Profile all records. Raises SettingsError, and Unavailable if Spark gives the work up."""
        whole = Inference(avro_schema=self.avro_schema)
        tasks = in_tasks(self._parts, _TASK_BYTES)
        work = _Work(self._files, most_held=max(whole.most_held // len(tasks), 1))
        progress = TaskProgress(self.title, sum(part.size for part in self._parts))
        # The end of the last task is the first part of none.
        numbered = list(zip(accumulate(map(len, tasks), initial=0), tasks, strict=False))
        with reading(progress) as show:
            for task, found in zip(tasks, self._in_workers(work, numbered), strict=True):
                whole.merge(found)
                progress.add(task)
                show(whole.records)
        return whole

    def places(self, positions: Sequence[int]) -> str:
        """Name positions, such as `may.jsonl line 12, june.jsonl line 1`."""
        mask = (1 << _NUMBER_BITS) - 1
        found = [(self._parts[each >> _NUMBER_BITS], each & mask) for each in positions]
        return self._files.places(found)


@dataclass(frozen=True, slots=True)
class _Work:
    """The function that a worker calls: infer from the parts of one task. Parts are numbered through all tasks."""

    files: FileParts
    most_held: int

    def __call__(self, task: tuple[int, tuple[FilePart, ...]]) -> Inference:
        first, parts = task
        schema = self.files.avro_schema
        inference = Inference(avro_schema=schema, most_held=self.most_held)
        for index, part in enumerate(parts, first):
            with self.files.open(part) as source:
                if source.avro_schema != schema:
                    raise SettingsError(
                        f"{part.path} has another Avro schema than {self.files.first}: infer from files of one schema"
                    )
                for chunk in source.chunks():
                    moved = chunk.moved(index << _NUMBER_BITS)
                    inference.add(moved.batch, moved.positions, untyped=source.is_untyped)
                    broken = [each.position for each in moved.unreadable]
                    inference.broken.add_counted(len(broken), broken)
        return inference
