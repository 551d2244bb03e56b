"""What every sink does: the start of the protocol, judging a batch in the shape it needs, and writing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import Decision
from tidegate.contracts.stream.ledger import (
    BatchTotals,
    Ledger,
    Position,
    PublishedBatch,
    Settled,
    Settlement,
    Vector,
    span,
)
from tidegate.contracts.stream.report import TableSize
from tidegate.spark_jobs.kafka.topics import Topic
from tidegate.spark_jobs.steps import Stopwatch
from tidegate.spark_jobs.worker.request import EMPTY_REQUEST, WorkerRequest
from tidegate.spark_jobs.worker.task_results import TaskResults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class StreamStart:
    """What a sink needs to claim a stream: `begin` is where a ledger that does not exist yet would begin."""

    plan: EnforcementPlan
    source: Topic
    begin: Vector
    watch: Stopwatch

    def new_ledger(self, name: str, scan_from: dict[str, Vector], slots: int) -> Ledger:
        """Return the ledger of a stream that never ran: no one has claimed it yet."""
        return Ledger(
            name=name,
            stream=self.plan.contract.id,
            topic=self.source.name,
            topic_id=self.source.topic_id,
            epoch=0,
            n=0,
            begin=self.begin,
            end=self.begin,
            scan_from=scan_from,
            slots=slots,
        )


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch: its rows, its offsets, the contract it is judged by, and what is settled already of it."""

    rows: DataFrame
    start: Vector
    end: Vector
    plan: EnforcementPlan
    settled: Mapping[Position, Settlement]
    watch: Stopwatch
    asked: WorkerRequest = EMPTY_REQUEST

    @property
    def contract(self) -> str:
        """The contract as `id@version`."""
        return f"{self.plan.contract.id}@{self.plan.contract.version}"

    def published(
        self, decision: Decision, scan_from: dict[str, Vector], slots: int, dropped_digest: str
    ) -> PublishedBatch:
        """Return what this batch changes in the ledger."""
        totals = BatchTotals(
            written=decision.written,
            quarantined=decision.quarantined,
            dropped=decision.dropped,
            absent=span(self.start, self.end) - decision.records,
        )
        return PublishedBatch(
            self.start,
            self.end,
            scan_from,
            totals,
            self.contract,
            slots,
            decision.by_partition,
            dropped_digest,
        )


@dataclass(frozen=True, slots=True)
class Published:
    """The ledger after a batch, and what the evidence of its refused records counted."""

    ledger: Ledger
    evidence: Counter[RuleKey]


class HeldRecords(Protocol):
    """The accepted records of a judged batch, where no reader sees them."""

    def release(self) -> None:
        """Delete or forget the records, unless they were published."""
        ...


Held = TypeVar("Held", bound=HeldRecords)


@dataclass(frozen=True, slots=True)
class JudgedBatch(Generic[Held]):
    """A batch that has been judged, once, and is held until it is published. Its results leave settled records out."""

    batch: MicroBatch
    results: TaskResults
    accepted: Held

    def release(self) -> None:
        """Let go of the records."""
        self.results.refused.release()
        self.accepted.release()


class Sink(Protocol[Held]):
    """A destination with its ledger. One instance serves one attempt of one stream and is not used after an error.

    The next batch is judged, in another thread, while the one before it is published; never two are judged or two
    published at a time, and `adopt` runs alone.
    """

    name: str

    @property
    def settled(self) -> Settled:
        """The records that an earlier attempt has settled and that are still ahead of the ledger."""
        ...

    def start(self, start: StreamStart) -> Ledger:
        """Claim the ledger and fence what came before. Raises Fenced, StreamStopped or Unavailable."""
        ...

    def adopt(self, plan: EnforcementPlan) -> None:
        """Make ready for records of this contract. Raises StreamStopped when the destination cannot hold them."""
        ...

    @property
    def table_size(self) -> TableSize | None:
        """Size of the table when it was last maintained; None where there is none."""
        ...

    def is_held(self) -> bool:
        """Return whether no other instance has claimed the ledger. Raises Unavailable when it cannot be read."""
        ...

    def close(self) -> None:
        """Let go of the producers: Spark holds on to what it called back for as long as it likes."""
        ...

    def judge(self, batch: MicroBatch) -> JudgedBatch[Held]:
        """Judge the rows of a batch that are not settled."""
        ...

    def publish(self, judged: JudgedBatch[Held], decision: Decision) -> Published:
        """Write what was decided, and move the ledger with it. Raises Fenced or Unavailable."""
        ...
