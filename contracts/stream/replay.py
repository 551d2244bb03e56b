"""Replays of refused records: requests, which records of a request may be written, and what is told about them.

A record is still identified by its source position. A replay changes its fate from quarantined to written, once, in
the commit that writes its row. Pure values and arithmetic; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Final, Self
from uuid import UUID

import numpy as np
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pyroaring import BitMap64

from tidegate.contracts.stream.bounds import MOST_RULES, Instant, LedgerText, StreamText, TopicText
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.counts import CodeText, Count, RuleCount
from tidegate.contracts.stream.evidence import Evidence
from tidegate.contracts.stream.ledger import Ledger, Position, Vector
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk
from tidegate.contracts.stream.versions import MESSAGE

MOST_RECORDS: Final = 10_000_000
"""Maximum number of refusals in one request."""
MOST_RUNS: Final = 1_000_000
"""Maximum number of runs of adjacent positions that are read from a file or a report."""
MOST_REQUEST_RUNS: Final = 250_000
"""Maximum number of runs in one request: the registry holds about 250 bytes for each while it checks them."""
MOST_FIX: Final = 256 * 1024
MOST_REQUEST_BYTES: Final = 42 * MOST_REQUEST_RUNS + 4 * MOST_FIX + 1024 * 1024
"""Largest request as JSON: a run has two offsets of up to 19 digits and brackets; a character takes up to 4 bytes."""

_MOST_PARTITIONS: Final = 10_000
FEWER_RECORDS: Final = (
    "request fewer records at a time: those of one partition with --where partition=0, or a part of their positions "
    "with --positions FILE"
)
"""What to do about a request that is too large."""
Run = tuple[Count, Count]
"""First and last offset, both inclusive, of adjacent positions in one partition."""
_Partition = Annotated[int, Field(ge=0, lt=2**31)]
_Places = Annotated[
    Mapping[_Partition, Annotated[tuple[Run, ...], Field(max_length=MOST_RUNS)]],
    Field(max_length=_MOST_PARTITIONS),
]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def digest_of_refusals(topic: str, positions: Positions) -> str:
    """Return the digest of positions in a quarantine topic: SHA-256 in hexadecimal.

    The input is the topic's name and a zero byte, and then each partition in ascending order. A partition is its
    number (4 bytes), the number of its offsets and the offsets in ascending order (8 bytes each). Numbers are
    big-endian.
    """
    hashed = sha256(topic.encode() + b"\0")
    for partition, bitmap in sorted(positions.bitmaps().items()):
        hashed.update(partition.to_bytes(4, "big") + len(bitmap).to_bytes(8, "big"))
        hashed.update(np.fromiter(bitmap, np.uint64, len(bitmap)).astype(">u8").tobytes())
    return hashed.hexdigest()


def runs_of(positions: Positions) -> dict[int, tuple[Run, ...]]:
    """Return positions as runs of adjacent offsets, in ascending order, by partition."""
    return {p: tuple(_runs(bitmap)) for p, bitmap in sorted(positions.bitmaps().items())}


def _runs(bitmap: BitMap64) -> Iterator[Run]:
    offsets = np.fromiter(bitmap, np.uint64, len(bitmap))
    is_gap = np.diff(offsets) != 1
    firsts, lasts = np.r_[True, is_gap][: len(offsets)], np.r_[is_gap, True][: len(offsets)]
    return zip(offsets[firsts].tolist(), offsets[lasts].tolist(), strict=True)


def positions_of(runs: Mapping[int, tuple[Run, ...]]) -> Positions:
    """Return the positions of runs. Raises ValueError for runs that overlap, are out of order, or are too many."""
    found: dict[int, BitMap64] = {}
    count = total = 0
    for partition, each in runs.items():
        bitmap, end = BitMap64(), 0
        for first, last in each:
            if last < first or first < end:
                raise ValueError("runs are in ascending order, and do not overlap")
            end, count, total = last + 1, count + 1, total + last + 1 - first
            if count > MOST_RUNS or total > MOST_RECORDS:
                raise ValueError(f"a request has {MOST_RECORDS:,} positions in {MOST_RUNS:,} runs at most")
            bitmap.add_range(first, end)
        found[partition] = bitmap
    return Positions.of(found)


class ReplayAction(StrEnum):
    """The action of a request on its refused records."""

    REPLAY = "replay"
    """Judge them again, and write those that pass."""
    DISCARD = "discard"
    """Close them: their loss is accepted."""
    TO_SOURCE = "to-source"
    """Judge them again, and send those that pass to the source topic."""

    @property
    def closure(self) -> Closure | None:
        """Return how the action closes records that stay in quarantine; None for a replay, which writes them."""
        return _CLOSURES.get(self)


_CLOSURES: Final = {
    ReplayAction.DISCARD: Closure.DISCARDED,
    ReplayAction.TO_SOURCE: Closure.RESENT,
}

LONGEST_REASON: Final = 500
"""Maximum characters of the reason of a discard."""


def _not_blank(reason: str) -> str:
    if not reason.strip():
        raise ValueError("it is blank: say why the records are discarded")
    return reason


Reason = Annotated[str, Field(min_length=1, max_length=LONGEST_REASON), AfterValidator(_not_blank)]


@dataclass(frozen=True, slots=True)
class ReplayTerms:
    """The terms of a request: which of its refusals are left untouched, and how the sink may take the others."""

    action: ReplayAction = ReplayAction.REPLAY
    append_late: bool = False
    accept_batches: bool = False

    @property
    def writes_rows(self) -> bool:
        """Return whether records that pass are written to the sink."""
        return self.action is ReplayAction.REPLAY


class ReplayOrder(BaseModel):
    """A request to replay a fixed set of refused records. Records that arrive later are not in it.

    `positions` are places in the quarantine topic, as `runs_of` returns them. The enforced contract judges the
    records, each with the time at which it was judged first. A discard judges nothing, and has a `reason`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    topic: TopicText = Field(description="The quarantine topic.")
    topic_id: Annotated[str, Field(max_length=100)] = Field(
        description="Id of that topic: another one of this name has other records at these offsets."
    )
    positions: dict[_Partition, Annotated[tuple[Run, ...], Field(min_length=1)]] = Field(
        max_length=_MOST_PARTITIONS, description="Runs of offsets by partition, both ends inclusive."
    )
    records: Annotated[int, Field(ge=1, le=MOST_RECORDS)]
    digest: _Digest = Field(description="Digest of topic and positions.")
    action: ReplayAction = Field(
        default=ReplayAction.REPLAY,
        description="Write the records that pass, send them to the source topic, or discard all.",
    )
    reason: Reason | None = Field(
        default=None, description="Why the records are discarded; a discard has one. Holds no payload value."
    )
    fix: Annotated[str, Field(max_length=MOST_FIX)] | None = Field(
        default=None, description="The fix as canonical JSON; null replays the records as they are."
    )
    fingerprint: _Digest | None = Field(default=None, description="Fingerprint of the fix.")
    append_late: bool = Field(
        default=False,
        description="Write records with a key to an accepted topic, behind newer ones of their key.",
    )
    accept_batches: bool = Field(
        default=False,
        description="Write valid records whose whole batch was refused; otherwise they are left.",
    )
    allowed: float = Field(
        default=0.2, ge=0, le=1, description="Share of records that may fail again before the replay stops."
    )
    rate: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        default=None, description="Most records a second; null for no limit."
    )
    ledger: LedgerText | None = Field(
        default=None,
        description="The ledger that refused the records: only its job processes the request; null for any job of the stream.",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.fix is None) != (self.fingerprint is None):
            raise ValueError("a fix comes with its fingerprint")
        if (self.action is ReplayAction.DISCARD) != (self.reason is not None):
            raise ValueError("a discard has a reason, and a replay has none")
        if self.action is ReplayAction.DISCARD and self.fix is not None:
            raise ValueError("discarded records are not fixed")
        return self

    @property
    def terms(self) -> ReplayTerms:
        """Return the terms, which decide which refusals are left untouched."""
        return ReplayTerms(self.action, self.append_late, self.accept_batches)

    def refusals(self) -> Positions:
        """Return the positions.

        Raises ValueError for too many runs, and for positions whose number or digest differs from the request's.
        """
        runs = sum(map(len, self.positions.values()))
        if runs > MOST_REQUEST_RUNS:
            raise ValueError(
                f"its records are in {runs:,} runs of neighbouring positions, and a request has {MOST_REQUEST_RUNS:,} at most; "
                f"{FEWER_RECORDS}"
            )
        found = positions_of(self.positions)
        if len(found) != self.records or digest_of_refusals(self.topic, found) != self.digest:
            raise ValueError("the positions do not have the digest of the request")
        return found


class ReplayRequest(ReplayOrder):
    """A replay that the registry has given an id."""

    model_config = MESSAGE

    id: UUID
    stream: StreamText

    @property
    def mark(self) -> str:
        """Return the id in the form that the ledger and the headers use: 32 hexadecimal digits."""
        return self.id.hex

    def begun(self, held: Ledger) -> ReplayProgress:
        """Return the progress of the request in `held`; a request that the ledger does not name has not begun."""
        if held.replay is not None and held.replay.request == self.mark:
            return held.replay
        return ReplayProgress(request=self.mark, digest=self.digest, records=self.records)


class Untouched(StrEnum):
    """The reason why a refusal of a request is left as it is, and not judged."""

    MISSING = "missing"
    """The topic holds no record there: retention or an erasure has deleted it."""
    FOREIGN = "foreign"
    """It is not a refusal of this ledger."""
    OVERRULED = "overruled"
    """The stream was rewound, and the record has been judged again."""
    AHEAD = "ahead"
    """Its batch was never published, so the ledger does not count it yet."""
    REPLAYED = "replayed"
    """An earlier replay has written it."""
    DISCARDED = "discarded"
    """It was discarded."""
    RESENT = "resent"
    """It was already sent to the source topic."""
    SENT_BACK = "sent-back"
    """It came to the source topic from the quarantine topic, and is never sent there again."""
    UNORDERED = "unordered"
    """It is older than the oldest mark of deleted keys, so it is unknown whether its key was deleted later."""
    OMITTED = "omitted"
    """It was set aside without its bytes."""
    BATCH = "batch"
    """Its whole batch was refused, and the request does not accept such records."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Source positions of closed refusals: written by replays, discarded, or sent to the source topic."""

    replayed: Positions = field(default_factory=Positions)
    discarded: Positions = field(default_factory=Positions)
    resent: Positions = field(default_factory=Positions)

    def why(self, position: Position) -> Untouched | None:
        """Return how the record was closed; None if it is open."""
        if position in self.replayed:
            return Untouched.REPLAYED
        if position in self.discarded:
            return Untouched.DISCARDED
        return Untouched.RESENT if position in self.resent else None

    def add(self, chunk: ReplayedChunk) -> None:
        """Add the positions that a published chunk has closed."""
        self.replayed.add_all(chunk.written)
        if chunk.closure is Closure.DISCARDED:
            self.discarded.add_all(chunk.closed)
        elif chunk.closure is Closure.RESENT:
            self.resent.add_all(chunk.closed | chunk.also)


CLOSURE_OF: Final[Mapping[Untouched, Closure]] = {
    Untouched.OVERRULED: Closure.REJUDGED,
    Untouched.REPLAYED: Closure.REPLAYED,
    Untouched.DISCARDED: Closure.DISCARDED,
    Untouched.RESENT: Closure.RESENT,
}
"""The reasons that mean a refusal is already closed, with the way in which it was closed."""


def why_untouched(  # noqa: PLR0911 - one for each reason; what each depends on
    found: Evidence | None,
    held: Ledger,
    closed: Closed,
    *,
    is_omitted: bool,
    accepts_batches: bool,
    deletes_known_since: Vector | None = None,
) -> Untouched | None:
    """Return why a refused record of a request is left untouched; None if it is to be judged.

    `found` is the evidence of its headers, None without any; `closed` are the positions that the ledger has closed.
    `deletes_known_since` maps a partition to the offset from which all deletes have marks; it defaults to 0. It is
    given for requests that write rows.
    """
    if found is None or found.ledger != held.name or found.source.topic != held.topic:
        return Untouched.FOREIGN
    partition, offset = found.source.partition, found.source.offset
    if not held.counts(partition, offset, found.generation):
        return Untouched.OVERRULED
    if offset >= held.end.get(partition, 0):
        return Untouched.AHEAD
    if why := closed.why((partition, offset)):
        return why
    if offset < (deletes_known_since or {}).get(partition, 0):
        return Untouched.UNORDERED
    if is_omitted:
        return Untouched.OMITTED
    if found.refusal is not None and not accepts_batches:
        return Untouched.BATCH
    return None


class ReplayState(StrEnum):
    """The state of a request: waiting for an approval or for the job, done, or stopped early."""

    PROPOSED = "proposed"
    OPEN = "open"
    DONE = "done"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


class ReplayReport(BaseModel):
    """The job's report about a request after each chunk. The counts are those of the ledger."""

    model_config = MESSAGE

    request: UUID
    stream: StreamText
    at: Instant
    state: ReplayState
    records: Count
    written: Count
    refused: Count
    left: Count
    closed: Count = Field(default=0, description="Records that were discarded, or sent to the source topic.")
    reasons: tuple[RuleCount, ...] = Field(
        default=(),
        max_length=100,
        description="What the records that fail again violate, as far as the job knows since its last start.",
    )
    untouched: Mapping[Untouched, Count] = Field(
        default={},
        max_length=len(Untouched),
        description="Why records were left, as far as the job knows since its last start.",
    )
    closures: Mapping[Closure, _Places] = Field(
        default={},
        max_length=len(Closure),
        description="Places in the quarantine topic of records that are closed, since the report before.",
    )
    again: Mapping[CodeText, _Places] = Field(
        default={},
        max_length=MOST_RULES,
        description="The same of records that fail again, by what they violate.",
    )
    message: Annotated[str, Field(max_length=2000)] | None = Field(
        default=None, description="Why the replay stopped, and what to do. Holds no payload value."
    )


class StreamReplay(BaseModel):
    """A replay request as the registry shows it: who asked, who approved, and how far it is; without its positions."""

    model_config = MESSAGE

    id: UUID
    stream: str
    state: ReplayState
    by: str = Field(description="Name of the principal that asked.")
    at: AwareDatetime
    approved_by: str | None = Field(default=None, description="Who approved it, where another person has to.")
    topic: str = Field(description="The quarantine topic.")
    records: Count
    digest: str = Field(description="Digest of topic and positions.")
    action: ReplayAction = ReplayAction.REPLAY
    reason: str | None = Field(default=None, description="Why the records are discarded.")
    problems: tuple[str, ...] = Field(
        default=(), description="Problems of its records, as the index had them when it was asked for."
    )
    fix: str | None = Field(
        default=None,
        description="The fix as JSON; values of classified fields are hidden below the role approver.",
    )
    fingerprint: str | None = Field(
        default=None, description="Fingerprint of the fix; null when values are hidden."
    )
    append_late: bool = False
    accept_batches: bool = False
    allowed: float
    rate: int | None = None
    ledger: str | None = Field(
        default=None, description="The ledger whose job processes it; null for any job of the stream."
    )
    report: ReplayReport | None = Field(default=None, description="The newest report of the job.")

    @property
    def is_ended(self) -> bool:
        """Return whether the request is done, stopped or cancelled."""
        return self.state not in {ReplayState.PROPOSED, ReplayState.OPEN}
