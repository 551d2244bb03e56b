"""Look-up of refused records by the index, masked for their reader."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.privacy.classes import classes_of
from tidegate.gateway.access.principal import Principal, require
from tidegate.gateway.registry.subject_scope import enforced_contract, topic_of_contract
from tidegate.gateway.storage.database import Database
from tidegate.gateway.streams.quarantine import Origin, QuarantineReader
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.reading import (
    MOST_FOUND,
    ArrivalPlace,
    PlacePage,
    QuarantineIndex,
)
from tidegate.gateway.streams.quarantine_records import (
    MOST_VALUE_BYTES,
    MaskedRecord,
    RecordMasking,
)
from tidegate.gateway.streams.reveals import REVEAL_ROLE

_PATIENCE = timedelta(seconds=20)
"""Maximum time to read the candidates for a key, which may be far apart in the topic."""

Positions = tuple[tuple[int, int], ...]
"""Partition and offset in the quarantine topic."""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Some records, newest first, without those that are no longer in the topic."""

    records: tuple[MaskedRecord, ...]
    page: PlacePage


@dataclass(frozen=True, slots=True)
class FoundPositions:
    """The positions of the found records; not all of them if `is_complete` is False."""

    positions: Positions
    is_complete: bool


class RecordSearch:
    """A search of refused records for one reader, `by`; `key_reader` reads the candidates for a key.

    Methods raise NotFoundError for an unknown stream, and Unavailable.
    """

    def __init__(
        self,
        index: QuarantineIndex,
        reader: QuarantineReader,
        key_reader: QuarantineReader,
        masking: RecordMasking,
        database: Database,
        by: Principal,
    ) -> None:
        self._index = index
        self._reader = reader
        self._key_reader = key_reader
        self._masking = masking
        self._database = database
        self._by = by

    def page(
        self,
        stream: str,
        wanted: QuarantineFilter,
        limit: int,
        borders: tuple[ArrivalPlace | None, ArrivalPlace | None] = (None, None),
    ) -> RecordPage:
        """Return at most `limit` records of a filter, newest first.

        These are the newest ones, those older than the first border, or those newer than the second border.
        """
        older_than, newer_than = borders
        page = self._index.page(stream, wanted, limit, after=older_than, before=newer_than)
        places = tuple((each.partition, each.offset) for each in page.places)
        if not places:
            return RecordPage((), page)
        records = self._reader.records(self._origin(stream), places)
        return RecordPage(tuple(self._masking.in_order(records, places)), page)

    def one(
        self, stream: str, partition: int, offset: int, most_bytes: int = MOST_VALUE_BYTES
    ) -> MaskedRecord:
        """Return one record. Raises NotFoundError if the position has no refused record of the stream."""
        return self._masking.masked(self._reader.record(self._origin(stream), partition, offset), most_bytes)

    def by_source(self, stream: str, partition: int, offset: int) -> FoundPositions:
        """Find the refused records from a position of the source topic."""
        return FoundPositions(self._index.by_source(stream, partition, offset), is_complete=True)

    def by_key(self, stream: str, key: bytes) -> FoundPositions:
        """Find the refused records with a key. Raises Forbidden if keys are hidden, and the reader may not reveal."""
        origin = self._origin(stream)
        if self._hides_keys(stream):
            require(self._by, REVEAL_ROLE, subject_of(origin.topic))
        candidates = self._index.by_key(stream, key)
        found = {
            (each.pointer.partition, each.pointer.offset)
            for each in self._key_reader.records(origin, candidates, _PATIENCE)
            if each.key == key
        }
        positions = tuple(each for each in candidates if each in found)
        return FoundPositions(positions, len(candidates) < MOST_FOUND)

    def _origin(self, stream: str) -> Origin:
        return Origin(stream, self._database.read(lambda stores: topic_of_contract(stores, stream)))

    def _hides_keys(self, stream: str) -> bool:
        enforced = self._database.read(lambda stores: enforced_contract(stores, stream))
        return enforced is None or bool(classes_of(enforced))
