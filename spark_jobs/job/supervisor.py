"""Several streams in one process: each in its own thread, restarted on its own, stopped together."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from types import FrameType

import httpx
import structlog
from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException, PythonException

from tidegate.contracts.address_secrets import masked
from tidegate.contracts.crash import described
from tidegate.contracts.errors import Fenced, StreamStopped, TidegateError, Unavailable
from tidegate.contracts.stream.control import EventKind, Heartbeat
from tidegate.contracts.stream.ledger import span
from tidegate.contracts.stream.reconciliation import ReconciliationRequest
from tidegate.spark_jobs.contract_source import RegistryContract, RegistryGone, mask_key_of
from tidegate.spark_jobs.job.batch_limits import BatchLimits
from tidegate.spark_jobs.job.control import RegistryControl, StreamPaused
from tidegate.spark_jobs.job.halving import may_blame_record, reason_to_halve, stopped_by_record
from tidegate.spark_jobs.job.reconciler import Reconciler
from tidegate.spark_jobs.job.shadow_source import RegistryShadows
from tidegate.spark_jobs.job.stream import Job, StreamAttempt

log = structlog.get_logger()

_MAY_PASS = (Unavailable, PySparkException, Py4JError, KafkaException)
"""Failures that another attempt may not meet: the broker, the registry, the store, a lost worker."""

_CAUSE = "Caused by: "
_LONGEST_BACKOFF_SECONDS = 30.0


class SparkGone(Unavailable):
    """Spark's Java process has ended: no attempt in this process can succeed any more."""


class StreamThread(InheritableThread):
    """Keeps one stream going: attempt after attempt, until it is stopped, ends or must not go on."""

    def __init__(self, job: Job, contract_id: str, registry: httpx.Client, stopping: Event) -> None:
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
        self._shadows = RegistryShadows(registry, contract_id, mask_key)
        self._limits = BatchLimits(job.settings.max_batch_bytes)
        self._attempt: StreamAttempt | None = None
        self._is_slow = False

    def beat(self) -> ReconciliationRequest | None:
        """Tell the gateway that the stream lives, whether it has records or not; return what it asks for in turn."""
        told = self._attempt.heartbeat() if self._attempt is not None else Heartbeat()
        is_slow = (told.busy_seconds or 0) >= self._job.settings.watchdog_seconds
        if is_slow and not self._is_slow:
            log.warning("batch_slow", stream=self.contract_id, seconds=round(told.busy_seconds or 0))
        self._is_slow = is_slow
        return self._control.beat(told)

    def _keep_going(self) -> None:
        # Jobs of this stream share the cores evenly with those of the others.
        self._job.spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.contract_id)
        failures: int | None = 0
        while failures is not None and not self._stopping.is_set():
            attempt = self._attempt = StreamAttempt(
                self._job, self.contract_id, self._contracts, self._control, self._shadows, self._limits
            )
            try:
                attempt.run(self._stopping, self.running)
            except BaseException as error:  # noqa: BLE001 - whatever ends a stream must not end the others
                # An idle stream publishes nothing: that it ran for long enough counts as much.
                is_well = attempt.published or attempt.seconds >= self._job.settings.restart_reset_seconds
                failures = 0 if is_well else failures
                if not self._is_halved(error, attempt):
                    failures = self._after(self._named(error, attempt), failures)
            else:
                break
        if self.failure is None:
            log.info("stream_ended", stream=self.contract_id)
            self._control.tell(EventKind.ENDED)

    def _is_halved(self, error: BaseException, attempt: StreamAttempt) -> bool:
        """Return whether the next attempt takes half of the batch that has failed. It begins at once, without a pause.

        Each such failure halves a batch or ends with one record, so they need no other bound.
        """
        failed = attempt.failed
        if failed is None or self._reason_to_halve(error) is None or not self._limits.halve(*failed):
            return False
        log.warning("batch_halved", stream=self.contract_id, offsets=span(*failed), error=_brief(error))
        return True

    def _named(self, error: BaseException, attempt: StreamAttempt) -> BaseException:
        """Return the error to go on with: one that names the record, where a batch of one offset has failed."""
        reason, failed = self._reason_to_halve(error), attempt.failed
        if failed is None or reason is None or not may_blame_record(error):
            return error
        log.error("record_failed", stream=self.contract_id, error=_brief(error))
        return stopped_by_record(self.contract_id, attempt.topic, failed, reason)

    def _reason_to_halve(self, error: BaseException) -> str | None:
        """Return why less may pass. Workers that die because the job ends are no reason."""
        return None if self._stopping.is_set() or self._is_spark_gone() else reason_to_halve(error)

    def _after(self, error: BaseException, failures: int) -> int | None:
        """Go on after what ended an attempt: returns the failures in a row with which, None when the stream has ended."""
        if self._stopping.is_set() and isinstance(error, (*_MAY_PASS, StreamPaused)):
            return failures
        if isinstance(error, StreamPaused) and not self._job.settings.available_now:
            return self._sit_out(error)
        if not isinstance(error, TidegateError) and self._is_spark_gone():
            error = SparkGone(_gone(self.contract_id))
        failures += 1
        if (
            self._contracts.is_away
        ):  # such as a record of a schema that is not known yet: it waits with the registry
            failures = min(failures, self._job.settings.restart_limit)
        if not self._may_go_on(error, failures):
            self._end(error)
            return None
        self._wait(error, failures)
        return failures

    def _sit_out(self, paused: StreamPaused) -> int | None:
        """Wait until somebody resumes the stream; a pause is no failure."""
        log.warning("stream_paused", stream=self.contract_id, reason=_brief(paused))
        self.running.set()  # it is as far as it can be: a check for readiness must not wait for a person
        try:
            self._control.await_resumed()
        except StreamStopped as error:
            self._end(error)
            return None
        return 0

    def _may_go_on(self, error: BaseException, failures: int) -> bool:
        return (
            isinstance(error, _MAY_PASS)
            # The judge raises on no record: an exception in a worker is a bug, and comes back.
            and not isinstance(error, (RegistryGone, PythonException, SparkGone))
            and failures <= self._job.settings.restart_limit
        )

    def _is_spark_gone(self) -> bool:
        jvm = self._job.spark._jvm  # noqa: SLF001 - whether the process answers has no Python face
        assert jvm is not None  # noqa: S101 - narrows for the type checker
        try:
            jvm.System.nanoTime()
        except (Py4JError, OSError):
            return True
        return False

    def _wait(self, error: BaseException, failures: int) -> None:
        seconds = min(
            _LONGEST_BACKOFF_SECONDS, self._job.settings.restart_backoff_seconds * 2 ** (failures - 1)
        )
        log.warning(
            "stream_restarting",
            stream=self.contract_id,
            failures=failures,
            seconds=round(seconds, 1),
            error=_brief(error),
        )
        # Streams that failed together do not all come back in the same moment.
        self._stopping.wait(seconds * random.uniform(0.75, 1.0))  # noqa: S311 - spreads load, guards nothing

    def _end(self, error: BaseException) -> None:
        if isinstance(error, _MAY_PASS) and not isinstance(error, (TidegateError, PythonException)):
            self.failure = Unavailable(
                f"{self.contract_id}: gave up after repeated failures: {_brief(error)}"
            )
            self.failure.__cause__ = error
        else:
            self.failure = error
        is_ours = isinstance(error, TidegateError)
        log.error(
            "stream_failed",
            stream=self.contract_id,
            kind=type(error).__name__,
            error=_brief(error),
            exc_info=None if is_ours else error,
        )
        if not isinstance(error, StreamPaused):  # the gateway knows of the pause
            self._control.tell(_kind(error), _told(self.failure))


def run_streams(
    job: Job, contract_ids: Sequence[str], registry: httpx.Client, ready_file: Path | None = None
) -> int | None:
    """Run a stream for each contract until all have ended or a signal asks for it.

    SIGTERM and SIGINT stop each stream between two batches; a second signal ends the process at once. `ready_file`
    is written when every stream has a running query. Returns the number of the signal that stopped the streams, None
    when they ended by themselves. Raises the failure that weighs most, when streams have failed.
    """
    stopping = Event()
    threads = [StreamThread(job, contract_id, registry, stopping) for contract_id in contract_ids]
    with (
        _stop_on_signal(stopping) as received,
        closing(Reconciler(job.settings, registry)) as reconciler,
        _heartbeat(threads, reconciler, job.settings.heartbeat_seconds) as beat_now,
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
        raise max(failures, key=_weight)
    return received[0] if received else None


@contextmanager
def _heartbeat(
    threads: Sequence[StreamThread], reconciler: Reconciler, seconds: float
) -> Iterator[Callable[[], None]]:
    """Return for each stream every few seconds that it lives; of one that has ended its last word is what counts.

    A stream that is paused or has nothing to read says so too, and is reconciled when somebody asks for it. Returns what
    makes the next heartbeat come at once: when all streams run, what somebody has asked for meanwhile need not wait.
    """
    ended, soon = Event(), Event()

    def beat() -> None:
        while not ended.is_set():
            soon.wait(seconds)
            soon.clear()
            if ended.is_set():
                return
            for thread in threads:
                if thread.is_alive() and thread.running.is_set():
                    reconciler.take(thread.beat())

    beating = Thread(target=beat, name="heartbeat", daemon=True)
    beating.start()
    try:
        yield soon.set
    finally:
        ended.set()
        soon.set()
        beating.join()


def _wait_for(threads: Sequence[StreamThread], is_enough: Callable[[], bool]) -> None:
    """Wait in short steps, for a signal handler runs only between them."""
    while not is_enough() and any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(0.1)


def _write_ready(ready_file: Path, contract_ids: Sequence[str]) -> None:
    """Write the file in one step: who sees it sees all of it."""
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


def _weight(error: BaseException) -> int:
    """How much a failure says: a bug most, then what waits for a person, then what may pass."""
    match error:
        case Fenced():
            return 2
        case StreamStopped():
            return 3
        case Unavailable():
            return 1
        case TidegateError():
            return 4
        case _:
            return 5


def _kind(error: BaseException) -> EventKind:
    match error:
        case Fenced():
            return EventKind.OVERTAKEN
        case StreamStopped():
            return EventKind.STOPPED
        case _:
            return EventKind.FAILED


def _gone(contract_id: str) -> str:
    return (
        f"{contract_id}: Spark's Java process has ended; what it said stands above. Start the job again, and if it was "
        "killed for want of memory, with another TIDEGATE_SPARK_DRIVER_MEMORY"
    )


def _told(error: BaseException) -> str:
    """Return what ended a stream to those who do not see its log. What others have raised may quote a record."""
    if isinstance(error, TidegateError) and not isinstance(error.__cause__, (PySparkException, Py4JError)):
        return masked(str(error))
    return f"the stream gave up after {type(error.__cause__ or error).__name__}; the log of its job says more"


def _brief(error: BaseException) -> str:
    """Cut a message to one line: of a JVM's the innermost cause, for the rest is its stack."""
    if not isinstance(error, (TidegateError, KafkaException, Py4JError, PySparkException)):
        return described(error)[:500]  # its message may quote a record
    first, *rest = str(error).strip().splitlines() or [""]
    causes = [line.removeprefix(_CAUSE) for line in rest if line.startswith(_CAUSE)]
    return (causes[-1] if causes else first)[:500]
