"""The session: what differs from Spark's defaults, seen from a worker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.contracts.errors import SettingsError
from tidegate.spark_jobs.session import _require_file_io, build_session, worker_sockets
from tidegate.spark_jobs.settings import JobSettings


def test_workers_run_our_interpreter_warm_and_without_archives(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, bool, list[str], bool]:
        archives = [path for path in sys.path if path.endswith((".zip", ".jar"))]
        return sys.executable, "tidegate.contracts.judge.plan" in sys.modules, archives, "" in sys.path

    assert spark.sparkContext.parallelize([0], 1).map(look).collect() == [(sys.executable, True, [], False)]


def test_times_are_utc_and_casts_are_strict(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_workers_are_reached_as_the_length_of_the_temporary_folder_allows(spark: SparkSession) -> None:
    """test_process.py has a job with a folder that is too long for sockets."""
    assert spark._jvm is not None
    folder = spark._jvm.System.getProperty("java.io.tmpdir")
    ((key, is_unix),) = worker_sockets("local", folder).items()
    assert spark.conf.get(key) == is_unix == "true"


def test_missing_jars_are_named(tmp_path: Path) -> None:
    settings = JobSettings(
        bootstrap_servers="b:1",
        registry_url="http://r",
        warehouse=tmp_path,
        checkpoints=tmp_path,
        spark_jars=tmp_path,
    )
    with pytest.raises(SettingsError, match="TIDEGATE_SPARK_JARS"):
        build_session(settings)


@pytest.mark.parametrize("name", ["org.apache.iceberg.aws.s3.S3FileIO", "no.such.FileIO"])
def test_missing_classes_of_an_object_store_are_told_with_what_brings_them(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    settings = JobSettings(
        bootstrap_servers="b:1",
        registry_url="http://r",
        warehouse=tmp_path,
        checkpoints=tmp_path,
        catalog_properties={"io-impl": name},
    )
    with pytest.raises(
        SettingsError, match=rf"io-impl={name}.*TIDEGATE_SPARK_EXTRA_JARS.*tidegate jars --s3"
    ):
        _require_file_io(spark, settings)
    hadoop = {"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"}
    _require_file_io(spark, settings.model_copy(update={"catalog_properties": hadoop}))
