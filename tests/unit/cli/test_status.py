"""`tidegate status`, against a registry that listens on a socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.unit.cli.conftest import CONTRACT, Run, listening
from tidegate.contracts.stream.control import Heartbeat, StreamEvent
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory

MakeReport = Callable[..., BatchReport]
STREAM = "hospital.admissions"
QUIET = "hospital.quiet"
BUDGET = "error_budget: {ratio: 0.2, min_records: 10, action: pause}\n"

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def registry(factory: Factory, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[str]:
    """A registry with two contracts, the first of them with an error budget."""
    factory.registry().publish((CONTRACT + BUDGET).encode(), "contract.yaml")
    factory.registry().publish(CONTRACT.replace(STREAM, QUIET).encode(), "contract.yaml")
    with listening(factory) as url:
        capfdbinary.readouterr()  # the log of its start
        yield url


@pytest.fixture
def report(factory: Factory, make_report: MakeReport) -> Callable[..., None]:
    """Store the report of a batch of 1,000 records that ended so many minutes ago."""
    counted = iter(range(1, 1000))

    def store(minutes: float, refused: int, stream: str = STREAM, version: str = "1.2.0") -> None:
        at = datetime.now(UTC) - timedelta(minutes=minutes)
        n = next(counted)
        judged_by = factory.registry().version(stream, version)
        factory.reports().record(
            stream,
            make_report(
                n,
                stream=stream,
                contract=f"{stream}@{version}",
                fingerprint=judged_by.fingerprint,
                started_at=at - timedelta(seconds=1),
                committed_at=at,
                records=1000,
                quarantined=refused,
                start={0: 1000 * (n - 1)},
                end={0: 1000 * n},
                lag_records=0,
            ),
        )

    return store


def asked(tidegate: Run, registry: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    ran = tidegate("status", *arguments, "--registry", registry, "--format=json")
    streams = [json.loads(line) for line in ran.stdout.splitlines()]
    return ran.returncode, {each["stream"]: each for each in streams}


def test_streams_that_are_as_usual(tidegate: Run, registry: str, report: Callable[..., None]) -> None:
    for minutes in (600, 300, 60, 1):
        report(minutes, 30)
    report(60, 0, QUIET)
    ran = tidegate("status", "--registry", registry)
    assert ran.returncode == 0
    header, first, second = ran.stdout.decode().splitlines()
    assert header.split() == ["stream", "state", "records/s", "refused", "usual", "budget", "lag", "version"]
    assert first.split()[:2] + first.split()[3:] == [STREAM, "running", "3.00%", "3.00%", "15%", "0", "1.2.0"]
    assert second.split() == [QUIET, "idle", "0", "-", "0.00%", "-", "0", "1.2.0"]
    code, streams = asked(tidegate, registry, STREAM)
    assert code == 0
    assert streams.keys() == {STREAM}
    assert streams[STREAM]["status"] == {
        "state": "running",
        "detail": "it judges and writes records",
        "refused_share": 0.03,
        "usual_refused_share": 0.03,
        "is_unusual": False,
    }
    budget = streams[STREAM]["budget"]
    assert (budget["used"], budget["records"], budget["refused"], budget["is_spent"]) == (
        0.15,
        1000,
        30,
        False,
    )


def test_a_share_that_is_always_high_is_usual_and_a_new_one_is_not(
    tidegate: Run, registry: str, report: Callable[..., None]
) -> None:
    report(120, 5, QUIET)
    report(1, 100, QUIET)
    report(120, 90)
    report(1, 100)
    code, streams = asked(tidegate, registry)
    assert code == 1
    assert [(name, each["status"]["is_unusual"]) for name, each in streams.items()] == [
        (QUIET, True),
        (STREAM, False),
    ]
    told = tidegate("status", QUIET, "--registry", registry).stdout.decode()
    assert "  refused     10.00% (usually 0.50%), more than three times the usual share\n" in told
    assert "10.00% !" in tidegate("status", "--registry", registry).stdout.decode()


def test_without_a_usual_share_nothing_is_unusual(
    tidegate: Run, registry: str, report: Callable[..., None]
) -> None:
    report(1, 150)
    code, streams = asked(tidegate, registry)
    assert (code, streams[STREAM]["status"]["usual_refused_share"]) == (0, None)


def test_a_spent_budget_is_a_finding(tidegate: Run, registry: str, report: Callable[..., None]) -> None:
    report(90, 290)
    report(1, 300)
    code, streams = asked(tidegate, registry)
    assert (code, streams[STREAM]["budget"]["is_spent"]) == (1, True)
    assert (
        "  budget      150% used of 20.00% (300 of 1,000 records of the last batch refused, spent)\n"
        in tidegate("status", STREAM, "--registry", registry).stdout.decode()
    )


def test_a_window_counts_the_batches_before(
    tidegate: Run, registry: str, report: Callable[..., None], factory: Factory
) -> None:
    text = (CONTRACT + BUDGET).replace("min_records: 10", "window_records: 2500").replace("1.2.0", "1.3.0")
    factory.registry().publish(text.encode(), "contract.yaml")
    for refused in (900, 10, 20, 30):
        report(1, refused, version="1.3.0")
    _, streams = asked(tidegate, registry)
    budget = streams[STREAM]["budget"]
    assert (budget["records"], budget["refused"]) == (3000, 60)


def test_what_needs_someone_comes_first_and_a_stopped_stream_has_its_code(
    tidegate: Run, registry: str, report: Callable[..., None], factory: Factory
) -> None:
    report(1, 0)
    report(1, 0, QUIET)
    factory.stream_controls().pause(QUIET, "the ward's clock is wrong")
    code, streams = asked(tidegate, registry)
    assert code == 1
    assert list(streams) == [QUIET, STREAM]
    assert streams[QUIET]["status"]["detail"] == "the ward's clock is wrong (anonymous)"
    stopped = {
        "id": uuid4(),
        "stream": STREAM,
        "kind": "stopped",
        "at": datetime.now(UTC),
        "message": "the budget is spent",
    }
    factory.stream_controls().record_event(STREAM, StreamEvent.model_validate(stopped))
    code, streams = asked(tidegate, registry)
    assert code == 4
    assert list(streams) == [STREAM, QUIET]
    assert (
        f"{STREAM} is stopped: the budget is spent\n"
        in tidegate("status", STREAM, "--registry", registry).stdout.decode()
    )


def test_records_that_wait_without_a_report_and_a_batch_that_hangs(
    tidegate: Run, registry: str, report: Callable[..., None], factory: Factory
) -> None:
    report(5, 0)
    factory.stream_controls().beat(STREAM, Heartbeat(lag_records=7))
    code, streams = asked(tidegate, registry)
    assert (code, streams[STREAM]["status"]["state"]) == (1, "silent")
    factory.stream_controls().beat(STREAM, Heartbeat(lag_records=7, busy_seconds=661.0))
    code, streams = asked(tidegate, registry)
    assert (code, streams[STREAM]["status"]) == (
        1,
        {**streams[STREAM]["status"], "state": "stuck", "detail": "one batch has taken 11 minutes"},
    )


def test_nothing_to_show_and_a_stream_that_is_not_there(tidegate: Run, registry: str) -> None:
    empty = tidegate("status", "--registry", registry)
    assert empty.returncode == 0
    assert empty.stdout.startswith(b"no stream has reported a batch")
    missing = tidegate("status", "no.such", "--registry", registry)
    assert (missing.returncode, missing.stdout) == (2, b"")
    assert b"no.such" in missing.stderr


@pytest.mark.usefixtures("factory")
def test_a_registry_that_does_not_answer(tidegate: Run) -> None:
    assert tidegate("status", "--registry", "http://127.0.0.1:9").returncode == 3
