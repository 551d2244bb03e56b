"""What operators do to tables and topics that takes a stream's ledger away, and leaves what was written."""

from __future__ import annotations

import shutil
from pathlib import Path

from confluent_kafka.admin import AdminClient
from pyspark.sql.functions import col

from tests.integration.enforce.line import Line
from tidegate.contracts.stream.output_topics import LEDGER_TOPIC
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.iceberg.table import table_name


def lose_ledger(line: Line) -> None:
    """Take the ledger of a line away, as its sink makes it likely."""
    match line.settings.sink:
        case "iceberg":
            rebuild_iceberg(line)
        case "delta":
            rebuild_delta(line)
        case "postgresql":
            with line.database() as connection:
                connection.execute("DELETE FROM tidegate.ledger")
        case "kafka":
            delete_topic(line, LEDGER_TOPIC)


def rebuild_iceberg(line: Line) -> None:
    """Build the table again from its rows, under the same name: properties are not part of the rows."""
    name = table_name(line.contract_id)
    again = f"{name}_again"
    line.spark.table(name).writeTo(again).using("iceberg").partitionedBy(col("amount")).create()
    line.spark.sql(f"DROP TABLE {name}")
    line.spark.sql(f"ALTER TABLE {again} RENAME TO {name.removeprefix('lake.')}")


def rebuild_delta(line: Line) -> None:
    """Write the rows into another table, and put it where the first one was."""
    table = Path(line.delta().name)
    again = table.with_name(f"{table.name}_again")
    line.spark.read.format("delta").load(str(table)).write.format("delta").save(str(again))
    shutil.rmtree(table)
    again.rename(table)
    jvm = line.spark._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def delete_topic(line: Line, name: str) -> None:
    """Delete a topic, and wait until the broker no longer knows it."""
    client = AdminClient({"bootstrap.servers": line.settings.bootstrap_servers})
    topics = Topics(line.settings.kafka)
    client.delete_topics([name])[name].result(30)
    while topics.identity(name) is not None:
        pass
