"""Requests that were refused: counted, and logged at most once a minute for each who asks."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

_WINDOW_SECONDS = 60.0
_MOST_NAMES = 1000
_OTHERS = "(others)"
_LONGEST_PATH = 200
REFUSING = frozenset({401, 403, 421, 429})
"""Statuses that say who may not ask, or not this, or not now."""

_log = structlog.get_logger()


class Denials:
    """Counts refused requests of this process. The log has one line a minute for each name and status, at most 1,000."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._totals: Counter[int] = Counter()
        self._seen: Counter[tuple[str, int]] = Counter()
        self._window_ends = 0.0

    @property
    def totals(self) -> Mapping[int, int]:
        """Refused requests since the start, by status."""
        with self._lock:
            return dict(self._totals)

    def add(self, status: int, who: str, method: str, path: str) -> None:
        """Count one refusal; log the first of a window, and at the next window how many followed."""
        with self._lock:
            self._totals[status] += 1
            repeated = self._start_window()
            if (who, status) not in self._seen and len(self._seen) >= _MOST_NAMES:
                who = _OTHERS
            self._seen[who, status] += 1
            is_first = self._seen[who, status] == 1
        if repeated:
            _log.warning("requests_refused_again", requests=repeated)
        if is_first:
            shown = ascii(path[:_LONGEST_PATH])[1:-1]
            _log.warning("request_refused", status=status, who=who, method=method, path=shown)

    def _start_window(self) -> int:
        """Forget the names of a window that has ended; return how many of its refusals were not logged."""
        now = self._clock()
        if now < self._window_ends:
            return 0
        repeated = self._seen.total() - len(self._seen)
        self._seen.clear()
        self._window_ends = now + _WINDOW_SECONDS
        return repeated
