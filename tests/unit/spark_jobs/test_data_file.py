"""Parquet files that tasks write: what they contain, and how."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.spark_jobs.worker.part_writer import DataFile, FileTarget

ROWS = 3000
SOURCE = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
SCHEMA = pa.schema(
    [
        ("patient", pa.string()),
        ("ward", pa.string()),
        ("empty", pa.date32()),
        ("_source", SOURCE),
        ("_contract", pa.string()),
    ]
)


def test_values_that_repeat_have_a_dictionary_and_unique_ones_do_not(tmp_path: Path) -> None:
    patients = [f"patient-{number}" for number in range(ROWS)]
    wards = [f"ward-{number % 7}" for number in range(ROWS)]
    columns = pa.StructArray.from_arrays(
        [pa.array(patients), pa.array(wards), pa.nulls(ROWS, pa.date32())], fields=list(SCHEMA)[:3]
    )
    batch = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array(np.arange(ROWS) % 4, pa.int32()),
            "offset": pa.array(np.arange(ROWS), pa.int64()),
            "timestamp": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * ROWS, pa.timestamp("us", "UTC")),
        }
    )
    target = FileTarget(
        schema=SCHEMA,
        location=f"{tmp_path}/part",
        properties={},
        topic="admissions",
        contract="hospital.admissions@1.0.0",
        compression="zstd",
    )
    with DataFile(target, "00000-1") as file:
        file.write(columns, batch, pa.array(np.arange(ROWS) != 1))
    (name,) = file.written
    written = pq.ParquetFile(name)
    rows = written.read()
    assert rows.column("patient").to_pylist() == [each for index, each in enumerate(patients) if index != 1]
    group = written.metadata.row_group(0)
    described = [group.column(index) for index in range(group.num_columns)]
    dictionaries = {each.path_in_schema for each in described if each.has_dictionary_page}
    assert dictionaries == {
        "ward",
        "empty",
        "_source.topic",
        "_source.partition",
        "_source.timestamp",
        "_contract",
    }
