"""A contract that is proposed from the rows of a data frame, with the evidence for each rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.contracts.document.terms import IDENTIFIER_PATTERN
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.infer.text import contract_text
from tidegate.frames import PARTITION_BITS, infer_table, kind_of

if TYPE_CHECKING:
    from tidegate.contract import Contract


@dataclass(frozen=True, slots=True)
class InferredContract:
    """A proposed contract: `contract` judges, and `text` is its file, for a person to read, correct and publish."""

    contract: Contract
    """What the text says, without the rules that are doubtful."""
    text: str
    """A self-contained contract file in YAML: above each rule stands its evidence, and doubtful rules are comments."""


def infer_text(frame: object, contract_id: str) -> str:
    """Return the contract file that is proposed from the rows of a frame.

    Raises SettingsError for an id that is none, a frame without rows, and a column that JSON has no value for.
    """
    if not isinstance(contract_id, str) or re.fullmatch(IDENTIFIER_PATTERN, contract_id) is None:
        raise SettingsError(
            f"{contract_id!r} is no id of a contract: use letters, digits, `.`, `_` and `-`, such as hospital.admissions"
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
    """Name positions: rows of the frame, counted from 1; of a frame of Spark, in a partition, counted from 0."""
    mask = (1 << PARTITION_BITS) - 1
    if all(each <= mask for each in positions):
        return f"row{'' if len(positions) == 1 else 's'} {', '.join(f'{each:,}' for each in positions)}"
    return ", ".join(f"row {each & mask:,} of partition {(each >> PARTITION_BITS) - 1}" for each in positions)
