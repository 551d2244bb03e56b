"""Lines to test, and a real registry for jobs in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from tests.integration.enforce.adopting import Adopting
from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import Line, Sent, environment
from tests.integration.enforce.registry import Registry
from tests.jvm import recording_classes, use_classes
from tests.postgresql import Postgresql, for_psycopg
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.embedded.jars import Jars
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.steps import Step

CRASHING_JOB = Path(__file__).with_name("crashing_job.py")


WORTH_AN_ARCHIVE = 20
"""So many tests that start jobs make up for the time that the archive takes."""


def publish_to(registry: Registry, document: dict[str, object]) -> None:
    """Publish a contract document."""
    httpx.post(f"{registry.url}/api/v1/contracts", json=document, timeout=60).raise_for_status()


@pytest.fixture
def database(postgresql: Postgresql) -> Iterator[SecretStr]:
    """The address of an empty database."""
    with postgresql.database(template="template0") as url:
        yield SecretStr(for_psycopg(url))


@pytest.fixture
def make_line(
    spark: SparkSession,
    broker: Broker,
    make_topic: Callable[..., str],
    warehouse: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Callable[..., Line]:
    """Return a function that makes a line: `make_line(partitions=4, sink="kafka", **settings)`."""

    def make(*, partitions: int = 2, **settings: Any) -> Line:
        topic = make_topic("rows", partitions=partitions)
        if settings.get("sink") == "postgresql":
            settings["postgresql_url"] = request.getfixturevalue("database")
        defaults = JobSettings(
            bootstrap_servers=broker.bootstrap,
            registry_url="http://none",
            warehouse=warehouse,
            checkpoints=tmp_path / "checkpoints",
            available_now=True,
            trigger_seconds=0.5,
            expectations_proof_every=1,
        )
        contract_id = f"test.{topic.replace('-', '_')}"
        return Line(spark, defaults.model_copy(update=settings), topic, contract_id)

    return make


@pytest.fixture
def line(make_line: Callable[..., Line]) -> Line:
    """A line into an Iceberg table."""
    return make_line()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """The registry of all lines that do without a story of their own."""
    running = Registry(tmp_path_factory.mktemp("registry"), 0)
    yield running
    running.stop()


@pytest.fixture
def make_registry(tmp_path: Path) -> Iterator[Callable[..., Registry]]:
    """Yield a function that starts a registry over one database: `make_registry(port=0)`."""
    started: list[Registry] = []

    def make(port: int = 0) -> Registry:
        started.append(Registry(tmp_path, port))
        return started[-1]

    yield make
    for each in started:
        each.stop()


@pytest.fixture
def publish(registry: Registry) -> Callable[[dict[str, object]], None]:
    """Return a function that publishes a contract document."""

    return partial(publish_to, registry)


@pytest.fixture
def published_line(
    make_line: Callable[..., Line], publish: Callable[[dict[str, object]], None]
) -> Callable[..., Line]:
    """Return a function that makes a line whose contract the registry has."""

    def make(sink: str, **settings: Any) -> Line:
        line = make_line(sink=sink, **settings)
        publish(line.document())
        return line

    return make


@pytest.fixture
def adopting(registry: Registry) -> Adopting:
    return Adopting(registry)


@pytest.fixture(scope="session")
def quick_starts(  # noqa: PLR0913, PLR0917 - one for each part of a job
    spark: SparkSession,
    broker: Broker,
    make_topic: Callable[..., str],
    registry: Registry,
    jars: Jars,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> None:
    """Let a job run once and keep what its Java has read of its classes, where so many will start that it is worth it.

    A start takes a third less of a processor then.
    """
    if sum("quick_starts" in item.fixturenames for item in request.session.items) < WORTH_AN_ARCHIVE:
        return
    root, topic = tmp_path_factory.mktemp("classes"), make_topic("classes")
    settings = JobSettings(
        bootstrap_servers=broker.bootstrap,
        registry_url=registry.url,
        warehouse=root / "warehouse",
        checkpoints=root / "checkpoints",
    )
    line, archive = Line(spark, settings, topic, "test.classes"), root / "classes.jsa"
    publish_to(registry, line.document())
    line.produce(*(Sent(json.dumps({"id": "r", "amount": amount}).encode()) for amount in (1, 999)))
    job = RunningJob(
        [line.contract_id], {**environment(line, jars, registry.url), **recording_classes(archive)}
    )
    job.await_event("batch_published")
    job.stop(signal.SIGTERM)  # and its Java after it: what ends last lets go of the log
    job.end()
    if archive.exists():
        use_classes(archive)


@pytest.fixture
def start(jars: Jars, quick_starts: None) -> Iterator[Callable[..., RunningJob]]:  # noqa: ARG001 - it is done before
    """Yield a function that starts a job for some lines: `start(registry_url, lines, *options)`.

    With `follows=True` the options say which contracts it enforces.
    """
    jobs: list[RunningJob] = []

    def run(registry_url: str, lines: list[Line], *options: str, follows: bool = False) -> RunningJob:
        ids = [] if follows else [line.contract_id for line in lines]
        jobs.append(RunningJob([*ids, *options], environment(lines[0], jars, registry_url)))
        return jobs[-1]

    yield run
    for job in jobs:
        job.end()


@pytest.fixture
def job(
    jars: Jars,
    registry: Registry,
    tmp_path: Path,
    quick_starts: None,  # noqa: ARG001 - it is done before
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Yield a function that starts the job in its own process, until a signal of its own after a step."""
    started: list[subprocess.Popen[bytes]] = []

    def start(
        line: Line, step: Step, times: int, how: str = "SIGKILL", **changes: str
    ) -> subprocess.Popen[bytes]:
        settings = {**environment(line, jars, registry.url), "TIDEGATE_MAX_OFFSETS": "10", **changes}
        command = [sys.executable, CRASHING_JOB, step, str(times), line.contract_id, how]
        with (tmp_path / "job.log").open("a") as log:
            started.append(subprocess.Popen(command, env={**os.environ, **settings}, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
    if started:  # shown of a test that failed
        sys.stderr.write((tmp_path / "job.log").read_text()[-5000:])
