"""`tidegate pause` and `tidegate resume`, against a registry that listens on a socket."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from tests.unit.cli.conftest import Ran, Run
from tidegate.contracts.stream.bounds import MOST_PARTITIONS
from tidegate.contracts.stream.control import Trip
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.client.registry import RegistryClient
from tidegate.gateway.factory import Factory

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

STREAM = "hospital.admissions"
MakeReport = Callable[..., BatchReport]


def last_line(ran: Ran) -> str:
    """What the command said: the registry, in this process too, logs before it."""
    return ran.stdout.decode().splitlines()[-1]


@pytest.mark.usefixtures("registry")
def test_a_stream_is_paused_with_a_reason_and_resumed(tidegate: Run) -> None:
    paused = tidegate("pause", STREAM, "--reason", "the [ward's] clock")
    assert paused.returncode == 0
    assert last_line(paused).startswith(
        f"{STREAM} is paused: the [ward's] clock (anonymous, {datetime.now(UTC):%Y-%m-}"
    )
    resumed = tidegate("resume", STREAM)
    assert (resumed.returncode, last_line(resumed)) == (0, f"{STREAM} is running")


def test_all_batches_are_fetched_though_one_answer_cannot_hold_them(
    registry: str, factory: Factory, make_report: MakeReport
) -> None:
    """The demo sums them: it would wait without end for those that are left out."""
    offsets = dict.fromkeys(range(MOST_PARTITIONS), 10**18)
    for n in range(1, 6):  # of 2.7 MB each
        factory.reports().record(
            STREAM, make_report(n, committed_at=datetime.now(UTC), start=offsets, end=offsets)
        )
    with RegistryClient(registry) as client:
        assert [each.n for each in client.batches(STREAM)] == [5, 4, 3, 2, 1]
        assert client.batches("unknown") == ()


@pytest.mark.usefixtures("registry")
def test_a_batch_that_tripped_is_accepted_and_named(tidegate: Run, factory: Factory) -> None:
    refused = tidegate("resume", STREAM, "--accept-batch")
    assert refused.returncode == 1
    assert b"has spent its error budget, so there is none to accept" in refused.stderr
    trip = Trip(
        id=uuid4(),
        stream=STREAM,
        topic=STREAM,
        contract=f"{STREAM}@1.2.0",
        epoch=1,
        at=datetime.now(UTC),
        start={0: 10, 1: 7},
        end={0: 20, 1: 7},
        records=10,
        refused=9,
        allowed=0.1,
        action="pause",
    )
    factory.stream_controls().trip(STREAM, trip)
    accepted = tidegate("resume", STREAM, "--accept-batch")
    assert (accepted.returncode, last_line(accepted)) == (
        0,
        f"{STREAM} is running; accepted last: partition 0: 10 to 19",
    )


@pytest.mark.usefixtures("registry")
def test_a_record_is_set_aside_and_named(tidegate: Run) -> None:
    aside = tidegate("quarantine-record", STREAM, "1", "90211")
    told = f"{STREAM} is running; set aside last: partition 1, offset 90211"
    assert (aside.returncode, last_line(aside)) == (0, told)
    assert tidegate("quarantine-record", STREAM, "1", "-1").returncode == 2
    assert tidegate("quarantine-record", "nothing", "1", "1").returncode == 2


def test_what_cannot_be_done_says_so_with_its_code(tidegate: Run, registry: str) -> None:
    unknown = tidegate("pause", "nothing")
    assert unknown.returncode == 2
    assert b"no contract is published under the id nothing" in unknown.stderr
    assert tidegate("pause", STREAM, "--reason", "").returncode == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert tidegate("resume", STREAM, "--registry", f"http://127.0.0.1:{port}").returncode == 3
    assert registry
