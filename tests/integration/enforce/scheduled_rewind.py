"""A rewind that a schedule of the models moves step by step, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Condition, Thread

from tests.model.schedules import REWINDS_TO, Move
from tidegate.contracts.errors import ConflictError, Fenced, StreamStopped
from tidegate.spark_jobs.adopt.rewind import Rewinder, RewindLook, RewindStep, RewindTo

PATIENCE_SECONDS = 300.0
OpenRewinder = Callable[[Callable[[RewindStep], None]], AbstractContextManager[Rewinder]]
"""Opens what rewinds the stream of a line, and calls the function after each step."""
REFUSED = (ConflictError, Fenced, StreamStopped)
"""What a rewind ends with that another one, or an instance, has overtaken."""


class ScheduledRewind(Thread):
    """A rewind in a thread of its own, which goes on no further than it may."""

    STEPS: tuple[str, ...] = (REWINDS_TO, *RewindStep)

    def __init__(self, open_rewinder: OpenRewinder, point: tuple[int, int], name: str) -> None:
        super().__init__(daemon=True, name=name)
        self._open = open_rewinder
        self._to = RewindTo(offsets={0: point[0], 1: point[1]})
        self._changed = Condition()
        self._at = self._may = -1
        self.failure: BaseException | None = None
        self._has_ended = False

    def run(self) -> None:
        try:
            with self._open(self._wait_at) as rewinder:
                rewinder.rewind(self._to, self._confirm)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failure = error
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def go(self, place: int) -> None:
        """Go on until it has done this step, or has ended."""
        with self._changed:
            self._may = place
            self._changed.notify_all()
            if not self.is_alive() and not self._has_ended:
                self.start()
            found = self._changed.wait_for(lambda: self._at >= place or self._has_ended, PATIENCE_SECONDS)
        assert found, f"{self.name} was to come to {self.STEPS[place]}, and is at {self.STEPS[self._at]}"

    def take(self, move: Move) -> None:
        """Go on until the rewind has done what a line of the schedule says."""
        self.go(self.STEPS.index(move.step))

    def finish(self) -> None:
        """Let it go on, and wait until it has ended."""
        with self._changed:
            self._may = len(self.STEPS)
            self._changed.notify_all()
        if self.is_alive():
            self.join(PATIENCE_SECONDS)
        assert not self.is_alive(), f"{self.name} does not end"

    def _confirm(self, _: RewindLook) -> None:
        self._wait_at(REWINDS_TO)

    def _wait_at(self, step: str) -> None:
        with self._changed:
            self._at = self.STEPS.index(step)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._may > self._at, PATIENCE_SECONDS)
