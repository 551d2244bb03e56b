"""Run several streams in one process: each in its own thread, restarted separately, stopped together."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from types import FrameType

import httpx
import structlog
from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException, PythonException

from tidegate.contracts.crash import described
from tidegate.contracts.errors import Fenced, StreamStopped, TidegateError, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.control import EventKind, Heartbeat
from tidegate.contracts.stream.ledger import span
from tidegate.contracts.stream.reconciliation import ReconciliationRequest
from tidegate.spark_jobs.contract_source import (
    ContractNotFoundError,
    RegistryContract,
    RegistryGone,
    mask_key_of,
)
from tidegate.spark_jobs.history.request import HistoryRequest
from tidegate.spark_jobs.job.batch_limits import BatchLimits
from tidegate.spark_jobs.job.contract_watch import ContractWatch
from tidegate.spark_jobs.job.control import RegistryControl, StreamPaused
from tidegate.spark_jobs.job.endings import brief, event_of, java_is_gone, severity, shown_reason
from tidegate.spark_jobs.job.halving import may_blame_record, reason_to_halve, stopped_by_record
from tidegate.spark_jobs.job.lease import Lease, StopOrLoss
from tidegate.spark_jobs.job.reconciler import Reconciler
from tidegate.spark_jobs.job.record_source import ContractTopic, HistorySource
from tidegate.spark_jobs.job.rehearsal import rehearse
from tidegate.spark_jobs.job.shadow_source import RegistryShadows
from tidegate.spark_jobs.job.stream import Job, StreamAttempt
from tidegate.spark_jobs.settings import ContractSelection

log = structlog.get_logger()

_MAY_PASS = (Unavailable, PySparkException, Py4JError, KafkaException, OSError)
"""Errors that may be temporary: of the broker, the registry, the store, a disk, or a lost worker."""

_HEARTBEATS_AT_ONCE = 16
_LONGEST_BACKOFF_SECONDS = 30.0
_MOST_DOUBLINGS = 100
"""Limit of the backoff's exponent: the pause is capped long before, and a larger exponent may overflow a float."""
_REHEARSAL_SECONDS = 10.0
"""Maximum wait for a rehearsal. At exit, Python would abort a thread inside Arrow, and with it the process."""
_STEP_SECONDS = 0.2
"""Pause between two steps of a watch; the registry is asked less often."""


class SparkGone(Unavailable):
    """Spark's Java process has ended, so no attempt of this process can succeed."""


class StreamThread(InheritableThread):
    """The thread of one stream: runs attempts until the stream is stopped, ends, or must not continue."""

    def __init__(
        self,
        job: Job,
        contract_id: str,
        registry: httpx.Client,
        stopping: Event,
        *,
        leaves: bool = False,
        history: HistoryRequest | None = None,
    ) -> None:
        """Create the thread without starting it.

        With `leaves`, the stream ends without a failure when its contract is no longer enforced. With a `history`, the
        thread loads and judges the history instead of the topic, and ends.
        """
        super().__init__(target=self._keep_going, name=f"stream-{contract_id}", daemon=True)
        self.contract_id = contract_id
        self.running = Event()
        self.failure: BaseException | None = None
        self._job = job
        self._stopping = stopping
        mask_key = mask_key_of(job.settings)
        self._contracts = RegistryContract(
            registry, contract_id, job.settings.registry_grace_seconds, stopping, mask_key
        )
        self._control = RegistryControl(registry, contract_id, stopping)
        self._history = history
        self._shadows = RegistryShadows(registry, contract_id, mask_key)
        self._limits = BatchLimits(job.settings.max_batch_bytes)
        # A bounded run over the topic takes over immediately; a run over a history waits until no job runs the stream.
        waits = job.settings if history is None else job.settings.model_copy(update={"available_now": False})
        self._lease = Lease(waits, contract_id)
        self._attempt: StreamAttempt | None = None
        self._is_slow = False
        self._leaves = leaves
        self._is_restarting = False
        self._rehearsal: Thread | None = None

    @property
    def is_under_way(self) -> bool:
        """Return whether its query runs, or has failed and restarts by itself."""
        return self.running.is_set() or self._is_restarting

    @property
    def ends_job(self) -> bool:
        """Return whether it has ended because Spark's Java process is gone."""
        return isinstance(self.failure, SparkGone)

    def stop(self) -> None:
        """Request that the stream end between two batches."""
        self._stopping.set()

    def beat(self) -> ReconciliationRequest | None:
        """Send a heartbeat, also without new records; return the reconciliation that the gateway requests, or None.

        A standby sends none, because the instance that runs the stream does.
        """
        if self._lease.is_waiting:
            return None
        heartbeat = self._attempt.heartbeat() if self._attempt is not None else Heartbeat()
        is_slow = (heartbeat.busy_seconds or 0) >= self._job.settings.watchdog_seconds
        if is_slow and not self._is_slow:
            log.warning("batch_slow", stream=self.contract_id, seconds=round(heartbeat.busy_seconds or 0))
        self._is_slow = is_slow
        return self._control.beat(heartbeat)

    def _keep_going(self) -> None:
        try:
            self._run_attempts()
        except BaseException as error:  # noqa: BLE001 - the failure handling itself has failed
            self._end(error)
        finally:
            # An ended thread must not seem alive: a lease that is still renewed would block the standby.
            self._lease.release()
            if self._rehearsal is not None:
                self._rehearsal.join(_REHEARSAL_SECONDS)
        if self.failure is None:
            log.info("stream_ended", stream=self.contract_id)
            if not self._lease.is_waiting and not self._lease.is_lost:
                self._control.report_event(EventKind.ENDED)

    def _run_attempts(self) -> None:
        # A scheduler pool per stream, so that the streams share the cores evenly.
        self._job.spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.contract_id)
        failures: int | None = 0
        while failures is not None and not self._stopping.is_set():
            attempt = self._attempt = self._new_attempt()
            try:
                plan = self._contracts.current()
                stand_by = partial(self._stand_by, plan)
                if not self._lease.acquire(plan.contract.topic, self._stopping, stand_by):
                    break
                attempt.run(StopOrLoss(self._stopping, self._lease), self.running)
            except BaseException as error:  # noqa: BLE001 - an error of one stream must not end the others
                # An idle stream publishes no batch, so a long run counts as success too.
                is_well = attempt.published or attempt.seconds >= self._job.settings.restart_reset_seconds
                failures = 0 if is_well else failures
                if not self._is_halved(error, attempt) and not self._is_noted_next(error, attempt):
                    failures = self._after(self._named(error, attempt), failures)
            else:
                if not self._lease.is_lost:
                    break

    def _stand_by(self, plan: EnforcementPlan) -> None:
        self.running.set()  # a standby is ready
        if not self._job.rehearsed.is_set():
            self._job.rehearsed.set()
            self._rehearsal = Thread(target=rehearse, args=(self._job, plan), name="rehearsal", daemon=True)
            self._rehearsal.start()

    def _new_attempt(self) -> StreamAttempt:
        return StreamAttempt(
            self._job,
            self.contract_id,
            self._contracts,
            self._control,
            self._shadows,
            self._limits,
            open_source=ContractTopic if self._history is None else partial(HistorySource, self._history),
        )

    def _is_halved(self, error: BaseException, attempt: StreamAttempt) -> bool:
        """Return whether the next attempt processes half of the failed batch. It starts without a pause.

        Each such failure halves the batch until it has one record, so no other limit is needed.
        """
        failed = attempt.failed
        if failed is None or self._reason_to_halve(error) is None or not self._limits.halve(*failed):
            return False
        log.warning("batch_halved", stream=self.contract_id, offsets=span(*failed), error=brief(error))
        return True

    def _is_noted_next(self, error: BaseException, attempt: StreamAttempt) -> bool:
        """Return whether the next attempt only writes the pause that ended this one into the ledger, and ends too."""
        return isinstance(error, StreamPaused) and attempt.seconds > 0 and self._control.is_known_paused

    def _named(self, error: BaseException, attempt: StreamAttempt) -> BaseException:
        """Return the error to handle; if a batch of one offset has failed, an error that names the record."""
        reason, failed = self._reason_to_halve(error), attempt.failed
        if failed is None or reason is None or not may_blame_record(error):
            return error
        log.error("record_failed", stream=self.contract_id, error=brief(error))
        return stopped_by_record(self.contract_id, attempt.topic, failed, reason)

    def _reason_to_halve(self, error: BaseException) -> str | None:
        """Return why a smaller batch may pass, or None; None too if the job is stopping or Spark is gone."""
        return None if self._stopping.is_set() or self._is_spark_gone() else reason_to_halve(error)

    def _after(self, error: BaseException, failures: int) -> int | None:
        """Handle the error that ended an attempt; return the consecutive failures, None if the stream has ended."""
        if self._stopping.is_set() and isinstance(error, (*_MAY_PASS, StreamPaused)):
            return failures
        if self._leaves and isinstance(error, ContractNotFoundError):
            return None
        if isinstance(error, Fenced) and self._lease.is_elsewhere():
            return 0  # a restart would fence the other instance, so this one waits for the lease
        if isinstance(error, StreamPaused) and not self._job.settings.available_now:
            return self._sit_out(error)
        if not isinstance(error, TidegateError) and self._is_spark_gone():
            error = SparkGone(java_is_gone(self.contract_id))
        failures += 1
        if (
            self._contracts.is_away
        ):  # e.g. a record with a schema not known yet: the stream retries until the registry is back
            failures = min(failures, self._job.settings.restart_limit)
        if not self._may_go_on(error, failures):
            self._end(error)
            return None
        self._wait(error, failures)
        return failures

    def _sit_out(self, paused: StreamPaused) -> int | None:
        """Wait until a person resumes the stream; return the failures to count, None if the stream has ended."""
        log.warning("stream_paused", stream=self.contract_id, reason=brief(paused))
        self.running.set()  # a readiness check must not wait for a person
        try:
            self._control.await_resumed()
        except StreamStopped as error:
            self._end(error)
            return None
        return 0

    def _may_go_on(self, error: BaseException, failures: int) -> bool:
        return (
            isinstance(error, _MAY_PASS)
            # The judge never raises because of a record: an exception in a worker is a bug, and would occur again.
            and not isinstance(error, (RegistryGone, PythonException, SparkGone))
            and failures <= self._job.settings.restart_limit
        )

    def _is_spark_gone(self) -> bool:
        jvm = self._job.spark._jvm  # noqa: SLF001 - no Python API tells whether the process answers
        assert jvm is not None  # noqa: S101 - narrows for the type checker
        try:
            jvm.System.nanoTime()
        except (Py4JError, OSError):
            return True
        return False

    def _wait(self, error: BaseException, failures: int) -> None:
        doubled = self._job.settings.restart_backoff_seconds * 2 ** min(failures - 1, _MOST_DOUBLINGS)
        seconds = min(_LONGEST_BACKOFF_SECONDS, doubled)
        log.warning(
            "stream_restarting",
            stream=self.contract_id,
            failures=failures,
            seconds=round(seconds, 1),
            error=brief(error),
        )
        self._is_restarting = True
        # Streams that failed together must not all retry at the same moment.
        self._stopping.wait(seconds * random.uniform(0.75, 1.0))  # noqa: S311 - spreads load, guards nothing

    def _end(self, error: BaseException) -> None:
        if isinstance(error, _MAY_PASS) and not isinstance(error, (TidegateError, PythonException)):
            self.failure = Unavailable(f"{self.contract_id}: gave up after repeated failures: {brief(error)}")
            self.failure.__cause__ = error
        else:
            self.failure = error
        is_ours = isinstance(error, TidegateError)
        log.error(
            "stream_failed",
            stream=self.contract_id,
            kind=type(error).__name__,
            error=brief(error),
            exc_info=None if is_ours else error,
        )
        if not isinstance(error, StreamPaused):  # the gateway knows of the pause already
            self._control.report_event(event_of(error), shown_reason(self.failure))


def run_streams(
    job: Job,
    contract_ids: Sequence[str],
    registry: httpx.Client,
    ready_file: Path | None = None,
    history: HistoryRequest | None = None,
) -> int | None:
    """Run a stream for each contract until all have ended or a signal stops them.

    With a `history`, the streams read that instead of their topics. SIGTERM and SIGINT stop each stream between two
    batches; a second signal ends the process immediately. `ready_file` is written when every stream has a running
    query. Returns the number of the signal that stopped the streams, None if they ended by themselves. Raises the most
    severe failure if streams have failed.
    """
    stopping = Event()
    threads = [
        StreamThread(job, contract_id, registry, stopping, history=history) for contract_id in contract_ids
    ]
    with (
        _stop_on_signal(stopping) as received,
        closing(Reconciler(job.settings, registry)) as reconciler,
        _heartbeat(lambda: threads, reconciler, job.settings.heartbeat_seconds) as beat_now,
    ):
        for thread in threads:
            thread.start()
        _wait_for(threads, lambda: all(thread.running.is_set() for thread in threads))
        beat_now()
        if ready_file is not None and any(thread.is_alive() for thread in threads):
            _write_ready(ready_file, contract_ids)
        _wait_for(threads, lambda: False)
    failures = [thread.failure for thread in threads if thread.failure is not None]
    if failures:
        raise max(failures, key=severity)
    return received[0] if received else None


def watch_streams(
    job: Job, selection: ContractSelection, registry: httpx.Client, ready_file: Path | None = None
) -> int | None:
    """Run a stream for each selected contract that the registry lists, until a signal ends the job.

    `ready_file` is written when the streams of the first list run, or wait to restart. Signals and the return value are
    those of `run_streams`. A stream that fails is restarted and does not end the job. With `available_now`, the most
    severe failure is raised when all streams have ended.
    """
    stopping = Event()

    def make(contract_id: str) -> StreamThread:
        return StreamThread(job, contract_id, registry, Event(), leaves=True)

    watch = ContractWatch(registry, selection, make, job.settings)
    with (
        _stop_on_signal(stopping) as received,
        closing(Reconciler(job.settings, registry)) as reconciler,
        _heartbeat(lambda: watch.streams, reconciler, job.settings.heartbeat_seconds) as beat_now,
    ):
        try:
            is_ready = False
            while not stopping.is_set() and not watch.is_done:
                watch.step()
                if watch.is_settled and not is_ready:
                    is_ready = True
                    beat_now()
                    if ready_file is not None:
                        _write_ready(ready_file, [each.contract_id for each in watch.streams])
                time.sleep(_STEP_SECONDS)  # not stopping.wait(): the signal handler sets the event
        finally:
            watch.stop()
            _wait_for(watch.streams, lambda: False)
    if job.settings.available_now and watch.failures and not received:
        raise max(watch.failures, key=severity)
    return received[0] if received else None


@contextmanager
def _heartbeat(
    threads: Callable[[], Sequence[StreamThread]], reconciler: Reconciler, seconds: float
) -> Iterator[Callable[[], None]]:
    """Send the heartbeats of all streams every `seconds`; ended streams send none.

    Paused and idle streams send heartbeats too, and can be reconciled. Yields a function that triggers the next
    heartbeats immediately, so that pending requests need not wait once all streams run.
    """
    ended, soon = Event(), Event()

    def beat_of(thread: StreamThread) -> None:
        try:
            reconciler.take(thread.beat())
        except Exception as error:  # noqa: BLE001 - the heartbeats of the other streams must go on
            log.warning("heartbeat_failed", stream=thread.contract_id, error=described(error))

    def beat() -> None:
        # Each heartbeat asks a broker for a lag. In sequence, many streams would wait for one unreachable broker.
        with ThreadPoolExecutor(_HEARTBEATS_AT_ONCE, thread_name_prefix="heartbeat") as pool:
            while not ended.is_set():
                soon.wait(seconds)
                soon.clear()
                if ended.is_set():
                    return
                wait(
                    [
                        pool.submit(beat_of, each)
                        for each in threads()
                        if each.is_alive() and each.running.is_set()
                    ]
                )

    beating = Thread(target=beat, name="heartbeat", daemon=True)
    beating.start()
    try:
        yield soon.set
    finally:
        ended.set()
        soon.set()
        beating.join()


def _wait_for(threads: Sequence[StreamThread], is_enough: Callable[[], bool]) -> None:
    """Wait until `is_enough` returns True or all threads have ended.

    Waits in short steps, because a signal handler runs only between them.
    """
    while not is_enough() and any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(0.1)


def _write_ready(ready_file: Path, contract_ids: Sequence[str]) -> None:
    """Write the file atomically, so that readers never see a part of it."""
    scratch = ready_file.with_name(f"{ready_file.name}.{os.getpid()}")
    scratch.write_text(json.dumps({"pid": os.getpid(), "streams": list(contract_ids)}))
    scratch.replace(ready_file)


@contextmanager
def _stop_on_signal(stopping: Event) -> Iterator[list[int]]:
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        stopping.set()
        for again in (signal.SIGTERM, signal.SIGINT):
            signal.signal(again, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
