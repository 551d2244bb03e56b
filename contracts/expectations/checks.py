"""Exact expectations: the metrics of each, and how a finding follows from their values.

Semantics are those of Great Expectations on Spark. A map expectation checks the values that are not null. It holds if
the share of expected values is at least `mostly`, or if there are no values. An aggregate of no values fails.
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
    FilledCount,
    Lengths,
    ListedCount,
    MatchingCount,
    Metric,
    Number,
    Occurring,
    OutsideCount,
    PairCount,
    RowCount,
    Total,
    UnequalCount,
    UnorderedCount,
)

FEWEST_SUMMED: Final = 10
"""Minimum number of values for which a mean or sum is stored: with fewer, it would reveal single values."""


@dataclass(frozen=True, slots=True)
class CheckedExpectation:
    """The result of an expectation on a batch. `considered` counts the values checked, `unexpected` those that fail.

    `observed` is a figure about many values, such as their mean; None if it would reveal a value of the payload.
    """

    is_met: bool
    considered: int
    unexpected: int | None = None
    observed: float | None = None


_LEAST_FOR_DEVIATION: Final = 2


@dataclass(frozen=True, slots=True)
class Check:
    """Metrics, and the function that returns the finding from their values for a whole batch, in the same order."""

    metrics: tuple[Metric, ...]
    find: Callable[..., CheckedExpectation]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of an expectation, in the types of its columns, with defaults."""

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


def _map(arguments: Arguments, metric: Metric, *, counts_good: bool = False) -> Check:
    """Return the check of each value of a column, from a metric that counts bad values, or else good ones."""

    def find(filled: int, count: int) -> CheckedExpectation:
        return _share(filled, filled - count if counts_good else count, arguments.mostly)

    return Check((FilledCount(arguments.column), metric), find)


def _share(considered: int, unexpected: int, mostly: Fraction) -> CheckedExpectation:
    is_met = not considered or Fraction(considered - unexpected, considered) >= mostly
    return CheckedExpectation(is_met, considered, unexpected)


def _nulls(arguments: Arguments, *, expected: bool) -> Check:
    def find(rows: int, filled: int) -> CheckedExpectation:
        return _share(rows, filled if expected else rows - filled, arguments.mostly)

    return Check((RowCount(), FilledCount(arguments.column)), find)


def _extreme(arguments: Arguments, which: int) -> Check:
    def find(filled: int, ends: tuple[Any, Any, bool] | None) -> CheckedExpectation:
        if ends is None:
            return CheckedExpectation(is_met=False, considered=0)
        # NaN is above all numbers: always the highest value, and the lowest only without numbers.
        is_nan = ends[2] and (which == 1 or ends[0] is None)
        end = Fraction(ends[which]) if isinstance(ends[which], Decimal) else ends[which]
        return CheckedExpectation(not is_nan and arguments.interval.holds(end), filled)

    return Check((FilledCount(arguments.column), Extremes(arguments.column)), find)


def _sum(arguments: Arguments, *, is_mean: bool) -> Check:
    def find(filled: int, total: Number) -> CheckedExpectation:
        if not filled:
            return CheckedExpectation(is_met=False, considered=0)
        if is_mean:
            total = total / filled if isinstance(total, float) else Fraction(total) / filled
        return _figure(total, filled, arguments.interval)

    return Check((FilledCount(arguments.column), Total(arguments.column)), find)


def _deviation(arguments: Arguments) -> Check:
    """Return the check of the sample standard deviation. It compares variances, so that no root is rounded."""
    squared = arguments.interval.squared()

    def find(filled: int, total: Number, squares: Number) -> CheckedExpectation:
        if filled < _LEAST_FOR_DEVIATION or isinstance(total, float) or isinstance(squares, float):
            return CheckedExpectation(is_met=False, considered=filled)
        variance = (squares - Fraction(total) ** 2 / filled) / (filled - 1)
        found = _figure(variance, filled, squared)
        root = None if found.observed is None else found.observed**0.5
        return CheckedExpectation(found.is_met, filled, observed=root)

    return Check(
        (FilledCount(arguments.column), Total(arguments.column), Total(arguments.column, squared=True)), find
    )


def _figure(value: Number, considered: int, interval: Interval) -> CheckedExpectation:
    observed: float | None = None
    if considered >= FEWEST_SUMMED:
        with suppress(OverflowError):  # beyond the range of doubles
            observed = float(value)
    if observed is not None and not math.isfinite(observed):
        observed = None
    return CheckedExpectation(interval.holds(value), considered, observed=observed)


def _filled_share(arguments: Arguments) -> Check:
    def find(rows: int, filled: int) -> CheckedExpectation:
        if not rows:
            return CheckedExpectation(is_met=False, considered=0)
        share = Fraction(filled, rows)
        return CheckedExpectation(arguments.interval.holds(share), rows, rows - filled, float(share))

    return Check((RowCount(), FilledCount(arguments.column)), find)


def _distinct(arguments: Arguments, *, inside: bool, all_seen: bool) -> Check:
    everything = (1 << len(arguments.values)) - 1

    def find(filled: int, listed: int, seen: int) -> CheckedExpectation:
        is_met = not (inside and listed < filled) and not (all_seen and seen != everything)
        return CheckedExpectation(is_met, filled, filled - listed if inside else None)

    metrics = (
        FilledCount(arguments.column),
        ListedCount(arguments.column, arguments.values),
        Occurring(arguments.column, arguments.values),
    )
    return Check(metrics, find)


def _pair(arguments: Arguments, unexpected: Metric) -> Check:
    pairs = PairCount(arguments.column, arguments.second, arguments.ignore)
    return Check((pairs, unexpected), lambda count, bad: _share(count, bad, arguments.mostly))


def fixed(is_met: bool) -> Check:  # noqa: FBT001 - its only argument
    """Return the check for a result that depends only on the contract, such as which columns exist."""
    return Check((RowCount(),), lambda rows: CheckedExpectation(is_met, rows))


def check_of(name: str, arguments: Arguments) -> Check:  # noqa: C901, PLR0911, PLR0912 - a table
    """Return the check of an exact expectation; `compile` handles those about the existence of columns."""
    column = arguments.column
    match name.removeprefix("expect_").removeprefix("column_"):
        case "table_row_count_to_be_between" | "table_row_count_to_equal":
            return Check(
                (RowCount(),),
                lambda rows: CheckedExpectation(arguments.interval.holds(rows), rows, observed=float(rows)),
            )
        case "min_to_be_between":
            return _extreme(arguments, 0)
        case "max_to_be_between":
            return _extreme(arguments, 1)
        case "mean_to_be_between":
            return _sum(arguments, is_mean=True)
        case "sum_to_be_between":
            return _sum(arguments, is_mean=False)
        case "stdev_to_be_between":
            return _deviation(arguments)
        case "proportion_of_non_null_values_to_be_between":
            return _filled_share(arguments)
        case "distinct_values_to_be_in_set":
            return _distinct(arguments, inside=True, all_seen=False)
        case "distinct_values_to_contain_set":
            return _distinct(arguments, inside=False, all_seen=True)
        case "distinct_values_to_equal_set":
            return _distinct(arguments, inside=True, all_seen=True)
        case "values_to_be_null":
            return _nulls(arguments, expected=True)
        case "values_to_not_be_null":
            return _nulls(arguments, expected=False)
        case "values_to_be_between":
            return _map(arguments, OutsideCount(column, arguments.interval))
        case "value_lengths_to_be_between" | "value_lengths_to_equal":
            return _map(arguments, Lengths(column, arguments.interval))
        case "values_to_be_in_set":
            return _map(arguments, ListedCount(column, arguments.values), counts_good=True)
        case "values_to_not_be_in_set":
            return _map(arguments, ListedCount(column, arguments.values))
        case "values_to_match_regex" | "values_to_match_regex_list":
            return _map(
                arguments, MatchingCount(column, arguments.patterns, every=arguments.every), counts_good=True
            )
        case "values_to_not_match_regex" | "values_to_not_match_regex_list":
            return _map(arguments, MatchingCount(column, arguments.patterns))
        case "pair_values_to_be_equal":
            return _pair(arguments, UnequalCount(column, arguments.second, arguments.ignore))
        case "pair_values_a_to_be_greater_than_b":
            ordered = UnorderedCount(column, arguments.second, arguments.ignore, or_equal=arguments.or_equal)
            return _pair(arguments, ordered)
    raise KeyError(name)
