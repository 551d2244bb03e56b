"""How a table follows its contract: a column may be added, its type may become wider, and nothing else changes."""

from __future__ import annotations

import re
from typing import Final

from tidegate.contracts.errors import StreamStopped

_WIDER: Final = frozenset(
    {("int", "bigint"), ("integer", "bigint"), ("float", "double"), ("real", "double precision")}
)
"""Types and what every value of them is exactly, as Spark and PostgreSQL write them."""

_DECIMAL: Final = re.compile(r"(?:decimal|numeric)\((\d+),(\d+)\)")


def is_wider(wanted: str, found: str) -> bool:
    """Return whether a type holds every value of another exactly, and all sinks can change a column to it in place.

    Source: Iceberg table specification, "Schema Evolution", type promotion.
    """
    if (found, wanted) in _WIDER:
        return True
    old, new = _DECIMAL.fullmatch(found), _DECIMAL.fullmatch(wanted)
    return old is not None and new is not None and old[2] == new[2] and int(new[1]) > int(old[1])


def cannot_follow(table: str, column: str, found: str, wanted: str) -> StreamStopped:
    """Make the error about a column whose type is neither the contract's nor narrower."""
    return StreamStopped(
        f"{table}: column {column} is {found}, the contract says {wanted}, which does not hold every {found}; give the "
        "column another name in the contract, or alter the table"
    )
