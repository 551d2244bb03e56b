"""Reconcile a stream: is every record of the source in exactly one place? Reads with other tools than the job writes.

Topics are read with a plain read_committed consumer, the table with PyIceberg: no Spark, and nothing of the job's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from contracts.errors import NotFoundError, SettingsError
from contracts.evidence import headers_of, read_provenance
from contracts.ledger import Ledger, Position, Reconciliation, reconcile
from spark_jobs.outputs import read_committed
from spark_jobs.sinks.iceberg_table import LEDGER_PROPERTY, table_name
from spark_jobs.sinks.kafka import ledger_name, read_ledger
from spark_jobs.stream import accepted_topic, quarantine_topic
from spark_jobs.topics import Topics


def open_table(warehouse: Path, contract_id: str) -> Table:
    """Open a contract's table in the embedded catalog. Raises NotFoundError when there is none yet."""
    root = warehouse.absolute()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    identifier = tuple(table_name(contract_id).split(".")[1:])
    if not catalog.table_exists(identifier):
        raise NotFoundError(
            f"{table_name(contract_id)} does not exist in {warehouse}; enforce the contract first"
        )
    return catalog.load_table(identifier)


def reconcile_table(bootstrap_servers: str, warehouse: Path, contract_id: str) -> Reconciliation:
    """Reconcile a stream with an Iceberg sink.

    To be run while the stream is stopped, or its records in flight show as differences.
    """
    table = open_table(warehouse, contract_id)
    text = table.properties.get(LEDGER_PROPERTY)
    if text is None:
        raise NotFoundError(f"{table_name(contract_id)} has no ledger: no stream has claimed it")
    ledger = Ledger.parse(text)
    written = table.scan(selected_fields=("_source",)).to_arrow().column("_source").combine_chunks()
    positions = zip(written.field("partition").to_pylist(), written.field("offset").to_pylist(), strict=True)
    return _reconcile(bootstrap_servers, ledger, positions)


def reconcile_topic(bootstrap_servers: str, contract_id: str) -> Reconciliation:
    """Reconcile a stream with a Kafka sink."""
    ledger = read_ledger(bootstrap_servers, ledger_name(contract_id))
    if ledger is None:
        raise NotFoundError(f"contract {contract_id} has no ledger in Kafka: no stream has claimed it")
    written = output_positions(bootstrap_servers, accepted_topic(ledger.topic), ledger)
    return _reconcile(bootstrap_servers, ledger, written)


def output_positions(bootstrap_servers: str, topic: str, ledger: Ledger) -> Iterator[Position]:
    """Give the source position of every committed record that `ledger` has in an output topic, repetitions included."""
    topics = Topics(bootstrap_servers)
    for message in read_committed(bootstrap_servers, topic, topics.earliest(topic), topics.latest(topic)):
        provenance = read_provenance(headers_of(message))
        if (
            provenance is not None
            and provenance.ledger == ledger.name
            and provenance.source.topic == ledger.topic
        ):
            yield provenance.source.partition, provenance.source.offset


def _reconcile(bootstrap_servers: str, ledger: Ledger, written: Iterator[Position]) -> Reconciliation:
    earliest = Topics(bootstrap_servers).earliest(ledger.topic)
    for partition, begin in ledger.begin.items():
        if earliest.get(partition, 0) > begin:
            raise SettingsError(
                f"{ledger.topic}: partition {partition} begins at {earliest.get(partition, 0)}, the ledger at {begin}: "
                "what is past retention cannot be reconciled"
            )
    source = (
        (message.partition() or 0, message.offset() or 0)
        for message in read_committed(bootstrap_servers, ledger.topic, ledger.begin, ledger.end)
    )
    quarantined = output_positions(bootstrap_servers, quarantine_topic(ledger.topic), ledger)
    return reconcile(ledger, source, written, quarantined)
