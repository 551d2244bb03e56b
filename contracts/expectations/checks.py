"""How each exact expectation is judged: what to note while the rows pass, and what it says in the end.

The meaning is that of Great Expectations on Spark: a map expectation looks at values that are not null, and holds when
the expected share of them is at least `mostly`, or when there are none; an aggregate of no value is not as expected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tidegate.contracts.expectations.bounds import EVERYTHING, Interval
from tidegate.contracts.expectations.exact import Number
from tidegate.contracts.expectations.metrics import (
    Extremes,
    Filled,
    Lengths,
    Listed,
    Matching,
    Metric,
    Outside,
    Pairs,
    Rows,
    Seen,
    Total,
    Unequal,
    Unordered,
)

FEWEST_SUMMED: Final = 10
"""A mean or sum of fewer values says too much about each of them to be kept."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a batch is as expected. `considered` counts the values looked at, `unexpected` those that are not so.

    `observed` is a figure about many values, such as their mean: None where it would be a value of the payload.
    """

    is_met: bool
    considered: int
    unexpected: int | None = None
    observed: float | None = None


_LEAST_FOR_DEVIATION: Final = 2


@dataclass(frozen=True, slots=True)
class Check:
    """Metrics, and what their values of a whole batch say, in the same order."""

    metrics: tuple[Metric, ...]
    find: Callable[..., Finding]


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of an expectation, read and fitted to its columns; what was left out has its default."""

    column: str = ""
    second: str = ""
    interval: Interval = EVERYTHING
    values: tuple[Any, ...] = ()
    patterns: tuple[str, ...] = ()
    mostly: Fraction = Fraction(1)
    every: bool = False
    or_equal: bool = False
    ignore: Any = "both_values_are_missing"
    names: tuple[str, ...] = ()
    index: int | None = None
    exact_match: bool = True


Build = Callable[[Given], Check]


def _map(noted: Callable[[Given], Metric], *, counts_good: bool = False) -> Build:
    """Make the check of each value of a column, from a metric that counts the bad ones, or the good."""

    def build(given: Given) -> Check:
        def find(filled: int, count: int) -> Finding:
            return _share(filled, filled - count if counts_good else count, given.mostly)

        return Check((Filled(given.column), noted(given)), find)

    return build


def _share(considered: int, unexpected: int, mostly: Fraction) -> Finding:
    is_met = not considered or Fraction(considered - unexpected, considered) >= mostly
    return Finding(is_met, considered, unexpected)


def _nulls(*, expected: bool) -> Build:
    def build(given: Given) -> Check:
        def find(rows: int, filled: int) -> Finding:
            return _share(rows, filled if expected else rows - filled, given.mostly)

        return Check((Rows(), Filled(given.column)), find)

    return build


def _extreme(which: int) -> Build:
    def build(given: Given) -> Check:
        def find(filled: int, ends: tuple[Any, Any, bool] | None) -> Finding:
            if ends is None:
                return Finding(is_met=False, considered=0)
            # A NaN is above all numbers: the highest whenever there is one, the lowest only when it is alone.
            is_nan = ends[2] and (which == 1 or ends[0] is None)
            return Finding(not is_nan and given.interval.holds(_exact(ends[which])), filled)

        return Check((Filled(given.column), Extremes(given.column)), find)

    return build


def _exact(value: Any) -> Any:
    return Fraction(value) if isinstance(value, Decimal) else value


def _mean(given: Given) -> Check:
    def find(filled: int, total: Number) -> Finding:
        if not filled:
            return Finding(is_met=False, considered=0)
        return _figure(_over(total, filled), filled, given.interval)

    return Check((Filled(given.column), Total(given.column)), find)


def _sum(given: Given) -> Check:
    def find(filled: int, total: Number) -> Finding:
        return _figure(total, filled, given.interval) if filled else Finding(is_met=False, considered=0)

    return Check((Filled(given.column), Total(given.column)), find)


def _deviation(given: Given) -> Check:
    """Compare squares, so that no root is rounded: the sample variance of n values is over n - 1."""
    squared = given.interval.squared()

    def find(filled: int, total: Number, squares: Number) -> Finding:
        if filled < _LEAST_FOR_DEVIATION or isinstance(total, float) or isinstance(squares, float):
            return Finding(is_met=False, considered=filled)
        variance = (squares - Fraction(total) ** 2 / filled) / (filled - 1)
        found = _figure(variance, filled, squared)
        root = None if found.observed is None else found.observed**0.5
        return Finding(found.is_met, filled, observed=root)

    return Check((Filled(given.column), Total(given.column), Total(given.column, squared=True)), find)


def _over(total: Number, count: int) -> Number:
    return total / count if isinstance(total, float) else Fraction(total) / count


def _figure(value: Number, considered: int, interval: Interval) -> Finding:
    observed: float | None = None
    if considered >= FEWEST_SUMMED:
        with suppress(OverflowError):  # beyond every double
            observed = float(value)
    if observed is not None and not math.isfinite(observed):
        observed = None
    return Finding(interval.holds(value), considered, observed=observed)


def _filled_share(given: Given) -> Check:
    def find(rows: int, filled: int) -> Finding:
        if not rows:
            return Finding(is_met=False, considered=0)
        share = Fraction(filled, rows)
        return Finding(given.interval.holds(share), rows, rows - filled, float(share))

    return Check((Rows(), Filled(given.column)), find)


def _distinct(*, inside: bool, all_seen: bool) -> Build:
    def build(given: Given) -> Check:
        everything = (1 << len(given.values)) - 1

        def find(filled: int, listed: int, seen: int) -> Finding:
            is_met = not (inside and listed < filled) and not (all_seen and seen != everything)
            return Finding(is_met, filled, filled - listed if inside else None)

        metrics = Filled(given.column), Listed(given.column, given.values), Seen(given.column, given.values)
        return Check(metrics, find)

    return build


def _row_count(given: Given) -> Check:
    return Check((Rows(),), lambda rows: Finding(given.interval.holds(rows), rows, observed=float(rows)))


def _pair(unexpected: Callable[[Given], Metric]) -> Build:
    def build(given: Given) -> Check:
        pairs = Pairs(given.column, given.second, given.ignore)
        return Check((pairs, unexpected(given)), lambda count, bad: _share(count, bad, given.mostly))

    return build


def fixed(is_met: bool) -> Check:  # noqa: FBT001 - the one thing it is about
    """Make the check of what the contract alone decides: which columns there are."""
    return Check((Rows(),), lambda rows: Finding(is_met, rows))


BUILD: Final[dict[str, Build]] = {
    "expect_table_row_count_to_be_between": _row_count,
    "expect_table_row_count_to_equal": _row_count,
    "expect_column_min_to_be_between": _extreme(0),
    "expect_column_max_to_be_between": _extreme(1),
    "expect_column_mean_to_be_between": _mean,
    "expect_column_sum_to_be_between": _sum,
    "expect_column_stdev_to_be_between": _deviation,
    "expect_column_proportion_of_non_null_values_to_be_between": _filled_share,
    "expect_column_distinct_values_to_be_in_set": _distinct(inside=True, all_seen=False),
    "expect_column_distinct_values_to_contain_set": _distinct(inside=False, all_seen=True),
    "expect_column_distinct_values_to_equal_set": _distinct(inside=True, all_seen=True),
    "expect_column_values_to_be_null": _nulls(expected=True),
    "expect_column_values_to_not_be_null": _nulls(expected=False),
    "expect_column_values_to_be_between": _map(lambda given: Outside(given.column, given.interval)),
    "expect_column_values_to_be_in_set": _map(
        lambda given: Listed(given.column, given.values), counts_good=True
    ),
    "expect_column_values_to_not_be_in_set": _map(lambda given: Listed(given.column, given.values)),
    "expect_column_value_lengths_to_be_between": _map(lambda given: Lengths(given.column, given.interval)),
    "expect_column_value_lengths_to_equal": _map(lambda given: Lengths(given.column, given.interval)),
    "expect_column_values_to_match_regex": _map(
        lambda given: Matching(given.column, given.patterns), counts_good=True
    ),
    "expect_column_values_to_match_regex_list": _map(
        lambda given: Matching(given.column, given.patterns, every=given.every), counts_good=True
    ),
    "expect_column_values_to_not_match_regex": _map(lambda given: Matching(given.column, given.patterns)),
    "expect_column_values_to_not_match_regex_list": _map(
        lambda given: Matching(given.column, given.patterns)
    ),
    "expect_column_pair_values_to_be_equal": _pair(
        lambda given: Unequal(given.column, given.second, given.ignore)
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": _pair(
        lambda given: Unordered(given.column, given.second, given.ignore, or_equal=given.or_equal)
    ),
}
"""What makes the check of an expectation; those that only look at which columns there are stand in `compile`."""
