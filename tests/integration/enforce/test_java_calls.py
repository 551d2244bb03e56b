"""What a batch asks of Java: names of classes are looked up once, because each look-up searches all jars."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from py4j.clientserver import JavaClient
from pyspark.sql import SparkSession

from tests.integration.enforce.line import Line, row
from tests.integration.enforce.test_faults import SINKS
from tests.marks import full
from tidegate.spark_jobs.sinks.java import MOST_CHARACTERS, first_line, java_of, strings_of

_LOOK_UP = "r\nu\n"
"""Py4J's command for the class or package of a name. Source: py4j.protocol, REFLECTION_COMMAND_NAME."""


@pytest.mark.parametrize(
    "sink", ["iceberg", *full("iceberg-upsert", "delta", "delta-upsert", "kafka", "postgresql")]
)
def test_a_batch_looks_up_few_classes(
    make_line: Callable[..., Line], sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = make_line(**SINKS[sink])
    line.contracts.plan = line.plan(primary_key=["id"])
    line.produce(*(row(n) for n in range(4)))
    line.enforce()
    sent: list[str] = []
    send = JavaClient.send_command

    def counted(self: JavaClient, command: str, *given: object, **named: object) -> object:
        if command.startswith(_LOOK_UP):
            sent.append(command)
        return send(self, command, *given, **named)

    line.produce(*(row(n) for n in range(4, 44)))
    monkeypatch.setattr(JavaClient, "send_command", counted)
    line.enforce(max_offsets=4, compaction=False, snapshot_expiry=False)
    assert len(line.reports) == 11
    assert len(sent) < 10 * 50, "PySpark's own calls look up 9 classes a batch, and 29 with a merge"


def test_strings_come_from_java_in_one_call(spark: SparkSession) -> None:
    found = java_of(spark).java.util.HashMap()
    found.put("a key", '"quoted", \u20ac')
    assert strings_of(spark, found) == {"a key": '"quoted", \u20ac'}
    assert strings_of(spark, java_of(spark).java.util.HashMap()) == {}


def test_a_class_is_looked_up_once(spark: SparkSession) -> None:
    classes = java_of(spark)
    assert classes.java.util.ArrayList is classes.java.util.ArrayList
    assert java_of(spark) is classes


def test_a_quoted_message_is_one_line_and_bounded() -> None:
    assert first_line(ValueError("the reason\nand a stack trace")) == "the reason"
    assert first_line(ValueError("x" * 5_000)) == "x" * MOST_CHARACTERS + "..."
