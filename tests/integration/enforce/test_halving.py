"""A batch that fails of its size or of one of its records is halved, down to the record; then the stream names it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any, cast

import httpx
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.integration.enforce.checker import CLEAN, Account, account, require_exactly_once
from tests.integration.enforce.faults import StartJob, fill, kill_after
from tests.integration.enforce.job import DEADLINE_SECONDS, Publish
from tests.integration.enforce.line import Contracts, Line, row
from tests.integration.enforce.poison import POISON, PoisonedPlan
from tests.integration.enforce.registry import Registry
from tests.marks import full
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.evidence import read_evidence
from tidegate.spark_jobs.job.stream import Job
from tidegate.spark_jobs.job.supervisor import StreamThread
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import Step, ignore_steps


class Supervised:
    """Runs lines as a job does, attempt after attempt, in this process; with a contract that no registry can give."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._spark = spark
        self._url = url
        self.logs: list[Any] = []

    def run(self, line: Line, plan: object = None) -> BaseException | None:
        """Run until nothing is left or the stream has ended; give what ended it."""
        job = Job(self._spark, line.settings, Topics(line.settings.kafka), line.reports, ignore_steps)
        with httpx.Client(base_url=self._url, timeout=60) as client, capture_logs() as logs:
            thread = StreamThread(job, line.contract_id, client, Event())
            if plan is not None:
                thread._contracts = cast("Any", Contracts(cast("EnforcementPlan", plan)))
            thread.start()
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive(), logs
        self.logs = list(logs)
        return thread.failure

    def logged(self, name: str) -> list[Any]:
        return [each for each in self.logs if each["event"] == name]


@pytest.fixture
def supervised(spark: SparkSession, registry: Registry) -> Supervised:
    return Supervised(spark, registry.url)


@pytest.mark.full
@pytest.mark.parametrize(
    ("sink", "how"),
    [
        pytest.param("iceberg", "raises", marks=pytest.mark.full),
        pytest.param("kafka", "raises", marks=pytest.mark.full),
        ("iceberg", "dies"),
    ],
)
def test_a_record_that_crashes_its_worker_is_found_and_named(
    make_line: Callable[..., Line],
    supervised: Supervised,
    registry: Registry,
    publish: Publish,
    sink: str,
    how: str,
) -> None:
    line = make_line(sink=sink)
    publish(line.document())
    line.produce(*(row(n, 999 if n % 5 == 0 else 1) for n in range(19)), row(19, id=POISON))
    line.produce(*(row(n) for n in range(20, 30)))
    failure = supervised.run(line, PoisonedPlan(line.plan(), how))
    assert isinstance(failure, StreamStopped)
    assert f"the record of topic {line.topic}, partition 1, offset 9 cannot be processed" in str(failure)
    assert f"tidegate quarantine-record {line.contract_id} 1 9" in str(failure)
    assert 1 <= len(supervised.logged("batch_halved")) <= 5
    assert not supervised.logged("stream_restarting")
    assert line.ledger().end[1] == 9
    assert account(line) == CLEAN
    set_aside(registry, line, 1, 9)
    assert supervised.run(line, PoisonedPlan(line.plan(), how)) is None
    assert reasons(line)["1/9"] == ("record.set-aside",)
    require_exactly_once(line)


def set_aside(registry: Registry, line: Line, partition: int, offset: int) -> None:
    answer = httpx.post(
        f"{registry.url}/api/v1/streams/{line.contract_id}/quarantine-record",
        json={"partition": partition, "offset": offset},
    )
    answer.raise_for_status()


def reasons(line: Line) -> dict[str, tuple[str, ...]]:
    """The rules of each quarantined record, by its source."""
    found = (read_evidence(each.headers) for each in line.quarantined())
    return {f"{each.source.partition}/{each.source.offset}": each.rules for each in found if each}


@pytest.mark.parametrize("sink", ["iceberg", *full("kafka")])
def test_a_record_that_is_set_aside_keeps_its_bytes_and_the_stream_continues(
    make_line: Callable[..., Line], supervised: Supervised, registry: Registry, publish: Publish, sink: str
) -> None:
    line = make_line(sink=sink)
    publish(line.document())
    line.produce(*(row(n, 999 if n == 3 else 1) for n in range(9)), row(9, id=POISON))
    set_aside(registry, line, 1, 4)
    assert supervised.run(line, PoisonedPlan(line.plan(), "dies")) is None
    assert not supervised.logged("batch_halved")
    assert reasons(line) == {"1/1": ("amount-is-known",), "1/4": ("record.set-aside",)}
    assert [each.code for report in line.reports for each in report.rules] == [
        "record.set-aside",
        "amount-is-known",
    ]
    require_exactly_once(line)


@pytest.mark.full
def test_a_record_that_quarantine_cannot_hold_is_named_and_set_aside_without_its_bytes(
    make_line: Callable[..., Line],
    make_topic: Callable[..., str],
    supervised: Supervised,
    registry: Registry,
    publish: Publish,
) -> None:
    """It repeats what lies too far apart for lz4, which the job compresses with: the source holds it in zstd."""
    line = make_line()
    line.topic = make_topic("rows", partitions=1, max_message_bytes="200000")
    line.contracts.plan = line.plan()
    publish(line.document())
    text = os.urandom(50_000).hex() * 20
    value = json.dumps({"id": text, "amount": 999}).encode()
    line.produce(*(replace(row(n, 999 if n % 4 == 0 else 1), partition=0) for n in range(10)))
    settings = {"bootstrap.servers": line.settings.bootstrap_servers, "message.max.bytes": 100_000_000}
    producer = Producer({**settings, "compression.type": "zstd"})
    producer.produce(line.topic, value, b"large", 0)
    assert producer.flush(60) == 0
    line.produce(*(replace(row(n, 999 if n % 4 == 0 else 1), partition=0) for n in range(11, 20)))
    assert Topics(line.settings.kafka).latest(line.topic) == {0: 20}
    failure = supervised.run(line)
    assert isinstance(failure, StreamStopped)
    assert f"topic {line.topic}, partition 0, offset 10 cannot be processed" in str(failure)
    assert "Message size too large" in str(failure)
    assert line.ledger().end == {0: 10}
    set_aside(registry, line, 0, 10)
    assert supervised.run(line) is None
    assert account(line) == Account(changed=((0, 10),))
    assert line.reconcile().holds
    (told,) = [each for each in line.quarantined() if each.value is None]
    assert reasons(line)["0/10"] == ("record.set-aside",)
    omitted = json.loads(dict(told.headers)["tidegate.omitted"] or b"")
    assert omitted == {
        "key_bytes": 5,
        "value_bytes": len(value),
        "headers_bytes": 0,
        "value_sha256": hashlib.sha256(value).hexdigest(),
    }


@pytest.mark.full
def test_a_record_that_is_set_aside_is_quarantined_once_whatever_is_killed(
    make_line: Callable[..., Line], job: StartJob, registry: Registry, publish: Publish
) -> None:
    """Kill the job after the quarantine and before the ledger; the next instance does not know the decision."""
    line = make_line()
    fill(line, publish)
    set_aside(registry, line, 1, 2)
    kill_after(job, line, Step.QUARANTINE, 1)
    line.enforce()
    require_exactly_once(line)
    assert reasons(line)["1/2"] == ("record.set-aside",)


@pytest.mark.full
def test_a_worker_that_loses_its_store_halves_nothing(
    make_line: Callable[..., Line], supervised: Supervised, publish: Publish
) -> None:
    line = make_line()
    publish(line.document())
    line.produce(*(row(n) for n in range(10)), row(10, id=POISON))
    assert not isinstance(supervised.run(line, PoisonedPlan(line.plan(), "store")), StreamStopped)
    assert not supervised.logged("batch_halved")
