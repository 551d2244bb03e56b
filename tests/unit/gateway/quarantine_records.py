"""Refused records as the job writes them, and a process that indexes them without a broker."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.factory import Factory
from tidegate.gateway.streams.quarantine import Origin
from tidegate.gateway.streams.quarantine_index.merge import RefusalBatch
from tidegate.gateway.streams.quarantine_index.partitions import IndexedPartitions, PartitionCommit
from tidegate.gateway.streams.quarantine_index.refusals import ContractHints, RawRefusal, RefusalReader

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
HINTS = ContractHints(
    is_json=True,
    sentinels={"age-is-known": frozenset({"999"})},
    producer_headers=(("app", True), ("team", False)),
)
AGE = Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "is one of the forbidden values")
LINE = Violation(Stage.SCHEMA, "type", "/lines/3/name", Severity.ERROR, "must be of type string")
MISSING = Violation(Stage.SCHEMA, "required", "", Severity.ERROR, "required property `age` is missing")
BROKEN = Violation(Stage.DECODE, "json.invalid", "", Severity.ERROR, "is not JSON")


def refused(  # noqa: PLR0913 - each has a default
    offset: int,
    violations: Iterable[Violation] = (AGE,),
    *,
    partition: int = 0,
    value: bytes = b'{"age": 999}',
    version: str = "1.0.0",
    at: datetime = NOW,
    contract: str = "adm",
    topic: str = "adm",
    **headers: str,
) -> RawRefusal:
    """Return a record as the job writes it to the quarantine topic."""
    verdict = Verdict(Disposition.QUARANTINED, tuple(violations))
    source = EventPointer(topic, partition, offset * 10)
    own = quarantine_headers(source, "ledger", f"{contract}@{version}", verdict)
    sent = [(name, value.encode()) for name, value in headers.items()]
    return RawRefusal(
        partition, offset, int(at.timestamp() * 1000), f"k{offset}".encode(), value, [*sent, *own]
    )


@dataclass
class Process:
    """One replica of the registry: it claims, reads and commits."""

    factory: Factory
    name: str
    now: datetime = NOW
    stream: str = "adm"

    def __post_init__(self) -> None:
        self.partitions = IndexedPartitions(self.factory.database, lambda: self.now, self.name)
        secret = self.factory.database.read(lambda stores: stores.quarantine.secret())
        self.reader = RefusalReader(Origin(self.stream, self.stream), secret, lambda _: HINTS)

    def read(self, records: Iterable[RawRefusal]) -> RefusalBatch:
        batch = RefusalBatch()
        for record in records:
            if (found := self.reader.read(record)) is not None:
                batch.add(*found)
        return batch

    def ingest(self, records: list[RawRefusal], at_once: int = 1_000, low: int = 0) -> bool:
        """Index the records of one partition from the position on which the index is; False when another has it."""
        partition = records[0].partition
        claimed = self.partitions.claim(self.stream, partition, low, records[-1].offset + 1)
        if claimed is None:
            return False
        rest = [each for each in records if each.offset >= claimed.next_offset]
        for start in range(0, len(rest), at_once):
            part = rest[start : start + at_once]
            (claimed,) = self.partitions.commit(
                [PartitionCommit(claimed, self.read(part), part[-1].offset + 1)]
            )
            assert claimed is not None
        return True


def many(count: int, partition: int = 0, seed: int = 1) -> list[RawRefusal]:
    """Return refused records of several problems, versions, producers and days, with gaps between their offsets."""
    chance = random.Random(seed + partition)  # noqa: S311 - test data
    kinds = [
        ((AGE,), b'{"age": 999}'),
        ((LINE, AGE), b'{"age": -1, "lines": [0, 0, 0, {"name": 7}]}'),
        ((BROKEN,), b"{"),
    ]
    offset, at, found = 0, NOW, []
    for _ in range(count):
        offset += chance.choice((1, 1, 2, 700))
        at += timedelta(seconds=chance.choice((0, 1, 3_000)))
        violations, value = chance.choice(kinds)
        found.append(
            refused(
                offset, violations, partition=partition, value=value, at=at,
                version=chance.choice(("1.0.0", "1.1.0")), app=chance.choice(("a", "b")),
            )
        )  # fmt: skip
    return found
