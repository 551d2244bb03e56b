"""Sends alerts in the background, at most one of a kind about a stream in an interval.

Each target has a thread of its own, so that none waits for another.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Condition, Thread

import structlog

from tidegate.gateway.alerts.alert import Alert, AlertKind
from tidegate.gateway.alerts.channels import Target, TargetError

Key = tuple[str, AlertKind]


@dataclass(slots=True)
class _Turn:
    """When the last alert went, and the newest of those that came since."""

    sent_at: float
    waiting: Alert | None = None
    held_back: int = 0


class Holding:
    """Decides what is sent now. Instants are seconds of a clock that never goes back; not for two threads at a time."""

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._turns: dict[Key, _Turn] = {}

    def offer(self, alert: Alert, now: float) -> Alert | None:
        """Return the alert if it may go now; else it waits for its turn, and takes the place of one that waits already."""
        key = alert.stream, alert.kind
        turn = self._turns.get(key)
        if turn is None or (turn.waiting is None and now >= turn.sent_at + self._interval):
            self._turns[key] = _Turn(now)
            return alert
        if turn.waiting is not None:
            turn.held_back += 1
        turn.waiting = alert
        return None

    def due(self, now: float) -> list[Alert]:
        """Return the alerts whose turn has come, each with the number of those whose place it took."""
        found = []
        for key, turn in self._turns.items():
            if turn.waiting is not None and now >= turn.sent_at + self._interval:
                found.append(replace(turn.waiting, held_back=turn.held_back))
                self._turns[key] = _Turn(now)
        return found

    def next_turn(self) -> float | None:
        """Return the instant at which the next alert is due; None when none waits."""
        turns = [turn.sent_at for turn in self._turns.values() if turn.waiting is not None]
        return min(turns) + self._interval if turns else None


_log = structlog.get_logger()

_CAPACITY = 1_000
_RETRY_SECONDS = (2.0, 10.0)
_CLOSE_SECONDS = 5.0

Clock = Callable[[], float]


class TargetThread:
    """Sends to one target, begun with the first alert. `send` never blocks and never raises."""

    def __init__(self, target: Target, interval_seconds: float, clock: Clock = time.monotonic) -> None:
        self._target = target
        self._holding = Holding(interval_seconds)
        self._clock = clock
        self._waiting: deque[Alert] = deque(maxlen=_CAPACITY)
        self._changed = Condition()
        self._closing = False
        self._thread: Thread | None = None

    def send(self, alert: Alert) -> None:
        """Take an alert; the oldest gives way when the target takes none for too long."""
        with self._changed:
            if self._closing:
                return
            self._waiting.append(alert)
            if self._thread is None:
                self._thread = Thread(target=self._send_all, name=f"alerts-{self._target.name}", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Send what may go now, for a few seconds at most; what is held back goes with the process."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing, self._until_due())
                alert = self._waiting.popleft() if self._waiting else None
                if alert is None and self._closing:
                    return
            offered = None if alert is None else self._holding.offer(alert, self._clock())
            for each in ([] if offered is None else [offered]) + self._holding.due(self._clock()):
                self._deliver(each)

    def _until_due(self) -> float | None:
        turn = self._holding.next_turn()
        return None if turn is None else max(0.0, turn - self._clock())

    def _deliver(self, alert: Alert) -> None:
        """Send one alert, again if need be; one that cannot be sent is logged and given up."""
        for wait in (*_RETRY_SECONDS, None):
            try:
                self._target.send(alert)
            except TargetError as error:
                _log.warning("alert_not_sent", target=self._target.name, kind=alert.kind, error=str(error))
            except Exception as error:  # noqa: BLE001 - the thread must outlive whatever a target does
                _log.error(
                    "alert_not_sent", target=self._target.name, kind=alert.kind, error=type(error).__name__
                )
                return
            else:
                _log.info("alert_sent", target=self._target.name, kind=alert.kind, stream=alert.stream)
                return
            with self._changed:
                if wait is None or self._changed.wait_for(lambda: self._closing, wait):
                    return


class AlertSender:
    """Hands each alert to every target."""

    def __init__(
        self, targets: Sequence[Target], interval_seconds: float, clock: Clock = time.monotonic
    ) -> None:
        self._threads = [TargetThread(target, interval_seconds, clock) for target in targets]

    def send(self, alert: Alert | None) -> None:
        """Take an alert, or None for nothing. Returns at once, never raises."""
        if alert is not None:
            for thread in self._threads:
                thread.send(alert)

    def close(self) -> None:
        """Send what may go now, for a few seconds at most."""
        for thread in self._threads:
            thread.close()
