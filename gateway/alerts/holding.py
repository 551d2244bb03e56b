"""How often people are told: once in an interval of one kind about one stream, with a count of what was held back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.gateway.alerts.alert import Alert, AlertKind

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
