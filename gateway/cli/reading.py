"""The progress of reading a source, on standard error of a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tidegate.contracts.infer.values import Occurrences
from tidegate.contracts.words import counted
from tidegate.gateway.cli.terminal import SILENT_SECONDS, err
from tidegate.gateway.sources.source import Source


class Readable(Protocol):
    """The input: a source, or the files of several tasks."""

    title: str
    size: int | None

    def progress(self) -> int:
        """Return how much of `size` has been read."""


@contextmanager
def reading(source: Readable) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of records read. A terminal shows a bar after two seconds."""
    columns = (
        TextColumn("reading {task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[records]:,} records", markup=False),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    task = progress.add_task(source.title, total=source.size, records=0)
    began = time.monotonic()
    is_shown = False

    def show(records: int) -> None:
        nonlocal is_shown
        progress.update(task, completed=source.progress(), records=records)
        if not is_shown and time.monotonic() - began >= SILENT_SECONDS:
            progress.start()
            is_shown = True

    try:
        yield show
    finally:
        progress.stop()


def unread_text(source: Source, unreadable: Occurrences) -> str | None:
    """Return a sentence with the number of unreadable records and the first places; None if there are none."""
    if not unreadable.count:
        return None
    number = counted(unreadable.count, "record")
    return f"{number} cannot be read ({source.places(unreadable.first)}); `tidegate judge` says why"
