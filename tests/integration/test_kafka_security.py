"""Brokers that ask who is there: every client of ours gets in with a file of properties, and no secret gets out."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import httpx
import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AdminClient
from confluent_kafka.cimpl import NewTopic
from pydantic import SecretStr
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.conftest import QUICK_JAVA
from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import Line, environment, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import MENDED, request
from tests.integration.secured_broker import SecuredBroker, Way, way_in
from tests.integration.test_send import contract_of, send
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.replay import ReplayState
from tidegate.gateway.embedded.broker import BrokerOptions
from tidegate.gateway.embedded.jars import Jars
from tidegate.gateway.embedded.java import Java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.gateway.factory import Factory
from tidegate.gateway.health import BrokerProbe
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.streams.quarantine import Origin, QuarantineReader
from tidegate.gateway.streams.quarantine_index import ingestion
from tidegate.gateway.streams.quarantine_index.ingestion import QuarantineIngestion
from tidegate.spark_jobs.job.lease import Lease
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.settings import JobSettings

SECRET = "S3CR3T"  # noqa: S105 - a part of each


@pytest.fixture(scope="module")
def secured(java: Java, jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    root = tmp_path_factory.mktemp("secured")
    options = BrokerOptions(preferred_port=None, java_options=QUICK_JAVA)
    run = RunDirectory(root / "run", root / "logs")
    with SecuredBroker(root / "broker", run, jars, java, options) as running:
        running.add_user()
        yield running


@pytest.fixture
def make_secured_line(
    spark: SparkSession, secured: SecuredBroker, warehouse: Path, tmp_path: Path
) -> Callable[..., Line]:
    """Return a function that makes a line whose job goes in by a way; what the test itself does goes by the plain one."""

    def make(way: Way, name: str) -> Line:
        client = AdminClient({"bootstrap.servers": secured.bootstrap})
        client.create_topics([NewTopic(name, 2, 1)])[name].result(30)
        settings = JobSettings(
            bootstrap_servers=secured.bootstrap,
            registry_url="http://none",
            warehouse=warehouse,
            checkpoints=tmp_path / "checkpoints",
            available_now=True,
        )
        line = Line(spark, settings, name, f"secured.{name}")
        line.produce(row(0), row(1, 999), row(2))
        line.settings = settings.model_copy(
            update={"bootstrap_servers": way.bootstrap, "kafka_config": way.config}
        )
        return line

    return make


def plans(spark: SparkSession) -> str:
    """Everything that Spark's page shows of queries."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    return "\n".join(
        f"{each.description()} {each.details()} {each.physicalPlanDescription()} {each.modifiedConfigs()}"
        for each in (executions.apply(index) for index in range(executions.size()))
    )


def enforced_over(line: Line) -> None:
    line.enforce()
    assert [each["id"] for each in line.rows()] == ["r0", "r2"]
    assert len(line.quarantined()) == 1
    assert line.reconcile().holds


@pytest.mark.full
def test_a_stream_over_tls_with_a_login(
    secured: SecuredBroker,
    make_secured_line: Callable[..., Line],
    spark: SparkSession,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    line = make_secured_line(way_in(secured, "SASL_SSL", tmp_path, "SCRAM-SHA-512"), "tls-login")
    enforced_over(line)
    # What a look at the source shows, and what the page shows of all that ran.
    source = (
        spark.read.format("kafka").options(**line.settings.kafka.for_spark(), subscribe=line.topic).load()
    )
    assert source.count() == 3
    shown = source._jdf.queryExecution().toString() + plans(spark)
    assert "kafka" in shown
    assert SECRET not in shown
    assert SECRET not in "".join(capfd.readouterr())


@pytest.mark.full
@pytest.mark.parametrize(
    ("protocol", "mechanism"), [("SASL_PLAINTEXT", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-512"), ("SSL", "")]
)
def test_a_stream_over_every_other_way(
    secured: SecuredBroker,
    make_secured_line: Callable[..., Line],
    tmp_path: Path,
    protocol: str,
    mechanism: str,
) -> None:
    way = way_in(secured, protocol, tmp_path, mechanism)
    enforced_over(make_secured_line(way, f"{protocol}-{mechanism}".lower()))


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SASL_PLAINTEXT", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-512"), ("SSL", ""), ("SASL_SSL", "PLAIN")],
)
def test_the_registry_reads_over_every_way(
    secured: SecuredBroker, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    kafka = way_in(secured, protocol, tmp_path, mechanism).kafka
    assert BrokerProbe(kafka).answers()
    reader = QuarantineReader(kafka)
    assert reader.latest(Origin("never", "never"), limit=1).records == ()
    reader.close()


@pytest.mark.full
def test_a_topic_that_may_not_be_read_stops_the_index_of_no_other(
    secured: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = way_in(secured, "SASL_PLAINTEXT", tmp_path, "PLAIN")
    url = SecretStr(f"sqlite:///{tmp_path}/registry.db")
    factory = Factory(GatewaySettings(database_url=url))
    factory.database.migrate()
    client = AdminClient({"bootstrap.servers": secured.bootstrap})
    producer = Producer({"bootstrap.servers": secured.bootstrap})
    for stream in ("hidden", "open"):
        topic = quarantine_topic(stream)
        client.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        factory.database.write(
            lambda stores, stream=stream: stores.contracts.add_contract(stream, stream, datetime.now(UTC))
        )
        producer.produce(topic, b"{}")
    producer.flush(30)
    secured.allow_only(AclOperation.DESCRIBE, quarantine_topic("hidden"))
    monkeypatch.setattr(ingestion, "_ASIDE_SECONDS", 0.1)
    index = QuarantineIngestion(factory.database, way.kafka, lambda: datetime.now(UTC))

    def read_until(ends: dict[str, int]) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            index.step()
            with factory.database.reading() as stores:
                if {each.stream: each.next_offset for each in stores.quarantine.partitions()} == ends:
                    return
        raise AssertionError(f"the index did not get to {ends}")

    try:
        with capture_logs() as logs:
            while not any(each["event"] == "quarantine_partition_set_aside" for each in logs):
                index.step()
            read_until({"hidden": 0, "open": 1})
        found = {(each["topic"], each["partition"], each["error"]) for each in logs}
        assert [(topic, partition) for topic, partition, _ in found] == [("hidden.quarantine", 0)]
        assert "authorization failed" in found.pop()[2]
        secured.allow_only(AclOperation.READ, quarantine_topic("hidden"))
        read_until({"hidden": 1, "open": 1})
    finally:
        index.close()
        factory.close()


def test_a_stream_that_may_not_keep_a_lease_runs_without_one(secured: SecuredBroker, tmp_path: Path) -> None:
    """Otherwise the stream would wait for a permission, and never start."""
    client = AdminClient({"bootstrap.servers": secured.bootstrap})
    client.create_topics([NewTopic("unleased", 1, 1)])["unleased"].result(30)
    secured.allow_only(AclOperation.ALTER, "unleased")
    way = way_in(secured, "SASL_PLAINTEXT", tmp_path, "PLAIN")
    settings = JobSettings(
        bootstrap_servers=way.bootstrap,
        kafka_config=way.config,
        registry_url="http://none",
        warehouse=tmp_path,
        checkpoints=tmp_path,
    )
    lease = Lease(settings, "unleased")
    with capture_logs() as events:
        assert lease.acquire("unleased", Event(), lambda: None)
    lease.release()
    (event,) = (each for each in events if each["event"] == "lease_unavailable")
    assert (event["stream"], event["log_level"]) == ("unleased", "warning")
    assert "TOPIC_AUTHORIZATION_FAILED" in event["error"]
    assert not lease.is_elsewhere()


def test_records_are_sent_over_tls_with_a_login(secured: SecuredBroker, tmp_path: Path) -> None:
    client = AdminClient({"bootstrap.servers": secured.bootstrap})
    client.create_topics([NewTopic("sent", 1, 1)])["sent"].result(30)
    way = way_in(secured, "SASL_SSL", tmp_path, "SCRAM-SHA-512")
    contract = contract_of(tmp_path, "sent", {"type": "object"})
    options = (contract, "-", "--bootstrap-servers", way.bootstrap, "--kafka-config", way.config)
    ran = send(*options, stdin=b"{}\n{}\n")
    assert ran.returncode == 0, ran.stderr
    assert "2 records sent to topic sent, all acknowledged" in ran.stdout
    assert SECRET not in ran.stdout + ran.stderr


@pytest.mark.parametrize("records", [1, 3_000])
def test_a_missing_permission_to_write_is_named(secured: SecuredBroker, tmp_path: Path, records: int) -> None:
    """The client reports it as a fatal error, in a callback or as its own error."""
    topic = f"not-written-{records}"
    client = AdminClient({"bootstrap.servers": secured.bootstrap})
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    way = way_in(secured, "SASL_PLAINTEXT", tmp_path, "PLAIN")
    contract = contract_of(tmp_path, topic, {"type": "object"})
    options = (contract, "-", "--bootstrap-servers", way.bootstrap, "--kafka-config", way.config)
    with secured.writing_denied():
        ran = send(*options, stdin=b"{}\n" * records)
    assert ran.returncode == 2
    assert f"the brokers refuse a record of topic {topic}: " in ran.stderr
    assert "Cluster authorization failed" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.full
def test_a_source_topic_that_may_not_be_written_stops_what_is_sent_to_it(
    secured: SecuredBroker, make_secured_line: Callable[..., Line], tmp_path: Path
) -> None:
    """Otherwise the request would wait for a permission, and those behind it too."""
    line = make_secured_line(way_in(secured, "SASL_PLAINTEXT", tmp_path, "PLAIN"), "read-only")
    line.enforce()
    request(line, fix=MENDED, action="to-source")
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        secured.allow_only(operation, line.topic)
    line.enforce()
    (told,) = line.replays.told
    assert told.state is ReplayState.STOPPED
    assert "authorization failed" in str(told.message)
    assert "the permission to write read-only" in str(told.message)


@pytest.mark.full
def test_a_wrong_password_is_an_outage_that_says_so_and_shows_nothing(
    secured: SecuredBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kafka = way_in(secured, "SASL_SSL", tmp_path, "PLAIN", password=f"not {SECRET}").kafka
    with pytest.raises(Unavailable, match="Authentication failed") as raised:
        Topics(kafka).identity("any")
    assert SECRET not in str(raised.value)
    assert SECRET not in "".join(capfd.readouterr())


def command_lines(pid: int) -> list[str]:
    """Return what every user of the machine sees of a process and its children; nothing for one that has just ended."""
    process, found = psutil.Process(pid), []
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # a zombie too
            found.append(" ".join(each.cmdline()))
    return found


@pytest.mark.full
def test_no_secret_is_in_a_command_line_or_a_log(
    secured: SecuredBroker,
    make_secured_line: Callable[..., Line],
    jars: Jars,
    tmp_path: Path,
) -> None:
    line = make_secured_line(way_in(secured, "SASL_SSL", tmp_path, "SCRAM-SHA-512"), "process")
    with ExitStack() as stack:
        registry = Registry(tmp_path, 0)
        stack.callback(registry.stop)
        httpx.post(f"{registry.url}/api/v1/contracts", json=line.document(), timeout=60).raise_for_status()
        config = str(line.settings.kafka_config)
        job = RunningJob([line.contract_id, "--kafka-config", config], environment(line, jars, registry.url))
        stack.callback(job.end)
        job.await_event("batch_published", written=2, quarantined=1)
        commands = command_lines(job.process.pid)
        assert any("SparkSubmit" in command for command in commands)
        assert job.stop(signal.SIGTERM) == 0
    assert SECRET not in "\n".join([*commands, *job.lines])
    assert Topics(line.settings.kafka).identity(quarantine_topic(line.topic)) is not None
