"""An expectation as Great Expectations takes it: the arguments in Python's types for the column, not as JSON has them.

Timestamps are those of UTC, without a zone: the library compares what an engine collects, which has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa

from tidegate.contracts.expectations.bounds import value_of
from tidegate.contracts.expectations.checks import Finding
from tidegate.contracts.expectations.compile import CompiledExpectation

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class LibraryFinding:
    """What the library says of an expectation; `observed` only if it is a number."""

    is_met: bool
    considered: int | None = None
    unexpected: int | None = None
    observed: float | None = None


def agrees(compiled: CompiledExpectation, ours: Finding, theirs: LibraryFinding) -> bool:
    """Return whether two findings about the same rows are the same.

    The sums here are exact and the library's are of doubles: a figure that lies on a bound but for the last digits of
    a double may fall on either side of it, and that is no disagreement.
    """
    if any(isinstance(bound, Fraction) and float(bound) != bound for bound in _bounds(compiled)):
        return True  # the library rounds such a bound to a double, and its answer is about another one
    if "distinct" not in compiled.expectation.type and None not in {ours.unexpected, theirs.unexpected}:
        return ours.is_met == theirs.is_met and ours.unexpected == theirs.unexpected
    return ours.is_met == theirs.is_met or _is_on_a_bound(compiled, theirs.observed)


def _is_on_a_bound(compiled: CompiledExpectation, observed: float | None) -> bool:
    return observed is not None and any(
        abs(observed - float(bound)) <= _ROUNDING * max(1.0, abs(float(bound)))
        for bound in _bounds(compiled)
        if isinstance(bound, Fraction)
    )


def _bounds(compiled: CompiledExpectation) -> tuple[object, object]:
    return compiled.given.interval.low, compiled.given.interval.high


_OF_A_VALUE = ("min_value", "max_value")


def library_arguments(compiled: CompiledExpectation, columns: pa.Schema) -> dict[str, Any]:
    """Return the arguments of an expectation for the library."""
    kwargs = dict(compiled.expectation.kwargs)
    if not compiled.columns:
        return kwargs
    kind = columns.field(compiled.columns[0]).type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        for name in _OF_A_VALUE:
            if isinstance(kwargs.get(name), str):
                kwargs[name] = _plain(value_of(kwargs[name], kind))
    if "value_set" in kwargs:
        kwargs["value_set"] = [_plain(value) for value in compiled.given.values]
    return kwargs


def library_columns(rows: pa.Table) -> pa.Table:
    """Return typed columns as the library is to see them: timestamps of UTC, without a zone."""
    plain = [
        pa.field(field.name, pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type)
        for field in rows.schema
    ]
    return rows.cast(pa.schema(plain))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value
