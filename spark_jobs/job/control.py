"""Control of a stream by the gateway, read at each batch boundary; and the job's messages to the gateway."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from threading import Event
from typing import Protocol
from uuid import uuid4

import httpx
import structlog
from pydantic import ValidationError

from tidegate.contracts.crash import described
from tidegate.contracts.document.model import ErrorBudget
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import RegistryAnswer, send
from tidegate.contracts.stream.control import EventKind, Heartbeat, StreamControl, StreamEvent, Trip
from tidegate.contracts.stream.decide import BudgetWindow, Counted
from tidegate.contracts.stream.reconciliation import HeartbeatAnswer, ReconciliationRequest
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.stream.versions import not_obeyed
from tidegate.contracts.verdict import Stage
from tidegate.spark_jobs.job.replay_requests import NoReplays, RegistryReplays, Replays

log = structlog.get_logger()

_POLL_SECONDS = 1.0
_TRIES = 3
_LONGEST_MESSAGE = 2000
_MOST_REPORTS = 1000
"""Maximum earlier batches that fill the window of an error budget."""


class StreamPaused(StreamStopped):
    """The stream is paused: no batch is judged or written until a person resumes it."""


class Control(Protocol):
    """The control plane of one stream, for the job. `window` holds the batches that its error budget covers."""

    window: BudgetWindow

    @property
    def replays(self) -> Replays:
        """Return the requests to replay refused records of the stream."""
        ...

    def current(self) -> StreamControl:
        """Return the control for the batch that begins now. Raises Unavailable if it was never fetched."""
        ...

    def require_decisions(self, known: int) -> None:
        """Require that the gateway has at least the decisions that the ledger counts. Raises StreamStopped."""
        ...

    def reported_epoch(self) -> int:
        """Return the highest epoch of the stream's reports; 0 if there are none, or the gateway does not answer."""
        ...

    def fill_window(self, budget: ErrorBudget | None) -> None:
        """Load the batches before this process that the budget's window covers. None: no budget, nothing to load."""
        ...

    def trip(self, trip: Trip) -> None:
        """Report that a batch has exceeded the error budget. Raises StreamStopped if the report cannot be delivered."""
        ...

    def report_event(self, kind: EventKind, message: str | None = None) -> None:
        """Report an event of the stream, best effort; `message` must not contain payload values."""
        ...


class AlwaysRunning:
    """The control of a stream that cannot be paused, because there is no gateway."""

    def __init__(self, stream: str, replays: Replays | None = None) -> None:
        self.window = BudgetWindow()
        self.replays: Replays = replays or NoReplays()
        self._control = StreamControl(stream=stream)

    def current(self) -> StreamControl:
        """Return a control that lets the stream run."""
        return self._control

    def require_decisions(self, known: int) -> None:
        """Require nothing: without a gateway there are no decisions."""

    def reported_epoch(self) -> int:
        """Return 0: without a gateway there are no reports."""
        return 0

    def fill_window(self, budget: ErrorBudget | None) -> None:
        """Do nothing: without a gateway there are no earlier reports."""

    def trip(self, trip: Trip) -> None:
        """Do nothing."""

    def report_event(self, kind: EventKind, message: str | None = None) -> None:
        """Do nothing."""


class RegistryControl:
    """The control of one stream that the gateway stores.

    An unchanged control costs one conditional request. While the gateway does not answer, the last known control
    applies. An unreported trip of the error budget keeps the stream paused, and is sent again until it is delivered.
    """

    def __init__(self, client: httpx.Client, stream: str, stopping: Event) -> None:
        self.window = BudgetWindow()
        self.replays = RegistryReplays(client, stream)
        self._client = client
        self._stream = stream
        self._stopping = stopping
        self._known: StreamControl | None = None
        self._etag: str | None = None
        self._unsent: Trip | None = None
        self._is_filled = False
        self._is_refused = False

    def current(self) -> StreamControl:
        """Fetch the control; return the last known one if the gateway is unreachable."""
        try:
            self._ask()
        except (httpx.HTTPError, Unavailable) as error:
            if self._known is None:
                raise Unavailable(
                    f"the registry does not say whether {self._stream} is paused: {error}"
                ) from error
            log.warning("control_unknown", stream=self._stream, state=self._known.state, error=str(error))
        assert self._known is not None  # noqa: S101 - set by _ask, or raised above
        return self._known

    @property
    def is_known_paused(self) -> bool:
        """Return whether the gateway has stored the pause of the stream, as far as this process knows."""
        return self._known is not None and self._known.is_paused and self._unsent is None

    def require_decisions(self, known: int) -> None:
        """Raise StreamStopped unless the gateway has at least `known` decisions, the number in the ledger."""
        if self._known is not None:
            self._require_decisions(self._known, known)

    def trip(self, trip: Trip) -> None:
        """Report the trip, with some retries; if they fail, `await_resumed` sends it again.

        Raises StreamStopped if the gateway refuses the report.
        """
        self._unsent = trip
        for attempt in range(_TRIES):
            if self._deliver() or (attempt + 1 < _TRIES and self._stopping.wait(_POLL_SECONDS)):
                return

    def await_resumed(self) -> bool:
        """Wait until the stream may continue; return False if the job is stopped first."""
        while not self._stopping.is_set():
            if self._deliver() and not self.current().is_paused:
                log.info("stream_resumed", stream=self._stream)
                return True
            self._stopping.wait(_POLL_SECONDS)
        return False

    def report_event(self, kind: EventKind, message: str | None = None) -> None:
        """Report an event of the stream, best effort: try once for a start, up to three times for an end."""
        text = None if message is None else message[:_LONGEST_MESSAGE]
        event = StreamEvent(id=uuid4(), stream=self._stream, kind=kind, at=datetime.now(UTC), message=text)
        tries = 1 if kind is EventKind.STARTED else _TRIES
        for attempt in range(tries):
            with suppress(httpx.HTTPError):
                if send(self._client, requests.event(event)).is_final:
                    return
            if attempt + 1 < tries:
                self._stopping.wait(_POLL_SECONDS)
        log.warning("event_not_told", stream=self._stream, kind=kind)

    def beat(self, heartbeat: Heartbeat) -> ReconciliationRequest | None:
        """Send a heartbeat, best effort; return the reconciliation that the gateway requests, or None.

        If the gateway refuses heartbeats, that is logged once.
        """
        try:
            answer = send(self._client, requests.heartbeat(self._stream, heartbeat))
            if answer.is_refused and not self._is_refused:
                status, reason = answer.status, answer.detail
                log.warning("heartbeat_refused", stream=self._stream, status=status, reason=reason)
            self._is_refused = answer.is_refused
            if not answer.is_ok:
                return None
            asked = answer.read(HeartbeatAnswer)
            self.replays.name(asked.replay)
        except (httpx.HTTPError, ValidationError):
            return None
        return asked.reconciliation

    def reported_epoch(self) -> int:
        """Fetch the highest epoch of the stream's reports; 0 if there are none, or the gateway does not answer."""
        try:
            answer = send(self._client, requests.stream(self._stream))
            return 0 if answer.status == httpx.codes.NOT_FOUND else requests.read_reported_epoch(answer)
        except (httpx.HTTPError, ValueError) as error:
            log.warning("reported_epoch_unknown", stream=self._stream, error=described(error))
            return 0

    def fill_window(self, budget: ErrorBudget | None) -> None:
        """Fetch the earlier batches of the budget's window, once; without an answer the window stays empty."""
        if budget is None or budget.window_records is None or self._is_filled:
            return
        self._is_filled = True
        accepted = self._known.accepted if self._known is not None else None
        try:
            reports = self._newest_reports(budget.window_records)
        except (httpx.HTTPError, ValueError) as error:
            log.warning("budget_window_empty", stream=self._stream, error=str(error))
            return
        earlier: list[Counted] = []
        for report in sorted(reports, key=lambda each: (each.epoch, each.n), reverse=True):
            is_accepted = accepted is not None and accepted.overlaps(report.start, report.end)
            is_refused = any(rule.stage is Stage.EXPECTATION for rule in report.rules)
            if is_accepted or is_refused or sum(each.records for each in earlier) >= budget.window_records:
                break
            earlier.append(Counted(report.records, report.quarantined + report.dropped))
        self.window.fill(earlier)

    def _newest_reports(self, records: int) -> list[BatchReport]:
        """Fetch the newest reports, until they count `records` records, or are _MOST_REPORTS."""
        found: list[BatchReport] = []
        older: str | None = None
        while True:
            answer = send(self._client, requests.batches(self._stream, _MOST_REPORTS - len(found), older))
            found += requests.read_batches(answer)
            older = requests.read_older(answer)
            is_enough = len(found) >= _MOST_REPORTS or sum(each.records for each in found) >= records
            if older is None or is_enough:
                return found

    def _ask(self) -> None:
        held = self._etag if self._known is not None else None
        answer = send(self._client, requests.control(self._stream, held))
        match answer.status:
            case httpx.codes.NOT_MODIFIED:
                pass
            case httpx.codes.OK:
                self._learn(self._read(answer), answer.etag)
            case httpx.codes.NOT_FOUND if (
                answer.is_unknown
            ):  # a stream that was never paused; a proxy's 404 says nothing
                self._learn(StreamControl(stream=self._stream), None)
            case status:
                raise Unavailable(f"it answered {status} {answer.detail}".rstrip())

    def _learn(self, control: StreamControl, etag: str | None) -> None:
        """Store the control. Raises StreamStopped if its revision is lower than one that the gateway sent before."""
        if self._known is not None:
            self._require_decisions(control, self._known.revision)
        self._known, self._etag = control, etag

    def _require_decisions(self, control: StreamControl, known: int) -> None:
        if control.revision < known:
            raise StreamStopped(
                f"the registry knows {control.revision} decisions about {self._stream}, and told its job of {known}: its "
                "database was restored or replaced. Pause, resume, or set records aside as before; then continue with "
                f"tidegate resume {self._stream} --decisions {known}, and start the stream"
            )

    def _deliver(self) -> bool:
        """Send the pending trip, if any; return whether none is left. Raises StreamStopped if it is refused."""
        if self._unsent is None:
            return True
        try:
            answer = send(self._client, requests.trip(self._unsent))
            if answer.is_success:
                self._known, self._etag = self._read(answer), None
        except (httpx.HTTPError, Unavailable) as error:
            log.warning("trip_not_told", stream=self._stream, error=str(error))
            return False
        if answer.is_passing:
            log.warning("trip_not_told", stream=self._stream, error=f"it answered {answer.status}")
            return False
        if not answer.is_success:
            raise StreamStopped(
                f"{self._unsent.sentence}. The registry refused the report ({answer.status}): give the job a key "
                f"with the role reporter for {self._stream}, and start again"
            )
        self._unsent = None
        return True

    def _read(self, answer: RegistryAnswer) -> StreamControl:
        lacking = not_obeyed(answer.document)
        if lacking:
            raise StreamStopped(
                f"the registry requires of the job of {self._stream} what this release cannot do ({', '.join(lacking)}): "
                "upgrade the job, or take the decision back at the registry"
            )
        try:
            return answer.read(StreamControl)
        except ValidationError as error:
            raise Unavailable("its answer cannot be read here; is it another version of Tidegate?") from error


def require_running(control: StreamControl) -> None:
    """Raise StreamPaused if the stream is paused."""
    if control.is_paused:
        raise StreamPaused(
            f"{control.stream} is paused ({control.reason}; by {control.by}, {control.at:%Y-%m-%d %H:%M:%S} UTC): let it "
            f"go on with tidegate resume {control.stream}, with --accept-batch over the batch that tripped"
        )
