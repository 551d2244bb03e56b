"""The records of one chunk of a replay, as read from the quarantine topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.counts import LONGEST_CODE, RuleKey
from tidegate.contracts.stream.decide import rule_keys
from tidegate.contracts.stream.evidence import (
    Evidence,
    Original,
    headers_of,
    read_evidence,
    read_original,
)
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger, Position, Vector
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    CLOSURE_OF,
    Closed,
    ReplayAction,
    ReplayRequest,
    ReplayTerms,
    Untouched,
    why_untouched,
)
from tidegate.contracts.stream.replay_preview import RefusedRecord
from tidegate.contracts.verdict import Severity, Violation
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.worker.request import JUDGED_AT

if TYPE_CHECKING:
    from confluent_kafka import Message

CHUNK_RECORDS: Final = 5_000
"""Maximum records of a chunk: its commit must not delay a batch for long."""
CHUNK_BYTES: Final = 32 * 1024 * 1024


def most_records(request: ReplayRequest) -> int:
    """Return the maximum records of a request's next chunk; with a rate, at most those of one second."""
    return min(CHUNK_RECORDS, request.rate or CHUNK_RECORDS)


_ROWS: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        (JUDGED_AT, pa.int64()),
    ]
)
"""Columns of Spark's Kafka source, with the source position, and the time of the first verdict."""


K = TypeVar("K")
Places = dict[Closure, Positions]
"""Places of closed records in the quarantine topic, by the kind of closure."""


@dataclass(slots=True)
class FailedAgain:
    """Records that were refused again: counts by rule, and places in the quarantine topic by code of the rule."""

    reasons: Counter[RuleKey] = field(default_factory=Counter)
    places: dict[str, Positions] = field(default_factory=dict)

    def add(self, place: Position, violations: tuple[Violation, ...]) -> None:
        """Add a record. Its place is listed under its errors; under its warnings if it has no errors."""
        keys = rule_keys(violations)
        self.reasons.update(keys)
        for _, code, _ in [key for key in keys if key[2] is Severity.ERROR] or keys:
            self.places.setdefault(code[:LONGEST_CODE], Positions()).add(*place)


def add_places(known: dict[K, Positions], others: Mapping[K, Positions]) -> None:
    """Merge places in the quarantine topic into `known`, by key."""
    for name, places in others.items():
        known.setdefault(name, Positions()).add_all(places)


@dataclass(slots=True)
class ReplayChunk:
    """The records of a chunk, by source position.

    `places` maps source positions to positions in the quarantine topic. `taken` counts the positions consumed from the
    request, also those without a record; `size` is in bytes.
    """

    records: dict[Position, RefusedRecord] = field(default_factory=dict)
    places: dict[Position, Position] = field(default_factory=dict)
    closed: Places = field(default_factory=dict)
    untouched: Counter[Untouched] = field(default_factory=Counter)
    taken: int = 0
    size: int = 0

    @property
    def has_keys(self) -> bool:
        """Return whether any record has a key."""
        return any(each.key is not None for each in self.records.values())

    @property
    def sources(self) -> Positions:
        """Return the source positions of the records to process."""
        return Positions(sorted(self.records))

    def add(self, message: Message, original: Original, source: Position) -> None:
        """Add a record to process."""
        key, value = message.key(), message.value()
        self.records[source] = RefusedRecord.of(key, value, original, message.timestamp()[1])
        self.places[source] = _place(message)
        self.size += len(key or b"") + len(value or b"")

    def leave(self, why: Untouched, place: Position | None = None) -> None:
        """Count a record that is left untouched; if `why` means that it was closed before, record its place."""
        self.untouched[why] += 1
        if place is not None and why in CLOSURE_OF:
            self.close(CLOSURE_OF[why], [place])

    def close(self, closure: Closure, places: Iterable[Position]) -> None:
        """Record that the records at these places of the quarantine topic are closed."""
        found = self.closed.setdefault(closure, Positions())
        for place in places:
            found.add(*place)

    def table(self) -> pa.Table:
        """Return the records as a table with the columns of `rows_of`."""
        rows = [
            (
                *source,
                each.timestamp_ms * 1000,
                each.key,
                each.value,
                [{"key": name, "value": value} for name, value in each.headers] or None,
                each.judged_at,
            )
            for source, each in self.records.items()
        ]
        return rows_of(rows)


def rows_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return a table with the columns of Spark's Kafka source, and the time of the first verdict."""
    columns = list(zip(*rows, strict=True)) or [()] * len(_ROWS)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, _ROWS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_ROWS)


def messages_at(kafka: KafkaConnection, topics: Topics, topic: str, wanted: Positions) -> Iterator[Message]:
    """Yield the committed records at the wanted positions, in order. All positions must be of one partition."""
    ((partition, bitmap),) = wanted.bitmaps().items()
    end = min(bitmap.max() + 1, topics.latest(topic).get(partition, 0))
    for message in read_committed(kafka, topic, {partition: bitmap.min()}, {partition: end}):
        offset = message.offset()
        if offset is not None and offset in bitmap:
            yield message


def read_chunk(
    terms: ReplayTerms,
    held: Ledger,
    closed: Closed,
    since: Vector,
    wanted: Positions,
    messages: Iterator[Message],
) -> ReplayChunk:
    """Read the refusals at the wanted positions of one partition, in order, up to the size of a chunk.

    `messages` are the committed records there, in order; records that retention has deleted are missing. From the
    offsets `since` on, it is known whether a record's key was deleted; this is used only if the request writes rows.
    """
    chunk, due = ReplayChunk(), iter(wanted)
    for message in messages:
        for position in due:  # earlier positions no longer have a record
            chunk.taken += 1
            if position[1] == message.offset():
                break
            chunk.leave(Untouched.MISSING)
        headers = headers_of(message)
        found, original = read_evidence(headers), read_original(headers)
        why = _why(terms, held, closed, since, found, original)
        if why is not None or found is None:
            chunk.leave(why or Untouched.FOREIGN, _place(message))
        elif (source := (found.source.partition, found.source.offset)) in chunk.records:
            chunk.leave(Untouched.REPLAYED)
        else:
            chunk.add(message, original, source)
        if chunk.size > CHUNK_BYTES:
            return chunk
    for _ in due:
        chunk.taken += 1
        chunk.leave(Untouched.MISSING)
    return chunk


def _why(
    terms: ReplayTerms,
    held: Ledger,
    closed: Closed,
    since: Vector,
    found: Evidence | None,
    original: Original,
) -> Untouched | None:
    """Return why a record is left untouched, or None.

    A discard also closes records that a replay leaves: those without their original value, and those refused with
    their batch.
    """
    is_discard = terms.action is ReplayAction.DISCARD
    why = why_untouched(
        found,
        held,
        closed,
        is_omitted=original.is_omitted and not is_discard,
        accepts_batches=terms.accept_batches or is_discard,
        deletes_known_since=since if terms.writes_rows else {},
    )
    if why is None and terms.action is ReplayAction.TO_SOURCE and original.was_sent_back:
        return Untouched.SENT_BACK
    return why


def _place(message: Message) -> Position:
    return message.partition() or 0, message.offset() or 0
