"""From judged rows to Kafka records: what is kept byte for byte, and what is added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from contracts.evidence import SOURCE_HEADER, EventPointer, provenance_headers, quarantine_headers
from contracts.ledger import Ledger
from contracts.plan import EnforcementPlan
from spark_jobs.decide import RuleKey, count_evidence
from spark_jobs.outputs import Headers, OutputRecord
from spark_jobs.topics import Topic

TIMESTAMP_HEADER = "tidegate.timestamp"
"""Milliseconds since 1970; only on a record of 1970-01-01T00:00:00.000 itself, which the client would stamp anew."""


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


def accepted_records(rows: pa.Table, to: Destination) -> Iterator[OutputRecord]:
    """Make records as they came, with their provenance.

    Takes the columns partition, offset, key, value, headers (list of struct<key, value>, or null) and timestamp_ms.
    """
    topic, partitions, source = to.topic.name, to.topic.partitions, to.ledger.topic
    # The hot path of the Kafka sink: only the first header differs from record to record.
    _, *same = provenance_headers(EventPointer(source, 0, 0), to.ledger.name, to.contract)
    for partition, offset, key, value, headers, timestamp_ms in _rows(rows):
        ours: Headers = [(SOURCE_HEADER, f"{source}/{partition}/{offset}".encode()), *same]
        yield OutputRecord(
            topic,
            value,
            key,
            partition % partitions,
            timestamp_ms,
            ours if headers is None and timestamp_ms else _with_originals(headers, ours, timestamp_ms),
        )


def refused_records(rows: pa.Table, to: Destination, evidence: Counter[RuleKey]) -> Iterator[OutputRecord]:
    """Make records as they came, with their provenance and the reasons; adds those to `evidence`.

    Takes the columns of `accepted_records`.
    """
    topic, partitions, ledger = to.topic.name, to.topic.partitions, to.ledger
    for partition, offset, key, value, headers, timestamp_ms in _rows(rows):
        verdict = to.plan.explain(value, typed=True)
        evidence.update(count_evidence((verdict,)))
        source = EventPointer(ledger.topic, partition, offset)
        ours = quarantine_headers(source, ledger.name, to.contract, verdict)
        originals_and_ours = _with_originals(headers, ours, timestamp_ms)
        yield OutputRecord(topic, value, key, partition % partitions, timestamp_ms, originals_and_ours)


_Row = tuple[int, int, bytes | None, bytes | None, list[dict[str, Any]] | None, int]
_COLUMNS = ("partition", "offset", "key", "value", "headers", "timestamp_ms")


def _rows(table: pa.Table) -> Iterator[_Row]:
    for batch in table.to_batches():
        yield from zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True)


def _with_originals(
    headers: list[dict[str, Any]] | None, ours: Iterable[tuple[str, str | bytes | None]], timestamp_ms: int
) -> Headers:
    """Put a record's own headers first and ours after them: readers take the last of a name."""
    together: Headers = [(header["key"], header["value"]) for header in headers or ()]
    together.extend(ours)
    if timestamp_ms == 0:
        together.append((TIMESTAMP_HEADER, b"0"))
    return together
