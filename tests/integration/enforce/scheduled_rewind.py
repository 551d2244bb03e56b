"""Threads that a schedule of the models moves step by step, and the rewind among them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Condition, Thread

from tests.model.schedules import REWINDS_TO, Move
from tidegate.contracts.errors import ConflictError, Fenced, StreamStopped
from tidegate.contracts.stream.ledger import Vector
from tidegate.spark_jobs.adopt.rewind import Rewinder, RewindLook, RewindStep, RewindTo

PATIENCE_SECONDS = 300.0
OpenRewinder = Callable[[Callable[[RewindStep], None]], AbstractContextManager[Rewinder]]
"""Opens what rewinds the stream of a line, and calls the function after each step."""
REFUSED = (ConflictError, Fenced, StreamStopped)
"""What a rewind ends with that another one, or an instance, has overtaken."""


Place = tuple[float, ...]
"""How far a thread has come; a later place is greater."""
EVERYWHERE: Place = (math.inf,)


class ScheduledThread(Thread):
    """A thread that goes on no further than it may."""

    def __init__(self, name: str, before: Place) -> None:
        super().__init__(daemon=True, name=name)
        self._changed = Condition()
        self._at = self._may = before
        self._has_ended = False
        self.failure: BaseException | None = None

    @abstractmethod
    def work(self) -> None:
        """Do what the schedule moves."""

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failure = error
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def go(self, place: Place) -> None:
        """Go on until it has come to this place, or has ended."""
        with self._changed:
            self._may = place
            self._changed.notify_all()
            if not self.is_alive() and not self._has_ended:
                self.start()
            found = self._changed.wait_for(lambda: self._at >= place or self._has_ended, PATIENCE_SECONDS)
        assert found, f"{self.name} was to come to {place}, and is at {self._at}"

    def finish(self) -> None:
        """Let it go on, and wait until it has ended."""
        self.go(EVERYWHERE)
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive(), f"{self.name} does not end"

    def _wait(self, at: Place) -> None:
        """Tell that it has come to this place, and wait until it may go on."""
        with self._changed:
            self._at = at
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._may > self._at, PATIENCE_SECONDS)


class ScheduledRewind(ScheduledThread):
    """A rewind whose places are the numbers of its steps."""

    STEPS: tuple[str, ...] = (REWINDS_TO, *RewindStep)

    def __init__(self, open_rewinder: OpenRewinder, point: tuple[int, int], name: str) -> None:
        super().__init__(name, (-1,))
        self._open = open_rewinder
        self.point = point
        self.quarantine_end: Vector = {}
        """The end of the quarantine topic when the rewind has committed; empty before."""

    def work(self) -> None:
        with self._open(self._wait_at) as rewinder:
            rewinder.rewind(RewindTo(offsets=dict(enumerate(self.point))), self._confirm)

    def take(self, move: Move) -> None:
        """Go on until the rewind has done what a line of the schedule says."""
        self.go((self.STEPS.index(move.step),))

    @property
    def has_committed(self) -> bool:
        """Whether it has deleted the rows and moved the ledger."""
        return self._at >= (self.STEPS.index(RewindStep.COMMIT),)

    def _confirm(self, _: RewindLook) -> None:
        self._wait_at(REWINDS_TO)

    def _wait_at(self, step: str) -> None:
        self._wait((self.STEPS.index(step),))
