"""Refused requests: counted, logged, and audited if they would have changed or revealed something."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime

import structlog

from tidegate.contracts.errors import TidegateError
from tidegate.contracts.words import seen
from tidegate.gateway.access.limits import ADDRESS
from tidegate.gateway.storage.audit_chain import AuditedAction
from tidegate.gateway.storage.database import Database, Service

_WINDOW_SECONDS = 60.0
_MOST_NAMES = 1000
_OTHERS = "(others)"
_LONGEST_PATH = 200
_AUDIT_WINDOW_SECONDS = 3600.0
MOST_AUDITED = 50
"""Maximum number of (principal, operation) pairs that the audit log names per hour; further ones share an entry."""
_AUDITED = frozenset({401, 403})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_REVEALING = re.compile(r"/replays/[^/]+/request$")
"""Paths that are read and show hidden values: those of the fix of a replay."""
REFUSING = frozenset({401, 403, 421, 429})
"""Statuses of refused requests: unauthenticated, forbidden, wrong host name, and rate limit exceeded."""

_log = structlog.get_logger()


class _Window:
    """The counts of one time window, by requester and refused operation. At most `most` pairs are counted separately.

    Addresses get at most half of them, so requests without credentials cannot crowd out those of a principal.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._addresses = 0
        self.counts: Counter[tuple[str, str]] = Counter()

    def add(self, who: str, what: str, status: int) -> tuple[str, bool]:
        """Count one refusal. Return the name it is counted under, and whether it is the first under that name."""
        is_address = who.startswith(ADDRESS)  # a caller without credentials is named by its address
        if (who, what) not in self.counts:
            is_full = len(self.counts) >= self._most or (is_address and self._addresses >= self._most // 2)
            if is_full:
                who, what = f"{ADDRESS}{_OTHERS}" if is_address else _OTHERS, str(status)
            else:
                self._addresses += is_address
        self.counts[who, what] += 1
        return who, self.counts[who, what] == 1


class Denials:
    """The counter of refused requests of this process.

    The log gets one line a minute for each requester and status. Beyond 1,000 of these pairs, requesters share a line.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._totals: Counter[int] = Counter()
        self._seen = _Window(_MOST_NAMES)
        self._window_ends = 0.0

    @property
    def totals(self) -> Mapping[int, int]:
        """Return the number of refused requests since the start of the process, by status."""
        with self._lock:
            return dict(self._totals)

    def add(self, status: int, who: str, method: str, path: str) -> None:
        """Count one refusal. Log the first of each window, and the number of the others when the next one starts."""
        with self._lock:
            self._totals[status] += 1
            repeated = self._start_window()
            who, is_first = self._seen.add(who, str(status), status)
        if repeated:
            _log.warning("requests_refused_again", requests=repeated)
        if is_first:
            _log.warning("request_refused", status=status, who=_shown(who), method=method, path=_shown(path))

    def _start_window(self) -> int:
        """Start a window if the last one has ended; return how many of its refusals were not logged."""
        now = self._clock()
        if now < self._window_ends:
            return 0
        repeated = self._seen.counts.total() - len(self._seen.counts)
        self._seen = _Window(_MOST_NAMES)
        self._window_ends = now + _WINDOW_SECONDS
        return repeated


class DenialAudit(Service):
    """The audit of denied writes and reveals (401, 403, and 404 for a hidden subject).

    The first denial of a principal, status and method in an hour is written as `request.denied`. The others are
    written as one count, `request.denied-again`, at the first denial of the next window or when the process stops.
    Thus one process adds at most 2 * (MOST_AUDITED + 4) entries an hour, however many requests it refuses. The four are
    the entries that further requesters share: addresses for 401 and 403, principals for 403 and 404.
    """

    def __init__(
        self, database: Database, now: Callable[[], datetime], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(database, now)
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = _Window(MOST_AUDITED)
        self._window_ends = 0.0

    @staticmethod
    def covers(status: int, method: str, path: str, *, is_hidden: bool = False) -> bool:
        """Return whether a response is a denied write or reveal. `is_hidden`: its 404 hides a subject that exists."""
        is_reading = method in _READING and _REVEALING.search(path) is None
        return (is_hidden or status in _AUDITED) and not is_reading

    def add(self, status: int, who: str, method: str, path: str) -> None:
        """Count one denial, and write the entries that are due. If the database fails, log a warning instead."""
        with self._lock:
            changes = self._repeats() if self._clock() >= self._window_ends else []
            who, is_first = self._seen.add(_shown(who), f"{status} {_shown(method)}", status)
            if is_first:
                subject = f"{status} {_shown(method)} {_shown(path)}"
                changes.append(AuditedAction(self._now(), who, "request.denied", subject))
        self._write(changes)

    def flush(self) -> None:
        """Write the counts of repeated denials. Call this when the process stops."""
        with self._lock:
            changes = self._repeats()
        self._write(changes)

    def _repeats(self) -> list[AuditedAction]:
        """Start a window; return the entries with the counts of the previous one."""
        counts = [
            AuditedAction(self._now(), who, "request.denied-again", f"{operation}, {count - 1} times")
            for (who, operation), count in self._seen.counts.items()
            if count > 1
        ]
        self._seen = _Window(MOST_AUDITED)
        self._window_ends = self._clock() + _AUDIT_WINDOW_SECONDS
        return counts

    def _write(self, changes: list[AuditedAction]) -> None:
        if not changes:
            return
        try:
            with self._database.writing() as stores:
                for change in changes:
                    stores.audit.append(change)
        except TidegateError as error:
            _log.warning("denial_not_audited", entries=len(changes), error=str(error))


def _shown(text: str) -> str:
    """Return the first characters of untrusted text, with control characters made visible."""
    return seen(text[:_LONGEST_PATH])
