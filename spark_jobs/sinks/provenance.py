"""The columns of Spark tables that hold the source of a row."""

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
"""The columns of every row after its typed columns: its source, and the contract version that accepted it."""

SOURCE: Final = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
"""The type of `_source`, for data files."""
