"""Columns as part of a contract: who reads the table finds each column, and in it what it held."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidegate.contracts.columns.typed import compile_columns
from tidegate.contracts.compatibility.changes import BOTH, Change
from tidegate.contracts.compatibility.finding import Direction
from tidegate.contracts.compatibility.judging import Judge
from tidegate.contracts.document.fields import join
from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.inclusion.answer import Outcome

CODES: Final = {
    "column.added": "a column is new",
    "column.removed": "a column is gone",
    "column.type-changed": "a column is of another type",
    "column.source-changed": "a column takes its values from another field",
}
"""Every code that a comparison of columns gives, and what it says. They are stable."""

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_WIDER: Final = {("int", "long"), ("float", "double")}


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: str
    field: str
    pointer: str


def compare_columns(base: Judge, candidate: Judge) -> Iterator[Change]:
    """Compare the tables of two contracts; columns that are derived from the schema count like declared ones."""
    one, other = base.contract, candidate.contract
    if one.columns == other.columns and (one.columns or one.schema_ == other.schema_):
        return
    before, after = _columns(base), _columns(candidate)
    if before is None or after is None:
        return
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if new is None and old is not None:
            sentence = f"the column {old.name} is gone"
            place = "/columns" if other.columns else ""
            yield _change("column.removed", sentence, (place, old.pointer), old.field, {Direction.FORWARD})
        elif old is None and new is not None:
            sentence = f"the column {new.name} is new"
            yield _change(
                "column.added", sentence, (new.pointer, "/columns" if one.columns else ""), new.field
            )
        elif old is not None and new is not None:
            yield from _compared(old, new)


def _compared(old: _Column, new: _Column) -> Iterator[Change]:
    places = new.pointer, old.pointer
    if old.field != new.field:
        sentence = f"the column {old.name} was taken from {old.field} and is from {new.field}"
        yield _change("column.source-changed", sentence, places, old.field, set(BOTH))
    if old.type != new.type:
        breaks = set(BOTH)
        if _is_wider(old.type, new.type):
            breaks = {Direction.FORWARD}
        elif _is_wider(new.type, old.type):
            breaks = {Direction.BACKWARD}
        sentence = f"the column {old.name} was {old.type} and is {new.type}"
        yield _change("column.type-changed", sentence, places, old.field, breaks)


def _is_wider(narrow: str, wide: str) -> bool:
    """Return whether a column of the second type holds every value of the first."""
    left, right = _DECIMAL.fullmatch(narrow), _DECIMAL.fullmatch(wide)
    if left and right:
        return left[2] == right[2] and int(left[1]) <= int(right[1])
    return (narrow, wide) in _WIDER


def _columns(judge: Judge) -> dict[str, _Column] | None:
    """Return the columns by their names in lower case; None when they do not compile."""
    contract = judge.contract
    if contract.columns:
        return {
            each.name.lower(): _Column(each.name, each.type.replace(" ", ""), each.from_, f"/columns/{index}")
            for index, each in enumerate(contract.columns)
        }
    try:
        columns = compile_columns(contract, judge.fields, formats_hold=_formats_hold(contract))
    except ContractError:
        return None
    return {
        each.name.lower(): _Column(each.name, each.type, join(each.path), "/schema/definition")
        for each in columns
    }


def _formats_hold(contract: DataContract) -> bool:
    return isinstance(contract.schema_, JsonSchema) and contract.schema_.formats == "assert"


def _change(
    code: str,
    sentence: str,
    places: tuple[str, str],
    field: str,
    breaks: set[Direction] | None = None,
) -> Change:
    outcome = Outcome.REFUTED if breaks else Outcome.PROVEN
    return Change(code, sentence, *places, outcome, (field,), frozenset(breaks or ()))
