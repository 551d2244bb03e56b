"""The Iceberg sink as the job, `tidegate adopt` and a reconciliation open it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table

from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.progress import doing
from tidegate.spark_jobs.settings import JobSettings, SinkSettings
from tidegate.spark_jobs.sinks.iceberg.catalogs import open_table, outages
from tidegate.spark_jobs.sinks.iceberg.table import LEDGER_PROPERTY, IcebergTable, table_name
from tidegate.spark_jobs.sinks.kind import table_kind
from tidegate.spark_jobs.sinks.maintenance import MaintenanceRules
from tidegate.spark_jobs.sinks.merging import PRIMARY_KEY_PROPERTY
from tidegate.spark_jobs.sinks.outputs import FindPlan, Outputs, keyed, unclaimed
from tidegate.spark_jobs.sinks.record_keys import KeyFields

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS_PER_GROUP: Final = 2_000_000
_SOURCE_FIELDS: Final = ("_source.topic", "_source.partition", "_source.offset")


def _open_store(session: Callable[[], SparkSession], settings: JobSettings, contract_id: str) -> IcebergTable:
    rules = MaintenanceRules.of(settings)
    return IcebergTable(session(), table_name(contract_id), settings.merging, rules)


def _read_outputs(settings: SinkSettings, contract_id: str, find_plan: FindPlan, _: ExitStack) -> Outputs:
    table = open_table(settings, contract_id)
    text = table.properties.get(LEDGER_PROPERTY)
    if text is None:
        raise unclaimed(table_name(contract_id))
    ledger = Ledger.parse(text)
    written = Sightings()
    for batch in _scanned(table, _SOURCE_FIELDS, ledger.topic):
        source = batch.column("_source")
        written.add_arrays(pc.struct_field(source, "partition"), pc.struct_field(source, "offset"))
    key = json.loads(table.properties.get(PRIMARY_KEY_PROPERTY, "[]"))
    keys = keyed(find_plan, key, ledger, lambda fields, _: _key_rows(table, fields, ledger.topic))
    return Outputs(ledger, written, keys=keys)


def _key_rows(table: Table, key: KeyFields, topic: str) -> Iterator[pa.RecordBatch]:
    for batch in _scanned(table, (*key.names, *_SOURCE_FIELDS, "_source.timestamp"), topic):
        source = batch.column("_source")
        of_source = (pc.struct_field(source, name) for name in ("partition", "offset", "timestamp"))
        yield key.rows([batch.column(name) for name in key.names], *of_source)


def _scanned(table: Table, fields: tuple[str, ...], topic: str) -> Iterator[pa.RecordBatch]:
    """Yield some columns of all rows that came from a topic."""
    scan = table.scan(selected_fields=fields)
    reader = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue())
    doing("reading the rows of the table")
    with outages():
        for files in _grouped(scan.plan_files()):
            for batch in reader.to_record_batches(files):
                yield batch.filter(pc.equal(pc.struct_field(batch.column("_source"), "topic"), topic))


def _grouped(files: Iterable[FileScanTask]) -> Iterator[list[FileScanTask]]:
    """Yield files in groups, because PyIceberg reads all files of a call concurrently and keeps the results."""
    group: list[FileScanTask] = []
    rows = 0
    for file in files:
        group.append(file)
        rows += file.file.record_count
        if rows >= _ROWS_PER_GROUP:
            yield group
            group, rows = [], 0
    if group:
        yield group


KIND: Final = table_kind(_open_store, _read_outputs)
