"""From judged rows to Kafka records: what is kept byte for byte, and what is added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import rule_keys
from tidegate.contracts.stream.evidence import (
    SET_ASIDE,
    SOURCE_HEADER,
    EventPointer,
    omitted_header,
    provenance_headers,
    quarantine_headers,
)
from tidegate.contracts.stream.ledger import BatchRefusal, Ledger, Position
from tidegate.contracts.stream.masked_values import MaskedValues
from tidegate.contracts.verdict import Disposition, Verdict
from tidegate.spark_jobs.kafka.outputs import Headers, OutputRecord
from tidegate.spark_jobs.kafka.topics import Topic
from tidegate.spark_jobs.worker.judge import reads_headers
from tidegate.spark_jobs.worker.record_spool import divided

TIMESTAMP_HEADER = "tidegate.timestamp"
"""Timestamp of the record, on a record of 1970-01-01T00:00:00.000 only: the Kafka client would replace that one."""


@dataclass(frozen=True, slots=True)
class Destination:
    """An output topic of one ledger, and the contract that lets records into it."""

    topic: Topic
    ledger: Ledger
    plan: EnforcementPlan

    @property
    def contract(self) -> str:
        """The contract as `id@version`."""
        return f"{self.plan.contract.id}@{self.plan.contract.version}"


class AcceptedRecords:
    """Makes records as they came, with their provenance; where the contract masks, with its masks."""

    def __init__(self, to: Destination) -> None:
        self._to = to
        self._masked = MaskedValues(to.plan)
        _, *self._same = provenance_headers(EventPointer(to.ledger.topic, 0, 0), to.ledger.name, to.contract)

    def of(self, rows: pa.RecordBatch) -> Iterator[OutputRecord]:
        """Make a record of each row.

        Takes the columns partition, offset, key, value, headers (list of struct<key, value>, or null) and timestamp_ms.
        """
        # The hot path of the Kafka sink: only the first header differs from record to record.
        topic, partitions, same = self._to.topic.name, self._to.topic.partitions, self._same
        sources = _sources(self._to.ledger.topic, rows)
        found = _rows(rows) if self._masked.changes_nothing else _masked(_rows(rows), self._masked)
        for source, (partition, _, key, value, headers, timestamp_ms) in zip(sources, found, strict=True):
            ours: Headers = [(SOURCE_HEADER, source), *same]
            if headers is not None or not timestamp_ms:
                ours = _with_originals(headers, ours, timestamp_ms)
            yield topic, value, key, partition % partitions, timestamp_ms, ours


def accepted_records(batches: Iterable[pa.RecordBatch], to: Destination) -> Iterator[OutputRecord]:
    """Make the accepted records of a batch, as `AcceptedRecords` makes those of a part of it."""
    return chain.from_iterable(map(AcceptedRecords(to).of, batches))


def _sources(topic: str, rows: pa.RecordBatch) -> list[bytes]:
    """Write the event pointer of each row, as `EventPointer` does."""
    partitions, offsets = (rows.column(name).cast(pa.string()) for name in ("partition", "offset"))
    texts = pc.binary_join_element_wise(topic, partitions, offsets, "/")
    pointers: list[bytes] = texts.cast(pa.binary()).to_pylist()
    return pointers


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided about records besides their verdicts: refusals of whole batches, and records that are set aside."""

    refusals: tuple[BatchRefusal, ...] = ()
    set_aside: frozenset[Position] = frozenset()


def refused_records(
    batches: Iterable[pa.RecordBatch],
    to: Destination,
    evidence: Counter[RuleKey],
    decided: Decided = Decided(),
) -> Iterator[OutputRecord]:
    """Yield records as they came, with their provenance and the reasons; add those to `evidence`.

    Takes rows of RECORDS, and `failed` as `judge` gave it, without which they are judged again. A record that keeps its
    contract is here because its batch was refused, or because it was set aside.
    """
    topic, partitions, ledger, contract = to.topic.name, to.topic.partitions, to.ledger, to.contract
    for batch in batches:
        judged, aside = divided(batch, decided.set_aside)
        if aside is not None:
            yield from _set_aside(aside, to, evidence)
        for (partition, offset, key, value, headers, timestamp_ms), verdict in zip(
            _rows(judged), _verdicts(judged, to.plan), strict=True
        ):
            batch_end = None
            if verdict.disposition.is_written:
                refusal = next((each for each in decided.refusals if each.covers(partition, offset)), None)
                if refusal is not None:
                    batch_end = refusal.end
                    # First, so that they are not what a full header leaves out.
                    verdict = Verdict(Disposition.QUARANTINED, (*refusal.violations, *verdict.violations))  # noqa: PLW2901 - the one that counts
            for rule in rule_keys(verdict.violations):
                evidence[rule] += 1
            source = EventPointer(ledger.topic, partition, offset)
            ours = quarantine_headers(source, ledger.name, contract, verdict, batch_end)
            originals_and_ours = _with_originals(headers, ours, timestamp_ms)
            yield topic, value, key, partition % partitions, timestamp_ms, originals_and_ours


def _set_aside(rows: pa.RecordBatch, to: Destination, evidence: Counter[RuleKey]) -> Iterator[OutputRecord]:
    """Yield records that nothing has looked into; without their bytes if the topic may not hold them."""
    verdict = Verdict(Disposition.QUARANTINED, (SET_ASIDE,))
    for partition, offset, key, value, headers, timestamp_ms in _rows(rows):
        source = EventPointer(to.ledger.topic, partition, offset)
        ours: Headers = [*quarantine_headers(source, to.ledger.name, to.contract, verdict)]
        together = _with_originals(headers, ours, timestamp_ms)
        record = (value, key)
        # What a topic takes is bounded as it is sent, compressed; what fits as it is fits always.
        if _size(value, key, together) > to.topic.max_message_bytes:
            originals = [(each["key"], each["value"]) for each in headers or ()]
            together = _with_originals(None, [*ours, omitted_header(key, value, originals)], timestamp_ms)
            record = (None, None)
        for rule in rule_keys(verdict.violations):
            evidence[rule] += 1
        yield to.topic.name, *record, partition % to.topic.partitions, timestamp_ms, together


_RECORD_BYTES = 128
_HEADER_BYTES = 10
"""What a record and each header of it add to their bytes at most, and the batch of records that holds one alone."""


def _size(value: bytes | None, key: bytes | None, headers: Headers) -> int:
    """Return the most bytes that a record takes in a batch of its own."""
    named = sum(_HEADER_BYTES + len(name.encode()) + len(each or b"") for name, each in headers)
    return _RECORD_BYTES + len(value or b"") + len(key or b"") + named


def _verdicts(rows: pa.RecordBatch, plan: EnforcementPlan) -> Iterator[Verdict]:
    """Return rows their verdicts with all their evidence."""
    moments = Moments(records=rows.column("timestamp_ms").cast(pa.timestamp("ms"))) if plan.asks_now else None
    headers = None
    if reads_headers(plan):
        pairs = (
            [(each["key"], each["value"]) for each in some or ()]
            for some in rows.column("headers").to_pylist()
        )
        headers = pa.array([schema_header(some) for some in pairs], pa.binary())
    return plan.explain_each(
        rows.column("value"),
        moments,
        headers,
        typed=True,
        keys=rows.column("key"),
        failed=rows.column("failed") if "failed" in rows.schema.names else None,
    )


def _masked(rows: Iterator[_Row], masked: MaskedValues) -> Iterator[_Row]:
    for partition, offset, key, value, headers, timestamp_ms in rows:
        header = schema_header([(each["key"], each["value"]) for each in headers or ()])
        yield partition, offset, masked.key(key), masked.value(value, header), headers, timestamp_ms


_Row = tuple[int, int, bytes | None, bytes | None, list[dict[str, Any]] | None, int]
_COLUMNS = ("partition", "offset", "key", "value", "headers", "timestamp_ms")


def _rows(rows: pa.RecordBatch) -> Iterator[_Row]:
    return zip(*(rows.column(name).to_pylist() for name in _COLUMNS), strict=True)


def _with_originals(
    headers: list[dict[str, Any]] | None, ours: Iterable[tuple[str, str | bytes | None]], timestamp_ms: int
) -> Headers:
    """Put a record's own headers first and ours after them: readers take the last of a name."""
    together: Headers = [(header["key"], header["value"]) for header in headers or ()]
    together.extend(ours)
    if timestamp_ms == 0:
        together.append((TIMESTAMP_HEADER, b"0"))
    return together
