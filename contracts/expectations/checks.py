"""Exact expectations: the metrics of each, and the finding from their values.

The meaning is that of Great Expectations on Spark. A map expectation looks at values that are not null. It holds when
the expected share of them is at least `mostly`, or when there are no values. An aggregate of no values fails.
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
from tidegate.contracts.expectations.metrics import (
    Extremes,
    Filled,
    Lengths,
    Listed,
    Matching,
    Metric,
    Number,
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
    """The result of an expectation on a batch. `considered` counts the values checked, `unexpected` those that fail.

    `observed` is a figure about many values, such as their mean: None if it would be a value of the payload.
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


def _map(given: Given, metric: Metric, *, counts_good: bool = False) -> Check:
    """Check each value of a column by a metric that counts the bad ones, or the good."""

    def find(filled: int, count: int) -> Finding:
        return _share(filled, filled - count if counts_good else count, given.mostly)

    return Check((Filled(given.column), metric), find)


def _share(considered: int, unexpected: int, mostly: Fraction) -> Finding:
    is_met = not considered or Fraction(considered - unexpected, considered) >= mostly
    return Finding(is_met, considered, unexpected)


def _nulls(given: Given, *, expected: bool) -> Check:
    def find(rows: int, filled: int) -> Finding:
        return _share(rows, filled if expected else rows - filled, given.mostly)

    return Check((Rows(), Filled(given.column)), find)


def _extreme(given: Given, which: int) -> Check:
    def find(filled: int, ends: tuple[Any, Any, bool] | None) -> Finding:
        if ends is None:
            return Finding(is_met=False, considered=0)
        # A NaN is above all numbers: the highest whenever there is one, the lowest only when it is alone.
        is_nan = ends[2] and (which == 1 or ends[0] is None)
        end = Fraction(ends[which]) if isinstance(ends[which], Decimal) else ends[which]
        return Finding(not is_nan and given.interval.holds(end), filled)

    return Check((Filled(given.column), Extremes(given.column)), find)


def _sum(given: Given, *, is_mean: bool) -> Check:
    def find(filled: int, total: Number) -> Finding:
        if not filled:
            return Finding(is_met=False, considered=0)
        if is_mean:
            total = total / filled if isinstance(total, float) else Fraction(total) / filled
        return _figure(total, filled, given.interval)

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


def _distinct(given: Given, *, inside: bool, all_seen: bool) -> Check:
    everything = (1 << len(given.values)) - 1

    def find(filled: int, listed: int, seen: int) -> Finding:
        is_met = not (inside and listed < filled) and not (all_seen and seen != everything)
        return Finding(is_met, filled, filled - listed if inside else None)

    metrics = Filled(given.column), Listed(given.column, given.values), Seen(given.column, given.values)
    return Check(metrics, find)


def _pair(given: Given, unexpected: Metric) -> Check:
    pairs = Pairs(given.column, given.second, given.ignore)
    return Check((pairs, unexpected), lambda count, bad: _share(count, bad, given.mostly))


def fixed(is_met: bool) -> Check:  # noqa: FBT001 - the one thing it is about
    """Return the check whose result depends on the contract alone, such as which columns exist."""
    return Check((Rows(),), lambda rows: Finding(is_met, rows))


def check_of(name: str, given: Given) -> Check:  # noqa: C901, PLR0911, PLR0912 - a table
    """Return the check of an exact expectation; those about which columns there are stand in `compile`."""
    column = given.column
    match name.removeprefix("expect_").removeprefix("column_"):
        case "table_row_count_to_be_between" | "table_row_count_to_equal":
            return Check(
                (Rows(),), lambda rows: Finding(given.interval.holds(rows), rows, observed=float(rows))
            )
        case "min_to_be_between":
            return _extreme(given, 0)
        case "max_to_be_between":
            return _extreme(given, 1)
        case "mean_to_be_between":
            return _sum(given, is_mean=True)
        case "sum_to_be_between":
            return _sum(given, is_mean=False)
        case "stdev_to_be_between":
            return _deviation(given)
        case "proportion_of_non_null_values_to_be_between":
            return _filled_share(given)
        case "distinct_values_to_be_in_set":
            return _distinct(given, inside=True, all_seen=False)
        case "distinct_values_to_contain_set":
            return _distinct(given, inside=False, all_seen=True)
        case "distinct_values_to_equal_set":
            return _distinct(given, inside=True, all_seen=True)
        case "values_to_be_null":
            return _nulls(given, expected=True)
        case "values_to_not_be_null":
            return _nulls(given, expected=False)
        case "values_to_be_between":
            return _map(given, Outside(column, given.interval))
        case "value_lengths_to_be_between" | "value_lengths_to_equal":
            return _map(given, Lengths(column, given.interval))
        case "values_to_be_in_set":
            return _map(given, Listed(column, given.values), counts_good=True)
        case "values_to_not_be_in_set":
            return _map(given, Listed(column, given.values))
        case "values_to_match_regex" | "values_to_match_regex_list":
            return _map(given, Matching(column, given.patterns, every=given.every), counts_good=True)
        case "values_to_not_match_regex" | "values_to_not_match_regex_list":
            return _map(given, Matching(column, given.patterns))
        case "pair_values_to_be_equal":
            return _pair(given, Unequal(column, given.second, given.ignore))
        case "pair_values_a_to_be_greater_than_b":
            ordered = Unordered(column, given.second, given.ignore, or_equal=given.or_equal)
            return _pair(given, ordered)
    raise KeyError(name)
