"""Scheduling of replay chunks: between batches, at the rate of the request, with retries after an outage."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

import structlog
from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException

from tidegate.contracts.crash import described
from tidegate.contracts.errors import Fenced, StreamStopped, TidegateError, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.replay import ReplayReport, ReplayRequest, ReplayState
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.spark_jobs.job.lease import Stop
from tidegate.spark_jobs.job.replay import Prepared, Replayer
from tidegate.spark_jobs.job.replay_requests import Replays

log = structlog.get_logger()

_RETRY_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.2
_MOST_FAILURES: Final = 5
"""Consecutive failures of Spark that stop a request. Waiting for a broker, the registry or a resume never does."""

Begin = Callable[[], tuple[EnforcementPlan, Ledger] | None]
"""Returns the contract and the ledger for a chunk that begins now; None if the attempt is ending."""
Publish = Callable[[Prepared], Ledger | None]
"""Publishes a chunk and returns the ledger; None if the contract has changed since, or the attempt is ending."""


class ReplayLoop:
    """Loop over the replay requests of one attempt, in the thread of its stream."""

    def __init__(
        self,
        replays: Replays,
        replayer: Replayer,
        begin: Begin,
        publish: Publish,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._replays = replays
        self._replayer = replayer
        self._begin = begin
        self._publish = publish
        self._now = now
        self._due_at = 0.0
        self._failures = 0
        """Consecutive failures of one request."""
        self._failing: UUID | None = None
        self._is_waiting = False

    def run(self, stopping: Stop) -> None:
        """Process open requests until none is left, `stopping` is set, the attempt ends, or there is an outage."""
        while not stopping.is_set():
            is_done = self.step()
            if not is_done and self._is_waiting:
                return
            if not is_done:
                time.sleep(_POLL_SECONDS)

    def step(self) -> bool:
        """Process the chunk that is due, if any; return whether anything was done.

        An error of a request stops the request, also if the sink refuses what the request writes. Any other error of a
        commit is raised, and ends the attempt.
        """
        base = self._base()
        if base is None:
            return False
        request, plan, held = base
        try:
            if (looked := self._replayer.look(request, plan, held)) is not None:
                return self._tell(looked)
            prepared = self._replayer.prepare(request, plan, held)
        except Fenced:
            raise
        except (Unavailable, KafkaException) as error:
            self._wait(error)
            return False
        except Exception as error:  # noqa: BLE001 - nothing that a request asks for may end its stream
            return self._failed(request, held, error)
        if prepared is None:
            return self._tell(self._replayer.report(request, request.begun(held), ReplayState.DONE))
        return self._finish(prepared)

    def _base(self) -> tuple[ReplayRequest, EnforcementPlan, Ledger] | None:
        """Return the request that is due, with contract and ledger; None if there is nothing to do now."""
        if self._now() < self._due_at:
            return None
        try:
            request = self._replays.current()
            begun = self._begin() if request is not None else None
            self._is_waiting = begun is None  # there is no request, or this attempt is ending
        except (TidegateError, KafkaException) as error:  # the next batch will meet and raise the same error
            self._wait(error)
            return None
        if request is None or begun is None:
            return None
        if request.ledger not in {None, begun[1].name}:
            # Heartbeats from before the claim named no ledger. The answer to the next one names another request.
            self._wait(None)
            return None
        return request, *begun

    def _finish(self, prepared: Prepared) -> bool:
        try:
            ledger = self._publish(prepared)
        except Fenced:
            raise
        except StreamStopped as error:
            return self._stopped(prepared.request, prepared.replay.progress, error)
        finally:
            prepared.release()
        self._failures = 0
        if ledger is None:
            return False  # the chunk will be judged again
        report = self._replayer.published(prepared, ledger)
        request = prepared.request
        progress = request.begun(ledger)
        before = prepared.replay.progress
        if request.rate is not None:
            self._due_at = self._now() + (progress.done - before.done) / request.rate
        log.info(
            "replay_published",
            stream=request.stream,
            request=request.mark,
            n=ledger.n,
            done=progress.done,
            records=progress.records,
            written=progress.written,
            refused=progress.refused,
            left=progress.left,
            closed=progress.closed,
        )
        self._tell(report)
        return True

    def _tell(self, report: ReplayReport) -> bool:
        if self._replays.report(report):
            self._replayer.told()
        else:
            log.warning("replay_not_told", stream=report.stream, request=str(report.request))
            self._wait(None)
        return True

    def _wait(self, error: BaseException | None) -> None:
        self._is_waiting = True
        self._due_at = self._now() + _RETRY_SECONDS
        if error is not None:
            log.warning("replay_waits", error=str(error)[:500])

    def _failed(self, request: ReplayRequest, held: Ledger, error: Exception) -> bool:
        """Stop a request that cannot be processed; failures of Spark stop it only after _MOST_FAILURES in a row."""
        if self._failing != request.id:
            self._failing, self._failures = request.id, 0
        self._failures += 1
        may_pass = isinstance(error, (PySparkException, Py4JError)) and not isinstance(error, PythonException)
        if may_pass and self._failures < _MOST_FAILURES:
            self._wait(error)
            return False
        return self._stopped(request, request.begun(held), error)

    def _stopped(self, request: ReplayRequest, progress: ReplayProgress, error: Exception) -> bool:
        """Stop a request for good; `progress` is what its ledger counts."""
        self._failures = 0
        log.error("replay_stopped", stream=request.stream, request=request.mark, error=_brief(error))
        return self._tell(self._replayer.report(request, progress, ReplayState.STOPPED, _reason(error)))


def _brief(error: Exception) -> str:
    return str(error)[:500] if isinstance(error, TidegateError) else described(error)[:500]


def _reason(error: Exception) -> str:
    """Return why a replay stopped; the message of a library is left out, because it may quote a record."""
    if isinstance(error, TidegateError):
        return str(error)
    return (
        f"the replay ended with {type(error).__name__}: a record may crash the worker that judges it. Replay fewer records "
        "at a time, and look at the log of the job"
    )
