"""One attempt of one stream: start the protocol, then process batches until stopped or failed.

A temporary failure ends the attempt; the next attempt repeats all steps of the start. Each attempt creates a new Spark
checkpoint: positions come from the ledger, so a lost checkpoint is not a special case.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import structlog
from pyspark import inheritable_thread_target

from tidegate.contracts.crash import described
from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.control import EventKind, Heartbeat
from tidegate.contracts.stream.decide import REFUSED_WITH_BATCH, BudgetSpent, Decision, decide
from tidegate.contracts.stream.ledger import Ledger, Vector, require_contiguous, span
from tidegate.spark_jobs.contract_source import ContractSource
from tidegate.spark_jobs.job.batch_limits import BatchLimits
from tidegate.spark_jobs.job.batch_report import BatchOutcome, figures_of, log_batch, report_of
from tidegate.spark_jobs.job.control import AlwaysRunning, Control, StreamPaused, require_running
from tidegate.spark_jobs.job.endings import outcome_of
from tidegate.spark_jobs.job.expectations import BatchExpectations, refused
from tidegate.spark_jobs.job.great_expectations_runner import GreatExpectationsRunner
from tidegate.spark_jobs.job.lease import Stop
from tidegate.spark_jobs.job.record_source import ContractTopic, OpenSource, Query
from tidegate.spark_jobs.job.replay import Prepared, Replayer
from tidegate.spark_jobs.job.replay_loop import ReplayLoop
from tidegate.spark_jobs.job.reports import Reporter
from tidegate.spark_jobs.job.shadow_source import NoShadows, ShadowSource
from tidegate.spark_jobs.job.source import BatchHandler
from tidegate.spark_jobs.kafka.source_topic import another_topic, find_source
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.kind import SinkContext, kind_of
from tidegate.spark_jobs.sinks.sink import CommittedBatch, JudgedBatch, MicroBatch, StreamStart
from tidegate.spark_jobs.steps import Step, StepObserver, Stopwatch
from tidegate.spark_jobs.tracing import NoTracer, Tracer
from tidegate.spark_jobs.worker.judge import worker_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = structlog.get_logger()

_POLL_SECONDS = 0.2
_YIELD_SECONDS = 0.001


class ChunkRefused(Unavailable):
    """The sink refuses a chunk of a replay for good. Its request stops; the stream starts again."""


@dataclass(frozen=True, slots=True)
class Job:
    """The objects that all streams of one process share."""

    spark: SparkSession
    settings: JobSettings
    topics: Topics
    reporter: Reporter
    observer: StepObserver
    tracer: Tracer = field(default_factory=NoTracer)
    rehearsed: Event = field(default_factory=Event)  # a rehearsal of a standby is enough for all streams


class StreamAttempt:
    """One claim of one stream.

    While a batch is written, in order, the next one is judged: judging uses every core, writing uses one.
    """

    def __init__(  # noqa: PLR0913 - the last one is only for a history
        self,
        job: Job,
        contract_id: str,
        contracts: ContractSource,
        control: Control | None = None,
        shadows: ShadowSource | None = None,
        limits: BatchLimits | None = None,
        *,
        open_source: OpenSource = ContractTopic,
    ) -> None:
        self._job = job
        self._open_source = open_source
        self._contract_id = contract_id
        self._contracts = contracts
        self._control = control or AlwaysRunning(contract_id)
        self._shadows = shadows or NoShadows()
        self._limits = limits or BatchLimits(job.settings.max_batch_bytes)
        self._lock = Lock()
        self._closing = False
        self._ending = Event()
        self._failure: BaseException | None = None
        self.failed: tuple[Vector, Vector] | None = None
        """Start and end of the batch whose judging or writing ended the attempt."""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"write-{contract_id}")
        self._writing: Future[Any] | None = None
        self._batch_handler = BatchHandler(self._on_batch)
        self._expectations = BatchExpectations(
            contract_id, job.settings.expectations_proof_every, lambda: GreatExpectationsRunner(job.spark)
        )
        self.published = 0
        self._running_since: float | None = None
        self._in_hand: list[float] = []
        """Start times of the batches that are being judged or written, oldest first."""

    @property
    def seconds(self) -> float:
        """Return the seconds since the query started; 0 before that."""
        return 0.0 if self._running_since is None else time.monotonic() - self._running_since

    @property
    def topic(self) -> str:
        """Return the topic that the stream reads."""
        return self._source.name

    def heartbeat(self) -> Heartbeat:
        """Return the heartbeat of this attempt. Called from a thread other than the stream's."""
        if self._running_since is None:
            return Heartbeat()
        begun, sink, ledger = next(iter(self._in_hand), None), self._sink, self._ledger
        busy = None if begun is None else time.monotonic() - begun
        lag, size, maintenance = self._lag(ledger.end), sink.table_size, sink.maintenance
        return Heartbeat(
            lag_records=lag, busy_seconds=busy, table=size, maintenance=maintenance, ledger=ledger.name
        )

    def run(self, stopping: Stop, running: Event) -> None:
        """Run until `stopping` is set, or until no records are left with `available_now`.

        Sets `running` when the query has started. Stops between batches only. Raises the error that ended the
        attempt. Raises Fenced instead if another instance holds the ledger, because a new start would fence that
        instance. Raises Unavailable, never Fenced, while this instance still holds the ledger.
        """
        with ExitStack() as held:
            with self._writer:
                try:
                    query = self._start()
                except Fenced as error:
                    raise self._outcome(error) from error
                held.callback(self._records.close)
                held.callback(self._sink.close)
                self._running_since = time.monotonic()
                running.set()
                self._control.report_event(EventKind.STARTED)
                try:
                    self._await(query, stopping)
                    if self._job.settings.available_now and self._failure is None:
                        self._replay_loop.run(stopping)
                except Exception as error:  # noqa: BLE001 - raised again below, unless the ledger knows better
                    self._failure = self._failure or error
                finally:
                    self._stop(query)
                    self._batch_handler.close()
                    self._in_hand.clear()
            if self._failure is not None:
                raise self._outcome(self._failure)

    def run_replays(self, stopping: Stop) -> None:
        """Claim the stream, process its replay requests without reading the source topic, and release the sink.

        Raises the same errors as `run`.
        """
        with ExitStack() as held:
            with self._writer:
                try:
                    self._claim(Stopwatch(self._contract_id, self._job.observer))
                except Fenced as error:
                    raise self._outcome(error) from error
                held.callback(self._sink.close)
                try:
                    self._contracts.require_published(self._ledger.contract)
                    self._control.require_decisions(self._ledger.decisions)
                    self._replay_loop.run(stopping)
                except Exception as error:  # noqa: BLE001 - raised again below, unless the ledger knows better
                    self._failure = self._failure or error
            if self._failure is not None and not isinstance(self._failure, ChunkRefused):
                raise self._outcome(self._failure)

    def _await(self, query: Query, stopping: Stop) -> None:
        while not query.awaitTermination(_POLL_SECONDS):
            if stopping.is_set() or self._failure is not None:
                return
            self._replay_loop.step()

    def _outcome(self, failure: BaseException) -> BaseException:
        timeout_seconds = self._job.settings.transaction_timeout_seconds
        return outcome_of(failure, self._contract_id, self._sink.is_held, timeout_seconds)

    def _start(self) -> Query:
        trace = self._job.tracer.begin("stream start", {"tidegate.stream": self._contract_id})
        try:
            with trace.current():
                query = self._begin(Stopwatch(self._contract_id, self._job.observer, trace))
        except BaseException as error:
            trace.fail(error)
            raise
        trace.end({"tidegate.epoch": self._ledger.epoch})
        return query

    def _begin(self, watch: Stopwatch) -> Query:
        """Claim the stream, and start reading at the end of its ledger."""
        self._claim(watch)
        try:
            return self._read(watch)
        except BaseException:
            self._batch_handler.close()
            self._sink.close()  # otherwise its thread would go on, and each attempt would leak one
            raise

    def _claim(self, watch: Stopwatch) -> None:
        """Open source and sink by the current contract, and claim the ledger. Raises StreamPaused if it is paused."""
        with watch(Step.CONTRACT):
            self._plan = self._contracts.current()
            control = self._control.current()
        if control.is_paused:
            self._note_pause(control.revision)
        require_running(control)
        self._open(watch, control.revision)

    def _note_pause(self, decisions: int) -> None:
        """Claim the ledger only to store the number of decisions, best effort.

        A registry that is later restored without the pause is then noticed at the next start.
        """
        try:
            self._open(Stopwatch(self._contract_id, self._job.observer), decisions)
            self._sink.close()
        except Exception as error:  # noqa: BLE001 - the stream is paused, whatever is wrong with its table
            log.warning("pause_not_in_ledger", stream=self._contract_id, error=described(error))

    def _open(self, watch: Stopwatch, decisions: int) -> None:
        """Open source and sink by the contract, and claim the ledger with this number of decisions."""
        job = self._job
        self._source = find_source(job.topics, self._plan)
        self._records = self._open_source(job.spark, job.settings, job.topics, self._plan, self._source)
        context = SinkContext(
            job.spark,
            job.settings,
            job.topics,
            self._contract_id,
            self._source,
            self._plan.contract.retention,
        )
        self._sink = kind_of(job.settings).open(context)
        start = StreamStart(
            self._plan,
            self._source,
            self._records.topic_start,
            watch,
            self._control.reported_epoch(),
            self._records.history,
            decisions,
        )
        self._ledger = self._sink.start(start)
        watch = Stopwatch(self._contract_id, job.observer)
        replayer = Replayer(job.spark, job.settings.kafka, job.topics, self._sink, self._source, watch)
        replays = self._control.replays
        self._replay_loop = ReplayLoop(replays, replayer, self._begin_chunk, self._publish_chunk)

    def _read(self, watch: Stopwatch) -> Query:
        """Start the query at the end of the claimed ledger."""
        self._contracts.require_published(self._ledger.contract)
        self._control.require_decisions(self._ledger.decisions)
        self._control.fill_window(self._plan.contract.error_budget)
        behind = self._records.resume(self._ledger)
        log.info(
            "stream_started",
            stream=self._contract_id,
            sink=self._sink.name,
            epoch=self._ledger.epoch,
            behind=behind,
            settled=len(self._sink.settled),
            ms=watch.milliseconds,
        )
        self._judged_end = self._ledger.end
        self._limits.refused = self._sink.settled.refusals()
        self._expectations.published = self._ledger.n
        return self._records.start(self._ledger, self._batch_handler)

    def _stop(self, query: Query) -> None:
        """Stop the query between two batches: wait for those in progress, and let no other begin."""
        self._ending.set()
        with self._lock:
            self._closing = True
        if self._writing is not None:
            wait([self._writing])  # the query cancels the jobs of its threads when it stops
        query.stop()

    def _on_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Process a batch of Spark. Never raises: `run` raises the error, without a traceback through Spark.

        After a failure or a stop, batches that Spark still begins are skipped: the next attempt starts from the
        ledger.
        """
        if self._closing:
            return
        try:
            self._take(rows, *self._records.offsets_of(batch_id))
        except BaseException as error:  # noqa: BLE001 - raised again by `run`, in the stream's own thread
            self._fail(error)

    def _take(self, rows: DataFrame, start: Vector, end: Vector) -> None:
        """Process the offsets that Spark offers, in as many batches as the limits require.

        If one batch covers them all, Spark's data frame is used. Otherwise a separate query reads only the offsets of
        each batch from Kafka, so no record is read twice.
        """
        require_contiguous(self._judged_end, start)
        begin = start
        while span(begin, end) > 0:  # Spark's last batch of available_now may hold nothing
            with self._lock:
                if self._closing or self._ending.is_set():
                    return
                until = self._limits.end_of_batch(begin, end)
                is_whole = begin == start and until == end
                self._process(rows if is_whole else self._records.read(begin, until), begin, until)
            begin = until
            # A lock goes to the thread that asks first, which would be this one again. The thread of the stream may
            # wait for it with a chunk of a replay, and meanwhile cannot see that the stream is to be stopped.
            time.sleep(_YIELD_SECONDS)

    def _fail(self, error: BaseException, batch: MicroBatch | None = None) -> None:
        """End the attempt with its first failure; errors that follow from it are ignored."""
        if self._failure is None:
            self._failure = error
            self.failed = None if batch is None else (batch.start, batch.end)
        self._closing = True

    def _process(self, rows: DataFrame, start: Vector, end: Vector) -> None:
        """Judge a batch and start writing it. Its trace ends when it is published or fails."""
        trace = self._job.tracer.begin("batch", {"tidegate.stream": self._contract_id})
        try:
            with trace.current():
                self._judge(rows, start, end, Stopwatch(self._contract_id, self._job.observer, trace))
        except BaseException as error:
            trace.fail(error)
            raise

    def _judge(self, rows: DataFrame, start: Vector, end: Vector, watch: Stopwatch) -> None:
        began = datetime.now(UTC)
        self._in_hand.append(time.monotonic())
        with watch(Step.CONTRACT):  # from here on, the contract of the batch is fixed
            control = self._control.current()
            require_running(control)
            plan = self._adopt()
        settled = self._sink.settled.within(start, end)
        # All tasks of a batch use the same current time.
        now = time.time_ns()
        shadow = self._shadows.of(control.shadow, plan, now)
        aside = control.set_aside_within(start, end)
        asked = replace(self._expectations.ask(plan, self._limits.refused), shadow=shadow, set_aside=aside)
        batch = MicroBatch(rows, start, end, plan.with_now(now), settled, watch, asked, control.revision)
        try:
            with watch(Step.JUDGE), worker_errors():
                judged = self._sink.judge(batch)
        except BaseException as error:
            self._shadows.batch_failed()
            self._fail(error, batch)
            raise
        self._limits.note(start, end, judged.results.bytes_read())
        try:
            self._await_written()
            # Checked again after the read, to verify that the records come from the topic that the ledger counts.
            self._records.require_same(self._ledger)
            with watch(Step.DECIDE):
                is_accepted = control.accepted is not None and control.accepted.overlaps(start, end)
                is_refused = any(each.overlaps(start, end) for each in self._limits.refused)
                context = self._control.window.context(is_accepted=is_accepted, is_refused=is_refused)
                results = judged.results
                decision = decide(plan, results.tallies, results.first_failed, settled, context)
                decision = self._expectations.decide(plan, results, decision)
                if decision.over_budget and decision.written and not decision.refusal:
                    decision = refused(plan, results.tallies, decision, (REFUSED_WITH_BATCH,))
        except BudgetSpent as spent:
            judged.release()
            raise self._trip(spent, batch) from None
        except BaseException:
            judged.release()
            raise
        self._judged_end = {**self._judged_end, **end}
        write = inheritable_thread_target(self._job.spark)(self._write)
        self._writing = self._writer.submit(write, batch, judged, decision, began)

    def _trip(self, error: BudgetSpent, batch: MicroBatch) -> StreamStopped:
        """Report that the batch has exceeded the error budget; return the error that ends the attempt."""
        trip = error.spent.trip(batch.plan.contract, batch.start, batch.end, self._ledger.epoch)
        self._control.trip(trip)
        return StreamPaused(str(error)) if trip.action == "pause" else error

    def _write(
        self, batch: MicroBatch, judged: JudgedBatch[Any], decision: Decision, began: datetime
    ) -> None:
        """Write a judged batch, while the next one is judged."""
        try:
            try:
                published = self._sink.publish(judged, decision)
            finally:
                judged.release()
            self._ledger = published.ledger
            self.published += 1
            self._in_hand.pop(0)
            self._control.window.published(decision.counted, begins_anew=decision.begins_anew)
            self._job.observer(self._contract_id, Step.COMMITTED)
            with batch.watch.trace.current():
                self._report(batch, judged, decision, published, began)
            published.require_followed()
        except BaseException as error:
            batch.watch.trace.fail(error)
            self._fail(error, batch)
            raise

    def _begin_chunk(self) -> tuple[EnforcementPlan, Ledger] | None:
        """Return the enforced contract and the ledger for a chunk of a replay; None if the attempt is ending."""
        with self._lock:
            if self._closing:
                return None
            require_running(self._control.current())
            return self._adopt(), self._ledger

    def _publish_chunk(self, prepared: Prepared) -> Ledger | None:
        """Publish a chunk of a replay after the batch that is being written, and before the next one.

        Return the ledger; None if the attempt is ending, or the contract has changed since the chunk was judged.
        """
        with self._lock:
            if self._closing or self._plan.fingerprint != prepared.plan.fingerprint:
                return None
            write = inheritable_thread_target(self._job.spark)(self._write_chunk)
            self._writing = self._writer.submit(write, prepared)
            writing: Future[Ledger] = self._writing
        return writing.result()

    def _write_chunk(self, prepared: Prepared) -> Ledger:
        if self._failure is not None:  # the previous batch failed; the next one waits only for this result
            raise self._failure
        try:
            self._ledger = self._sink.replay(prepared.judged, prepared.replay)
            self.published += 1
        except StreamStopped as error:
            # What the sink refuses of a replay stops the request, and the stream starts again without it.
            self._fail(error if isinstance(error, Fenced) else ChunkRefused(str(error)))
            raise
        except BaseException as error:
            self._fail(error)
            raise
        return self._ledger

    def _await_written(self) -> None:
        """Wait until the previous batch is written; raise its error."""
        if self._writing is not None:
            self._writing.result()

    def _adopt(self) -> EnforcementPlan:
        """Return the current contract, adopted by the sink if it has changed.

        Raises StreamStopped if its topic is no longer the one that the ledger counts.
        """
        plan = self._contracts.current()
        if plan.contract.topic != self._source.name:
            contract = plan.contract
            name = f"{contract.id}@{contract.version}"
            raise StreamStopped(another_topic(name, contract.topic, self._source.name, contract.id))
        self._records.require_same(self._ledger)
        if plan.fingerprint != self._plan.fingerprint:
            self._await_written()  # the previous batch is written under the contract that judged it
            self._sink.adopt(plan)
            self._plan = plan
        return plan

    def _report(
        self,
        batch: MicroBatch,
        judged: JudgedBatch[Any],
        decision: Decision,
        published: CommittedBatch,
        began: datetime,
    ) -> None:
        """Report a published batch: to the consumer group, the registry, the log and the trace."""
        outcome = BatchOutcome(decision, published, began, self._lag(batch.end))
        report = report_of(self._contract_id, self._sink, batch, judged, outcome)
        self._records.publish(published.ledger)
        self._job.reporter.report(report)
        log_batch(report, decision)
        batch.watch.trace.end(figures_of(report))

    def _lag(self, end: Vector) -> int | None:
        try:
            return max(0, span(end, self._records.latest()))
        except Unavailable:
            return None
