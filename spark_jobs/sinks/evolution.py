"""Schema evolution of a table: columns may be added and types widened; other changes are refused."""

from __future__ import annotations

import re
from typing import Final

from tidegate.contracts.errors import StreamStopped

_WIDER: Final = frozenset(
    {("int", "bigint"), ("integer", "bigint"), ("float", "double"), ("real", "double precision")}
)
"""Pairs of a type and a wider type that represents all its values exactly, as Spark and PostgreSQL spell them."""

_DECIMAL: Final = re.compile(r"(?:decimal|numeric)\((\d+),(\d+)\)")


def is_wider(wanted: str, found: str) -> bool:
    """Return whether `wanted` is wider: it holds every value of `found`, and all sinks can widen a column in place.

    Source: Iceberg table specification, "Schema Evolution", type promotion.
    """
    if (found, wanted) in _WIDER:
        return True
    old, new = _DECIMAL.fullmatch(found), _DECIMAL.fullmatch(wanted)
    return old is not None and new is not None and old[2] == new[2] and int(new[1]) > int(old[1])


BEGIN_AGAIN: Final = "put the table away and begin a new one: tidegate archive STREAM"
"""The remedy for a table that cannot be changed to fit the contract and the settings."""


def cannot_follow(table: str, column: str, found: str, wanted: str) -> StreamStopped:
    """Return the error for a column whose type is neither the contract's nor can be widened to it."""
    return StreamStopped(
        f"{table}: column {column} is {found}, the contract says {wanted}, which does not hold every {found}; give the "
        f"column another name in the contract, alter the table, or {BEGIN_AGAIN}"
    )
