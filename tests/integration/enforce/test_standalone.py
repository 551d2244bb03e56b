"""The job as the driver of a Spark standalone cluster: separate executors, a dying executor, and executors on another host."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, environment, row
from tests.integration.enforce.registry import Registry
from tests.integration.scale.brokers import KafkaCluster
from tests.integration.scale.cluster import SparkCluster
from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.jars import Jars
from tidegate.gateway.embedded.java import Java
from tidegate.gateway.exits import ExitCode

pytestmark = pytest.mark.full

HERE, THERE = "10.213.7.1", "10.213.7.2"
"""The two ends of a cable between this host and another: broker and driver are here, the workers there."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    running = SparkCluster(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def another_host() -> Iterator[tuple[str, ...]]:
    """A network namespace with one cable to here; returns what a command begins with to run there."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("another host needs root and ip (apt install iproute2)")
    name = f"tg{uuid4().hex[:8]}"
    cable = f"{name}c"

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", cable, "type", "veth", "peer", "name", "cable", "netns", name)
        ip("address", "add", f"{HERE}/30", "dev", cable)
        ip("link", "set", cable, "up")
        ip("-n", name, "address", "add", f"{THERE}/30", "dev", "cable")
        ip("-n", name, "link", "set", "cable", "up")
        ip("-n", name, "link", "set", "lo", "up")
        yield ("ip", "netns", "exec", name)
    finally:
        ip("netns", "delete", name)


@pytest.fixture
def far_cluster(tmp_path: Path, another_host: tuple[str, ...]) -> Iterator[SparkCluster]:
    running = SparkCluster(tmp_path, THERE, another_host)
    yield running
    running.stop()


@pytest.fixture
def near_broker(
    tmp_path: Path, jars: Jars, java: Java, another_host: tuple[str, ...]
) -> Iterator[KafkaCluster]:
    assert another_host  # its cable has the address to listen on
    running = KafkaCluster(tmp_path, jars, java, 1, HERE)
    yield running
    running.stop()


def free_ports(count: int) -> list[int]:
    claims = [ports.claim() for _ in range(count)]
    for claim in claims:
        claim.release()
    return [claim.port for claim in claims]


def test_two_workers_judge_on_fixed_ports_and_one_that_dies_loses_and_doubles_nothing(
    make_line: Callable[..., Line], registry: Registry, publish: Publish, jars: Jars, cluster: SparkCluster
) -> None:
    line = make_line()
    publish(line.document())
    line.produce(*(row(number) for number in range(20)), row(20, 999))
    driver_port, block_port = free_ports(2)
    settings = {
        **environment(line, jars, registry.url),
        "TIDEGATE_SPARK_MASTER": cluster.url,
        "TIDEGATE_SPARK_DRIVER_HOST": "127.0.0.1",
        "TIDEGATE_SPARK_DRIVER_PORT": str(driver_port),
        "TIDEGATE_SPARK_BLOCK_MANAGER_PORT": str(block_port),
        "TIDEGATE_SPARK_EXECUTOR_MEMORY": "1g",
    }
    job = RunningJob([line.contract_id], settings)
    try:
        job.await_event("batch_published", stream=line.contract_id)
        listening = {
            each.laddr.port
            for process in psutil.Process(job.process.pid).children(recursive=True)
            for each in process.net_connections()
            if each.status == psutil.CONN_LISTEN
        }
        assert {driver_port, block_port} <= listening
        assert all(cluster.executors(number) for number in (1, 2))
        cluster.kill(1)
        line.produce(*(row(number) for number in range(21, 40)), row(40, 999))
        job.await_event("batch_published", 2, stream=line.contract_id)
        assert job.stop(signal.SIGTERM) == 0, "".join(job.lines)
    finally:
        job.end()
    assert (len(line.rows()), len(line.quarantined())) == (39, 2)
    assert line.reconcile().holds


def test_executors_on_another_host_reach_the_driver_by_its_name_and_ports(
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    jars: Jars,
    near_broker: KafkaCluster,
    far_cluster: SparkCluster,
) -> None:
    line = make_line(bootstrap_servers=near_broker.bootstrap)
    client = AdminClient({"bootstrap.servers": near_broker.bootstrap})
    client.create_topics([NewTopic(line.topic, 2, 1)])[line.topic].result(30)
    publish(line.document())
    line.produce(*(row(number) for number in range(20)), row(20, 999))
    driver_port, block_port = free_ports(2)
    settings = {
        **environment(line, jars, registry.url),
        "TIDEGATE_SPARK_MASTER": far_cluster.url,
        "TIDEGATE_SPARK_DRIVER_HOST": HERE,
        "TIDEGATE_SPARK_DRIVER_PORT": str(driver_port),
        "TIDEGATE_SPARK_BLOCK_MANAGER_PORT": str(block_port),
        "TIDEGATE_SPARK_EXECUTOR_MEMORY": "1g",
    }
    job = RunningJob([line.contract_id, "--available-now"], settings)
    try:
        assert job.exit_code() == 0, "".join(job.lines)
    finally:
        job.end()
    assert all(far_cluster.executors(number) for number in (1, 2))
    assert (len(line.rows()), len(line.quarantined())) == (20, 1)
    assert line.reconcile().holds


@pytest.fixture
def without_warehouse(tmp_path: Path, warehouse: Path) -> Iterator[SparkCluster]:
    """A cluster whose workers see an empty folder where the warehouse is."""
    if os.geteuid() != 0:
        pytest.skip("another view of the file system needs root")
    hide = f'mount -t tmpfs tmpfs {warehouse} && exec "$@"'
    running = SparkCluster(tmp_path, within=("unshare", "--mount", "sh", "-c", hide, "sh"))
    yield running
    running.stop()


def test_executors_that_do_not_see_the_warehouse_are_an_error_that_names_them(
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    jars: Jars,
    without_warehouse: SparkCluster,
) -> None:
    line = make_line()
    publish(line.document())
    settings = {
        **environment(line, jars, registry.url),
        "TIDEGATE_SPARK_MASTER": without_warehouse.url,
        "TIDEGATE_SPARK_DRIVER_HOST": "127.0.0.1",
        "TIDEGATE_SPARK_EXECUTOR_MEMORY": "1g",
    }
    job = RunningJob([line.contract_id], settings)
    try:
        assert job.exit_code() == ExitCode.USAGE
    finally:
        job.end()
    (told,) = [each for each in job.lines if "do not see the warehouse" in each]
    assert socket.gethostname() in told
    assert "mount it there under the same path" in told
