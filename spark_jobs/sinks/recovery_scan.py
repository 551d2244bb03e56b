"""Scan of the outputs at a start, for records that an unpublished attempt has written permanently."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.counts import rule_counts
from tidegate.contracts.stream.decide import count_evidence
from tidegate.contracts.stream.evidence import (
    Evidence,
    Provenance,
    headers_of,
    read_evidence,
    read_provenance,
)
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger, Position, Settlement, Vector, span
from tidegate.contracts.verdict import Disposition, Verdict
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics

if TYPE_CHECKING:
    from confluent_kafka import Message

_NEWEST: Final = 200
"""Offsets at the end of each partition that are read first when a ledger is compared with its outputs."""
_GROWTH: Final = 8
"""Each earlier range is so many times as long as the one after it."""
_COMPARED: Final = 200_000
"""Offsets of all partitions of an output topic that are read at most to compare it with the ledger."""
_SCANNED: Final = 10_000
"""Offsets at each end of a partition that are read at a start without a ledger."""

Settle = Callable[["Message", str], tuple[Evidence | Provenance, Settlement] | None]
"""Parses a record of an output topic, given the topic's name; returns its source and settlement, None if not ours."""


def settled_in(
    kafka: KafkaConnection, topic: str, ledger: Ledger, end: Vector, settle: Settle
) -> dict[Position, Settlement]:
    """Read an output topic from the ledger's `scan_from` to `end`; return the records ahead of the ledger.

    `ledger` is as the earlier instances left it; `end` is the watermark at a moment when they could no longer commit.
    Raises StreamStopped if required records were deleted, Unavailable. Deleted records do not matter if neither the
    source topic nor the history has a record ahead of the ledger: then none was written ahead of it.
    """
    start = ledger.scan_start(topic, end)
    topics = Topics(kafka)
    for partition, first in topics.earliest(topic).items():
        if first > start.get(partition, 0):
            # Earlier instances are fenced: they judged only records that the source holds now, and claimed loads.
            if not ledger.pending_history and span(ledger.end, topics.latest(ledger.topic)) <= 0:
                return {}
            raise StreamStopped(
                f"{topic}: partition {partition} begins at {first}, but what was {settle.__name__} from "
                f"{start.get(partition, 0)} on must be known to go on without doubling it: records were deleted. Lengthen the topic's retention; to go on "
                f"without knowing them: tidegate adopt {ledger.stream} --forget-deleted"
            )
    entries: dict[Position, Settlement] = {}
    for message in read_committed(kafka, topic, start, end):
        found = settle(message, topic)
        if found is None:
            _require_foreign(message, ledger)
        if found is None or found[0].ledger != ledger.name or found[0].source.topic != ledger.topic:
            continue
        source = found[0].source
        if not ledger.counts(source.partition, source.offset, found[0].generation):
            continue  # refused before a rewind, and judged again since
        if source.offset >= ledger.end.get(source.partition, 0):
            entries[source.partition, source.offset] = found[1]
    return entries


def require_not_ahead(kafka: KafkaConnection, topic: str, ledger: Ledger) -> None:
    """Raise StreamStopped if an output topic that is written in one transaction with the ledger is ahead of it.

    Then the ledger was restored from an older moment, and the records since would be written a second time. Reads each
    partition backwards to its newest record of a batch of the ledger: replayed, aborted and foreign records can follow
    it. Reads at most 200,000 offsets in all. Call it after earlier instances are fenced.
    """
    topics = Topics(kafka)
    earliest, end = topics.earliest(topic), topics.latest(topic)
    size, budget = _NEWEST, _COMPARED
    while end and (size := min(size, budget // len(end))):
        start = {partition: max(earliest[partition], last - size) for partition, last in end.items()}
        found = {
            message.partition()
            for message in read_committed(kafka, topic, start, end)
            if _is_of_batch(message, ledger)
        }
        budget -= span(start, end)
        end = {p: first for p, first in start.items() if p not in found and first > earliest[p]}
        size *= _GROWTH


def _is_of_batch(message: Message, ledger: Ledger) -> bool:
    """Return whether a batch of the ledger wrote the record. Raises StreamStopped if it is ahead of the ledger."""
    found = read_provenance(headers_of(message))
    if found is None or found.ledger != ledger.name or found.source.topic != ledger.topic:
        return False
    partition, offset = found.source.partition, found.source.offset
    end = ledger.end.get(partition, 0)
    if offset >= end and ledger.counts(partition, offset, found.generation):
        raise StreamStopped(
            f"{message.topic()} holds offset {offset} of partition {partition} of {ledger.topic}, and the ledger has come to "
            f"{end} only: the ledger was restored from an older moment. Restore the newest one, or rebuild it from what was "
            f"written: tidegate adopt {ledger.stream} --replace"
        )
    return not found.is_replayed


def _require_foreign(message: Message, ledger: Ledger) -> None:
    """Raise StreamStopped if a record that cannot be parsed is of this ledger and ahead of it.

    If it were skipped, its source record would be judged again, and written a second time.
    """
    found = read_provenance(headers_of(message))
    if found is None or found.ledger != ledger.name or found.source.topic != ledger.topic:
        return
    if found.source.offset >= ledger.end.get(found.source.partition, 0):
        raise StreamStopped(
            f"{message.topic()}: the headers of the record at partition {message.partition()}, offset {message.offset()} "
            "cannot be read by this version: start the job with the release that wrote the record, or a later one"
        )


def names_ledger(kafka: KafkaConnection, topic: str, ledger: str, source: str) -> bool:
    """Return whether an output topic holds a record of the source that names this ledger, or one that follows it.

    The Kafka sink's ledgers after `tidegate archive` have the first one's name and a suffix.

    Reads the newest 10,000 offsets of each partition, then the oldest 10,000, and stops at the first such record. A
    ledger in use has records at the end of the topic; a ledger that was alone in the topic has them at both ends.
    """
    topics = Topics(kafka)
    earliest, latest = topics.earliest(topic), topics.latest(topic)
    newest = {partition: max(earliest[partition], end - _SCANNED) for partition, end in latest.items()}
    oldest = {partition: min(newest[partition], first + _SCANNED) for partition, first in earliest.items()}
    for start, end in ((newest, latest), (earliest, oldest)):
        for message in read_committed(kafka, topic, start, end):
            found = read_provenance(headers_of(message))
            if found is None or found.source.topic != source:
                continue
            if found.ledger == ledger or found.ledger.startswith(f"{ledger}:"):
                return True
    return False


def require_own(held: Ledger, stream: str, place: str) -> None:
    """Raise StreamStopped if a ledger belongs to another stream: a claim would fence that stream."""
    if held.stream != stream:
        raise foreign_table(held.stream, stream, place)


def foreign_table(owner: str, stream: str, place: str) -> StreamStopped:
    """Return the error for a stream whose contract id names the table of another stream."""
    return StreamStopped(
        f"{place} belongs to the stream {owner}, whose contract id names the same table as {stream}: dots before "
        "the last part of an id become underscores. Give the contract another id, and publish it: tidegate publish FILE"
    )


def unclaimed_history(stream: str, place: str, what: str) -> StreamStopped:
    """Return the error for a stream that has output but no ledger: it would write all records a second time."""
    return StreamStopped(
        f"{place} holds {what}, and no ledger says how far the stream has come: it would write all of it a second time. "
        f"Restore the ledger, or look at what is there and rebuild it: tidegate adopt {stream}. To begin with an empty "
        "output instead, drop what was written"
    )


def keep_as_it_is(stream: str) -> str:
    """Return the advice for keeping a table that lacks rows which its ledger counts."""
    return (
        f"keep the table as it is, `tidegate reconcile {stream}` names the records that are missing, and `tidegate adopt "
        f"{stream} --replace` rebuilds the ledger from the rows that are there"
    )


def quarantined(message: Message, topic: str) -> tuple[Evidence, Settlement] | None:
    """Parse a record of a quarantine topic; None if it has no readable evidence."""
    evidence = read_evidence(headers_of(message))
    if evidence is None:
        return None
    verdict = Verdict(Disposition.QUARANTINED, evidence.violations)
    rules = rule_counts(count_evidence((verdict,)))
    return evidence, Settlement(
        topic, message.partition() or 0, message.offset() or 0, rules, evidence.refusal
    )


def accepted(message: Message, topic: str) -> tuple[Provenance, Settlement] | None:
    """Parse a record of an accepted topic; None if it has no readable provenance."""
    provenance = read_provenance(headers_of(message))
    if provenance is None:
        return None
    return provenance, Settlement(topic, message.partition() or 0, message.offset() or 0, is_accepted=True)
