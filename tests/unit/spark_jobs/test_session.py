"""Settings of the Spark session, without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.session import _engine
from spark_jobs.settings import SinkSettings


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "some.jar").touch()
    return tmp_path


def settings(jars: Path, **changes: object) -> SinkSettings:
    fields = {"bootstrap_servers": "kafka:9092", "warehouse": jars, "spark_jars": jars, **changes}
    return SinkSettings.model_validate(fields)


def test_a_local_session_listens_on_loopback_only(jars: Path) -> None:
    engine = _engine(settings(jars, spark_driver_host="driver.example.org", spark_driver_port=7078))
    assert (engine["spark.driver.host"], engine["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert "spark.driver.port" not in engine


def test_executors_elsewhere_reach_the_driver_where_the_settings_say(jars: Path) -> None:
    engine = _engine(
        settings(
            jars,
            spark_master="spark://master:7077",
            spark_driver_host="driver.example.org",
            spark_driver_port=7078,
            spark_block_manager_port=7079,
            spark_executor_memory="3g",
        )
    )
    reached = ("spark.driver.host", "spark.driver.port", "spark.blockManager.port")
    assert [engine[key] for key in reached] == ["driver.example.org", "7078", "7079"]
    assert (engine["spark.driver.bindAddress"], engine["spark.executor.memory"]) == ("0.0.0.0", "3g")  # noqa: S104 - what is expected


def test_without_settings_spark_picks_its_ports(jars: Path) -> None:
    engine = _engine(settings(jars, spark_master="spark://master:7077"))
    assert not {"spark.driver.host", "spark.driver.port", "spark.driver.bindAddress"} & engine.keys()
