"""The columns of Spark tables that hold the provenance of a row."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

PROVENANCE: Final = StructType(
    [
        StructField(
            "_source",
            StructType(
                [
                    StructField("topic", StringType()),
                    StructField("partition", IntegerType()),
                    StructField("offset", LongType()),
                    StructField("timestamp", TimestampType()),
                ]
            ),
        ),
        StructField("_contract", StringType()),
    ]
)
"""The columns after the typed columns of a row: its source, and the contract version that accepted it."""

SOURCE: Final = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
"""The Arrow type of `_source` in data files."""
