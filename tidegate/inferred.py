"""A contract that is proposed from the rows of a data frame, with the evidence for each rule."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from tidegate.contracts.document.terms import IDENTIFIER_PATTERN
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.infer.text import contract_text
from tidegate.frames import PARTITION_BITS, infer_table, kind_of


def infer_text(frame: object, contract_id: str) -> str:
    """Return the contract file that the rows of a frame suggest.

    Raises SettingsError for an invalid id, a frame without rows, or a column type that JSON cannot represent.
    """
    if not isinstance(contract_id, str) or re.fullmatch(IDENTIFIER_PATTERN, contract_id) is None:
        raise SettingsError(
            f"{contract_id!r} is not a valid contract id: use letters, digits, `.`, `_` and `-`, such as hospital.admissions"
        )
    inference = infer_table(frame) if isinstance(frame, pa.Table) else kind_of(frame).infer(frame)
    if not inference.records:
        raise SettingsError("the data frame has no rows: there is nothing to infer a contract from")
    found = inference.finish(contract_id)
    source = "an Arrow table" if isinstance(frame, pa.Table) else f"a {_library(frame)} DataFrame"
    return contract_text(found, source=source, schema_file=None, places=_places)


def _library(frame: object) -> str:
    name = type(frame).__module__.partition(".")[0]
    return {"pyspark": "Spark"}.get(name, name)


def _places(positions: Sequence[int]) -> str:
    """Name positions: row numbers from 1; for Spark, row numbers in a partition, whose numbers begin with 0."""
    mask = (1 << PARTITION_BITS) - 1
    if all(each <= mask for each in positions):
        return f"row{'' if len(positions) == 1 else 's'} {', '.join(f'{each:,}' for each in positions)}"
    return ", ".join(f"row {each & mask:,} of partition {(each >> PARTITION_BITS) - 1}" for each in positions)
