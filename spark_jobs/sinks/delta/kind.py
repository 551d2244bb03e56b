"""The Delta sink as the job, `tidegate adopt` and a reconciliation open it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegate.spark_jobs.session import active_session
from tidegate.spark_jobs.settings import JobSettings, SinkSettings
from tidegate.spark_jobs.sinks.delta.table import DeltaTable, table_location
from tidegate.spark_jobs.sinks.kind import table_kind
from tidegate.spark_jobs.sinks.maintenance import MaintenanceRules
from tidegate.spark_jobs.sinks.outputs import FindPlan, Outputs, keyed, unclaimed
from tidegate.spark_jobs.sinks.record_keys import rows_of_spark
from tidegate.spark_jobs.sinks.sightings import sightings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _open_store(session: Callable[[], SparkSession], settings: JobSettings, contract_id: str) -> DeltaTable:
    location = table_location(settings.warehouse, contract_id)
    return DeltaTable(session(), location, settings.merging, MaintenanceRules.of(settings))


def _read_outputs(settings: SinkSettings, contract_id: str, find_plan: FindPlan, _: ExitStack) -> Outputs:
    location = table_location(settings.warehouse, contract_id)
    if not Path(location.removeprefix("file://"), "_delta_log").is_dir():
        raise unclaimed(location)
    table = DeltaTable(active_session(settings), location)
    ledger, key, rows = table.read_with_rows()
    if ledger is None:
        raise unclaimed(location)
    keys = keyed(find_plan, key, ledger, lambda fields, wanted: rows_of_spark(rows, fields, wanted))
    return Outputs(ledger, sightings(rows.select("_source.partition", "_source.offset")), keys=keys)


KIND: Final = table_kind(_open_store, _read_outputs)
