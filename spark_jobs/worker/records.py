"""Conversion of judged rows to Kafka records: original key, value and headers, followed by Tidegate's headers."""

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
    REPLAY_HEADER,
    SET_ASIDE,
    SOURCE_HEADER,
    EventPointer,
    generation_header,
    judged_at_header,
    omitted_header,
    provenance_headers,
    quarantine_headers,
    timestamp_header,
)
from tidegate.contracts.stream.ledger import BatchRefusal, Ledger, Position
from tidegate.contracts.stream.masked_values import MaskedValues
from tidegate.contracts.verdict import Disposition, Verdict, Violation
from tidegate.spark_jobs.kafka.outputs import Headers, OutputRecord
from tidegate.spark_jobs.kafka.topics import TopicDescription
from tidegate.spark_jobs.worker.record_spool import divided


@dataclass(frozen=True, slots=True)
class Destination:
    """An output topic of one ledger, and the contract that judges the records."""

    topic: TopicDescription
    ledger: Ledger
    plan: EnforcementPlan

    @property
    def contract(self) -> str:
        """Return the contract as `id@version`."""
        return self.plan.name


class AcceptedRecords:
    """Converter of accepted rows to records in their original form, masked by the contract, with their provenance."""

    def __init__(self, to: Destination, replay: str = "") -> None:
        """Prepare the headers. `replay` is the id of the request that replays the records, "" for a batch."""
        self._to = to
        self._more: Headers = [(REPLAY_HEADER, replay.encode())] if replay else []
        self._masked = MaskedValues(to.plan)
        nowhere = EventPointer(to.ledger.topic, 0, 0)
        self._same = {
            name: provenance_headers(nowhere, to.ledger.name, name)[1:]
            for name in (to.contract, *(plan.name for plan in to.plan.plans))
        }

    def of(self, rows: pa.RecordBatch) -> Iterator[OutputRecord]:
        """Yield a record for each row.

        Reads the columns partition, offset, key, value, headers (list of struct<key, value>, or null) and
        timestamp_ms.
        """
        # The hot path of the Kafka sink. Records judged by one version differ only in the first of our headers.
        topic, partitions, same = self._to.topic.name, self._to.topic.partitions, self._same
        sources, contracts = _sources(self._to.ledger.topic, rows), _judged_by(rows, self._to.plan)
        found = _rows(rows) if self._masked.changes_nothing else _masked(_rows(rows), self._masked)
        for source, contract, (partition, _, key, value, headers, timestamp_ms) in zip(
            sources, contracts, found, strict=True
        ):
            ours: Headers = [(SOURCE_HEADER, source), *same[contract], *self._more]
            if not timestamp_ms:  # Kafka's client replaces the timestamp 0 with the current time
                ours = [*ours, timestamp_header(0)]
            if headers is not None:
                ours = _with_originals(headers, ours)
            yield topic, value, key, partition % partitions, timestamp_ms, ours


def accepted_records(
    batches: Iterable[pa.RecordBatch], to: Destination, replay: str = ""
) -> Iterator[OutputRecord]:
    """Yield the records of all accepted rows of a batch (see `AcceptedRecords.of`)."""
    return chain.from_iterable(map(AcceptedRecords(to, replay).of, batches))


def _sources(topic: str, rows: pa.RecordBatch) -> list[bytes]:
    """Return the event pointer of each row as text, like `str` of an `EventPointer`."""
    partitions, offsets = (rows.column(name).cast(pa.string()) for name in ("partition", "offset"))
    texts = pc.binary_join_element_wise(topic, partitions, offsets, "/")
    pointers: list[bytes] = texts.cast(pa.binary()).to_pylist()
    return pointers


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions about records that do not depend on their verdicts: refused batches, and records set aside."""

    refusals: tuple[BatchRefusal, ...] = ()
    set_aside: frozenset[Position] = frozenset()


def refused_records(
    batches: Iterable[pa.RecordBatch],
    to: Destination,
    evidence: Counter[RuleKey],
    decided: Decided = Decided(),
) -> Iterator[OutputRecord]:
    """Yield records in their original form, with their provenance and the reasons; count the reasons in `evidence`.

    Reads rows of RECORDS or REFUSED. Without the column `failed`, a result of `judge`, the records are judged again. A
    valid record is among them if its batch was refused, or if it was set aside.
    """
    topic, partitions, ledger = to.topic.name, to.topic.partitions, to.ledger
    judged_at = judged_at_header(to.plan.now)
    for batch in batches:
        judged, aside = divided(batch, decided.set_aside)
        if aside is not None:
            yield from _set_aside(aside, to, evidence)
        for (partition, offset, key, value, headers, timestamp_ms), contract, verdict in zip(
            _rows(judged), _judged_by(judged, to.plan), _verdicts(judged, to.plan), strict=True
        ):
            batch_end = None
            if verdict.disposition.is_written:
                refusal = next((each for each in decided.refusals if each.covers(partition, offset)), None)
                if refusal is not None:
                    batch_end = refusal.end
                    # The refusal of the batch is first, so that it is not left out if the header is full.
                    verdict = Verdict(Disposition.QUARANTINED, (*refusal.violations, *verdict.violations))  # noqa: PLW2901 - this one is written
            for rule in rule_keys(verdict.violations):
                evidence[rule] += 1
            source = EventPointer(ledger.topic, partition, offset)
            ours = quarantine_headers(source, ledger.name, contract, verdict, batch_end)
            ours += [timestamp_header(timestamp_ms), *generation_header(ledger.generation), *judged_at]
            originals_and_ours = _with_originals(headers, ours)
            yield topic, value, key, partition % partitions, timestamp_ms, originals_and_ours


def _set_aside(rows: pa.RecordBatch, to: Destination, evidence: Counter[RuleKey]) -> Iterator[OutputRecord]:
    """Yield records that were set aside without being judged; without their bytes if they may exceed the limit."""
    verdict = Verdict(Disposition.QUARANTINED, (SET_ASIDE,))
    for partition, offset, key, value, headers, timestamp_ms in _rows(rows):
        source = EventPointer(to.ledger.topic, partition, offset)
        ours: Headers = [
            *quarantine_headers(source, to.ledger.name, to.contract, verdict),
            timestamp_header(timestamp_ms),
            *generation_header(to.ledger.generation),
            *judged_at_header(to.plan.now),
        ]
        together = _with_originals(headers, ours)
        record = (value, key)
        # The limit of a topic applies to the compressed size; a record that fits uncompressed always fits.
        if _size(value, key, together) > to.topic.max_message_bytes:
            originals = [(each["key"], each["value"]) for each in headers or ()]
            together = _with_originals(None, [*ours, omitted_header(key, value, originals)])
            record = (None, None)
        for rule in rule_keys(verdict.violations):
            evidence[rule] += 1
        yield to.topic.name, *record, partition % to.topic.partitions, timestamp_ms, together


_RECORD_BYTES = 128
_HEADER_BYTES = 10
"""Maximum overhead in bytes: of a record in its own batch (above), and of one header."""


def _size(value: bytes | None, key: bytes | None, headers: Headers) -> int:
    """Return an upper bound for the bytes of a record in its own batch."""
    named = sum(_HEADER_BYTES + len(name.encode()) + len(each or b"") for name, each in headers)
    return _RECORD_BYTES + len(value or b"") + len(key or b"") + named


def refused_by(
    batches: Iterable[pa.RecordBatch], plan: EnforcementPlan
) -> Iterator[tuple[Position, tuple[Violation, ...]]]:
    """Yield the source position and the violations of refused records, given as rows of REFUSED."""
    for rows in batches:
        positions = zip(*(rows.column(name).to_pylist() for name in ("partition", "offset")), strict=True)
        for position, verdict in zip(positions, _verdicts(rows, plan), strict=True):
            yield position, verdict.violations


def _verdicts(rows: pa.RecordBatch, plan: EnforcementPlan) -> Iterator[Verdict]:
    """Yield the verdicts of rows, with all their evidence."""
    moments = Moments(records=rows.column("timestamp_ms").cast(pa.timestamp("ms"))) if plan.uses_now else None
    return plan.explain_each(
        rows.column("value"),
        moments,
        _schema_headers(rows, plan),
        typed=True,
        keys=rows.column("key"),
        failed=rows.column("failed") if "failed" in rows.schema.names else None,
    )


def _judged_by(rows: pa.RecordBatch, plan: EnforcementPlan) -> list[str]:
    """Return the contract version that judged each row, as `id@version`."""
    if len(plan.plans) == 1:
        return [plan.name] * rows.num_rows
    route = plan.route(rows.column("value"), _schema_headers(rows, plan))
    found: list[str] = [plan.name] * rows.num_rows if route is None else route.contracts.to_pylist()
    return found


def _schema_headers(rows: pa.RecordBatch, plan: EnforcementPlan) -> pa.Array | None:
    """Return the schema header of each row; None if the plan does not read it."""
    if not plan.reads_headers:
        return None
    pairs = (
        [(each["key"], each["value"]) for each in some or ()] for some in rows.column("headers").to_pylist()
    )
    return pa.array([schema_header(some) for some in pairs], pa.binary())


def _masked(rows: Iterator[_Row], masked: MaskedValues) -> Iterator[_Row]:
    for partition, offset, key, value, headers, timestamp_ms in rows:
        header = schema_header([(each["key"], each["value"]) for each in headers or ()])
        yield partition, offset, masked.key(key), masked.value(value, header), headers, timestamp_ms


_Row = tuple[int, int, bytes | None, bytes | None, list[dict[str, Any]] | None, int]
_COLUMNS = ("partition", "offset", "key", "value", "headers", "timestamp_ms")


def _rows(rows: pa.RecordBatch) -> Iterator[_Row]:
    return zip(*(rows.column(name).to_pylist() for name in _COLUMNS), strict=True)


def _with_originals(
    headers: list[dict[str, Any]] | None, ours: Iterable[tuple[str, str | bytes | None]]
) -> Headers:
    """Return a record's own headers, followed by ours: readers use the last header of a name."""
    together: Headers = [(header["key"], header["value"]) for header in headers or ()]
    together.extend(ours)
    return together
