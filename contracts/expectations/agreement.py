"""Whether Great Expectations, asked about the same rows, says the same.

The sums here are exact and the library's are of doubles: a figure that lies on a bound but for the last digits of a
double may fall on either side of it, and that is no disagreement.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tidegate.contracts.expectations.compile import CompiledExpectation
from tidegate.contracts.expectations.result import Finding

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class LibraryFinding:
    """What the library says of an expectation; `observed` only if it is a number."""

    is_met: bool
    considered: int | None = None
    unexpected: int | None = None
    observed: float | None = None


def agrees(compiled: CompiledExpectation, ours: Finding, theirs: LibraryFinding) -> bool:
    """Return whether two findings about the same rows are the same."""
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
