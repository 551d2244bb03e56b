"""The interface of all sinks: starting the protocol, judging a batch, and writing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import structlog

from tidegate.contracts.errors import StreamStopped, TidegateError
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import Decision
from tidegate.contracts.stream.history import HistoryMark
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
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk
from tidegate.contracts.stream.report import TableMaintenance, TableSize
from tidegate.spark_jobs.kafka.topics import TopicDescription
from tidegate.spark_jobs.steps import Stopwatch
from tidegate.spark_jobs.worker.request import EMPTY_REQUEST, WorkerRequest
from tidegate.spark_jobs.worker.task_results import TaskResults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = structlog.get_logger()

_MOST_EPOCHS_AHEAD: Final = 1_000_000
"""A reported epoch further ahead must be wrong, as a claim takes seconds. It must not use up the ledger's epochs."""


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The input of a sink's claim of a stream; `begin` are the offsets at which a new ledger would begin.

    `history` holds the marks after each load of a history, in order; it is empty if the batches come from the topic.
    """

    plan: EnforcementPlan
    source: TopicDescription
    begin: Vector
    watch: Stopwatch
    reported_epoch: int = 0
    """The highest epoch of the stream's reports in the registry."""
    history: tuple[HistoryMark, ...] = ()
    decisions: int = 0
    """Number of decisions about the stream that the registry knows."""

    def claimable(self, ledger: Ledger) -> Ledger:
        """Return the ledger prepared for its next claim: with a safe epoch, and the newest load of the history.

        Raises StreamStopped if the ledger counts a load that the history does not have.
        """
        if not self.history:
            return self.numbered(ledger)
        if ledger.history is not None and ledger.history not in self.history:
            raise StreamStopped(
                f"the folder of copies lacks load {ledger.history.load}, which the ledger of {ledger.stream} counts: it was "
                "deleted, replaced, or restored from an older moment. Restore the newest one; without it, records would be "
                f"written a second time. To begin with an empty output instead: tidegate archive {ledger.stream}"
            )
        return self.numbered(ledger.model_copy(update={"history": self.history[-1]}))

    def numbered(self, ledger: Ledger) -> Ledger:
        """Return the ledger with all decisions, and an epoch that puts its next claim above every reported epoch.

        A restored or rebuilt ledger would repeat epochs. Its batches would have the numbers of earlier batches, and
        the registry would refuse their reports.
        """
        ledger = ledger.model_copy(update={"decisions": max(ledger.decisions, self.decisions)})
        ahead = self.reported_epoch - ledger.epoch
        if not 0 < ahead <= _MOST_EPOCHS_AHEAD:
            return ledger
        log.info("epoch_raised", stream=ledger.stream, epoch=ledger.epoch, reported=self.reported_epoch)
        return ledger.model_copy(update={"epoch": self.reported_epoch})

    def new_ledger(self, name: str, scan_from: dict[str, Vector], slots: int) -> Ledger:
        """Return the ledger of a new stream, which no instance has claimed yet."""
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
    """One micro-batch: its rows, the offsets [start, end), the contract that judges it, and its settled records."""

    rows: DataFrame
    start: Vector
    end: Vector
    plan: EnforcementPlan
    settled: Mapping[Position, Settlement]
    watch: Stopwatch
    asked: WorkerRequest = EMPTY_REQUEST
    decisions: int = 0
    """Number of decisions about the stream that the registry knew when the batch began."""

    @property
    def contract(self) -> str:
        """Return the contract as `id@version`."""
        return self.plan.name

    def published(
        self, decision: Decision, scan_from: dict[str, Vector], slots: int, dropped: str, marks: str = ""
    ) -> PublishedBatch:
        """Return the changes of this batch to the ledger.

        `dropped` and `marks` are the digests of what it wrote to the topics of dropped positions and of marks.
        """
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
            dropped,
            self.decisions,
            marks,
        )


@dataclass(frozen=True, slots=True)
class Replay:
    """A judged chunk of a replay: the outcomes of its records, and the progress of its request before it."""

    chunk: ReplayedChunk
    progress: ReplayProgress

    def ledger(self, held: Ledger, digest: str, marks: str = "") -> Ledger:
        """Return the ledger after the chunk, with the digests of the chains of replayed positions and of marks."""
        return self.chunk.ledger(held, self.progress, digest, marks)


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """The ledger after a batch, and the evidence counts of its refused records."""

    ledger: Ledger
    evidence: Counter[RuleKey]
    failure: TidegateError | None = None
    """The error of a step after the commit."""

    def require_followed(self) -> None:
        """Raise the error of a step after the commit, if there is one; the batch is reported before."""
        if self.failure is not None:
            raise self.failure


class HeldRecords(Protocol):
    """The accepted records of a judged batch, invisible to readers."""

    def release(self) -> None:
        """Delete or forget the records, unless they were published."""
        ...


Held = TypeVar("Held", bound=HeldRecords)


@dataclass(frozen=True, slots=True)
class JudgedBatch(Generic[Held]):
    """A judged batch, held until it is published. Its results exclude settled records."""

    batch: MicroBatch
    results: TaskResults
    accepted: Held

    def release(self) -> None:
        """Release the records."""
        self.results.refused.release()
        self.accepted.release()


class Sink(Protocol[Held]):
    """A destination with its ledger. One instance serves one attempt of one stream and is not used after an error.

    The next batch is judged, in another thread, while the previous one is published. At most one batch is judged and
    one is published at a time, and `adopt` runs alone.
    """

    name: str

    @property
    def settled(self) -> Settled:
        """Return the records that an earlier attempt has settled and that are still ahead of the ledger."""
        ...

    def start(self, start: StreamStart) -> Ledger:
        """Claim the ledger and fence earlier instances. Raises Fenced, StreamStopped or Unavailable."""
        ...

    def adopt(self, plan: EnforcementPlan) -> None:
        """Prepare for records of this contract. Raises StreamStopped if the destination cannot hold them."""
        ...

    @property
    def table_size(self) -> TableSize | None:
        """Return the size of the table at its last maintenance; None without a table."""
        ...

    @property
    def maintenance(self) -> TableMaintenance | None:
        """Return the result of the maintenance so far; None before the first round, and for sinks without tables."""
        ...

    def is_held(self) -> bool:
        """Return whether no other instance has claimed the ledger. Raises Unavailable if it cannot be read."""
        ...

    def close(self) -> None:
        """Release the producers, because Spark may keep a reference to the sink's callbacks for long."""
        ...

    def judge(self, batch: MicroBatch) -> JudgedBatch[Held]:
        """Judge the rows of a batch that are not settled."""
        ...

    def publish(self, judged: JudgedBatch[Held], decision: Decision) -> CommittedBatch:
        """Write the batch according to the decision, and update the ledger. Raises Fenced or Unavailable."""
        ...

    def deletes_known_since(self) -> Vector:
        """Return the offsets from which on it is known whether a record's key was deleted; no entry means 0.

        Raises Unavailable.
        """
        ...

    def require_replayable(self, *, has_keys: bool, append_late: bool) -> None:
        """Raise ConflictError, with what to do, unless refused records may be written after newer ones.

        `has_keys`: some of them have a key. `append_late`: the request allows it.
        """
        ...

    def keep_positions(self) -> None:
        """Prepare to keep the positions of records that a replay writes or closes.

        Raises StreamStopped if they would be lost, Unavailable.
        """
        ...

    def replay(self, judged: JudgedBatch[Held], replay: Replay) -> Ledger:
        """Write the accepted records of a judged chunk and the positions that it closes, and update the ledger.

        No batch is published meanwhile. Raises Fenced or Unavailable.
        """
        ...
