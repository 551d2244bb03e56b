"""Tests for the certain results of a CEL expression, and how they combine."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.contracts.fastpath.code_writer import all_of, any_of


class NotLoweredError(Exception):
    """A part of an expression that must be left to the CEL library."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """Python tests for certain results of the CEL library.

    They hold only if the result is certainly true (`holds`), false (`fails`), true or a missing value (`passes`), or
    false or a missing value (`misses`).
    """

    holds: str
    fails: str
    passes: str
    misses: str

    def inverse(self) -> Lowered:
        """Return the tests of the negation."""
        return Lowered(self.fails, self.holds, self.misses, self.passes)


def sure(holds: str, fails: str) -> Lowered:
    """Return the tests of an expression whose result does not depend on missing values."""
    return Lowered(holds, fails, holds, fails)


def leaf(holds: str, fails: str, unknown: str) -> Lowered:
    """Return the tests of a comparison; `unknown` holds where a value that it needs is certainly missing."""
    return Lowered(holds, fails, any_of(unknown, holds), any_of(unknown, fails))


def joined(name: str, one: Lowered, other: Lowered) -> Lowered:
    """Return the tests of `_&&_` or `_||_` (the library's names), which absorb an error on either side."""
    if name == "_||_":
        return joined("_&&_", one.inverse(), other.inverse()).inverse()
    return Lowered(
        all_of(one.holds, other.holds),
        any_of(one.fails, other.fails),
        all_of(one.passes, other.passes),
        any_of(one.fails, other.fails, all_of(one.misses, other.passes), all_of(one.passes, other.misses)),
    )


def chosen(condition: Lowered, one: Lowered, other: Lowered) -> Lowered:
    """Return the tests of `condition ? one : other`."""

    def choose(first: str, second: str) -> str:
        return any_of(all_of(condition.holds, first), all_of(condition.fails, second))

    unknown = all_of(condition.passes, condition.misses)
    return Lowered(
        choose(one.holds, other.holds),
        choose(one.fails, other.fails),
        any_of(unknown, choose(one.passes, other.passes)),
        any_of(unknown, choose(one.misses, other.misses)),
    )
