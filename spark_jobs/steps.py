"""The steps of the exactly-once protocol: timed, and reported to an observer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol

from tidegate.spark_jobs.tracing import NO_TRACE, Trace


class Step(StrEnum):
    """The steps of a start (claim to scan) and of a batch (contract to publish), in order.

    `slot`, the transaction of one slot, is part of `quarantine` and not timed; if tasks write, it covers all of their
    transactions and is timed. `committed` is reported at the end and not timed.
    """

    CLAIM = "claim"
    FENCE = "fence"
    VERIFY = "verify"
    SCAN = "scan"
    CONTRACT = "contract"
    JUDGE = "judge"
    DECIDE = "decide"
    SLOT = "slot"
    QUARANTINE = "quarantine"
    STAGE = "stage"
    PUBLISH = "publish"
    COMMITTED = "committed"


class ReplayStep(StrEnum):
    """The steps of one chunk of a replay, in order. `stage` occurs only for tables."""

    READ = "replay-read"
    JUDGE = "replay-judge"
    SEND = "replay-send"
    """Only in requests that send records to the source topic."""
    POSITIONS = "replay-positions"
    STAGE = "replay-stage"
    PUBLISH = "replay-publish"


class QuarantineTableStep(StrEnum):
    """The steps in which a quarantine table follows its topic, in order. They are not timed."""

    RETIRE = "quarantine-table-retire"
    WRITE = "quarantine-table-write"
    STAGE = "quarantine-table-stage"
    PUBLISH = "quarantine-table-publish"


AnyStep = Step | ReplayStep | QuarantineTableStep


class StepObserver(Protocol):
    """A function that is called after every finished step of a stream. The job itself passes `ignore_steps`."""

    def __call__(self, stream: str, step: AnyStep) -> None:
        """Observe a step; an exception fails the attempt."""
        ...


def ignore_steps(stream: str, step: AnyStep) -> None:
    """Do nothing."""


class Stopwatch:
    """The times of the steps of one start or one batch. It notifies the observer and the trace after each step."""

    def __init__(self, stream: str, observer: StepObserver, trace: Trace = NO_TRACE) -> None:
        self._stream = stream
        self._observer = observer
        self.trace = trace
        self.milliseconds: dict[str, int] = {}

    def notify(self, step: AnyStep) -> None:
        """Notify the observer of a step that is not timed."""
        self._observer(self._stream, step)

    @contextmanager
    def __call__(self, step: Step | ReplayStep) -> Iterator[None]:
        """Time one step; a step that raises is not reported."""
        begun, begun_ns = time.perf_counter(), time.time_ns()
        yield
        elapsed = round((time.perf_counter() - begun) * 1000)
        self.trace.step(step, begun_ns, time.time_ns())
        self.milliseconds[step] = self.milliseconds.get(step, 0) + elapsed
        self._observer(self._stream, step)
