"""The demo's progress: bars on a terminal, otherwise a line for each update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from tidegate.contracts.stream.report import BatchReport

_LABEL_WIDTH = 20


class DemoScreen:
    """The lines and progress bars of a demo on `console`. A context manager: leaving it stops the bars."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=24),
            _FiguresColumn(),
            console=console,
            refresh_per_second=8,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def say(self, label: str, line: str) -> None:
        """Print a line with a label."""
        self._console.print(Text.assemble((f"{label:<{_LABEL_WIDTH}} ", "bold"), line))

    def expect(self, stream: str, records: int) -> None:
        """Start the progress bar of a stream with this number of records."""
        self._tasks[stream] = self._bars.add_task(
            f"{stream:<{_LABEL_WIDTH}}", total=records, figures="waiting for Spark"
        )
        if self._console.is_terminal:
            self._bars.start()

    def advance(self, stream: str, batches: Sequence[BatchReport]) -> None:
        """Update the progress of a stream; `batches` are all its reports so far."""
        judged = sum(batch.records for batch in batches)
        self._bars.update(self._tasks[stream], completed=judged, figures=_figures(batches))
        if not self._console.is_terminal:
            total = self._bars.tasks[self._tasks[stream]].total
            self.say(stream, f"{judged:>9,} / {total:,.0f}   {_figures(batches)}")

    def close(self) -> None:
        """Stop the bars; they stay on the screen."""
        if self._console.is_terminal:
            self._bars.stop()


class _FiguresColumn(ProgressColumn):
    """A column with records judged and in total, rate, and share of refused records."""

    def render(self, task: Task) -> Text:
        done = f"{task.completed:>9,.0f} / {task.total:,.0f}"
        return Text.assemble(done, ("   " + task.fields["figures"], "dim" if not task.completed else ""))


def _figures(batches: Sequence[BatchReport]) -> str:
    records = sum(batch.records for batch in batches)
    refused = sum(batch.quarantined + batch.dropped for batch in batches)
    begun = min(batch.started_at for batch in batches)
    ended = max(batch.committed_at for batch in batches)
    rate = records / (ended - begun).total_seconds()
    return f"{rate / 1000:5.1f} k records/s   {refused / records:6.2%} refused"
