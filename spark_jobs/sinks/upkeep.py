"""Maintenance of a table in the background, while batches are written."""

from __future__ import annotations

from threading import Event, Thread

import structlog

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.report import TableSize
from tidegate.spark_jobs.sinks.store import MANY_SNAPSHOTS, LedgerStore

log = structlog.get_logger()

_JOIN_SECONDS = 5.0


class Upkeep:
    """Has a store maintain its table every few seconds, in a thread of its own. A failure is a warning."""

    def __init__(self, store: LedgerStore, seconds: float) -> None:
        self.size: TableSize | None = None
        self._store = store
        self._seconds = seconds
        self._ended = Event()
        self._thread: Thread | None = None

    def relieve(self) -> None:
        """Expire a backlog before the table is claimed: each step of a claim would take seconds and much memory."""
        self._maintain(beyond=MANY_SNAPSHOTS)

    def start(self) -> None:
        """Begin with the first round now."""
        self._thread = Thread(target=self._keep_going, name=f"upkeep-{self._store.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let no other round begin; one that is under way is left to end."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _keep_going(self) -> None:
        while not self._ended.is_set():
            self._maintain()
            self._ended.wait(self._seconds)

    def _maintain(self, beyond: int = 0) -> None:
        try:
            self.size = self._store.maintain(beyond=beyond)
        except Unavailable as error:
            log.warning("table_not_maintained", table=self._store.name, error=str(error))
        except Exception as error:  # noqa: BLE001 - maintenance must never end a stream
            log.warning("table_not_maintained", table=self._store.name, error=type(error).__name__)
