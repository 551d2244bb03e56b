"""What `tidegate replay --request` does with a request that the registry keeps, by its state there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import typer

from tests.unit.spark_jobs.registry_line import CuttableLine
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    ReplayOrder,
    ReplayReport,
    ReplayState,
    StreamReplay,
    digest_of_refusals,
    runs_of,
)
from tidegate.gateway.access.principal import Principal, read_grants
from tidegate.gateway.exits import ExitCode
from tidegate.gateway.factory import Factory
from tidegate.gateway.streams.replays import StreamReplays
from tidegate.spark_jobs.adopt.replay import ReplayPlanner
from tidegate.spark_jobs.adopt.replay_cli import _kept, _report

STREAM = "hospital.admissions"
URL = "http://registry:8081"
ANN, BEN = (Principal(name, read_grants(["approver"])) for name in ("key:ann", "key:ben"))
JOB = Principal("key:job", read_grants(["reporter"]))
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


class Planner(ReplayPlanner):
    """A planner with a registry and without brokers: a request that it runs ends as one without records to write."""

    def __init__(self, client: httpx.Client, replays: StreamReplays) -> None:
        self._client = client
        self._stream = STREAM
        self._replays = replays
        self.ran: list[UUID] = []

    def require_own(self, replay: StreamReplay) -> None:
        """The request names no ledger, so every planner is the right one."""
        assert replay.ledger is None

    def run(self, replay: UUID) -> StreamReplay:
        self.ran.append(replay)
        self._replays.progress(STREAM, report(replay, ReplayState.DONE), JOB)
        return self.find(replay)


def report(replay: UUID, state: ReplayState) -> ReplayReport:
    counts = {"records": 1, "written": 0, "refused": 0, "left": 0, "closed": 1}
    at = "2026-07-01T12:00:00Z"
    return ReplayReport.model_validate(
        {"request": replay, "stream": STREAM, "at": at, "state": state, **counts}
    )


@pytest.fixture
def replays(factory: Factory, make_contract: Callable[..., bytes]) -> StreamReplays:
    factory.registry().publish(make_contract(replay_approval="always"), "contract.json")
    return factory.replays()


@pytest.fixture
def planner(client: Any, replays: StreamReplays) -> Planner:
    return Planner(httpx.Client(transport=CuttableLine(client), base_url=URL), replays)


def asked(replays: StreamReplays) -> UUID:
    """Request a discard that another person has to approve."""
    topic, places = f"{STREAM}.quarantine", Positions([(0, 17)])
    order = ReplayOrder(
        topic=topic,
        topic_id="id",
        positions=runs_of(places),
        records=1,
        digest=digest_of_refusals(topic, places),
        action="discard",
        reason="the ward was closed",
    )
    found = replays.ask(STREAM, order, ANN)
    assert found.state is ReplayState.PROPOSED
    return found.id


def test_an_approved_request_is_processed(planner: Planner, replays: StreamReplays) -> None:
    request = asked(replays)
    replays.approve(STREAM, request, BEN)
    assert _kept(planner, request, URL, runs=False).state is ReplayState.OPEN
    assert planner.ran == []
    assert _kept(planner, request, URL, runs=True).state is ReplayState.DONE
    assert planner.ran == [request]
    assert _kept(planner, request, URL, runs=True).state is ReplayState.DONE
    assert planner.ran == [request]  # the stream is not claimed for a request that has ended


def test_a_request_that_waits_for_its_approval_claims_nothing(
    planner: Planner, replays: StreamReplays
) -> None:
    request = asked(replays)
    with pytest.raises(ConflictError, match=rf"(?s)waits for the approval.*/replays/{request}/approval"):
        _kept(planner, request, URL, runs=True)
    assert planner.ran == []
    assert _kept(planner, request, URL, runs=False).state is ReplayState.PROPOSED


def test_a_cancelled_request_is_not_processed(
    planner: Planner, replays: StreamReplays, capsys: pytest.CaptureFixture[str]
) -> None:
    request = asked(replays)
    replays.cancel(STREAM, request, ANN)
    found = _kept(planner, request, URL, runs=True)
    assert planner.ran == []
    with pytest.raises(typer.Exit) as ended:
        _report(found, URL, has_run=True)
    assert ended.value.exit_code == ExitCode.FINDINGS
    assert capsys.readouterr().out == f"discard {request} of 1 record of {STREAM} is cancelled\n"


def test_an_unknown_request_is_a_mistake_of_usage(planner: Planner) -> None:
    unknown = uuid4()
    with pytest.raises(NotFoundError, match=f"knows no request {unknown} of {STREAM}"):
        _kept(planner, unknown, URL, runs=True)


def test_a_command_that_was_to_process_a_request_says_how_to_do_so_after_the_approval(
    planner: Planner, replays: StreamReplays, capsys: pytest.CaptureFixture[str]
) -> None:
    found = planner.find(asked(replays))
    _report(found, URL, has_run=False)
    assert "--request" not in capsys.readouterr().out
    _report(found, URL, has_run=True)
    assert f"tidegate replay {STREAM} --request {found.id} --run" in capsys.readouterr().out
