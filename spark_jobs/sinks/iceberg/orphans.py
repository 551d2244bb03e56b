"""Removal of the data files that crashed attempts have left in the folder of an Iceberg table.

The candidates are chosen by name: files of this table's own attempts, with an epoch below the ledger's. Those attempts
are fenced, so no later commit can reference their files. Iceberg's action then deletes the candidates that no snapshot
of any branch or tag references. Files that Spark writes (in merges and compactions) have no epoch in their names, and
stay.
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
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, first_line, java_of, strings_of
from tidegate.spark_jobs.sinks.maintenance import Orphans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()


def remove_orphans(
    spark: SparkSession, name: str, load: Callable[[], Any], epoch: int, age_seconds: float
) -> Orphans:
    """Delete the files of attempts before `epoch` that no snapshot references. Raises Unavailable.

    `epoch` was read from the ledger before: an attempt that starts meanwhile has a higher epoch.
    """
    try:
        table = load()
        if table.properties().getOrDefault("gc.enabled", "true") == "false":
            return Orphans()
        identity = str(table.uuid())
        folder = str(table.properties().getOrDefault("write.data.path", f"{table.location()}/data"))
        properties = strings_of(spark, table.io().properties())
        old = older_than(files_in(folder.rstrip("/"), properties), age_seconds)
        found = of_earlier_epochs(old, identity, epoch)
        if not found.num_rows:
            return Orphans()
        actions = java_of(spark).org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)  # noqa: SLF001 - no Python API
        listed = spark.createDataFrame(found.select(["file_path", "last_modified"]))
        # Loaded after the files were listed: a file that a snapshot references by then is not an orphan.
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
