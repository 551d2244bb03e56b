"""Lines to test, and a real registry for jobs in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from gateway.embedded.broker import Broker
from spark_jobs.settings import JobSettings
from tests.integration.enforce.line import Line


@pytest.fixture
def make_line(
    spark: SparkSession, broker: Broker, make_topic: Callable[..., str], warehouse: Path, tmp_path: Path
) -> Callable[..., Line]:
    """Give a function that makes a line: `make_line(sink="kafka", **settings)`."""

    def make(**settings: Any) -> Line:
        topic = make_topic("rows", partitions=2)
        defaults = JobSettings(
            bootstrap_servers=broker.bootstrap,
            registry_url="http://none",
            warehouse=warehouse,
            checkpoints=tmp_path / "checkpoints",
            available_now=True,
        )
        contract_id = f"test.{topic.replace('-', '_')}"
        return Line(spark, defaults.model_copy(update=settings), topic, contract_id)

    return make


@pytest.fixture
def line(make_line: Callable[..., Line]) -> Line:
    """A line into an Iceberg table."""
    return make_line()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real registry in a process of its own."""
    folder = tmp_path_factory.mktemp("registry")
    command = [sys.executable, "-m", "gateway.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--database-url", f"sqlite:///{folder}/registry.db"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        url = next(
            f"http://127.0.0.1:{event['port']}"
            for event in map(json.loads, process.stderr)
            if event["event"] == "registry_listening"
        )
        yield url
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture
def publish(registry: str) -> Callable[[dict[str, object]], None]:
    """Give a function that publishes a contract document."""

    def post(document: dict[str, object]) -> None:
        httpx.post(f"{registry}/api/v1/contracts", json=document).raise_for_status()

    return post
