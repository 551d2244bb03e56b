"""From judged rows to Kafka records: what is kept byte for byte, and what is added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from contracts.evidence import EventPointer, provenance_headers, quarantine_headers
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
    contract, ledger = to.contract, to.ledger
    for row in _rows(rows):
        ours = provenance_headers(
            EventPointer(ledger.topic, row.partition, row.offset), ledger.name, contract
        )
        yield _record(row, to.topic, ours)


def refused_records(rows: pa.Table, to: Destination, evidence: Counter[RuleKey]) -> Iterator[OutputRecord]:
    """Make records as they came, with their provenance and the reasons; adds those to `evidence`.

    Takes the columns of `accepted_records`.
    """
    contract, ledger = to.contract, to.ledger
    for row in _rows(rows):
        verdict = to.plan.explain(row.value)
        evidence.update(count_evidence((verdict,)))
        source = EventPointer(ledger.topic, row.partition, row.offset)
        yield _record(row, to.topic, quarantine_headers(source, ledger.name, contract, verdict))


@dataclass(frozen=True, slots=True)
class _Row:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None
    timestamp_ms: int


def _rows(table: pa.Table) -> Iterator[_Row]:
    for batch in table.to_batches():
        columns = (
            batch.column(name).to_pylist()
            for name in ("partition", "offset", "key", "value", "headers", "timestamp_ms")
        )
        yield from map(_Row, *columns)


def _record(row: _Row, topic: Topic, ours: list[tuple[str, bytes]]) -> OutputRecord:
    headers: Headers = [(header["key"], header["value"]) for header in row.headers or ()]
    headers.extend(ours)
    if row.timestamp_ms == 0:
        headers.append((TIMESTAMP_HEADER, b"0"))
    # Records of one source partition stay together, and in order.
    partition = row.partition % topic.partitions
    return OutputRecord(topic.name, partition, row.key, row.value, headers, row.timestamp_ms)
