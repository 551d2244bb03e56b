"""The gateway's decisions as a stream of the job sees them: the real gateway, over a line that can be cut."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest
from structlog.testing import capture_logs

from tests.unit.spark_jobs.registry_line import CuttableLine
from tidegate.contracts.document.model import ErrorBudget
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.stream.bounds import MOST_PARTITIONS
from tidegate.contracts.stream.control import EventKind, Heartbeat, Trip
from tidegate.contracts.stream.decide import Counted
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.native.stream_controls import _TRIP
from tidegate.spark_jobs.job import control
from tidegate.spark_jobs.job.control import RegistryControl, StreamPaused, require_running

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

MakeContract = Callable[..., bytes]
MakeReport = Callable[..., BatchReport]
STREAM = "hospital.admissions"
TRIP = Trip.model_validate(_TRIP)


class ImpatientStop(Event):
    """Is asked to wait as an Event is, and does not; runs what a test wants to happen meanwhile, then stops."""

    def __init__(self, *meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = list(meanwhile)

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout == control._POLL_SECONDS
        if self._meanwhile:
            self._meanwhile.pop(0)()
        else:
            self.set()
        return self.is_set()


@pytest.fixture
def line(client: Any, factory: Factory, make_contract: MakeContract) -> CuttableLine:
    factory.registry().publish(make_contract(), "contract.json")
    return CuttableLine(client)


def control_over(line: CuttableLine, stopping: Event | None = None, stream: str = STREAM) -> RegistryControl:
    client = httpx.Client(transport=line, base_url="http://registry")
    return RegistryControl(client, stream, stopping or ImpatientStop())


def test_a_pause_is_seen_at_the_next_batch_and_says_who_and_why(line: CuttableLine, factory: Factory) -> None:
    control = control_over(line)
    require_running(control.current())
    factory.stream_controls().pause(STREAM, "the clock is wrong")
    with pytest.raises(
        StreamPaused, match=r"is paused \(the clock is wrong; by anonymous, .*tidegate resume"
    ):
        require_running(control.current())


def test_what_has_not_changed_is_not_sent_again(line: CuttableLine, factory: Factory) -> None:
    control = control_over(line)
    first = control.current()
    assert control.current() is first
    assert line.statuses == [200, 304]
    factory.stream_controls().pause(STREAM, None)
    assert control.current().is_paused
    assert line.statuses == [200, 304, 200]


@pytest.mark.parametrize("status", [None, 500, 503, 429, 404, 403])
def test_while_the_gateway_does_not_answer_what_was_known_last_holds(
    line: CuttableLine, factory: Factory, status: int | None
) -> None:
    control = control_over(line)
    factory.stream_controls().pause(STREAM, None)
    control.current()
    line.is_cut, line.answers_with = status is None, status
    assert control.current().is_paused
    never_known = control_over(line)
    with pytest.raises(Unavailable, match=f"does not say whether {STREAM} is paused"):
        never_known.current()


def test_a_stream_that_the_gateway_does_not_know_runs(line: CuttableLine) -> None:
    assert not control_over(line, stream="unknown").current().is_paused


def test_heartbeats_are_sent_and_a_missing_gateway_is_ignored(line: CuttableLine, factory: Factory) -> None:
    control = control_over(line)

    def heartbeat() -> datetime | None:
        row = factory.database.read(lambda stores: stores.controls.heartbeat(STREAM))
        return None if row is None else row.at

    control.beat(Heartbeat())
    first = heartbeat()
    assert first is not None
    line.is_cut = True
    control.beat(Heartbeat())
    assert heartbeat() == first
    line.is_cut = False
    control.beat(Heartbeat())
    last = heartbeat()
    assert last is not None
    assert last > first


@pytest.mark.parametrize("status", [401, 403, 404])
def test_heartbeats_that_are_refused_are_logged_once(line: CuttableLine, status: int) -> None:
    """The stream is silent in the registry; without a line in its log, the job would not say why."""
    control = control_over(line)
    with capture_logs() as logs:
        line.answers_with = status
        control.beat(Heartbeat())
        control.beat(Heartbeat())
        line.answers_with = None
        control.beat(Heartbeat())
        line.answers_with = status
        control.beat(Heartbeat())
    told = [(each["event"], each["stream"], each["status"]) for each in logs]
    assert told == [("heartbeat_refused", STREAM, status)] * 2


def test_it_waits_until_somebody_resumes(line: CuttableLine, factory: Factory) -> None:
    controls = factory.stream_controls()
    stopping = ImpatientStop(
        lambda: setattr(line, "is_cut", True),
        lambda: controls.resume(STREAM, accept_batch=False),
        lambda: setattr(line, "is_cut", False),
    )
    control = control_over(line, stopping)
    controls.pause(STREAM, None)
    assert control.current().is_paused
    assert control.await_resumed()
    assert not stopping.is_set()


def test_it_waits_no_longer_when_the_job_is_stopped(line: CuttableLine, factory: Factory) -> None:
    factory.stream_controls().pause(STREAM, None)
    assert not control_over(line, ImpatientStop()).await_resumed()


def test_a_trip_pauses_the_stream_at_once(line: CuttableLine, factory: Factory) -> None:
    control = control_over(line)
    control.trip(TRIP)
    assert factory.stream_controls().control(STREAM).trip == TRIP
    assert control.current().is_paused


def test_a_trip_that_the_gateway_cannot_hear_is_reported_when_it_is_back(
    line: CuttableLine, factory: Factory
) -> None:
    """Until then the stream stays paused, whatever was known of it."""
    controls = factory.stream_controls()
    stopping = ImpatientStop(
        lambda: None,  # between the tries of `trip`
        lambda: None,
        lambda: setattr(line, "is_cut", False),
        lambda: controls.resume(STREAM, accept_batch=True),
    )
    control = control_over(line, stopping)
    control.current()
    line.is_cut = True
    control.trip(TRIP)
    assert control.await_resumed()
    kept = controls.control(STREAM)
    assert (kept.trip, kept.accepted) == (TRIP, TRIP.range)
    assert control.current() == kept


def test_a_trip_that_the_gateway_refuses_stops_the_stream(line: CuttableLine) -> None:
    control = control_over(line)
    line.answers_with = 403
    with pytest.raises(StreamStopped, match=r"refused the report \(403\)"):
        control.trip(TRIP)
    line.answers_with = None
    control_over(line).trip(TRIP)
    assert control_over(line).current().trip == TRIP


def test_an_end_is_reported_again_until_the_gateway_has_heard_it(
    line: CuttableLine, factory: Factory
) -> None:
    line.is_cut = True
    control = control_over(line, ImpatientStop(lambda: setattr(line, "is_cut", False)))
    control.report_event(EventKind.STOPPED, "x" * 3000)
    told = factory.database.read(lambda stores: stores.controls.last_events())[STREAM]
    assert (told.kind, told.message) == (EventKind.STOPPED, "x" * 2000)


def test_a_window_reaches_back_to_before_this_process_but_not_past_what_was_accepted(
    line: CuttableLine, factory: Factory, make_report: MakeReport
) -> None:
    now = datetime.now(UTC)
    for n in (1, 2, 3, 4):
        factory.reports().record(STREAM, make_report(n, committed_at=now, quarantined=n))
    budget = ErrorBudget(ratio=0.1, window_records=150)

    def filled(window: int | None) -> tuple[Counted, ...]:
        control = control_over(line)
        control.current()
        for _ in range(2):
            control.fill_window(budget.model_copy(update={"window_records": window}))
        return control.window.context(is_accepted=False).earlier

    assert filled(None) == ()
    assert filled(150) == (Counted(100, 4), Counted(100, 3))
    assert filled(10_000) == tuple(Counted(100, n) for n in (4, 3, 2, 1))
    factory.stream_controls().trip(STREAM, TRIP.model_copy(update={"start": {0: 2000}, "end": {0: 2100}}))
    factory.stream_controls().resume(STREAM, accept_batch=True)
    assert filled(10_000) == (Counted(100, 4), Counted(100, 3))
    line.is_cut = True
    with pytest.raises(Unavailable):
        filled(150)


def test_a_window_reaches_back_over_reports_too_large_for_one_answer(
    line: CuttableLine, factory: Factory, make_report: MakeReport
) -> None:
    now = datetime.now(UTC)
    offsets = dict.fromkeys(range(MOST_PARTITIONS), 10**18)
    for n in range(1, 7):  # of 2.7 MB each
        large = make_report(n, committed_at=now, quarantined=n, start=offsets, end=offsets)
        factory.reports().record(STREAM, large)
    control = control_over(line)
    control.fill_window(ErrorBudget(ratio=0.1, window_records=10_000))
    earlier = control.window.context(is_accepted=False).earlier
    assert earlier == tuple(Counted(100, n) for n in (6, 5, 4, 3, 2, 1))


def test_a_window_reaches_not_past_a_batch_that_was_refused_as_a_whole(
    line: CuttableLine, factory: Factory, make_report: MakeReport
) -> None:
    now = datetime.now(UTC)
    whole = {"stage": "expectation", "code": "error-budget", "severity": "error", "records": 90}
    for n, rules in ((1, []), (2, [whole]), (3, [])):
        factory.reports().record(STREAM, make_report(n, committed_at=now, quarantined=n, rules=rules))
    control = control_over(line)
    control.fill_window(ErrorBudget(ratio=0.1, window_records=10_000))
    assert control.window.context(is_accepted=False).earlier == (Counted(100, 3),)


@pytest.mark.parametrize(
    ("required", "named"), [(["drain"], "drain"), (["a\nb"], "unknown"), ("x", "unknown")]
)
def test_a_decision_that_this_job_cannot_obey_stops_the_stream(
    line: CuttableLine, required: object, named: str
) -> None:
    control = control_over(line)
    control.current()
    line.says = {"stream": STREAM, "state": "of a later release", "requires": required}
    with pytest.raises(StreamStopped, match=rf"cannot do \({named}\): upgrade the job"):
        control.current()
    line.says = {"stream": STREAM, "revision": 1}  # the decision was taken back
    assert not control.current().is_paused


def test_a_gateway_that_forgot_decisions_stops_the_stream(line: CuttableLine, factory: Factory) -> None:
    control = control_over(line)
    factory.stream_controls().pause(STREAM, None)
    factory.stream_controls().resume(STREAM, accept_batch=False)
    assert control.current().revision == 2
    line.says = {"stream": STREAM, "revision": 1}
    with pytest.raises(
        StreamStopped, match=r"knows 1 decisions about hospital.admissions, and told its job of 2"
    ):
        control.current()
    assert control_over(line).current().revision == 1


def test_a_ledger_that_counts_more_decisions_than_the_gateway_stops_the_stream(
    line: CuttableLine, factory: Factory
) -> None:
    factory.stream_controls().pause(STREAM, None)
    control = control_over(line)
    control.current()
    control.require_decisions(1)
    with pytest.raises(
        StreamStopped, match=r"knows 1 decisions .* told its job of 7: .*tidegate resume \S+ --decisions 7"
    ):
        control.require_decisions(7)
    factory.stream_controls().resume(STREAM, accept_batch=False, decisions=7)
    assert control.current().revision == 7
    control.require_decisions(7)
    assert factory.stream_controls().resume(STREAM, accept_batch=False, decisions=7).revision == 7


def test_the_highest_reported_epoch_is_asked_for(
    line: CuttableLine, factory: Factory, make_report: MakeReport
) -> None:
    control = control_over(line)
    assert control.reported_epoch() == 0
    for epoch, n in ((3, 1), (2, 7)):
        factory.reports().record(STREAM, make_report(n, epoch=epoch))
    assert control.reported_epoch() == 3
    line.is_cut = True
    assert control.reported_epoch() == 0


@pytest.mark.usefixtures("database_url")  # every test of this file has it
def test_a_refusal_is_told_with_the_reason_of_the_registry() -> None:
    """It names the role that the job's key lacks."""
    reason = "this needs the role reporter for hospital.admissions; job has viewer"
    refusing = httpx.MockTransport(lambda _: httpx.Response(403, json={"detail": reason + " " * 1000}))
    control = RegistryControl(
        httpx.Client(transport=refusing, base_url="http://registry"), STREAM, ImpatientStop()
    )
    with capture_logs() as logs:
        control.beat(Heartbeat())
    (told,) = logs
    assert told["reason"].rstrip() == reason
    assert len(told["reason"]) == 300
    with pytest.raises(Unavailable, match=f"403 {reason}"):
        control.current()
    control.replays.name(uuid4())
    with pytest.raises(Unavailable, match=f"answered 403 when asked for a replay: {reason}"):
        control.replays.current()


def test_a_refusal_without_a_body_is_told_by_its_status(line: CuttableLine) -> None:
    line.answers_with = 403
    with pytest.raises(Unavailable, match=r"is paused: it answered 403$"):
        control_over(line).current()
