"""Records and contract of the benchmarks: admissions of the demo with twelve fields, one of a hundred refused."""

from __future__ import annotations

import re
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.contracts.document.load import load_contract
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import Cel
from tidegate.gateway.embedded.demo.admissions import CONTRACT_FILE, admissions_stream

ROW_GROUP: Final = 100_000
REFUSED: Final = 100
"""One of this many records is refused."""

_LEFT_OUT: Final = ("admission_id", "consultant")
_TEXT_LEFT_OUT: Final = re.compile(rb'"admission_id":"[^"]*",|,"consultant":"[^"]*"')


def contract() -> DataContract:
    """Return the admissions contract with twelve fields, without CEL rules and expectations.

    Other benchmarks measure the costs of CEL and of expectations.
    """
    whole = load_contract(CONTRACT_FILE).contract.model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    definition: dict[str, Any] = whole["schema"]["definition"]
    for name in _LEFT_OUT:
        del definition["properties"][name]
    definition["required"] = [name for name in definition["required"] if name not in _LEFT_OUT]
    columns = [column for column in whole["columns"] if column["name"] not in _LEFT_OUT]
    changes = {"columns": columns, "primary_key": ["patient_id"], "expectations": []}
    narrow = DataContract.model_validate({**whole, **changes})
    return narrow.model_copy(
        update={"rules": tuple(rule for rule in narrow.rules if not isinstance(rule, Cel))}
    )


def values(records: int) -> list[bytes]:
    """Return `records` values; the contract refuses every REFUSED-th one, for all reasons of the demo."""
    stream = admissions_stream()
    good: list[bytes] = []
    bad: list[bytes] = []
    for index, value in enumerate(stream.records.column("value").to_pylist()):
        narrow = _TEXT_LEFT_OUT.sub(b"", value)
        mark = stream.marks.get(index)
        if mark is None:
            good.append(narrow)
        elif (
            mark.kind != "missing id" or b'"patient_id"' not in narrow
        ):  # else the missing id is not in the contract
            bad.append(narrow)
    accepted, refused = cycle(good), cycle(bad)
    return [next(accepted if index % REFUSED else refused) for index in range(records)]


def write_parquet(records: int, path: Path) -> None:
    """Write the values as a parquet file with one binary column, `value`."""
    table = pa.table({"value": pa.array(values(records), pa.binary())})
    pq.write_table(table, path, row_group_size=ROW_GROUP)
