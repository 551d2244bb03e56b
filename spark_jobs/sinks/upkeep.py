"""Maintenance of a table in the background, while batches are written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread
from typing import Final, Protocol, TypeVar

import structlog

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.report import TableMaintenance, TableSize
from tidegate.spark_jobs.sinks.maintenance import Compacted, Expired, Orphans
from tidegate.spark_jobs.sinks.store import MANY_SNAPSHOTS

log = structlog.get_logger()

T = TypeVar("T")

_JOIN_SECONDS = 5.0
_ONE_AT_A_TIME: Final = Lock()
"""Streams of a job compact one after another: each compaction needs a core, and the memory of a file."""


class MaintainedTable(Protocol):
    """The maintenance methods of `LedgerStore`."""

    name: str

    def maintain(self, *, beyond: int = 0) -> Expired | None:
        """Expire old state of a table with more than `beyond` snapshots. Raises Unavailable."""
        ...

    def compact(self) -> Compacted | None:
        """Merge a bounded number of small files. Raises Unavailable."""
        ...

    def remove_orphans(self) -> Orphans | None:
        """Remove the files of crashed attempts. Raises Unavailable."""
        ...


class Upkeep:
    """The periodic maintenance of a table, every `seconds` in its own thread. Failures are logged as warnings.

    Orphans are searched in the first round, and again each time `orphan_seconds` have passed.
    """

    def __init__(self, store: MaintainedTable, seconds: float, orphan_seconds: float = 24 * 3600.0) -> None:
        self.size: TableSize | None = None
        self.done: TableMaintenance | None = None
        self.error: Unavailable | None = None
        """The last failure of the newest round; None if it had none."""
        self._store = store
        self._seconds = seconds
        self._orphan_seconds = orphan_seconds
        self._orphans_due = time.monotonic()
        self._ended = Event()
        self._thread: Thread | None = None

    def relieve(self) -> None:
        """Expire a backlog of snapshots before the claim, because it makes each step of the claim slow and costly."""
        self._attempt(lambda: self._expire(beyond=MANY_SNAPSHOTS))

    def start(self) -> None:
        """Start the thread; the first round begins immediately."""
        self._thread = Thread(target=self._keep_going, name=f"upkeep-{self._store.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the current round."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def run(self) -> TableMaintenance:
        """Run one round now: expiry, compaction, orphans. Return the totals since the first round.

        `seconds` of the result are those of this round.
        """
        begun = time.monotonic()
        self.error, done = None, self.done or TableMaintenance()
        changes: dict[str, float] = {}
        for part in (self._expire, self._compact, self._remove_orphans):
            if not self._ended.is_set():
                found = self._attempt(part)
                changes |= {"failures": changes.get("failures", 0) + 1} if found is None else found
        counts = {name: getattr(done, name) + value for name, value in changes.items()}
        self.done = done.model_copy(update={**counts, "seconds": round(time.monotonic() - begun, 3)})
        return self.done

    def _keep_going(self) -> None:
        while not self._ended.is_set():
            self.run()
            self._ended.wait(self._seconds)

    def _expire(self, beyond: int = 0) -> dict[str, float]:
        found = self._store.maintain(beyond=beyond)
        self.size = found.size if found is not None else None
        return {"snapshots_expired": found.snapshots} if found is not None else {}

    def _compact(self) -> dict[str, float]:
        found = self._exclusively(self._store.compact)
        if found is None:
            return {}
        return {
            "files_compacted": found.files,
            "bytes_compacted": found.bytes,
            "manifests_rewritten": found.manifests,
        }

    def _remove_orphans(self) -> dict[str, float]:
        if time.monotonic() < self._orphans_due:
            return {}
        found = self._exclusively(self._store.remove_orphans)
        if found is None:  # disabled or postponed
            return {}
        self._orphans_due = time.monotonic() + self._orphan_seconds
        return {
            "orphans_removed": found.files,
            "orphan_bytes": found.bytes,
            "replaced_removed": found.replaced_files,
            "replaced_bytes": found.replaced_bytes,
        }

    def _exclusively(self, work: Callable[[], T | None]) -> T | None:
        """Run `work` exclusively among the job's streams; return None if that takes longer than a pause to start."""
        if not _ONE_AT_A_TIME.acquire(timeout=self._seconds):
            log.info("maintenance_put_off", table=self._store.name)
            return None
        try:
            return work()
        finally:
            _ONE_AT_A_TIME.release()

    def _attempt(self, part: Callable[[], dict[str, float]]) -> dict[str, float] | None:
        """Run a part of a round; return its counts, or None if it has failed."""
        try:
            return part()
        # Nothing is logged at the end: the session of a job that ends is stopped during a long round.
        except Unavailable as error:
            self.error = error
            if not self._ended.is_set():
                log.warning("table_not_maintained", table=self._store.name, error=str(error))
        except Exception as error:
            self.error = Unavailable(f"{self._store.name}: {type(error).__name__}")
            if not self._ended.is_set():
                log.warning(
                    "table_not_maintained", table=self._store.name, error=type(error).__name__, exc_info=error
                )
        return None


def maintenance_of(upkeeps: Iterable[Upkeep]) -> TableMaintenance | None:
    """Return the sums of the maintenance of several tables; None before the first round of any."""
    done = [each.done for each in upkeeps if each.done is not None]
    if not done:
        return None
    sums = {name: sum(getattr(each, name) for each in done) for name in TableMaintenance.model_fields}
    return TableMaintenance.model_validate(sums)
