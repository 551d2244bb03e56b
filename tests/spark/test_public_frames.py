"""Frames of Spark judged through the public package: classic in the session of the run, and over Spark Connect."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.session import SparkSession as RemoteSession

from tests.docs.python_blocks import BLOCKS, run
from tests.integration.enforce.running import eventually
from tidegate import Contract, SettingsError
from tidegate.gateway.embedded.java import Java

CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: stays
version: 1.0.0
topic: stays
schema:
  type: json-schema
  definition:
    type: object
    required: [age]
    properties: {age: {type: integer}, ward: {type: string}, left: {type: string, format: date}, charge: {type: number}}
rules: [{id: age-is-known, kind: forbidden, field: /age, values: [999]}]
"""
SELECT = "SELECT * FROM VALUES (63, 'icu', DATE'2026-01-31', 1.50), (999, NULL, NULL, NULL), (7, NULL, NULL, NULL) AS t(age, ward, left, charge)"
SCHEMA = "age INT, ward STRING, left DATE, charge DECIMAL(3,2)"
ROWS = """
SELECT CAST(id AS STRING) || 'S' AS stay_id, CAST(IF(id % 400 = 7, 999, id % 97) AS INT) AS age,
  DATE'2024-01-01' + CAST(id * 7919 % 700 AS INT) AS admitted,
  DATE'2024-01-01' + CAST(id * 7919 % 700 + id % 30 AS INT) AS left, sha2(CAST(id AS STRING), 256) AS digest,
  CAST(id % 1000 AS DECIMAL(9, 2)) AS charge, map('a', id) AS marks, named_struct('name', IF(id % 3 = 0, NULL, 'x')) AS patient
FROM RANGE(6000)
"""


@pytest.fixture(scope="module")
def contract() -> Contract:
    return Contract.parse(CONTRACT)


def check_frames(session: Any, contract: Contract) -> None:
    """Judge and split a frame of a session, and check what comes out."""
    frame = session.sql(SELECT)
    judged = contract.judge_frame(frame)
    assert judged.columns == [*frame.columns, "verdict"]
    found = {row["age"]: row["verdict"] for row in judged.collect()}
    assert {age: verdict["accepted"] for age, verdict in found.items()} == {63: True, 999: False, 7: True}
    assert [each["code"] for each in found[999]["violations"]] == ["age-is-known"]
    accepted, refused = contract.split(frame)
    assert accepted.schema == frame.schema
    assert (sorted(row["age"] for row in accepted.collect()), [row["age"] for row in refused.collect()]) == (
        [7, 63],
        [999],
    )
    with pytest.raises(SettingsError, match="rename it first"):
        contract.judge_frame(judged)


def check_inference(session: Any) -> None:
    """Infer from the partitions of a frame, and compare with the same rows in one table."""
    frame = session.sql(ROWS).repartition(5)
    proposed = Contract.infer(frame, id="hospital.stays")
    whole = Contract.infer(frame.toArrow(), id="hospital.stays")
    assert proposed.contract.fingerprint == whole.contract.fingerprint
    assert {rule.id for rule in proposed.contract.document.rules} >= {"age-is-known", "admitted-to-left"}
    assert proposed.text.startswith("# Inferred from 6,000 records of a Spark DataFrame.")
    unknown = next(line for line in proposed.text.splitlines() if "999: apart from all other values" in line)
    assert re.search(r"of partition [0-4]\b", unknown)
    with pytest.raises(SettingsError, match=r"the column /for "):
        Contract.infer(session.sql("SELECT map(named_struct('a', 1), 2) AS for"), id="a")
    with pytest.raises(SettingsError, match="no rows"):
        Contract.infer(frame.filter("age < 0"), id="a")


@pytest.mark.full
def test_a_contract_is_inferred_from_the_partitions_of_a_frame(spark: SparkSession) -> None:
    check_inference(spark)


@pytest.mark.full
def test_the_examples_of_the_page_run_in_a_session(
    spark: SparkSession, contract: Contract, tmp_path: Path
) -> None:
    (block,) = (each for each in BLOCKS if "spark" in each)
    written: dict[str, list[int]] = {"accepted": [], "refused": []}

    def append_to(name: str) -> Callable[[DataFrame], None]:
        return lambda batch: written[name].extend(row["age"] for row in batch.collect())

    spark.sql(SELECT).write.option("path", str(tmp_path / "table")).saveAsTable("admissions")
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "checkpoints"))
    names = {
        "contract": contract,
        "spark": spark,
        "append_to_table": append_to("accepted"),
        "append_to_quarantine": append_to("refused"),
    }
    try:
        run(block, names)
        assert names["accepted"].count() == 2
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
        spark.sql("DROP TABLE admissions")
    assert (sorted(written["accepted"]), written["refused"]) == ([7, 63], [999])


def test_a_frame_of_a_session_is_judged_and_split(spark: SparkSession, contract: Contract) -> None:
    check_frames(spark, contract)


@pytest.mark.full
def test_a_frame_of_spark_connect_is_judged_and_split(java: Java, contract: Contract, tmp_path: Path) -> None:
    with connect_server(java, tmp_path) as address:
        session = RemoteSession.builder.remote(address).getOrCreate()
        try:
            check_frames(session, contract)
            check_inference(session)
        finally:
            session.stop()


@pytest.mark.full
def test_a_stream_of_spark_connect_is_enforced_batch_by_batch(
    java: Java, contract: Contract, tmp_path: Path
) -> None:
    source, accepted, refused = (str(tmp_path / name) for name in ("in", "accepted", "refused"))

    # The server calls these in a Python process of its own, so they keep nothing in this one.
    def write(batch: Any) -> None:
        batch.write.mode("append").json(accepted)

    def set_aside(batch: Any) -> None:
        batch.selectExpr("age", "verdict.violations.code AS codes").write.mode("append").json(refused)

    with connect_server(java, tmp_path) as address:
        session = RemoteSession.builder.remote(address).getOrCreate()
        try:
            for _ in range(2):
                session.sql(SELECT).coalesce(1).write.mode("append").json(source)
            query = (
                session.readStream.schema(SCHEMA)
                .option("maxFilesPerTrigger", 1)
                .json(source)
                .writeStream.foreachBatch(contract.enforce(write, refused=set_aside))
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(120)
            assert query.exception() is None
            assert sorted(row["age"] for row in session.read.json(accepted).collect()) == [7, 7, 63, 63]
            assert [row.asDict() for row in session.read.json(refused).collect()] == [
                {"age": 999, "codes": ["age-is-known"]}
            ] * 2
        finally:
            session.stop()


@contextmanager
def connect_server(java: Java, folder: Path) -> Iterator[str]:
    """Start a Connect server of this PySpark, with none of the job's settings, and yield its address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    jars = Path(pyspark.__file__).parent / "jars"
    command = [
        str(java.path),
        *(
            f"--add-opens=java.base/{package}=ALL-UNNAMED"
            for package in ("java.nio", "sun.nio.ch", "java.util", "java.lang")
        ),
        "-Xmx768m",
        "-Dspark.master=local[1]",
        "-Dspark.app.name=connect",
        "-Dspark.ui.enabled=false",
        f"-Dspark.sql.warehouse.dir={folder}",
        "-Dspark.connect.grpc.binding.address=127.0.0.1",
        f"-Dspark.connect.grpc.binding.port={port}",
        "-cp",
        f"{jars}/*",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            eventually(lambda: is_open(port) or server.poll() is not None)
            assert server.poll() is None, (folder / "log").read_text()
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(60)


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_stream_is_enforced_batch_by_batch(spark: SparkSession, contract: Contract, tmp_path: Path) -> None:
    spark.sql(SELECT).write.json(str(tmp_path / "in"))
    written: dict[str, list[int]] = {"accepted": [], "refused": []}

    def keep(name: str) -> Callable[[DataFrame], None]:
        return lambda batch: written[name].extend(row["age"] for row in batch.collect())

    query = (
        spark.readStream.schema(SCHEMA)
        .json(str(tmp_path / "in"))
        .writeStream.foreachBatch(contract.enforce(keep("accepted"), refused=keep("refused")))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert (sorted(written["accepted"]), written["refused"]) == ([7, 63], [999])
