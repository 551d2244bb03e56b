"""Replay of refused records in chunks, between the batches of a stream: read by position, fix, judge, publish.

A chunk is judged concurrently with the batches, and published by the thread that writes them. A request can never stop
its stream: a request that cannot be processed is itself stopped, with the reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, assert_never
from uuid import UUID

import pyarrow as pa

from tidegate.contracts.errors import ConflictError, ContractError
from tidegate.contracts.fix.apply import RecordFix
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.bounds import MOST_RULES
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.counts import RuleKey, rule_counts
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger, Position, Vector
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    Closed,
    ReplayAction,
    ReplayReport,
    ReplayRequest,
    ReplayState,
    Untouched,
    runs_of,
)
from tidegate.contracts.stream.replay_preview import RefusedRecord, fix_for, judged_again
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk, done_well, is_over_budget
from tidegate.spark_jobs.job.replay_chunk import (
    CHUNK_RECORDS,
    FailedAgain,
    Places,
    ReplayChunk,
    add_places,
    messages_at,
    most_records,
    read_chunk,
    rows_of,
)
from tidegate.spark_jobs.job.resend import ClosedRecords
from tidegate.spark_jobs.kafka.replayed import ReplayedTopic
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics
from tidegate.spark_jobs.sinks.sink import JudgedBatch, MicroBatch, Replay, Sink
from tidegate.spark_jobs.steps import ReplayStep, Stopwatch
from tidegate.spark_jobs.worker.judge import worker_errors
from tidegate.spark_jobs.worker.records import refused_by
from tidegate.spark_jobs.worker.request import WorkerRequest

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import SparkSession

_MOST_REASONS: Final = 100
_MOST_UNTOLD: Final = 20_000
"""Limit of undelivered places of closed, or of failed, records. Beyond it they are dropped and looked up again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A judged chunk that waits for its commit."""

    request: ReplayRequest
    plan: EnforcementPlan
    judged: JudgedBatch[Any]
    replay: Replay
    failed: FailedAgain
    read: ReplayChunk

    def release(self) -> None:
        """Release the judged records, unless they were published."""
        self.judged.release()


class Replayer:
    """Processor of the replay requests in one attempt of one stream."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaConnection,
        topics: Topics,
        sink: Sink[Any],
        source: TopicDescription,
        watch: Stopwatch,
    ) -> None:
        """Store the collaborators. A fixed value is limited to the largest message that the source topic accepts."""
        self._spark = spark
        self._most_bytes = source.max_message_bytes
        self._kafka = kafka
        self._topics = topics
        self._sink = sink
        self._watch = watch
        self._closed = ClosedRecords(kafka, sink, ReplayedTopic(topics, source))
        self._refusals: tuple[UUID, Positions] | None = None
        self._reasons: Counter[RuleKey] = Counter()
        self._untouched: Counter[Untouched] = Counter()
        self._looked = 0
        self._untold: Places = {}
        self._untold_again: dict[str, Positions] = {}

    def look(self, request: ReplayRequest, plan: EnforcementPlan, held: Ledger) -> ReplayReport | None:
        """Look up the next chunk of refusals that an earlier attempt processed; None when all are looked up.

        That attempt may have ended before its report. Refusals that are neither closed nor left untouched were refused
        again; they are judged once more for the reason. Raises ConflictError, Fenced, Unavailable.
        """
        progress, positions = request.begun(held), self._positions(request)
        if self._looked >= progress.done:
            return None
        self._require_topic(request)
        wanted = positions.chunk(self._looked, min(CHUNK_RECORDS, progress.done - self._looked))
        known, since = self._closed.known(held), self._deletes_known_since(request)
        chunk = read_chunk(request.terms, held, known, since, wanted, self._messages(request, wanted))
        failed = FailedAgain()
        if request.action is not ReplayAction.DISCARD:
            _, failed = self._passing(chunk, chunk.records, plan, _compiled(request, plan))
        self._looked += chunk.taken
        self._tell_of(chunk, failed)
        return self.report(request, progress, ReplayState.OPEN)

    def prepare(self, request: ReplayRequest, plan: EnforcementPlan, held: Ledger) -> Prepared | None:
        """Read and judge the next chunk of a request; return None when all of it is processed.

        Raises ConflictError when the request cannot be processed, Fenced, Unavailable.
        """
        progress = request.begun(held)
        if progress.is_finished:
            return None
        fix = _compiled(request, plan)
        with self._watch(ReplayStep.READ):
            chunk = self._read(request, progress, held)
        match request.action:
            case ReplayAction.REPLAY:
                self._sink.require_replayable(has_keys=chunk.has_keys, append_late=request.append_late)
                self._sink.keep_positions()
                return self._rewritten(request, plan, held, chunk, fix)
            case ReplayAction.DISCARD:
                self._sink.keep_positions()
                found = ReplayedChunk(
                    left=chunk.taken - len(chunk.records), closed=chunk.sources, closure=Closure.DISCARDED
                )
                return self._closing(request, plan, held, chunk, (found, FailedAgain()))
            case ReplayAction.TO_SOURCE:
                self._sink.keep_positions()
                sent = self._sent_back(request, plan, held, chunk, fix)
                return self._closing(request, plan, held, chunk, sent)
            case _:
                assert_never(request.action)

    def published(self, prepared: Prepared, ledger: Ledger) -> ReplayReport:
        """Record that a chunk was published; return the report of its request, with all that this attempt knows."""
        found, read, request = prepared.replay.chunk, prepared.read, prepared.request
        self._closed.published(found)
        self._reasons.update(prepared.failed.reasons)
        self._untouched.update(read.untouched)
        for closure, sources in ((Closure.REPLAYED, found.written), (found.closure, found.closed)):
            if closure is not None and sources:
                read.close(closure, (read.places[source] for source in sources))
        progress = request.begun(ledger)
        self._looked = progress.done
        self._tell_of(read, prepared.failed)
        is_done = progress.is_finished and self._looked == progress.done
        return self.report(request, progress, ReplayState.DONE if is_done else ReplayState.OPEN)

    def report(
        self, request: ReplayRequest, progress: ReplayProgress, state: ReplayState, message: str | None = None
    ) -> ReplayReport:
        """Return the report of a request: counts from the ledger, and what this attempt knows of its records."""
        return ReplayReport(
            request=request.id,
            stream=request.stream,
            at=datetime.now(UTC),
            state=state,
            records=progress.records,
            written=progress.written,
            refused=progress.refused,
            left=progress.left,
            closed=progress.closed,
            reasons=rule_counts(self._reasons)[:_MOST_REASONS],
            untouched=dict(self._untouched),
            closures={closure: runs_of(places) for closure, places in self._untold.items()},
            again={code: runs_of(places) for code, places in islice(self._untold_again.items(), MOST_RULES)},
            message=None if message is None else message[:2000],
        )

    def told(self) -> None:
        """Record that the last report was delivered."""
        self._untold, self._untold_again = {}, {}

    def _rewritten(
        self,
        request: ReplayRequest,
        plan: EnforcementPlan,
        held: Ledger,
        chunk: ReplayChunk,
        fix: RecordFix | None,
    ) -> Prepared:
        """Judge a chunk with Spark; its accepted records wait for the commit."""
        with self._watch(ReplayStep.JUDGE), worker_errors():
            asked = WorkerRequest(is_replay=True, fix=fix, most_bytes=self._most_bytes)
            judged = self._judge(chunk.table(), plan, asked)
        try:
            refused = dict(refused_by(judged.results.refused.batches(), judged.batch.plan))
            written = chunk.sources - Positions(sorted(refused))
            found = ReplayedChunk(written, len(refused), chunk.taken - len(chunk.records))
            replay = self._replay(request, held, found)
        except BaseException:
            judged.release()
            raise
        failed = FailedAgain()
        for source, violations in refused.items():
            failed.add(chunk.places[source], violations)
        return Prepared(request, plan, judged, replay, failed, chunk)

    def _sent_back(
        self,
        request: ReplayRequest,
        plan: EnforcementPlan,
        held: Ledger,
        chunk: ReplayChunk,
        fix: RecordFix | None,
    ) -> tuple[ReplayedChunk, FailedAgain]:
        """Judge a chunk in this process, and send passing records to the source topic unless already sent."""
        ahead = self._closed.ahead
        passing = chunk.sources & ahead
        due = {source: record for source, record in chunk.records.items() if source not in ahead}
        with self._watch(ReplayStep.JUDGE):
            records, failed = self._passing(chunk, due, plan, fix)
        found = ReplayedChunk(
            refused=len(due) - len(records),
            left=chunk.taken - len(chunk.records),
            closed=passing | Positions(sorted(records)),
            closure=Closure.RESENT,
            also=ahead - passing,
        )
        self._replay(request, held, found)  # raises if it may not be published: a send cannot be undone
        if records:
            with self._watch(ReplayStep.SEND):
                self._closed.send(held, records)
        return found, failed

    def _passing(
        self,
        chunk: ReplayChunk,
        due: Mapping[Position, RefusedRecord],
        plan: EnforcementPlan,
        fix: RecordFix | None,
    ) -> tuple[dict[Position, tuple[RefusedRecord, bytes | None]], FailedAgain]:
        """Judge records in this process; return those that pass, with new values, and the reasons for the others."""
        source_of = {id(record): source for source, record in due.items()}
        records: dict[Position, tuple[RefusedRecord, bytes | None]] = {}
        failed = FailedAgain()
        for each in judged_again(due.values(), plan, fix):
            source = source_of[id(each.record)]
            if each.verdict.disposition.is_written and len(each.value or b"") <= self._most_bytes:
                records[source] = each.record, each.value
            else:
                failed.add(chunk.places[source], each.verdict.violations)
        return records, failed

    def _closing(
        self,
        request: ReplayRequest,
        plan: EnforcementPlan,
        held: Ledger,
        chunk: ReplayChunk,
        outcome: tuple[ReplayedChunk, FailedAgain],
    ) -> Prepared:
        """Return a chunk that closes records and writes no rows."""
        found, failed = outcome
        with self._watch(ReplayStep.JUDGE), worker_errors():
            judged = self._judge(rows_of([]), plan, WorkerRequest(is_replay=True))
        return Prepared(request, plan, judged, self._replay(request, held, found), failed, chunk)

    def _judge(self, records: pa.Table, plan: EnforcementPlan, asked: WorkerRequest) -> JudgedBatch[Any]:
        rows = self._spark.createDataFrame(records)
        batch = MicroBatch(rows, {}, {}, plan.with_now(time.time_ns()), {}, self._watch, asked)
        return self._sink.judge(batch)

    def _replay(self, request: ReplayRequest, held: Ledger, found: ReplayedChunk) -> Replay:
        """Return the chunk in the sink's form. Raises ConflictError if the ledger or the error budget rejects it."""
        replay = Replay(found, request.begun(held))
        replay.ledger(held, "")
        _require_budget(request, replay.progress, found)
        return replay

    def _read(self, request: ReplayRequest, progress: ReplayProgress, held: Ledger) -> ReplayChunk:
        """Read the next refusals of one partition of the quarantine topic, up to the size of a chunk."""
        self._require_topic(request)
        closed = self._closed.known(held)
        if request.action is ReplayAction.TO_SOURCE:  # records sent before a commit must still be closed
            closed = Closed(closed.replayed, closed.discarded, closed.resent - self._closed.ahead)
        since = self._deletes_known_since(request)
        wanted = self._positions(request).chunk(progress.done, most_records(request))
        return read_chunk(request.terms, held, closed, since, wanted, self._messages(request, wanted))

    def _deletes_known_since(self, request: ReplayRequest) -> Vector:
        return self._sink.deletes_known_since() if request.terms.writes_rows else {}

    def _require_topic(self, request: ReplayRequest) -> None:
        identity = self._topics.identity(request.topic)
        if identity is None or identity[0] != request.topic_id:
            raise ConflictError(
                f"{request.topic} was created again since the replay was requested: its records are others. Request it again"
            )

    def _messages(self, request: ReplayRequest, wanted: Positions) -> Iterator[Message]:
        return messages_at(self._kafka, self._topics, request.topic, wanted)

    def _positions(self, request: ReplayRequest) -> Positions:
        if self._refusals is None or self._refusals[0] != request.id:
            try:
                self._refusals = request.id, request.refusals()
            except ValueError as error:
                raise ConflictError(f"replay {request.id}: {error}") from error
            self._reasons.clear()
            self._untouched.clear()
            self._forget_untold()
        return self._refusals[1]

    def _tell_of(self, chunk: ReplayChunk, failed: FailedAgain) -> None:
        """Keep the places of closed and failed records for the next report; if too many, drop and look up again."""
        if max(sum(map(len, each.values())) for each in (self._untold, self._untold_again)) > _MOST_UNTOLD:
            self._forget_untold()
            return
        add_places(self._untold, chunk.closed)
        add_places(self._untold_again, failed.places)

    def _forget_untold(self) -> None:
        self._looked = 0
        self.told()


@contextmanager
def refusing_mistakes() -> Iterator[None]:
    """Turn a ContractError about a fix into a ConflictError."""
    try:
        yield
    except ContractError as error:
        raise ConflictError(f"the fix cannot be used: {error}") from error


def _compiled(request: ReplayRequest, plan: EnforcementPlan) -> RecordFix | None:
    if request.fix is None:
        return None
    with refusing_mistakes():
        fix = parse_fix(request.fix, name="fix.json")
    if fix.fingerprint != request.fingerprint:
        raise ConflictError("the fix does not have the fingerprint of the request")
    return fix_for(fix, plan)


def _require_budget(request: ReplayRequest, progress: ReplayProgress, found: ReplayedChunk) -> None:
    if not is_over_budget(progress, found, request.allowed):
        return
    refused = progress.refused + found.refused
    judged = done_well(progress, found) + refused
    raise ConflictError(
        f"{refused:,} of {judged:,} replayed records fail again, {request.allowed:.1%} allowed; the last chunk was not "
        "written. Look at the reasons with --dry-run, correct the fix, and request the replay again"
    )
