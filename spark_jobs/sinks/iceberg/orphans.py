"""Removal of the data files that crashed attempts have left in the folder of an Iceberg table.

The candidates are chosen here, by their names: files of this table's own attempts, of an epoch below that of the ledger.
Their attempts are fenced, so that nothing will name these files any more. Iceberg's action then deletes those that no
snapshot names, whatever branch or tag it is on. Spark's own files (of merges and compactions) bear no epoch, and stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.sinks.attempt_files import files_in, of_earlier_epochs, older_than
from tidegate.spark_jobs.sinks.java_errors import JAVA_ERRORS, first_line
from tidegate.spark_jobs.sinks.maintenance import Orphans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()


def remove_orphans(
    spark: SparkSession, name: str, load: Callable[[], Any], epoch: int, age_seconds: float
) -> Orphans:
    """Delete the files of attempts below `epoch` that no snapshot names. Raises Unavailable.

    `epoch` was read from the ledger before: an attempt that begins meanwhile has a higher one.
    """
    try:
        table = load()
        if table.properties().getOrDefault("gc.enabled", "true") == "false":
            return Orphans()
        identity = str(table.uuid())
        folder = str(table.properties().getOrDefault("write.data.path", f"{table.location()}/data"))
        properties = {str(key): str(value) for key, value in dict(table.io().properties()).items()}
        old = older_than(files_in(folder.rstrip("/"), properties), age_seconds)
        found = of_earlier_epochs(old, identity, epoch)
        if not found.num_rows:
            return Orphans()
        iceberg = spark._jvm.org.apache.iceberg  # type: ignore[union-attr]  # noqa: SLF001 - no Python API
        actions = iceberg.spark.actions.SparkActions.get(spark._jsparkSession)  # noqa: SLF001 - the same
        listed = spark.createDataFrame(found.select(["file_path", "last_modified"]))
        # Opened after the files were listed: what a snapshot names by then is no orphan.
        action = actions.deleteOrphanFiles(load()).compareToFileList(listed._jdf)  # noqa: SLF001 - the same
        now = int(time.time() * 1000) + 1
        deleted = [str(each) for each in action.olderThan(now).execute().orphanFileLocations()]
    except (*JAVA_ERRORS, OSError) as error:
        raise Unavailable(f"{name}: its orphan files could not be removed: {first_line(error)}") from error
    sizes = found.filter(pc.is_in(found["file_path"], pa.array(deleted, pa.string())))["size"]
    removed = Orphans(len(deleted), int(pc.sum(sizes).as_py() or 0))
    if deleted:
        log.info("orphans_removed", table=name, files=removed.files, bytes=removed.bytes)
    return removed
