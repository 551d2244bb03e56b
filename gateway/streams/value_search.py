"""Searches for a value among a stream's refused records: bounded background jobs with progress and cancellation."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Final
from uuid import uuid4

import structlog

from tidegate.contracts.crash import described
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import NotFoundError
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.access.limits import WorkSlots
from tidegate.gateway.access.principal import Principal, require
from tidegate.gateway.registry.subject_scope import subject_of_contract, topic_of_contract
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.value_searches import StoredSearch
from tidegate.gateway.streams.quarantine import NoBroker, Origin, QuarantinedRecord, QuarantineReader
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.positions import FrozenPositions
from tidegate.gateway.streams.quarantine_index.reading import QuarantineIndex
from tidegate.gateway.streams.reveals import REVEAL_ROLE

_log = structlog.get_logger()

MOST_RECORDS: Final = 2_000_000
"""Maximum records that one search reads."""
MOST_FOUND: Final = 1_000
MOST_AT_ONCE: Final = 2
"""Maximum searches that one process runs at the same time."""
_MOST_SECONDS = 15 * 60.0
_AT_ONCE = 500
_PATIENCE = timedelta(seconds=60)
_LOST_AFTER = timedelta(minutes=1)
_PAUSE_SECONDS = 0.02


class SearchState(StrEnum):
    """The state of a search. `full` has reached the maximum number of results, `bounded` the maximum work."""

    RUNNING = "running"
    DONE = "done"
    FULL = "full"
    BOUNDED = "bounded"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ValueSearch:
    """A search, without its value. `positions` are `partition/offset`, `total` counts the records of its filter."""

    id: str
    by: str
    at: datetime
    state: SearchState
    looked_at: int
    total: int
    positions: tuple[str, ...]


class ValueSearches:
    """The searches of one process.

    A search shows whether a value exists, so it needs the role that may reveal values.
    """

    def __init__(
        self, database: Database, kafka: KafkaConnection | None, now: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._kafka = kafka
        self._now = now
        self._places = WorkSlots(MOST_AT_ONCE, "searches")
        self._closing = threading.Event()

    def begin(self, stream: str, value: str, wanted: QuarantineFilter, by: Principal) -> ValueSearch:
        """Start a search for the records of a filter whose key or value contains a text.

        The audit log records who searches which records, but not the value. Raises NotFoundError, Forbidden,
        Unavailable, and TooManyRequests if a search of this person, or MOST_AT_ONCE searches, are running.
        """
        if self._kafka is None:
            raise NoBroker
        positions = QuarantineIndex(self._database, self._now).positions(stream, wanted)
        self._places.take(by)
        try:
            at = self._now()
            search = StoredSearch(
                str(uuid4()), stream, by.name, at, SearchState.RUNNING.value, 0, positions.records, "[]", is_cancelled=False, heard_at=at
            )  # fmt: skip
            with self._database.writing() as stores:
                topic = topic_of_contract(stores, stream)
                subject = subject_of(topic)
                require(by, REVEAL_ROLE, subject)
                stores.value_searches.add(search)
                what = content_hash(json.loads(json.dumps(asdict(wanted), default=str)))
                stores.audit.append(
                    AuditedAction(at, by.name, "quarantine.searched", f"{subject}#{search.id}", None, what)
                )
        except BaseException:
            self._places.leave(by)
            raise
        run = threading.Thread(
            target=self._run,
            args=(search, Origin(stream, topic), self._kafka, value, positions, by),
            name="value-search",
            daemon=True,
        )
        run.start()
        return _shown(search, at)

    def all(self, stream: str) -> tuple[ValueSearch, ...]:
        """List the stored searches of a stream, newest first."""
        with self._database.reading() as stores:
            return tuple(_shown(each, self._now()) for each in stores.value_searches.all(stream))

    def get(self, stream: str, search_id: str) -> ValueSearch:
        """Return one search. Raises NotFoundError."""
        with self._database.reading() as stores:
            found = stores.value_searches.find(stream, search_id)
        if found is None:
            raise NotFoundError(f"{stream} has no search {search_id[:64]}; the newest are kept")
        return _shown(found, self._now())

    def cancel(self, stream: str, search_id: str, by: Principal) -> ValueSearch:
        """Cancel a search of any process; the audit log records who did. Raises NotFoundError and Forbidden."""
        found = self.get(stream, search_id)
        if found.state is SearchState.RUNNING:
            with self._database.writing() as stores:
                subject = subject_of_contract(stores, stream)
                require(by, REVEAL_ROLE, subject)
                stores.value_searches.update(search_id, is_cancelled=True)
                change = AuditedAction(
                    self._now(), by.name, "quarantine.search-cancelled", f"{subject}#{search_id}"
                )
                stores.audit.append(change)
        return found

    def close(self) -> None:
        """Cancel the searches of this process."""
        self._closing.set()

    def _run(
        self,
        search: StoredSearch,
        origin: Origin,
        kafka: KafkaConnection,
        value: str,
        positions: FrozenPositions,
        by: Principal,
    ) -> None:
        reader = QuarantineReader(kafka)
        try:
            self._search(search, origin, reader, _needles(value), positions)
        except Exception as error:  # noqa: BLE001 - the state must say that the search has ended
            _log.warning("value_search_failed", stream=search.stream, error=described(error))
            with self._database.writing() as stores:  # what it has found until now stays
                stores.value_searches.update(search.id, state=SearchState.FAILED.value, heard_at=self._now())
        finally:
            reader.close()
            self._places.leave(by)

    def _search(
        self,
        search: StoredSearch,
        origin: Origin,
        reader: QuarantineReader,
        needles: tuple[bytes, ...],
        positions: FrozenPositions,
    ) -> None:
        found: list[str] = []
        deadline = time.monotonic() + _MOST_SECONDS
        state = SearchState.DONE
        looked_at = 0
        places = positions.places()
        while part := tuple(islice(places, _AT_ONCE)):
            if looked_at >= MOST_RECORDS or time.monotonic() > deadline:
                state = SearchState.BOUNDED
                break
            hits = (each for each in reader.records(origin, part, _PATIENCE) if _holds(each, needles))
            found += [f"{each.pointer.partition}/{each.pointer.offset}" for each in hits]
            looked_at += len(part)
            if len(found) >= MOST_FOUND:
                state = SearchState.FULL
                break
            if self._keep(search, SearchState.RUNNING, looked_at, found) or self._closing.wait(
                _PAUSE_SECONDS
            ):
                state = SearchState.CANCELLED
                break
        self._keep(search, state, looked_at, found[:MOST_FOUND])

    def _keep(self, search: StoredSearch, state: SearchState, looked_at: int, found: list[str]) -> bool:
        """Store the progress; return whether the search was cancelled."""
        with self._database.writing() as stores:
            kept = stores.value_searches.find(search.stream, search.id)
            changes = {"state": state.value, "looked_at": looked_at, "positions": json.dumps(found)}
            stores.value_searches.update(search.id, **changes, heard_at=self._now())
        return kept is None or kept.is_cancelled


def _needles(value: str) -> tuple[bytes, ...]:
    """Return the forms of a text in a record: as it is, and as JSON writes it with and without escapes."""
    forms = (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    return tuple(dict.fromkeys(form.encode("utf-8", "surrogatepass") for form in forms))


def _holds(record: QuarantinedRecord, needles: tuple[bytes, ...]) -> bool:
    return any(
        needle in part for part in (record.key, record.value) if part is not None for needle in needles
    )


def _shown(search: StoredSearch, now: datetime) -> ValueSearch:
    state = SearchState(search.state)
    if state is SearchState.RUNNING and now - search.heard_at > _LOST_AFTER:
        state = SearchState.FAILED  # its process has ended
    return ValueSearch(
        search.id,
        search.by,
        search.at,
        state,
        search.looked_at,
        search.total,
        tuple(json.loads(search.positions)),
    )
