"""The parent of Spark's Python workers, started as `spark.python.daemon.module`.

With the stock daemon each Python task takes 0.12-0.19 s before its first record, because PySpark calls
`importlib.invalidate_caches()` at every task. With pyspark.zip, py4j.zip and a jar on `sys.path`, that call re-reads
thousands of directory entries in Python. This daemon removes the archives from the path and imports the modules for
judging once, before the workers are forked. It freezes those objects, so that garbage collection does not touch their
pages. Garbage collection during a task is off, which saves 5 % of the time for judging: decoded records hold no cycles,
and PySpark collects after each task anyway.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable
from typing import Any

_IMPORTED_BEFORE_THE_FORK = (
    "orjson",
    "jsonschema_rs",
    "msgspec",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "tidegate.spark_jobs.worker.judge",
    "tidegate.spark_jobs.worker.part_writer",
    "tidegate.spark_jobs.worker.task_slots",
    "tidegate.spark_jobs.sinks.postgresql.rows",
    "pyiceberg.io.pyarrow",
)


def _leave_archives() -> None:
    """Remove archives from `sys.path`, and modules imported from them: the same modules are installed."""
    for entry in [path for path in sys.path if path.endswith((".zip", ".jar"))]:
        sys.path.remove(entry)
        sys.path_importer_cache.pop(entry, None)
    for name in [module for module in sys.modules if module.split(".")[0] in ("pyspark", "py4j")]:
        del sys.modules[name]


def _ending_with_its_connection(work: Callable[..., int]) -> Callable[..., int]:
    """Wrap the function that serves a connection, so that it prints no traceback when Spark has closed it.

    Spark closes the connection of each task that it cancels, as at every stop of a stream. Tracebacks would fill the
    log of the job.
    """

    def serve(*arguments: Any) -> int:
        try:
            return work(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return 1  # nothing more arrives on this connection

    return serve


def main() -> None:
    """Prepare this process, then run PySpark's own daemon."""
    _leave_archives()
    for name in _IMPORTED_BEFORE_THE_FORK:
        importlib.import_module(name)
    daemon: Any = importlib.import_module("pyspark.daemon")
    daemon.worker = _ending_with_its_connection(daemon.worker)
    gc.collect()
    gc.freeze()
    gc.disable()
    daemon.manager()


if __name__ == "__main__":
    main()
