"""Erasure of the records of one person from a table and its quarantine topic.

First a preview is shown, and nothing is changed. After the confirmation producers are fenced and the ledger is claimed.
The outputs are read again, and the registry records the erasure, without the value. One commit deletes the rows and
updates the ledger, in which the erased records count as dropped. Last, the quarantine topic is rewritten: the remaining
records are appended again, and all earlier ones are deleted. A quarantine table follows the topic. An interrupted
erasure is finished by running it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from confluent_kafka import Message

from tidegate.contracts.document.fields import join, value_at
from tidegate.contracts.document.model import Mask
from tidegate.contracts.errors import ConflictError, NotFoundError, StreamStopped
from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.stream.adoption import Adoption
from tidegate.contracts.stream.bounds import MOST_SLOTS
from tidegate.contracts.stream.erasure import Erasure, erase_from
from tidegate.contracts.stream.evidence import headers_of, read_provenance
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.verdict import Violation
from tidegate.spark_jobs.adopt.log import adoption_of
from tidegate.spark_jobs.adopt.stream_change import StreamChange
from tidegate.spark_jobs.kafka.dropped import DroppedTopic, read_dropped
from tidegate.spark_jobs.kafka.kafka_ledger import transactional_id
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer, read_committed
from tidegate.spark_jobs.kafka.replayed import require_replayed
from tidegate.spark_jobs.sinks.outputs import provenances

if TYPE_CHECKING:
    from tidegate.contracts.columns.typed import TypedColumn
    from tidegate.contracts.judge.plan import EnforcementPlan

_MOST_RECORDS: Final = 10_000
_MOST_BYTES: Final = 64 * 1024 * 1024
"""Maximum records of one transaction of the copy, and the bytes at which it accepts no further record."""
_SAME_TEXT: Final = {"string", "int", "long", "boolean"}
"""Types of columns whose values, cast to text by any store, are the values in their JSON form."""
_INTEGER: Final = re.compile(r"-?[0-9]{1,400}")
_OWN_SLOT: Final = MOST_SLOTS
"""Slot of the producer of an erasure. No job uses it, so a job that starts meanwhile does not fence the copy."""


class EraseStep(StrEnum):
    """The steps of an erasure; tests interrupt it after each."""

    FENCE = "fence"
    CLAIM = "claim"
    LOOK = "look"
    NOTE = "note"
    DROPPED = "dropped"
    COMMIT = "commit"
    COPY = "copy"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Subject:
    """The person whose records are erased: those with a Kafka key, or with a value in a field of the contract.

    `field` is None for the key. `value` is text; numbers and Booleans are compared in their JSON form.
    """

    value: str
    field: str | None = None

    def __repr__(self) -> str:
        return f"Subject(field={self.field!r})"  # a log must not contain the value


@dataclass(frozen=True, slots=True)
class EraseLook:
    """The preview of an erasure. `unread` counts refused records that cannot be decoded and contain the value.

    `left` describes what is not erased, and how to erase it; empty if nothing is left. `unfollowed` counts rows of the
    quarantine table that an interrupted erasure has left.
    """

    sink: str
    erasure: Erasure
    unread: int
    left: str
    unfollowed: int = 0

    def __bool__(self) -> bool:
        return bool(self.erasure) or self.unfollowed > 0


class Eraser(StreamChange):
    """The erasure of records of one stream; `on_step` is called after each `EraseStep`."""

    def look(self, subject: Subject) -> EraseLook:
        """Return the preview of an erasure; nothing is changed.

        Raises NotFoundError for a stream without a ledger and for an unknown field. Raises ConflictError if the table
        does not hold the field's values, or copies of a history remain; StreamStopped if the topic was recreated.
        """
        return self._look(subject, self._held())

    def erase(self, subject: Subject, confirm: Callable[[EraseLook], None]) -> Ledger:
        """Erase the records; return the new ledger. `confirm` shows the preview, and raises to cancel.

        Raises the errors of `look`, and Fenced or StreamStopped if the outputs change meanwhile.
        """
        held = self._held()
        shown = self._look(subject, held)
        confirm(shown)
        identity = uuid4().hex
        claimed = held.claim(held.slots, identity[:8])
        self._sink.fence(held.name, held.slots)
        rewriter = self._rewriter()
        self._on_step(EraseStep.FENCE)
        self._sink.write(held, claimed)
        self._on_step(EraseStep.CLAIM)
        end = self._topics.latest(self._quarantine) if self._has_quarantine() else {}
        found = self._look(subject, claimed).erasure
        if (found.rows, found.refused) != (shown.erasure.rows, shown.erasure.refused):
            raise StreamStopped(
                f"{self._stream}: the outputs changed before you confirmed; nothing was erased. Stop every job of this "
                "stream, and run tidegate erase again"
            )
        self._on_step(EraseStep.LOOK)
        self._log.keep(self._adoption(shown, shown.erasure.ledger(claimed, identity, "", {})))
        self._on_step(EraseStep.NOTE)
        digest = self._write_dropped(claimed, found.dropped)
        self._on_step(EraseStep.DROPPED)
        new = self._commit(claimed, found, identity, digest, end)
        self._on_step(EraseStep.COMMIT)
        if found.quarantined:
            self._rewrite_quarantine(subject, new, end, rewriter)
        # Needed also if the topic has none of the person's records: an erasure interrupted here has left their rows.
        self._sink.follow_quarantine(new)
        return new

    def _held(self) -> Ledger:
        if self._copied.has_copies():
            raise ConflictError(
                f"{self._copied.path} holds the records of the stream's history as they were loaded: nothing was changed. When they "
                f"are judged and proven (tidegate reconcile {self._stream}), delete its folders load-* and keep "
                "manifest-*.json; then run tidegate erase again"
            )
        held = self._with_ledger(self._sink.ledger_if_there(), ": it holds no records of the stream")
        if self._sink.is_appended and (held.totals.superseded or held.totals.deleted):
            raise ConflictError(
                f"{self._sink.name} was upserted into, so its rows cannot be erased like appended ones; nothing was changed. "
                "Give the options of the job: --write-mode upsert"
            )
        return held

    def _has_quarantine(self) -> bool:
        return self._topics.identity(self._quarantine) is not None

    def _look(self, subject: Subject, held: Ledger) -> EraseLook:
        matches = PersonMatcher(self._plan, subject)
        refused, quarantined = Positions(), 0
        for found, message in provenances(self._kafka, self._quarantine, self._source.name):
            if found.ledger == held.name and matches(message):
                quarantined += 1
                if held.counts(found.source.partition, found.source.offset, found.generation):
                    refused.add(found.source.partition, found.source.offset)
        rows, left = self._rows(subject, held, matches.column)
        replayed = refused & require_replayed(self._kafka, held)
        if self._sink.is_appended:
            rows |= replayed  # a fix may have changed the value that identifies the person
        dropped = read_dropped(self._kafka, held)
        erasure = erase_from(held, rows, refused - replayed, quarantined, dropped)
        unfollowed = 0 if erasure else len(self._sink.refused_rows(held) & dropped)
        return EraseLook(self._sink.name, erasure, matches.unread, left, unfollowed)

    def _rows(self, subject: Subject, held: Ledger, column: TypedColumn | None) -> tuple[Positions, str]:
        """Return the positions of the person's rows, and a text on what is left to do, or an empty one."""
        if not self._sink.is_appended:
            return Positions(), (
                f"{self._sink.name} is not erased: write a tombstone with the person's key to {self._source.name}, which "
                "deletes the row of an upserted table, and the record of a compacted topic"
            )
        if column is None:
            end = {
                p: min(last, held.end.get(p, 0)) for p, last in self._topics.latest(self._source.name).items()
            }
            of_key = Positions()
            for message in read_committed(self._kafka, self._source.name, held.begin, end):
                if message.key() == subject.value.encode():
                    of_key.add(message.partition() or 0, message.offset() or 0)
            return of_key & self._sink.written().seen, (
                f"rows whose records {self._source.name} no longer holds are not found by a key: run it with --subject too"
            )
        return self._sink.written_with(column.name, texts_in_table(self._plan, subject.value, column)), ""

    def _write_dropped(self, claimed: Ledger, dropped: Positions) -> str:
        """Add positions to the chain of dropped positions; return the chain's digest, empty if there are none."""
        if not dropped:
            return ""
        topic = DroppedTopic(self._topics, self._source)
        topic.ensure()
        records, digest = topic.records(claimed, dropped)
        self._producer(claimed).write(records)
        return digest

    def _producer(self, ledger: Ledger) -> TransactionalProducer:
        producer = TransactionalProducer(self._kafka, transactional_id(ledger.name, _OWN_SLOT))
        producer.fence()
        return producer

    def _rewriter(self) -> TransactionalProducer:
        """Return the producer that rewrites the quarantine topic, after fencing that of any other erasure.

        Several ledgers share the topic. Two rewritings at once would each copy what the other one erases.
        """
        producer = TransactionalProducer(self._kafka, f"tidegate/erasure/{self._quarantine}")
        producer.fence()
        return producer

    def _commit(self, claimed: Ledger, found: Erasure, identity: str, digest: str, end: Vector) -> Ledger:
        """Delete the rows and update the ledger; its `scan_from` moves past the records that will be rewritten."""
        looks = self._quarantine in claimed.scan_from
        new = found.ledger(claimed, identity, digest, {self._quarantine: end} if looks else {})
        if found.rows:
            self._sink.retract(found.rows, claimed, new)
        else:
            self._sink.write(claimed, new)
        return new

    def _rewrite_quarantine(
        self, subject: Subject, ledger: Ledger, end: Vector, producer: TransactionalProducer
    ) -> None:
        """Append the records before `end` again, without the person's; then delete everything before `end`.

        `end` was read after the producer had fenced others, so it is after all their copies. An interrupted erasure has
        left copies beside the originals, so each refusal is kept only once.
        """
        matches = PersonMatcher(self._plan, subject)
        kept = self._kept(matches, ledger, end)
        for records in chunked(kept, _MOST_RECORDS, _MOST_BYTES):
            producer.write(records)
        self._on_step(EraseStep.COPY)
        self._topics.delete_before(self._quarantine, {p: offset for p, offset in end.items() if offset})
        self._on_step(EraseStep.DELETE)
        # An erasure that began before the deletion may have copied what this one erases.
        producer.require_newest(self._quarantine)

    def _kept(self, matches: PersonMatcher, ledger: Ledger, end: Vector) -> Iterator[OutputRecord]:
        seen: dict[tuple[str, str, int], Positions] = {}
        for message in read_committed(self._kafka, self._quarantine, {}, end):
            headers = headers_of(message)
            found = read_provenance(headers)
            if found is not None:
                if found.ledger == ledger.name and matches(message):
                    continue
                of_ledger = seen.setdefault((found.ledger, found.source.topic, found.generation), Positions())
                if not of_ledger.add(found.source.partition, found.source.offset):
                    continue
            yield (
                self._quarantine,
                message.value(),
                message.key(),
                message.partition() or 0,
                message.timestamp()[1],
                list(headers),
            )

    def _adoption(self, look: EraseLook, new: Ledger) -> Adoption:
        return adoption_of(
            new,
            self._stream,
            look.sink,
            kind="erasure",
            deleted=len(look.erasure.rows),
            erased=look.erasure.quarantined,
        )


def chunked(
    records: Iterable[OutputRecord], most_records: int, most_bytes: int
) -> Iterator[list[OutputRecord]]:
    """Yield the records in lists; each ends at `most_records`, or with the record that reaches `most_bytes`."""
    chunk, size = list[OutputRecord](), 0
    for record in records:
        _, value, key, _, _, headers = record
        chunk.append(record)
        size += len(value or b"") + len(key or b"") + sum(len(n) + len(v or b"") for n, v in headers)
        if len(chunk) >= most_records or size >= most_bytes:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class PersonMatcher:
    """The test whether a refused record is the person's: by key or field, or by raw bytes if it is undecodable."""

    def __init__(self, plan: EnforcementPlan, subject: Subject) -> None:
        self._plan = plan
        self._value = subject.value
        self._bytes = subject.value.encode()
        self.column = None if subject.field is None else _column(plan, subject.field)
        self.unread = 0

    def __call__(self, message: Message) -> bool:
        """Return whether the record is the person's; count matches that cannot be decoded in `unread`."""
        if self.column is None:
            return message.key() == self._bytes
        value = message.value()
        header = schema_header(headers_of(message))
        own = self._plan.plan_of(value, header)
        record = self._plan.record_of(value, header)
        if isinstance(record, Violation):
            is_theirs = self._bytes in (value or b"")
            self.unread += is_theirs
            return is_theirs
        # Versions of a compatibility group may take the column from another field, or lack it.
        columns = () if own is None else own.typed_columns
        path = next((each.path for each in columns if each.name == self.column.name), None)
        return path is not None and _text(value_at(record, path)) == self._value


def _column(plan: EnforcementPlan, field: str) -> TypedColumn:
    columns = {name: each for each in plan.typed_columns for name in (each.name, join(each.path))}
    if field not in columns:
        known = ", ".join(sorted(each.name for each in plan.typed_columns))
        raise NotFoundError(f"{plan.contract.id} has no column of that name; it has {known}")
    return columns[field]


def _text(value: Any) -> str | None:
    """Return a value in its JSON form, without quotes; None for objects, arrays and null."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return value
        case int() | float() | Decimal():
            return str(value)
    return None


def texts_in_table(plan: EnforcementPlan, value: str, column: TypedColumn) -> tuple[str, ...]:
    """Return the texts by which a column stores a value: itself, or the tokens of a hash mask.

    Raises ConflictError if another mask hides the values, or the column's text of a value may differ from its JSON form.
    """
    # Versions that write the same table mask a column in the same way, so any version with the column will do.
    owner = next((each for each in plan.plans if column in each.typed_columns), plan)
    over = owner.masks.over(column.path)
    if over is None:
        types = {each.type for own in plan.plans for each in own.typed_columns if each.name == column.name}
        if not {column.type, *types} <= _SAME_TEXT:
            raise ConflictError(
                f"a column of type {column.type} may hold the values of {column.name} in another form, so that rows "
                "would be missed; nothing was changed. Name a field of type string, int, long or boolean, or erase by --key"
            )
        return (value,)
    mask, depth = over
    if mask is not Mask.HASH or depth != len(column.path):
        raise ConflictError(
            f"the table does not hold the values of {column.name}, which are masked ({mask.value}); nothing was changed. "
            "Name another field, or erase by --key"
        )
    values: list[Any] = [value]
    if _INTEGER.fullmatch(value):
        values.append(int(value))
    return tuple(plan.masks.token(each) for each in values)
