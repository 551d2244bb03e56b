"""The records and the contract that the benchmarks share: the demo's admissions, again and again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.document import load_contract
from contracts.model import DataContract
from contracts.rule_model import Cel
from gateway.embedded.demo.admissions import CONTRACT_FILE, admissions_stream

ROW_GROUP = 100_000


def contract() -> DataContract:
    """Return the admissions contract with its rules in the native kinds and without expectations.

    What CEL costs is a figure of its own, and so is what expectations cost.
    """
    whole = load_contract(CONTRACT_FILE).contract
    return whole.model_copy(
        update={"expectations": (), "rules": tuple(rule for rule in whole.rules if not isinstance(rule, Cel))}
    )


def values(records: int) -> list[bytes]:
    """Return that many record values, 1 % of them refused: of the demo's corrupted records every third is kept."""
    stream = admissions_stream()
    distinct: list[bytes] = stream.records.column("value").to_pylist()
    left_out = {index for position, index in enumerate(sorted(stream.marks)) if position % 3}
    kept = [value for index, value in enumerate(distinct) if index not in left_out]
    return [kept[index % len(kept)] for index in range(records)]


def write_parquet(records: int, path: Path) -> None:
    """Write the values as a parquet file with one binary column, `value`."""
    table = pa.table({"value": pa.array(values(records), pa.binary())})
    pq.write_table(table, path, row_group_size=ROW_GROUP)
