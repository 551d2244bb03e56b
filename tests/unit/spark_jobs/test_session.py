"""Settings of the Spark session, without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.contracts.errors import SettingsError
from tidegate.spark_jobs.options import read_settings
from tidegate.spark_jobs.session import _engine, catalog_properties, refuse_launch_secrets, worker_sockets
from tidegate.spark_jobs.settings import SinkSettings


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


@pytest.mark.parametrize("master", ["local[2]", "spark://master:7077"])
def test_further_jars_follow_those_of_the_connectors(jars: Path, tmp_path: Path, master: str) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    more = [folder / "a.jar", folder / "b.jar", tmp_path / "driver.jar.1"]
    for each in more:
        each.touch()
    engine = _engine(settings(jars, spark_master=master, spark_extra_jars=f"{folder}:{more[2]}"))
    separator, key = (
        (":", "spark.driver.extraClassPath") if master.startswith("local") else (",", "spark.jars")
    )
    assert engine[key].split(separator) == [str(each) for each in (jars / "some.jar", *more)]


@pytest.mark.parametrize("missing", ["empty", "none.jar"])
def test_a_place_without_further_jars_is_refused(jars: Path, missing: str) -> None:
    (jars / "empty").mkdir()
    with pytest.raises(
        SettingsError, match=rf"TIDEGATE_SPARK_EXTRA_JARS: .*{missing} is no jar, and no folder"
    ):
        _engine(settings(jars, spark_extra_jars=str(jars / missing)))


YARN = "/var/lib/hadoop-yarn/usercache/job/appcache/application_1700000000000_0001/container_1700000000000_0001_01_000002/tmp"


@pytest.mark.parametrize(
    ("master", "folder", "is_unix"),
    [
        ("local[*]", "/tmp", "true"),  # noqa: S108 - a name, nothing is written there
        ("spark://master:7077", "/tmp", "true"),  # noqa: S108 - the same
        ("local[*]", "/" + "t" * 59, "true"),
        ("local[*]", "/" + "t" * 60, "false"),
        ("local[*]", YARN, "false"),
        ("yarn", "/tmp", "false"),  # noqa: S108 - the driver's; the executors' folders are not known here
    ],
)
def test_workers_are_reached_over_tcp_where_a_socket_would_have_too_long_a_path(
    master: str, folder: str, is_unix: str
) -> None:
    assert worker_sockets(master, folder) == {"spark.python.unix.domain.socket.enabled": is_unix}


@pytest.mark.parametrize(
    ("variable", "text", "named"),
    [
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.hadoop.fs.s3a.secret.key=s3cr3t pyspark-shell", "fs.s3a.secret.key"),
        ("PYSPARK_SUBMIT_ARGS", "--conf 'spark.hadoop.fs.s3a.access.key=s3cr3t' pyspark-shell", "access.key"),
        ("PYSPARK_SUBMIT_ARGS", '--conf="spark.kafka.sasl.jaas.config=x s3cr3t" pyspark-shell', "jaas.config"),
        ("PYSPARK_SUBMIT_ARGS", "--repositories https://s3cr3t@host/maven pyspark-shell", "an address"),
        ("SPARK_SUBMIT_OPTS", "-Djavax.net.ssl.keyStorePassword=s3cr3t", "keyStorePassword"),
    ],
)  # fmt: skip
def test_a_secret_that_would_be_an_argument_of_java_is_refused(variable: str, text: str, named: str) -> None:
    with pytest.raises(SettingsError) as refused:
        refuse_launch_secrets({variable: text})
    said = str(refused.value)
    assert said.startswith(f"{variable}: ")
    assert named in said
    assert "TIDEGATE_CATALOG_PROPERTIES" in said
    assert "SPARK_CONF_DIR" in said
    assert "s3cr3t" not in said


def test_other_arguments_of_java_pass() -> None:
    text = "--conf spark.ui.port=4041 --packages a:b:1 --repositories https://host/maven pyspark-shell"
    refuse_launch_secrets({"PYSPARK_SUBMIT_ARGS": text, "SPARK_SUBMIT_OPTS": "-Xmx1g"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"uri": "jdbc:postgresql://db/lake?user=u&password=p%40&ssl=true"},
            {"uri": "jdbc:postgresql://db/lake?ssl=true", "jdbc.user": "u", "jdbc.password": "p@"},
        ),
        (
            {"uri": "jdbc:postgresql://db/lake?password=p", "jdbc.password": "other"},
            {"uri": "jdbc:postgresql://db/lake", "jdbc.password": "other"},
        ),
        ({"uri": "https://db/lake?password=p"}, {"uri": "https://db/lake?password=p"}),
    ],
)
def test_the_login_of_a_jdbc_catalog_is_in_no_address(
    jars: Path, given: dict[str, str], told: dict[str, str]
) -> None:
    """Iceberg repeats the address in the errors of its connections."""
    assert catalog_properties(settings(jars, catalog_properties=given)) == told


@pytest.mark.parametrize("url", ["postgres//u:s3cr3t@h/d", "postgresql://u:s3cr3t/?#@db/lake"])
def test_an_address_that_postgresql_cannot_read_is_not_repeated(jars: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="cannot read this address") as refused:
        read_settings(
            {
                "bootstrap_servers": "kafka:9092",
                "warehouse": jars,
                "sink": "postgresql",
                "postgresql_url": url,
            },
            SinkSettings,
        )
    assert "s3cr3t" not in str(refused.value)
