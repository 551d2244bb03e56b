"""The offsets of a batch come from Spark's own log, which may have been deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.job.source import BatchOffsets


def test_a_checkpoint_that_is_gone_ends_the_attempt_and_not_the_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It may be another instance that has deleted it, and that the ledger knows of."""
    offsets = BatchOffsets(spark, f"file://{tmp_path}/gone", "t", {0: 0})
    with pytest.raises(Unavailable, match="has lost batch 0 of Spark's offset log"):
        offsets.of(0)
