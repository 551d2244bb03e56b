"""The sink that the settings name, for one stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.spark_jobs.kafka.dropped import DroppedTopic
from tidegate.spark_jobs.kafka.topics import Topic, Topics
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.delta_table import DeltaTable, table_location
from tidegate.spark_jobs.sinks.iceberg_expiry import SnapshotRetention
from tidegate.spark_jobs.sinks.iceberg_table import LedgerTable, table_name
from tidegate.spark_jobs.sinks.kafka import KafkaSink
from tidegate.spark_jobs.sinks.postgresql_table import PostgresqlTable
from tidegate.spark_jobs.sinks.sink import Sink
from tidegate.spark_jobs.sinks.staged import StagedSink
from tidegate.spark_jobs.sinks.store import LedgerStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_sink(
    spark: SparkSession, settings: JobSettings, topics: Topics, contract_id: str, source: Topic
) -> Sink[Any]:
    """Open the sink of a stream, its output topics made where they are not there. Raises Unavailable, StreamStopped."""
    quarantine = _output(topics, quarantine_topic(source.name), source)
    dropped = DroppedTopic(topics, source)
    if settings.sink == "kafka":
        accepted = _output(topics, accepted_topic(source.name), source)
        return KafkaSink(settings, contract_id, accepted, quarantine, dropped)
    return StagedSink(settings, open_store(spark, settings, contract_id), quarantine, dropped)


def open_store(spark: SparkSession, settings: JobSettings, contract_id: str) -> LedgerStore:
    """Open the table of a stream whose sink is one; it may not be there yet."""
    merge_mode = settings.merge_mode if settings.write_mode == "upsert" else None
    match settings.sink:
        case "iceberg":
            return LedgerTable(spark, table_name(contract_id), merge_mode, _retention(settings))
        case "delta":
            return DeltaTable(spark, table_location(settings.warehouse, contract_id), merge_mode)
        case "postgresql":
            return PostgresqlTable(settings, contract_id)
        case "kafka":
            raise AssertionError("a topic is no table")


def _retention(settings: JobSettings) -> SnapshotRetention:
    return SnapshotRetention(
        is_on=settings.snapshot_expiry,
        most=settings.snapshots_kept,
        age_seconds=settings.snapshot_age_seconds,
        protected_seconds=settings.snapshot_protected_seconds,
    )


def _output(topics: Topics, name: str, source: Topic) -> Topic:
    topics.ensure_output(name, source)
    output = topics.describe(name)
    if output is None:
        raise Unavailable(f"topic {name} was created but is not there yet")
    return output
