"""What else can go wrong around a job that writes to Iceberg: its disk, its clock, its table, its neighbours."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from tests.conftest import QUICK_JAVA
from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.faults import Publish, StartJob, fill, kill_after, require_nothing_twice
from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.transactions import Transactions
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import Jars
from tidegate.gateway.embedded.java import Java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.iceberg.table import table_name
from tidegate.spark_jobs.steps import Step

pytestmark = pytest.mark.full

StartRunning = Callable[..., RunningJob]
DEADLINE_SECONDS = 180
CLOCK = Path(__file__).with_name("clock.c")


def more(line: Line, first: int) -> None:
    """Produce ten more records, some of them refused."""
    line.produce(*(row(n, 999 if n % 5 == 0 else 1) for n in range(first, first + 10)))


def finish(line: Line, job: RunningJob) -> None:
    """Wait until a job has caught up, stop it, and look at everything."""
    end = Topics(line.settings.kafka).latest(line.topic)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while line.ledger().end != end:
        assert time.monotonic() < deadline, "".join(job.lines[-20:])
        time.sleep(0.2)
    assert job.stop(signal.SIGTERM) == 0
    require_exactly_once(line)


def test_killed_while_it_publishes(line: Line, job: StartJob, publish: Publish) -> None:
    """Dead as soon as the metadata of the publication is written: the catalog may or may not know of it."""
    fill(line, publish)
    folder = line.settings.warehouse / Path(*line.contract_id.split(".")) / "metadata"
    kill_after(job, line, Step.STAGE, 2, CRASH_ON_NEW_METADATA=str(folder))
    require_nothing_twice(line)
    line.enforce()
    require_exactly_once(line)


@pytest.mark.parametrize("lost", ["everything", "metadata", "offsets", "commits"])
def test_the_checkpoint_or_a_part_of_it_is_deleted(
    line: Line, lost: str, job: StartJob, publish: Publish
) -> None:
    fill(line, publish)
    kill_after(job, line, Step.COMMITTED, 2)
    (checkpoint,) = (line.settings.scratch(line.contract_id) / "checkpoint").iterdir()
    path = checkpoint if lost == "everything" else checkpoint / lost
    assert path.exists()
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    line.enforce()
    require_exactly_once(line)


def test_files_are_compacted_and_snapshots_expired_before_the_restart(
    line: Line, spark: SparkSession, job: StartJob, publish: Publish
) -> None:
    """The staged snapshot and those before it are gone, and the table's head is another one."""
    fill(line, publish)
    kill_after(job, line, Step.STAGE, 3)
    name = table_name(line.contract_id)
    spark.sql(f"ALTER TABLE {name} DROP BRANCH tidegate")
    for call in (
        f"rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
        f"expire_snapshots(table => '{name}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)",
    ):
        spark.sql(f"CALL lake.system.{call}").collect()
    # The compacted one, and the one that the ledger names: its tag outlives other people's expiry.
    assert spark.table(f"{name}.snapshots").count() == 2
    require_nothing_twice(line)
    line.enforce()
    require_exactly_once(line)


def test_all_records_are_bad(line: Line, job: StartJob, publish: Publish) -> None:
    publish(line.document())
    line.produce(*(row(n, 999) for n in range(40)))
    kill_after(job, line, Step.QUARANTINE, 2)
    require_nothing_twice(line)
    line.enforce()
    require_exactly_once(line)
    assert (len(line.rows()), len(line.quarantined())) == (0, 40)


def test_poison_bytes_and_records_of_ten_megabytes(
    make_line: Callable[..., Line], make_topic: Callable[..., str], job: StartJob, publish: Publish
) -> None:
    """Among them what ends a careless parser, a good record of 10 MB, and one of 10 MB that is refused."""
    line = make_line()
    line.topic = make_topic("rows", partitions=2, max_message_bytes=str(12 * 1024 * 1024))
    line.contracts.plan = line.plan()
    publish(line.document())
    text = b"x" * 10_000_000
    poison = [
        os.urandom(10_000), b"[" * 100_000, b"\0" * 1000, b'{"id": "\\ud800", "amount": 1}', b"1" * 100_000,
        b'{"id": "a", "amount": 1e999999999}', b'{"id": "a"' + b', "id": "a"' * 10_000 + b', "amount": 999}',
        b'{"id": "' + text + b'", "amount": 999}',
    ]  # fmt: skip
    line.produce(*(Sent(value, b"p", n % 2) for n, value in enumerate(poison)))
    line.produce(Sent(b'{"id": "' + text + b'", "amount": 1}', b"large", 0), row(1), row(2))
    kill_after(job, line, Step.QUARANTINE, 1)
    require_nothing_twice(line)
    line.enforce()
    require_exactly_once(line)
    assert (len(line.rows()), len(line.quarantined())) == (3, len(poison))


def test_compaction_leaves_gaps_and_transactions_abort(
    make_line: Callable[..., Line], make_topic: Callable[..., str], job: StartJob, publish: Publish
) -> None:
    line = make_line()
    line.topic = make_topic(
        "rows", partitions=2, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001",
    )  # fmt: skip
    line.contracts.plan = line.plan()
    publish(line.document())
    producer = Transactions(line, "a")
    for outcome in (producer.commit, producer.abort, producer.commit):
        producer.begin([row(n, 999 if n % 3 == 0 else 1) for n in range(8)])
        outcome()
    line.produce(*(_of_now(row(n % 4, 2)) for n in range(20)))
    kafka = line.settings.kafka
    deadline = time.monotonic() + DEADLINE_SECONDS
    number = 100
    while True:  # until the broker's cleaner has taken some away; it leaves the newest segment alone
        found = list(read_committed(kafka, line.topic, {}, Topics(kafka).latest(line.topic)))
        if len(found) < 16 + 20 + (number - 100) - 10:
            break
        assert time.monotonic() < deadline, "nothing was compacted"
        line.produce(_of_now(row(number)))
        number += 1
        time.sleep(0.5)
    _alter(line, line.topic, "cleanup.policy", "delete")  # what is judged from here on stays, to be looked at
    kill_after(job, line, Step.QUARANTINE, 1)
    require_nothing_twice(line)
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().totals.absent > 10


def _of_now(sent: Sent) -> Sent:
    """A broker begins a new segment by the times of records: those of one time, or older ones, stay in one."""
    return replace(sent, timestamp_ms=int(time.time() * 1000))


def test_the_quarantine_topic_takes_no_record_for_a_while(
    line: Line, registry: Registry, publish: Publish, start: StartRunning
) -> None:
    """The stream stops without a row of the batch, and continues after the topic was repaired."""
    fill(line, publish)
    job = start(registry.url, [line])
    job.await_event("batch_published", lag=0)
    _alter(line, quarantine_topic(line.topic), "max.message.bytes", "100")
    more(line, 101)
    job.await_event("stream_failed", kind="StreamStopped")
    assert job.exit_code() == 4
    require_nothing_twice(line)
    assert len(line.rows()) == 32
    source = Topics(line.settings.kafka).describe(line.topic)
    assert source is not None
    _alter(line, quarantine_topic(line.topic), "max.message.bytes", str(source.max_message_bytes + 64 * 1024))
    line.enforce()
    require_exactly_once(line)


def _alter(line: Line, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": line.settings.bootstrap_servers})
    client.incremental_alter_configs([resource])[resource].result(30)


def test_the_catalog_does_not_answer_for_a_while(
    line: Line, registry: Registry, publish: Publish, start: StartRunning
) -> None:
    """The sink is down: batches wait, and nothing of them is visible."""
    fill(line, publish)
    job = start(registry.url, [line])
    job.await_event("batch_published", lag=0)
    catalog = sqlite3.connect(line.settings.warehouse / "catalog.db", isolation_level=None)
    try:
        catalog.execute("BEGIN EXCLUSIVE")
        more(line, 101)
        job.await_event("stream_restarting")
    finally:
        catalog.execute("ROLLBACK")
        catalog.close()
    finish(line, job)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_the_disk_is_full_for_a_while(
    small_disk: Path,
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    start: StartRunning,
) -> None:
    """Tables, catalog and checkpoints share it."""
    line = make_line(warehouse=small_disk / "warehouse", checkpoints=small_disk / "checkpoints")
    fill(line, publish)
    job = start(registry.url, [line])
    job.await_event("batch_published", lag=0)
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    more(line, 101)
    job.await_event("stream_restarting")
    ballast.unlink()
    finish(line, job)


@pytest.fixture
def own_broker(jars: Jars, java: Java, tmp_path: Path) -> Iterator[Callable[[int | None], Broker]]:
    """Yield a function that starts a broker over one data folder, on a port of its own choosing or on this one."""
    started: list[Broker] = []

    def run(port: int | None = None) -> Broker:
        options = BrokerOptions(port=port, preferred_port=None, java_options=QUICK_JAVA)
        run = RunDirectory(tmp_path / "run", tmp_path / "logs")
        started.append(Broker(tmp_path / "broker", run, jars, java, options))
        started[-1].start()
        return started[-1]

    yield run
    for each in started:
        each.stop()


def test_the_broker_is_killed_and_comes_back(
    own_broker: Callable[..., Broker],
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    start: StartRunning,
    tmp_path: Path,
) -> None:
    broker = own_broker()
    bootstrap = broker.bootstrap
    line = make_line(bootstrap_servers=bootstrap)
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic(line.topic, 2, 1)])[line.topic].result(30)
    fill(line, publish)
    job = start(registry.url, [line])
    job.await_event("batch_published", lag=0)
    marker = str(tmp_path / "broker" / "server.properties")
    (process,) = [p for p in psutil.process_iter(["cmdline"]) if (p.info["cmdline"] or [])[-1:] == [marker]]
    more(line, 101)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    broker.stop()
    own_broker(int(bootstrap.rpartition(":")[2]))
    more(line, 201)
    finish(line, job)


def test_the_registry_does_not_answer_at_a_restart_after_a_crash(
    line: Line, make_registry: Callable[..., Registry], start: StartRunning, job: StartJob
) -> None:
    """No batch is judged meanwhile; after the restart, the records quarantined before the crash are still known."""
    first = make_registry()
    httpx.post(f"{first.url}/api/v1/contracts", json=line.document(), timeout=60).raise_for_status()
    line.produce(*(row(n, 999 if n % 5 == 0 else 1) for n in range(40)))
    kill_after(job, line, Step.QUARANTINE, 2, TIDEGATE_REGISTRY_URL=first.url)
    first.stop()
    running = start(first.url, [line], "--registry-grace-seconds", "60")
    running.await_event("registry_away", serving=None)
    require_nothing_twice(line)
    make_registry(port=first.port)
    finish(line, running)


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library that shifts the clock of a process by CLOCK_AHEAD_SECONDS; to be preloaded."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("shifting the clock of a process needs a C compiler (apt install gcc)")
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, CLOCK, "-ldl"], check=True)
    return str(library)


@pytest.mark.parametrize("seconds", [-86_400, 30, 86_400])
def test_the_clock_is_stepped_between_two_attempts(
    line: Line, seconds: int, clock: str, job: StartJob, publish: Publish
) -> None:
    """The first attempt runs in the past or in the future; of the second one's clock everything is behind or ahead.

    Iceberg refuses commits that are more than a minute older than the table's last: then every attempt fails until the clock
    has caught up, and nothing is lost.
    """
    fill(line, publish)
    shifted = {"LD_PRELOAD": clock, "CLOCK_AHEAD_SECONDS": str(seconds)}
    kill_after(job, line, Step.QUARANTINE, 2, **shifted)
    assert line.ledger().n == 1
    require_nothing_twice(line)
    if seconds > 60:
        with pytest.raises(Unavailable, match="Invalid update timestamp"):
            line.enforce()
        require_nothing_twice(line)
        kill_after(job, line, Step.COMMITTED, 3, **shifted)
    else:
        line.enforce()
    require_exactly_once(line)
