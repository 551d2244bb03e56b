"""Send alerts in the background, at most one per interval for each stream and kind.

Each target has its own thread, so a slow target does not delay the others.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Condition, Thread

import structlog

from tidegate.gateway.alerts.alert import Alert, AlertKind
from tidegate.gateway.alerts.channels import AlertTarget, TargetError

_log = structlog.get_logger()

_QUEUE_ALERTS = 1_000
_RETRY_SECONDS = (2.0, 10.0)
_CLOSE_SECONDS = 5.0
"""Maximum time for the queued alerts of all targets when the process ends."""

Key = tuple[str, AlertKind]
"""Stream and kind."""
Clock = Callable[[], float]


@dataclass(slots=True)
class _LastSent:
    """The last alert of a stream and kind.

    `sent_at` is in seconds of the caller's clock. `waiting` is the newest alert since then; `held_back` counts the
    alerts that it replaced.
    """

    sent_at: float
    waiting: Alert | None = None
    held_back: int = 0


class AlertThrottle:
    """A limit of one alert per interval for each stream and kind. The newest of the others waits for its turn.

    Times are seconds of a monotonic clock. Not thread-safe.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._last: dict[Key, _LastSent] = {}

    def offer(self, alert: Alert, now: float) -> Alert | None:
        """Return the alert if it may be sent now. Otherwise return None, and keep it instead of the waiting one."""
        key = alert.stream, alert.kind
        last = self._last.get(key)
        if last is None or (last.waiting is None and now >= last.sent_at + self._interval):
            self._last[key] = _LastSent(now)
            return alert
        if last.waiting is not None:
            last.held_back += 1
        last.waiting = alert
        return None

    def due(self, now: float) -> list[Alert]:
        """Return the waiting alerts that may be sent at `now`, each with the number of alerts that it replaced."""
        found = []
        for key, last in self._last.items():
            if last.waiting is not None and now >= last.sent_at + self._interval:
                found.append(replace(last.waiting, held_back=last.held_back))
                self._last[key] = _LastSent(now)
        return found

    def next_due(self) -> float | None:
        """Return the time at which the next waiting alert is due; None if no alert is waiting."""
        sent = [last.sent_at for last in self._last.values() if last.waiting is not None]
        return min(sent) + self._interval if sent else None


class TargetThread:
    """A thread that sends alerts to one target. It starts with the first alert."""

    def __init__(self, target: AlertTarget, interval_seconds: float, clock: Clock = time.monotonic) -> None:
        self._target = target
        self._throttle = AlertThrottle(interval_seconds)
        self._clock = clock
        self._waiting: deque[Alert] = deque(maxlen=_QUEUE_ALERTS)
        self._changed = Condition()
        self._closing = False
        self._thread: Thread | None = None

    def send(self, alert: Alert) -> None:
        """Queue an alert; never block or raise. If the queue is full, drop the oldest; after `close`, do nothing."""
        with self._changed:
            if self._closing:
                return
            self._waiting.append(alert)
            if self._thread is None:
                self._thread = Thread(target=self._send_all, name=f"alerts-{self._target.name}", daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """Make the thread end after the queued alerts and those that the throttle holds back."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait at most `seconds` until the thread has ended."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing, self._until_due())
                alert = self._waiting.popleft() if self._waiting else None
                is_last = alert is None and self._closing
            ready = [] if alert is None else [self._throttle.offer(alert, self._clock())]
            # When the registry ends, waiting alerts are sent early: no later run knows them.
            for each in (*ready, *self._throttle.due(math.inf if is_last else self._clock())):
                if each is not None:
                    self._deliver(each)
            if is_last:
                return

    def _until_due(self) -> float | None:
        due = self._throttle.next_due()
        return None if due is None else max(0.0, due - self._clock())

    def _deliver(self, alert: Alert) -> None:
        """Send one alert, with retries. If all fail, drop the alert; each failure is logged."""
        for wait in (*_RETRY_SECONDS, None):  # None: no retry
            try:
                self._target.send(alert)
            except TargetError as error:
                _log.warning("alert_not_sent", target=self._target.name, kind=alert.kind, error=str(error))
            except Exception as error:  # noqa: BLE001 - the thread must survive any error of a target
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
    """The sender of alerts: to every target, and to the channel that the alert names, if it is configured."""

    def __init__(
        self,
        targets: Sequence[AlertTarget],
        interval_seconds: float,
        clock: Clock = time.monotonic,
        channels: Mapping[str, AlertTarget] | None = None,
    ) -> None:
        self._threads = [TargetThread(target, interval_seconds, clock) for target in targets]
        self._channels = {
            name: TargetThread(target, interval_seconds, clock) for name, target in (channels or {}).items()
        }

    def send(self, alert: Alert | None) -> None:
        """Queue an alert; never block or raise. None is ignored."""
        if alert is None:
            return
        for thread in self._threads:
            thread.send(alert)
        if alert.channel in self._channels:
            self._channels[alert.channel].send(alert)

    def close(self) -> None:
        """Send the queued alerts, and wait at most 5 seconds for all targets together."""
        threads = (*self._threads, *self._channels.values())
        for thread in threads:
            thread.stop()
        end = time.monotonic() + _CLOSE_SECONDS
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
