"""What the gateway has decided about a stream, asked at each batch boundary; and what the job tells it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from threading import Event
from typing import Protocol
from uuid import uuid4

import httpx
import structlog
from pydantic import ValidationError

from tidegate.contracts.document.model import ErrorBudget
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import Answer, send
from tidegate.contracts.stream.control import EventKind, Heartbeat, StreamControl, StreamEvent, Trip
from tidegate.contracts.stream.decide import BudgetWindow, Counted
from tidegate.contracts.stream.reconciliation import HeartbeatAnswer, ReconciliationRequest
from tidegate.contracts.verdict import Stage

log = structlog.get_logger()

_POLL_SECONDS = 1.0
_TRIES = 3
_LONGEST_MESSAGE = 2000


class StreamPaused(StreamStopped):
    """The stream is paused: nothing is judged or written until somebody resumes it."""


class Control(Protocol):
    """The control plane of one stream, as the job needs it. `window` are the batches that its error budget looks at."""

    window: BudgetWindow

    def current(self) -> StreamControl:
        """Return what holds for the batch that begins now. Raises Unavailable when that was never known."""
        ...

    def fill_window(self, budget: ErrorBudget | None) -> None:
        """Make ready for a budget whose window reaches back to before this process."""
        ...

    def trip(self, trip: Trip) -> None:
        """Tell that a batch has spent the error budget. Raises StreamStopped when no one will hear it."""
        ...

    def tell(self, kind: EventKind, message: str | None = None) -> None:
        """Tell what became of the stream, best effort; `message` holds no payload value."""
        ...


class AlwaysRunning:
    """The control of a stream that no one can pause: one without a gateway."""

    def __init__(self, stream: str) -> None:
        self.window = BudgetWindow()
        self._control = StreamControl(stream=stream)

    def current(self) -> StreamControl:
        """Return a control that lets the stream run."""
        return self._control

    def fill_window(self, budget: ErrorBudget | None) -> None:
        """Know of no earlier batch."""

    def trip(self, trip: Trip) -> None:
        """Do nothing."""

    def tell(self, kind: EventKind, message: str | None = None) -> None:
        """Do nothing."""


class RegistryControl:
    """The control of one stream that the gateway keeps.

    Unchanged, it costs one conditional request. While the gateway does not answer, what was known last holds; a spent
    budget that could not be told keeps the stream paused, and is told again until the gateway has heard it.
    """

    def __init__(self, client: httpx.Client, stream: str, stopping: Event) -> None:
        self.window = BudgetWindow()
        self._client = client
        self._stream = stream
        self._stopping = stopping
        self._known: StreamControl | None = None
        self._etag: str | None = None
        self._untold: Trip | None = None
        self._is_filled = False

    def current(self) -> StreamControl:
        """Ask the gateway; give what was known last when it is away."""
        try:
            self._ask()
        except (httpx.HTTPError, Unavailable) as error:
            if self._known is None:
                raise Unavailable(
                    f"the gateway does not say whether {self._stream} is paused: {error}"
                ) from error
            log.warning("control_unknown", stream=self._stream, state=self._known.state, error=str(error))
        assert self._known is not None  # noqa: S101 - asked, or raised
        return self._known

    def trip(self, trip: Trip) -> None:
        """Tell the gateway, a few times if need be; what it has not heard then is told again while the stream waits."""
        self._untold = trip
        for attempt in range(_TRIES):
            if self._deliver() or (attempt + 1 < _TRIES and self._stopping.wait(_POLL_SECONDS)):
                return

    def await_resumed(self) -> bool:
        """Wait until the stream may go on; False when the job is stopped first."""
        while not self._stopping.is_set():
            if self._deliver() and not self.current().is_paused:
                log.info("stream_resumed", stream=self._stream)
                return True
            self._stopping.wait(_POLL_SECONDS)
        return False

    def tell(self, kind: EventKind, message: str | None = None) -> None:
        """Tell what became of the stream, best effort: a start once, an end up to three times."""
        told = None if message is None else message[:_LONGEST_MESSAGE]
        event = StreamEvent(id=uuid4(), stream=self._stream, kind=kind, at=datetime.now(UTC), message=told)
        tries = 1 if kind is EventKind.STARTED else _TRIES
        for attempt in range(tries):
            with suppress(httpx.HTTPError):
                if send(self._client, requests.event(event)).status < httpx.codes.INTERNAL_SERVER_ERROR:
                    return
            if attempt + 1 < tries:
                self._stopping.wait(_POLL_SECONDS)
        log.warning("event_not_told", stream=self._stream, kind=kind)

    def beat(self, told: Heartbeat) -> ReconciliationRequest | None:
        """Tell that the stream lives, best effort; return the reconciliation that the gateway asks for, if it does."""
        try:
            answer = send(self._client, requests.heartbeat(self._stream, told))
            return answer.read(HeartbeatAnswer).reconciliation if answer.is_ok else None
        except (httpx.HTTPError, ValidationError):
            return None

    def fill_window(self, budget: ErrorBudget | None) -> None:
        """Ask once for the batches of earlier processes that the budget's window reaches; without an answer for none."""
        if budget is None or budget.window_records is None or self._is_filled:
            return
        self._is_filled = True
        accepted = self._known.accepted if self._known is not None else None
        try:
            reports = requests.read_batches(send(self._client, requests.batches(self._stream, 1000)))
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

    def _ask(self) -> None:
        held = self._etag if self._known is not None else None
        answer = send(self._client, requests.control(self._stream, held))
        match answer.status:
            case httpx.codes.NOT_MODIFIED:
                pass
            case httpx.codes.OK:
                self._known, self._etag = self._read(answer), answer.etag
            case (
                httpx.codes.NOT_FOUND
            ):  # a stream that the gateway does not know cannot have been paused there
                self._known, self._etag = StreamControl(stream=self._stream), None
            case status:
                raise Unavailable(f"it answered {status}")

    def _deliver(self) -> bool:
        """Tell what has not been told; whether there is nothing left to tell."""
        if self._untold is None:
            return True
        try:
            answer = send(self._client, requests.trip(self._untold))
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
                f"{self._untold.sentence}. The gateway takes no note of it ({answer.status}): give the job a key "
                f"that may publish {self._stream}, and start again"
            )
        self._untold = None
        return True

    def _read(self, answer: Answer) -> StreamControl:
        try:
            return answer.read(StreamControl)
        except ValidationError as error:
            raise Unavailable("its answer cannot be read here; is it another version of Tidegate?") from error


def require_running(control: StreamControl) -> None:
    """Raise StreamPaused when nothing may be judged or written."""
    if control.is_paused:
        raise StreamPaused(
            f"{control.stream} is paused ({control.reason}; by {control.by}, {control.at:%Y-%m-%d %H:%M:%S} UTC): let it "
            f"go on with tidegate resume {control.stream}, with --accept-batch over the batch that tripped"
        )
