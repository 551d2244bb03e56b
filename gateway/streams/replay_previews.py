"""Preparation of replay requests for the records of a problem: their selection, and a preview of the replay.

The registry sees the quarantine topic, but neither the ledger nor the table. A preview leaves out what only the job can
know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
from pyroaring import BitMap64

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.fix.model import Fix
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.evidence import read_original
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import ReplayAction, ReplayOrder, Untouched, digest_of_refusals, runs_of
from tidegate.contracts.stream.replay_preview import RefusedRecord, ReplayPreview, fix_for
from tidegate.gateway.access.principal import Principal, Role, require
from tidegate.gateway.registry.subject_scope import ENFORCED, topic_of_contract
from tidegate.gateway.storage.audit_chain import AuditedAction
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import ContractVersion, Stores
from tidegate.gateway.streams.quarantine import Origin, Part, QuarantinedRecord, QuarantineReader
from tidegate.gateway.streams.quarantine_index.closures import closed_offsets
from tidegate.gateway.streams.quarantine_index.columns import Integers, as_array
from tidegate.gateway.streams.quarantine_index.filters import Offsets, QuarantineFilter, StreamIndex
from tidegate.gateway.streams.quarantine_index.similarity import joined_problems

MOST_READ: Final = 10_000
"""Maximum records that a preview reads."""
MOST_BYTES: Final = 64 * 1024 * 1024
_AT_A_TIME: Final = 500
_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ProblemSelection:
    """The refused records of a problem that were open at one time, as positions in the quarantine topic.

    `ledger` is the one that refused the newest of them; None if it is unknown. A request is for its refusals only.
    """

    topic: str
    topic_id: str
    positions: Positions
    ledger: str | None = None

    @property
    def digest(self) -> str:
        """Return the digest of these positions, as in a request."""
        return digest_of_refusals(self.topic, self.positions)

    def order(self, fix: Fix | None, **options: Any) -> ReplayOrder:
        """Return a request for these records; `options` are its other fields."""
        return ReplayOrder(
            topic=self.topic,
            topic_id=self.topic_id,
            positions=runs_of(self.positions),
            records=len(self.positions),
            digest=self.digest,
            fix=None if fix is None else fix.text,
            fingerprint=None if fix is None else fix.fingerprint,
            ledger=self.ledger,
            **options,
        )


@dataclass(slots=True)
class ProblemPreview:
    """The registry's preview of a replay of the first `looked` records of a selection."""

    selection: ProblemSelection
    version: str
    preview: ReplayPreview = field(default_factory=ReplayPreview)
    looked: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether all records of the selection were read."""
        return self.looked >= len(self.selection.positions)


class ReplayPreviews:
    """A service that previews replays for one person, `by`.

    Methods raise NotFoundError, Forbidden and Unavailable.
    """

    def __init__(
        self,
        database: Database,
        reader: QuarantineReader,
        plan: Callable[[ContractVersion], EnforcementPlan],
        by: Principal,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._reader = reader
        self._plan = plan
        self._by = by
        self._now = now

    def select(self, stream: str, problem: str, before: dict[int, int] | None = None) -> ProblemSelection:
        """Return the open records of a problem; with `before`, only those below an offset of each partition.

        Raises ConflictError if none is left.
        """
        with self._database.reading() as stores:
            origin = Origin(stream, topic_of_contract(stores, stream))
            require(self._by, Role.APPROVER, subject_of(origin.topic))
            found = open_positions(stores, stream, problem)
        if before is not None:
            found = found.within({}, before)
        if not found:
            raise ConflictError("no refused record of this problem is left")
        topic_id = self._reader.topic_id(origin)
        if topic_id is None:
            raise NotFoundError(f"there is no topic {origin.quarantine_topic}")
        return ProblemSelection(origin.quarantine_topic, topic_id, found, self._ledger(origin, found))

    def preview(
        self,
        stream: str,
        selection: ProblemSelection,
        fix: Fix | None,
        *,
        action: ReplayAction = ReplayAction.REPLAY,
        accept_batches: bool = False,
    ) -> ProblemPreview:
        """Fix and judge the first records of a selection by the enforced contract; no record is changed.

        `accept_batches` means that records whose whole batch was refused are judged too. Records that were sent to the
        source topic before are left by `ReplayAction.TO_SOURCE`.
        The audit log records who tried which fix, because the number of passing records may disclose hidden values.
        Raises ConflictError for a fix that cannot apply to the contract's records, and if no version is enforced.
        """
        with self._database.reading() as stores:
            version = stores.contracts.highest(stream, ENFORCED)
            origin = Origin(stream, topic_of_contract(stores, stream))
        if version is None:
            raise ConflictError(f"no version of {stream} is enforced: nothing judges its records")
        plan = self._plan(version)
        compiled = None if fix is None else fix_for(fix, plan)
        if fix is not None:
            tried = AuditedAction(
                self._now(),
                self._by.name,
                "stream.replay-previewed",
                subject_of(origin.topic),
                None,
                fix.fingerprint,
            )
            self._database.write(lambda stores: stores.audit.append(tried))
        found = ProblemPreview(selection, version.version)
        deadline, size = time.monotonic() + _SECONDS, 0
        first = selection.positions.first(MOST_READ)
        for part in self._parts(origin, first):
            records = part.records
            own = [each for each in records if selection.ledger in {None, each.evidence.ledger}]
            found.preview.untouched[Untouched.FOREIGN] += len(records) - len(own)
            judgeable = _judgeable(own, found.preview, action, accept_batches=accept_batches)
            found.preview.add(judgeable, plan, compiled)
            found.preview.untouched[Untouched.MISSING] += part.looked_at - len(records)
            found.looked += part.looked_at
            size += sum(len(each.value or b"") for each in records)
            if size > MOST_BYTES or time.monotonic() > deadline:
                break
        found.preview.untouched = +found.preview.untouched
        return found

    def _parts(self, origin: Origin, places: Sequence[tuple[int, int]]) -> Iterator[Part]:
        for begin in range(0, len(places), _AT_A_TIME):
            yield from self._reader.parts(origin, places[begin : begin + _AT_A_TIME])

    def _ledger(self, origin: Origin, positions: Positions) -> str | None:
        """Return the ledger of the record that was judged last, by the last record of each partition.

        An archived table leaves refusals of its ledger, which no job has any more; they are older.
        """
        last = [(partition, bitmap.max()) for partition, bitmap in positions.bitmaps().items()]
        records = self._reader.records(origin, last)
        newest = max(records, key=lambda each: read_original(each.headers).judged_at or 0, default=None)
        return None if newest is None else newest.evidence.ledger


def _judgeable(
    records: list[QuarantinedRecord], preview: ReplayPreview, action: ReplayAction, *, accept_batches: bool
) -> Iterator[RefusedRecord]:
    for each in records:
        original = read_original(each.headers)
        if original.is_omitted:
            preview.untouched[Untouched.OMITTED] += 1
        elif each.evidence.refusal is not None and not accept_batches:
            preview.untouched[Untouched.BATCH] += 1
        elif action is ReplayAction.TO_SOURCE and original.was_sent_back:
            preview.untouched[Untouched.SENT_BACK] += 1
        else:
            kafka_ms = 0 if each.timestamp is None else int(each.timestamp.timestamp() * 1000)
            yield RefusedRecord.of(each.key, each.value, original, kafka_ms)


def open_positions(stores: Stores, stream: str, problem: str) -> Positions:
    """Return the positions of a problem's records that no replay or discard has closed."""
    index = StreamIndex(stores, stream, joined_problems)
    found = _positions(index.offsets(QuarantineFilter(problem=problem)))
    for closed in closed_offsets(stores, stream).values():
        found -= _positions(closed)
    return found


def _positions(offsets: Offsets) -> Positions:
    parts: dict[int, list[Integers]] = {}
    for (partition, chunk), low_bits in offsets.items():
        parts.setdefault(partition, []).append(as_array(low_bits, chunk))
    return Positions.of({partition: BitMap64(np.concatenate(found)) for partition, found in parts.items()})
