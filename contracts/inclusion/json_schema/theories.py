"""Numbers and strings: whether any value satisfies some assertions of schemas ("leaves") and violates others.

`holding` are the leaves that the value satisfies, `broken` those that it violates. `is_empty` is True only if it is
certain that there is no such value. False means that there may be one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from tidegate.contracts.inclusion.intervals import AFTER_ALL, BEFORE_ALL, Cut, first_integer
from tidegate.contracts.inclusion.json_schema.branch import Count
from tidegate.contracts.inclusion.json_schema.evaluate import fits_all
from tidegate.contracts.inclusion.json_schema.nodes import (
    Bound,
    Format,
    Length,
    MultipleOf,
    Node,
    OneValue,
    Pattern,
    Precision,
)
from tidegate.contracts.inclusion.json_schema.pattern_syntax import without_assertions
from tidegate.contracts.inclusion.json_schema.regular import (
    Question,
    answer,
    automaton_of,
)
from tidegate.contracts.inclusion.json_schema.values import MAX_EXACT, margin

_MAX_LISTED: Final = 300

FORMAT_LANGUAGES: Final = {
    "email": "@",
    "ipv6": "^[0-9a-fA-F:.]{2,45}$",
    "uri": "^[A-Za-z][A-Za-z0-9+.-]*:",
    # jsonschema-rs reads the digits of a date by arithmetic, and accepts 2.24-02-20.
    "date": "^[ -~]{4}-[ -~]{2}-[ -~]{2}$",
    "ipv4": r"^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}$",
    "uuid": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
}
"""A pattern that every string of a format matches, by format; it may match other strings too."""

WIDER_FORMATS: Final = {
    "uri": frozenset({"uri-reference", "iri", "iri-reference"}),
    "uri-reference": frozenset({"iri-reference"}),
    "iri": frozenset({"iri-reference"}),
    "email": frozenset({"idn-email"}),
}
"""By format: other formats that accept all of its strings."""


@dataclass(slots=True)
class NumberRange:
    """The numbers between two cuts (see `intervals`)."""

    low: Cut = BEFORE_ALL
    high: Cut = AFTER_ALL

    def take(self, bound: Bound, *, is_kept: bool, slack: Fraction | int = 0) -> None:
        """Narrow the range to the numbers that keep (or break) a bound; `slack` moves the bound outwards."""
        is_lower = bound.is_lower is is_kept
        is_exclusive = bound.is_exclusive is is_kept and not slack
        if is_lower:
            self.low = max(self.low, (bound.limit - slack, int(is_exclusive)))
        else:
            self.high = min(self.high, (bound.limit + slack, int(not is_exclusive)))

    @property
    def is_empty(self) -> bool:
        """Return whether no number is left."""
        return self.low >= self.high

    @property
    def ends(self) -> list[Fraction]:
        """Return the lower and the upper limit; an unbounded side is left out."""
        return [end for end, _ in (self.low, self.high) if isinstance(end, Fraction)]

    def multiples(self, step: Fraction) -> tuple[int | None, int | None]:
        """Return the factors of the first multiple of `step` in the range and of the first one above it.

        A factor is None where that side of the range is unbounded.
        """
        first, behind = (first_integer((end / step, side)) for end, side in (self.low, self.high))
        return first, behind


@dataclass(slots=True)
class NumberFacts:
    """The constraints on a number that satisfies the leaves `holding` and violates the leaves `broken`."""

    holding: Iterable[Node]
    broken: list[Node]
    is_integer: bool
    exact: NumberRange = field(default_factory=NumberRange)
    """The range of the number."""
    step: Fraction | None = None
    """The number is a multiple of this; None for no such constraint."""

    def __post_init__(self) -> None:
        if self.is_integer:
            self.step = Fraction(1)
        for leaf in self.holding:
            if isinstance(leaf, Bound):
                self._take(leaf, is_kept=True)
            elif isinstance(leaf, MultipleOf):
                self._keep_step(leaf)
        for leaf in self.broken:
            if isinstance(leaf, Bound):
                self._take(leaf, is_kept=False)

    def _take(self, bound: Bound, *, is_kept: bool) -> None:
        # Doubles represent small integers exactly.
        if bound.precision is Precision.EXACT or (self.is_integer and abs(bound.limit) < MAX_EXACT // 4):
            self.exact.take(bound, is_kept=is_kept)
            return
        self.exact.take(bound, is_kept=is_kept, slack=margin(bound.limit))

    def _keep_step(self, leaf: MultipleOf) -> None:
        if leaf.precision is Precision.EXACT or self.is_integer:
            self.step = _common_multiple(self.step, leaf.step)

    @property
    def is_empty(self) -> bool:
        """Return whether it is certain that there is no such number."""
        exact = self.exact
        if exact.is_empty or self._is_between_steps():
            return True
        if len(exact.ends) == 2 and exact.ends[0] == exact.ends[1]:
            return self._excludes(exact.ends[0])
        if self.step is None:
            return False
        first, behind = exact.multiples(self.step)
        if first is None or behind is None or behind - first > _MAX_LISTED:
            return False
        return all(self._excludes(factor * self.step) for factor in range(first, behind))

    def _is_between_steps(self) -> bool:
        """Return whether every remaining number is a multiple of a broken step, or a forbidden integer."""
        if self.step is not None and self.step.denominator == 1 and not self.is_integer:
            return True
        broken = [leaf for leaf in self.broken if isinstance(leaf, MultipleOf)]
        return any(self.step is not None and (self.step / leaf.step).denominator == 1 for leaf in broken)

    def _excludes(self, number: Fraction) -> bool:
        if (number.denominator == 1) != self.is_integer:
            return True
        return any(
            (isinstance(leaf, OneValue) and ("number", number) in leaf.by_key)
            or (isinstance(leaf, MultipleOf) and (number / leaf.step).denominator == 1)
            for leaf in self.broken
        )


def _common_multiple(one: Fraction | None, other: Fraction) -> Fraction:
    if one is None:
        return other
    return Fraction(
        math.lcm(one.numerator * other.denominator, other.numerator * one.denominator),
        one.denominator * other.denominator,
    )


@dataclass(slots=True)
class StringFacts:
    """The constraints on a string that satisfies the leaves `holding` and violates the leaves `broken`."""

    holding: Iterable[Node]
    broken: list[Node]
    count: Count = field(default_factory=Count)
    inside: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    formats: list[Format] = field(default_factory=list)
    excluded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for leaf in self.holding:
            match leaf:
                case Length(is_lower=is_lower, limit=limit):
                    self._limit(limit, is_lower=is_lower)
                case Pattern(pattern=pattern):
                    self.inside.append(_readable(pattern))
                case Format(name=name):
                    self.formats.append(leaf)
                    if name in FORMAT_LANGUAGES:
                        self.inside.append(FORMAT_LANGUAGES[name])
        for leaf in self.broken:
            match leaf:
                case Length(is_lower=is_lower, limit=limit):
                    self._limit(limit - 1 if is_lower else limit + 1, is_lower=not is_lower)
                case Pattern(pattern=pattern):
                    self.outside.append(pattern)
                case OneValue(values=values):
                    self.excluded.update(value for value in values if isinstance(value, str))

    def _limit(self, limit: int, *, is_lower: bool) -> None:
        if is_lower:
            self.count.at_least(limit)
        else:
            self.count.at_most(limit)

    @property
    def question(self) -> Question:
        """Return the search for such a string, without formats and without patterns that have no automaton."""
        return Question(
            tuple(sorted({each for each in self.inside if automaton_of(each)})),
            tuple(sorted({each for each in self.outside if automaton_of(each)})),
            self.count.least,
            self.count.most,
            frozenset(self.excluded) if len(self.excluded) <= _MAX_LISTED else frozenset(),
        )

    @property
    def is_empty(self) -> bool:
        """Return whether it is certain that there is no such string."""
        if self.count.is_empty or self._is_of_wider_format():
            return True
        if self.count.most == 0:
            return fits_all("", self.holding, self.broken) is False
        question = self.question
        if not question.inside and not question.outside:
            return False
        free = Question(question.inside, question.outside)
        if _has_none(free):
            return True
        is_bounded = question.least > 0 or question.most is not None or bool(question.excluded)
        return is_bounded and _has_none(question)

    def _is_of_wider_format(self) -> bool:
        return any(
            isinstance(leaf, Format)
            and leaf.dialect_uri == held.dialect_uri
            and leaf.name in WIDER_FORMATS.get(held.name, ())
            for leaf in self.broken
            for held in self.formats
        )


def _readable(pattern: str) -> str:
    """Return the pattern, or one without its assertions if only that one can have an automaton.

    The result matches at least the same strings.
    """
    if automaton_of(pattern) is not None:
        return pattern
    return without_assertions(pattern) or pattern


def _has_none(question: Question) -> bool:
    return answer(question) == (None, True)
