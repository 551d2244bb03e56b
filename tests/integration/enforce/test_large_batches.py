"""Batches that hold more than one process may: refused records by the thousand, and large ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.line import Line, Sent, row

LARGE = "x" * 5_000


@pytest.fixture
def small_results(spark: SparkSession) -> Iterator[None]:
    """Let Spark collect 12 MiB in one job. Each set of tasks reads the limit when it is made."""
    assert spark.sparkContext._jsc is not None
    conf = spark.sparkContext._jsc.sc().conf()
    before = conf.get("spark.driver.maxResultSize", "1g")
    conf.set("spark.driver.maxResultSize", "12m")
    yield
    conf.set("spark.driver.maxResultSize", before)


def large(number: int, amount: int) -> Sent:
    """A record of 5 KB."""
    return row(number, amount, id=f"r{number}-{LARGE}")


ELSEWHERE = "spark://elsewhere:7077"
"""A master that is not local: the job then takes no disk for shared. The session of the tests serves it all the same."""

SINKS = [
    pytest.param({}, id="iceberg"),
    pytest.param({"sink": "kafka"}, id="kafka"),
    pytest.param({"sink": "kafka", "accepted_slots": 2}, id="kafka-tasks"),
    pytest.param({"spark_master": ELSEWHERE, "quarantine_slots": 2}, id="iceberg-cluster"),
    pytest.param({"sink": "kafka", "spark_master": ELSEWHERE}, id="kafka-cluster"),
    pytest.param({"sink": "kafka", "accepted_slots": 2, "spark_master": ELSEWHERE}, id="kafka-tasks-cluster"),
]


@pytest.mark.usefixtures("small_results")
@pytest.mark.parametrize("settings", SINKS)
def test_records_beyond_what_spark_collects(
    make_line: Callable[..., Line], settings: dict[str, object]
) -> None:
    """20 MB of refusals, 15 MB of others, and a job that may collect 12: they must come another way."""
    line = make_line(**settings)
    line.produce(*(large(n, 999 if n < 4_000 else 1) for n in range(7_000)))
    line.enforce()
    assert (line.ledger().n, len(line.quarantined())) == (1, 4_000)
    require_exactly_once(line)
    assert not list(line.settings.checkpoints.glob("*.spool/*/*"))


@pytest.mark.usefixtures("small_results")
@pytest.mark.parametrize("settings", SINKS)
def test_a_refused_batch_beyond_what_spark_collects(
    make_line: Callable[..., Line], settings: dict[str, object]
) -> None:
    """Its error budget is spent, so that all of it is quarantined, what keeps the contract too."""
    line = make_line(**settings)
    budget = {"ratio": 0.1, "min_records": 1, "action": "quarantine"}
    line.contracts.plan = line.plan(error_budget=budget)
    line.produce(*(large(n, 999 if n < 1_000 else 1) for n in range(4_000)))
    line.enforce()
    assert (line.ledger().n, len(line.quarantined())) == (1, 4_000)
    require_exactly_once(line)
    assert not list(line.settings.checkpoints.glob("*.spool/*/*"))
