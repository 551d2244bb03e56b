"""Two jobs of one contract, each with its own sink and ledger: a request is for the refusals of one of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from tests.integration.enforce.faults import Publish
from tests.integration.enforce.line import Line
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import MENDED, fill, sent_back
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.evidence import SENT_BACK_HEADER, headers_of, read_provenance
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import StreamReplay
from tidegate.spark_jobs.adopt.replay import ReplayChoice, replays
from tidegate.spark_jobs.adopt.replay_cli import _kept
from tidegate.spark_jobs.job.control import RegistryControl
from tidegate.spark_jobs.job.stream import Job, StreamAttempt
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import ignore_steps


@pytest.fixture
def table(make_line: Callable[..., Line], publish: Publish) -> Line:
    """A line into an Iceberg table, with refused records."""
    line = make_line()
    publish(line.document())
    fill(line, 10)
    return line


@pytest.fixture
def topic(table: Line) -> Line:
    """A line of the same contract into an accepted topic; it has refused the same records."""
    settings = table.settings.model_copy(update={"sink": "kafka"})
    line = Line(table.spark, settings, table.topic, table.contract_id)
    line.enforce()
    return line


@contextmanager
def told(line: Line, registry: Registry) -> Iterator[Callable[[], None]]:
    """Let the registry name its open request to the job of a line; yield what lets that job run."""
    with httpx.Client(base_url=registry.url, timeout=60) as client:
        control = RegistryControl(client, line.contract_id, Event())
        job = Job(line.spark, line.settings, Topics(line.settings.kafka), line.reports, ignore_steps)
        attempt = StreamAttempt(job, line.contract_id, line.contracts, control)
        control.beat(attempt.heartbeat())
        assert control.replays.current() is not None
        yield lambda: attempt.run(Event(), Event())


def places_of(line: Line) -> list[Position]:
    """Return the places in the quarantine topic of the records that the ledger of a line has refused."""
    kafka, name = line.settings.kafka, quarantine_topic(line.topic)
    found, own = [], line.ledger().name
    for message in read_committed(kafka, name, {}, Topics(kafka).latest(name)):
        provenance = read_provenance(headers_of(message))
        if provenance is not None and provenance.ledger == own:
            found.append((message.partition() or 0, message.offset() or 0))
    return found


def asked(line: Line, registry: Registry, choice: ReplayChoice, **terms: Any) -> StreamReplay:
    """Request a replay as `tidegate replay` does with the settings of the job of a line."""
    settings = line.settings.model_copy(update={"registry_url": registry.url})
    with replays(settings, line.contract_id) as planner:
        fix = parse_fix(json.dumps(MENDED), name="fix.json")
        return planner.order(planner.freeze(choice), fix, **terms)


def state_of(line: Line, registry: Registry) -> dict[str, Any]:
    """Return the newest request of a stream as the registry has it."""
    answer = httpx.get(f"{registry.url}/api/v1/streams/{line.contract_id}/replays", timeout=60).json()
    found: dict[str, Any] = answer["replays"][0]
    return found


@pytest.mark.parametrize(
    ("action", "chosen"),
    [
        ("to-source", "all"),
        pytest.param("to-source", "own", marks=pytest.mark.full),
        pytest.param("replay", "all", marks=pytest.mark.full),
    ],
)
def test_a_request_is_processed_by_the_job_whose_ledger_it_names(
    table: Line, topic: Line, registry: Registry, action: str, chosen: str
) -> None:
    """The other job knows of it first: it neither sends a copy of its own nor ends the request, and no term of it is broken."""
    own = places_of(table)
    choice = ReplayChoice(where={}) if chosen == "all" else ReplayChoice(positions=Positions(sorted(own)))
    asked(table, registry, choice, action=action)
    with told(topic, registry) as run_other, told(table, registry) as run:
        run_other()
        assert state_of(table, registry)["state"] == "open"
        run()
    ended = state_of(table, registry)
    done = ended["report"]["closed" if action == "to-source" else "written"]
    assert (ended["state"], done) == ("done", len(own))
    assert ended["report"]["left"] == (len(own) if chosen == "all" else 0)
    copies = Counter(dict(headers_of(each))[SENT_BACK_HEADER] for each in sent_back(table))
    assert set(copies.values()) == ({1} if action == "to-source" else set())
    assert ended["ledger"] == table.ledger().name


@pytest.mark.full
def test_a_command_with_settings_of_another_ledger_processes_no_request(
    table: Line, topic: Line, registry: Registry, tmp_path: Path
) -> None:
    """Neither into a warehouse without a table, nor into the sink of the other job.

    The warehouse is that of another kind of table: in this process, each Iceberg table is in the catalog of its session.
    """
    request = asked(table, registry, ReplayChoice(where={}))
    elsewhere = table.settings.model_copy(update={"sink": "delta", "warehouse": tmp_path / "none"})
    for settings, error, reason in (
        (elsewhere, NotFoundError, "has no ledger"),
        (
            topic.settings,
            ConflictError,
            "is for refusals of the ledger .*: nothing was processed. Give --sink",
        ),
    ):
        own = settings.model_copy(update={"registry_url": registry.url})
        with replays(own, table.contract_id) as planner, pytest.raises(error, match=reason):
            _kept(planner, request.id, registry.url, runs=True)
        assert state_of(table, registry)["state"] == "open"
    assert not [*(tmp_path / "none").rglob("_delta_log")], "a table was created"
