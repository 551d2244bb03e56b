"""The expectations that a contract may use: their names, who judges them, and how their arguments are read.

Names, arguments and defaults are those of Great Expectations; a test compares them with the library. Other expectations
cannot be judged on a single batch, because they need another table, SQL, or an order that a batch does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
import re2  # type: ignore[import-untyped] # it publishes no types

from tidegate.contracts.document.source import escape
from tidegate.contracts.errors import Problem
from tidegate.contracts.expectations.bounds import (
    Interval,
    bound_of,
    is_listed,
    is_number,
    is_ordered,
    value_of,
)
from tidegate.contracts.expectations.checks import Arguments
from tidegate.contracts.suggestions import did_you_mean


class Columns(Enum):
    """The columns to which an expectation applies."""

    ANY = auto()
    NUMBERS = auto()
    ORDERED = auto()
    LISTED = auto()
    TEXT = auto()


@dataclass(frozen=True, slots=True)
class ArgumentShape:
    """The arguments of one expectation.

    The `required` ones come first in `arguments`. An exact expectation is judged from metrics of the batch; any other by
    Great Expectations, on the batch's accepted rows.
    """

    arguments: tuple[str, ...]
    required: frozenset[str]
    columns: Columns = Columns.ANY
    is_exact: bool = True


def _shape(
    required: str, optional: str = "", columns: Columns = Columns.ANY, *, is_exact: bool = True
) -> ArgumentShape:
    names = required.split()
    return ArgumentShape((*names, *optional.split()), frozenset(names), columns, is_exact)


_BOUNDS: Final = "min_value max_value strict_min strict_max"

VOCABULARY: Final[Mapping[str, ArgumentShape]] = {
    # About the table.
    "expect_table_row_count_to_be_between": _shape("", _BOUNDS),
    "expect_table_row_count_to_equal": _shape("value"),
    "expect_table_column_count_to_be_between": _shape("", "min_value max_value"),
    "expect_table_column_count_to_equal": _shape("value"),
    "expect_column_to_exist": _shape("column", "column_index"),
    "expect_table_columns_to_match_ordered_list": _shape("column_list"),
    "expect_table_columns_to_match_set": _shape("column_set", "exact_match"),
    # About all values of a column together.
    "expect_column_min_to_be_between": _shape("column", _BOUNDS, Columns.ORDERED),
    "expect_column_max_to_be_between": _shape("column", _BOUNDS, Columns.ORDERED),
    "expect_column_mean_to_be_between": _shape("column", _BOUNDS, Columns.NUMBERS),
    "expect_column_sum_to_be_between": _shape("column", _BOUNDS, Columns.NUMBERS),
    "expect_column_stdev_to_be_between": _shape("column", _BOUNDS, Columns.NUMBERS),
    "expect_column_proportion_of_non_null_values_to_be_between": _shape("column", _BOUNDS),
    "expect_column_distinct_values_to_be_in_set": _shape("column value_set", columns=Columns.LISTED),
    "expect_column_distinct_values_to_contain_set": _shape("column value_set", columns=Columns.LISTED),
    "expect_column_distinct_values_to_equal_set": _shape("column value_set", columns=Columns.LISTED),
    # About each value of a column.
    "expect_column_values_to_be_null": _shape("column", "mostly"),
    "expect_column_values_to_not_be_null": _shape("column", "mostly"),
    "expect_column_values_to_be_between": _shape("column", f"mostly {_BOUNDS}", Columns.ORDERED),
    "expect_column_values_to_be_in_set": _shape("column value_set", "mostly", Columns.LISTED),
    "expect_column_values_to_not_be_in_set": _shape("column value_set", "mostly", Columns.LISTED),
    "expect_column_value_lengths_to_be_between": _shape("column", f"mostly {_BOUNDS}", Columns.TEXT),
    "expect_column_value_lengths_to_equal": _shape("column value", "mostly", Columns.TEXT),
    "expect_column_values_to_match_regex": _shape("column regex", "mostly", Columns.TEXT),
    "expect_column_values_to_not_match_regex": _shape("column regex", "mostly", Columns.TEXT),
    "expect_column_values_to_match_regex_list": _shape("column regex_list", "mostly match_on", Columns.TEXT),
    "expect_column_values_to_not_match_regex_list": _shape("column regex_list", "mostly", Columns.TEXT),
    # About two columns of each row.
    "expect_column_pair_values_to_be_equal": _shape("column_A column_B", "mostly ignore_row_if"),
    "expect_column_pair_values_a_to_be_greater_than_b": _shape(
        "column_A column_B", "mostly ignore_row_if or_equal", Columns.ORDERED
    ),
    # These need all values together: their order, quantiles, or frequencies.
    "expect_column_median_to_be_between": _shape("column", _BOUNDS, Columns.NUMBERS, is_exact=False),
    "expect_column_quantile_values_to_be_between": _shape(
        "column quantile_ranges", "allow_relative_error", Columns.NUMBERS, is_exact=False
    ),
    "expect_column_unique_value_count_to_be_between": _shape("column", _BOUNDS, is_exact=False),
    "expect_column_proportion_of_unique_values_to_be_between": _shape("column", _BOUNDS, is_exact=False),
    "expect_column_most_common_value_to_be_in_set": _shape(
        "column value_set", "ties_okay", Columns.LISTED, is_exact=False
    ),
    "expect_column_values_to_be_unique": _shape("column", "mostly", is_exact=False),
    "expect_column_value_z_scores_to_be_less_than": _shape(
        "column threshold double_sided", "mostly", Columns.NUMBERS, is_exact=False
    ),
    "expect_column_pair_values_to_be_in_set": _shape(
        "column_A column_B value_pairs_set", "mostly ignore_row_if", Columns.LISTED, is_exact=False
    ),
    "expect_multicolumn_values_to_be_equal": _shape("column_list", "mostly ignore_row_if", is_exact=False),
    "expect_compound_columns_to_be_unique": _shape("column_list", "mostly ignore_row_if", is_exact=False),
    "expect_select_column_values_to_be_unique_within_record": _shape(
        "column_list", "mostly ignore_row_if", is_exact=False
    ),
    "expect_multicolumn_sum_to_equal": _shape(
        "column_list sum_total", "mostly ignore_row_if", Columns.NUMBERS, is_exact=False
    ),
}
"""Every expectation that a contract may use, by name."""

REFUSED: Final[Mapping[str, str]] = {
    "expect_column_values_to_be_increasing": "a batch is in no order; write a rule of kind `ordered` for one record",
    "expect_column_values_to_be_decreasing": "a batch is in no order; write a rule of kind `ordered` for one record",
    "expect_table_row_count_to_equal_other_table": "a batch is judged by itself; compare tables where they are",
    "expect_query_results_to_match_comparison": "a batch is judged by itself; compare tables where they are",
    "unexpected_rows_expectation": "no SQL is run on a batch; write a rule of kind `cel`, or another expectation",
    "expect_column_values_to_match_like_pattern": "use expect_column_values_to_match_regex",
    "expect_column_values_to_not_match_like_pattern": "use expect_column_values_to_not_match_regex",
    "expect_column_values_to_match_like_pattern_list": "use expect_column_values_to_match_regex_list",
    "expect_column_values_to_not_match_like_pattern_list": "use expect_column_values_to_not_match_regex_list",
    "expect_column_kl_divergence_to_be_less_than": "use expect_column_quantile_values_to_be_between",
    "expect_column_values_to_not_be_outliers": "use expect_column_value_z_scores_to_be_less_than",
    "expect_column_values_to_be_of_type": "a column holds its declared type and nothing else; leave it out",
    "expect_column_values_to_be_in_type_list": "a column holds its declared type and nothing else; leave it out",
    "expect_column_type_to_be": "a column holds its declared type and nothing else; leave it out",
    "expect_column_values_to_be_json_parseable": "put it into the schema, or declare a column of type `json`",
    "expect_column_values_to_match_json_schema": "put it into the schema",
    "expect_column_values_to_match_strftime_format": "use `format` in the schema, or a rule of kind `matches`",
    "expect_column_values_to_be_dateutil_parseable": "use `format` in the schema",
}
"""Expectations of the library that are not supported, with the reason and an alternative."""


_FITS: Final[Mapping[Columns, tuple[Callable[[pa.DataType], bool], str]]] = {
    Columns.ANY: (lambda _: True, ""),
    Columns.NUMBERS: (is_number, "a number"),
    Columns.ORDERED: (is_ordered, "a number, a date or a timestamp"),
    Columns.LISTED: (is_listed, "a number, text, a boolean, a date or a timestamp"),
    Columns.TEXT: (pa.types.is_string, "text"),
}
_COLUMN: Final = frozenset({"column", "column_A", "column_B"})
_COLUMNS: Final = frozenset({"column_list", "column_set"})
_LENGTH: Final = pa.int64()
_MISSING_OF_PAIR: Final = ("both_values_are_missing", "either_value_is_missing", "neither")
_MISSING_OF_LIST: Final = ("all_values_are_missing", "any_value_is_missing", "never")
_COUNTED: Final = frozenset(
    {
        "expect_table_row_count_to_be_between",
        "expect_table_column_count_to_be_between",
        "expect_column_value_lengths_to_be_between",
        "expect_column_proportion_of_non_null_values_to_be_between",
        "expect_column_unique_value_count_to_be_between",
        "expect_column_proportion_of_unique_values_to_be_between",
    }
)
"""Expectations whose bounds apply to a count, length or share, regardless of the column's type."""


@dataclass(slots=True)
class ArgumentReader:
    """Reads the arguments of one expectation, and collects their problems with pointers into the contract.

    `names` are those of `columns`, in their order.
    """

    pointer: str
    type: str
    shape: ArgumentShape
    kwargs: Mapping[str, Any]
    columns: pa.Schema
    names: Collection[str]
    problems: list[Problem] = field(default_factory=list)

    def read(self) -> Arguments | None:
        """Return the arguments; None if there are any `problems`."""
        for name in self.kwargs:
            if name not in self.shape.arguments:
                known = did_you_mean(name, self.shape.arguments) if self.shape.arguments else ""
                self._refuse(name, f"{self.type} takes no argument `{name}`{known}")
        for name in self.shape.required:
            if name not in self.kwargs:
                self.problems.append(Problem(self.pointer, f"{self.type} needs the argument `{name}`"))
        names = {name: tuple(self._columns(name)) for name in self.shape.arguments}
        if self.problems:
            return None
        about = [column for each in names.values() for column in each]
        kind = self.columns.field(about[0]).type if about and about[0] in self.names else None
        arguments = Arguments(
            column=about[0] if about else "",
            second=about[1] if len(about) > 1 else "",
            interval=self._interval(kind),
            values=self._values(kind),
            patterns=tuple(self._patterns()),
            mostly=self._mostly(),
            every=self._choice("match_on", ("any", "all")) == "all",
            or_equal=self._flag("or_equal", default=False),
            ignore=self._ignored(),
            names=tuple(about),
            index=self._count("column_index"),
            exact_match=self._flag("exact_match", default=True),
        )
        self._flag("double_sided", default=False)
        self._flag("ties_okay", default=False)
        return None if self.problems else arguments

    def _refuse(self, argument: str, message: str) -> None:
        place = f"{self.pointer}/kwargs/{escape(argument)}"
        self.problems.append(Problem(place, message))

    def _columns(self, name: str) -> Iterator[str]:
        value = self.kwargs.get(name)
        if value is None:
            return
        if name in _COLUMN:
            if not isinstance(value, str):
                self._refuse(name, "must be the name of a column")
            elif self.type == "expect_column_to_exist" or self._fits(name, value):
                yield value
        elif name in _COLUMNS:
            if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
                self._refuse(name, "must be a list of names of columns")
            elif not self.type.startswith("expect_table") and not all(
                self._fits(name, each) for each in value
            ):
                return
            else:
                yield from value

    def _fits(self, argument: str, column: str) -> bool:
        if column not in self.names:
            self._refuse(argument, f"there is no column `{column}`{did_you_mean(column, self.names)}")
            return False
        is_fit, what = _FITS[self.shape.columns]
        kind = self.columns.field(column).type
        if not is_fit(kind):
            self._refuse(argument, f"the column `{column}` is of type {kind}; {self.type} takes {what}")
            return False
        return True

    def _interval(self, kind: pa.DataType | None) -> Interval:
        if "value" in self.shape.arguments:
            count = self._count("value")
            return Interval() if count is None else Interval(Fraction(count), Fraction(count))
        for name in ("threshold", "sum_total"):
            if name in self.shape.arguments:
                self._bound(name, pa.float64())
        if "min_value" not in self.shape.arguments:
            return Interval()
        of = _LENGTH if kind is None or self.type in _COUNTED else kind
        interval = Interval(
            self._bound("min_value", of),
            self._bound("max_value", of),
            self._flag("strict_min", default=False),
            self._flag("strict_max", default=False),
        )
        if interval.low is None and interval.high is None and not self.problems:
            self.problems.append(
                Problem(self.pointer, f"{self.type} needs a bound: `min_value` or `max_value`")
            )
        elif not self.problems and interval.is_empty:
            self._refuse("max_value", "no value lies between `min_value` and `max_value`")
        return interval

    def _bound(self, name: str, kind: pa.DataType) -> Any:
        written = self.kwargs.get(name)
        if written is None:
            return None
        try:
            return bound_of(written, kind)
        except ValueError as error:
            self._refuse(name, str(error))
            return None

    def _values(self, kind: pa.DataType | None) -> tuple[Any, ...]:
        if "value_set" not in self.shape.arguments or kind is None:
            return ()
        written = self.kwargs["value_set"]
        if not isinstance(written, list) or not written:
            self._refuse("value_set", "must be a list of values")
            return ()
        values: dict[Any, None] = {}
        for index, each in enumerate(written):
            try:
                values[value_of(each, kind)] = None
            except ValueError as error:
                self.problems.append(Problem(f"{self.pointer}/kwargs/value_set/{index}", str(error)))
        return tuple(values)

    def _patterns(self) -> Iterator[str]:
        options = re2.Options()
        options.log_errors = False
        for name in ("regex", "regex_list"):
            if name not in self.shape.arguments:
                continue
            written = self.kwargs[name]
            patterns = written if name == "regex_list" else [written]
            if not isinstance(patterns, list) or not patterns:
                self._refuse(name, "must be a list of patterns")
                continue
            for pattern in patterns:
                try:
                    re2.compile(pattern, options)
                except (re2.error, TypeError):
                    self._refuse(name, "not a pattern in RE2 syntax")
                else:
                    yield pattern

    def _mostly(self) -> Fraction:
        written = self.kwargs.get("mostly", 1)
        is_share = isinstance(written, int | float) and not isinstance(written, bool) and 0 <= written <= 1
        if not is_share:
            self._refuse("mostly", "must be a share from 0 to 1")
            return Fraction(1)
        return Fraction(str(written))

    def _flag(self, name: str, *, default: bool) -> bool:
        written = self.kwargs.get(name)
        if written is None:
            return default
        if not isinstance(written, bool):
            self._refuse(name, "must be true or false")
        return bool(written)

    def _count(self, name: str) -> int | None:
        written = self.kwargs.get(name)
        if written is None:
            return None
        if isinstance(written, bool) or not isinstance(written, int) or written < 0:
            self._refuse(name, "must be a whole number from 0 on")
            return None
        return written

    def _choice(self, name: str, choices: tuple[str, ...]) -> str:
        written = self.kwargs.get(name, choices[0])
        if written not in choices:
            self._refuse(name, f"must be one of {', '.join(choices)}")
            return choices[0]
        return str(written)

    def _ignored(self) -> str:
        is_pair = "column_A" in self.shape.arguments
        if "ignore_row_if" not in self.shape.arguments:
            return _MISSING_OF_PAIR[0]
        return self._choice("ignore_row_if", _MISSING_OF_PAIR if is_pair else _MISSING_OF_LIST)
