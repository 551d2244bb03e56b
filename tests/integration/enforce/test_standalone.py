"""The job as the driver of a Spark standalone cluster: executors of their own, one of which dies."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from gateway.embedded import ports
from gateway.embedded.jars import Jars
from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, environment, row
from tests.integration.enforce.registry import Registry
from tests.integration.scale.cluster import SparkCluster

pytestmark = pytest.mark.full


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    running = SparkCluster(tmp_path)
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
        job.process.kill()
        job.exit_code()
        assert job.process.stderr is not None
        job.process.stderr.close()
    assert (len(line.rows()), len(line.quarantined())) == (39, 2)
    assert line.reconcile().holds
