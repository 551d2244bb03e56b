"""What Spark shows of a stream's source holds no secret, however the brokers are reached."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr
from pyspark.sql import SparkSession

from tests.certificates import Authority
from tidegate.contracts.stream.kafka_connection import KafkaConnection, SaslLogin, Tls


def test_the_plan_of_a_source_shows_no_secret(spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client")
    connection = KafkaConnection(
        "b:1",
        "SASL_SSL",
        SaslLogin("PLAIN", "tidegate", SecretStr("S3CR3T")),
        Tls(authority.path, certificate, key, SecretStr("S3CR3T of the key")),
    )
    options = {**connection.for_spark(), "subscribe": "t"}
    jvm = spark._jvm
    assert jvm is not None
    # What Spark does with the options of a source wherever it shows them.
    given = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(options)
    shown = spark._jsparkSession.sessionState().conf().redactOptions(given).toString()
    assert "subscribe -> t" in shown
    assert "kafka.sasl.mechanism -> PLAIN" in shown
    assert "S3CR3T" not in shown
    assert "PRIVATE KEY" not in shown
