"""The Spark session of benchmarks: the job's settings, two cores, a temporary warehouse."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.gateway.embedded.jars import ensure_jars
from tidegate.spark_jobs.session import build_session
from tidegate.spark_jobs.settings import JobSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def benchmark_settings(bootstrap_servers: str = "localhost:1", **changes: object) -> JobSettings:
    """Return job settings whose folders are in a new temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    known: dict[str, object] = {
        "bootstrap_servers": bootstrap_servers,
        "registry_url": "http://localhost:1",
        "warehouse": folder / "warehouse",
        "checkpoints": folder / "checkpoints",
        "spark_jars": ensure_jars().spark_dir,
        "spark_master": "local[2]",
        "spark_driver_memory": "4g",
    }
    return JobSettings.model_validate(known | changes)


def benchmark_session(settings: JobSettings | None = None) -> SparkSession:
    """Start a session as the job does; set PYTHONPATH so that workers can import the benchmarks."""
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return build_session(settings or benchmark_settings())
