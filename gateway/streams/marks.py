"""Marks on a stream's time axis: newly enforced versions, pauses and rewinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.contracts.document.terms import subject_of
from tidegate.gateway.registry.subject_scope import ENFORCED
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import Stores

_MOST_DECISIONS = 500
_PAUSES = ("stream.paused", "stream.tripped")
_RESUMES = ("stream.resumed", "stream.resumed-accepting-batch")


class Happening(StrEnum):
    """The kinds of marks on the time axis."""

    VERSION = "version"
    PAUSE = "pause"
    REWIND = "rewind"


@dataclass(frozen=True, slots=True)
class Happened:
    """One mark, at `at`, or for a pause from `at` to `until` (None: it has not ended).

    `what` is the version, or the name of the principal that paused or rewound the stream.
    """

    kind: Happening
    at: datetime
    until: datetime | None
    what: str

    @property
    def end(self) -> datetime:
        """Return the end; for a mark without one, its time."""
        return self.until or self.at

    @property
    def is_open(self) -> bool:
        """Return whether it is a pause that has not ended."""
        return self.kind is Happening.PAUSE and self.until is None


class StreamHistory:
    """A reader of the marks of streams."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def between(self, stream: str, since: datetime, until: datetime) -> tuple[Happened, ...]:
        """List the marks of a stream in [since, until), oldest first; () for a stream without a contract."""
        with self._database.reading() as stores:
            topic = stores.contracts.topic_of(stream)
            if topic is None:
                return ()
            found = [
                *_versions(stores, stream),
                *_pauses(stores, subject_of(topic), stream, since),
                *_rewinds(stores, stream),
            ]
        inside = (each for each in found if each.at < until and (each.is_open or each.end >= since))
        return tuple(sorted(inside, key=lambda each: each.at))

    def versions(self, stream: str) -> tuple[Happened, ...]:
        """List when versions of a stream became enforced, oldest first."""
        found = self._database.read(lambda stores: tuple(_versions(stores, stream)))
        return tuple(sorted(found, key=lambda each: each.at))


def _versions(stores: Stores, stream: str) -> Iterator[Happened]:
    """Yield a mark each time that a version became enforced."""
    for version in stores.contracts.versions(stream, deleted=True):
        was_enforced = False
        for change in stores.lifecycle.changes(version.registry_id):
            is_enforced = change.status in ENFORCED and not change.is_deleted
            if is_enforced and not was_enforced:
                yield Happened(Happening.VERSION, change.at, None, version.version)
            was_enforced = is_enforced


def _pauses(stores: Stores, subject: str, stream: str, since: datetime) -> Iterator[Happened]:
    """Yield the pauses in the audit log; one that began before `since` begins at `since`."""
    actions = (*_PAUSES, *_RESUMES)
    newest_first = stores.audit.of_subject_since(subject, since, actions, _MOST_DECISIONS)
    paused_at, by = None, ""
    for entry in reversed(newest_first):
        # A pause after a trip replaces it, because that trip stopped the job and paused nothing.
        if entry.action in _PAUSES:
            paused_at, by = entry.at, entry.who
        else:
            yield Happened(Happening.PAUSE, paused_at or since, entry.at, by or entry.who)
            paused_at, by = None, ""
    control = stores.controls.find(stream)
    if control.is_paused and control.at is not None:
        yield Happened(Happening.PAUSE, max(control.at, since), None, control.by or by)


def _rewinds(stores: Stores, stream: str) -> Iterator[Happened]:
    for kept in stores.adoptions.all(stream):
        if kept.adoption.kind == "rewind":
            yield Happened(Happening.REWIND, kept.at, None, kept.by)
