"""The expectations that a contract may have: their names, their arguments, and who judges them.

Names, arguments and defaults are Great Expectations' own (a test holds them against the library). What is not here
cannot be judged on a batch as it passes: it asks for another table, for SQL, or for an order that a batch does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final


class Argument(Enum):
    """What an argument of an expectation holds."""

    COLUMN = auto()
    COLUMNS = auto()
    BOUND = auto()
    FLAG = auto()
    SHARE = auto()
    COUNT = auto()
    VALUES = auto()
    PATTERN = auto()
    PATTERNS = auto()
    ANY_OR_ALL = auto()
    MISSING = auto()
    ANYTHING = auto()


class Columns(Enum):
    """Which columns an expectation can be about."""

    ANY = auto()
    NUMBERS = auto()
    ORDERED = auto()
    LISTED = auto()
    TEXT = auto()


@dataclass(frozen=True, slots=True)
class Shape:
    """What one expectation takes.

    `required` arguments stand first in `arguments`. Exact ones are judged while the batch passes; the others by Great
    Expectations, on the batch's accepted rows.
    """

    arguments: Mapping[str, Argument]
    required: frozenset[str] = field(default_factory=frozenset)
    columns: Columns = Columns.ANY
    is_exact: bool = True


_BOUNDS: Final = {
    "min_value": Argument.BOUND,
    "max_value": Argument.BOUND,
    "strict_min": Argument.FLAG,
    "strict_max": Argument.FLAG,
}
_MOSTLY: Final = {"mostly": Argument.SHARE}
_PAIR: Final = {
    "column_A": Argument.COLUMN,
    "column_B": Argument.COLUMN,
    **_MOSTLY,
    "ignore_row_if": Argument.MISSING,
}
_LIST: Final = {"column_list": Argument.COLUMNS, **_MOSTLY, "ignore_row_if": Argument.MISSING}


def _of_column(
    required: Mapping[str, Argument],
    optional: Mapping[str, Argument] = MappingProxyType({}),
    columns: Columns = Columns.ANY,
    *,
    is_exact: bool = True,
) -> Shape:
    needed = {"column": Argument.COLUMN, **required}
    return Shape(MappingProxyType({**needed, **optional}), frozenset(needed), columns, is_exact)


def _of_columns(
    arguments: Mapping[str, Any], *required: str, columns: Columns = Columns.ANY, is_exact: bool = True
) -> Shape:
    return Shape(MappingProxyType(dict(arguments)), frozenset(required), columns, is_exact)


_SET: Final = {"value_set": Argument.VALUES}

VOCABULARY: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        # Of the table.
        "expect_table_row_count_to_be_between": _of_columns(_BOUNDS),
        "expect_table_row_count_to_equal": _of_columns({"value": Argument.COUNT}, "value"),
        "expect_table_column_count_to_be_between": _of_columns(
            {"min_value": Argument.BOUND, "max_value": Argument.BOUND}
        ),
        "expect_table_column_count_to_equal": _of_columns({"value": Argument.COUNT}, "value"),
        "expect_column_to_exist": _of_column({}, {"column_index": Argument.COUNT}),
        "expect_table_columns_to_match_ordered_list": _of_columns(
            {"column_list": Argument.COLUMNS}, "column_list"
        ),
        "expect_table_columns_to_match_set": _of_columns(
            {"column_set": Argument.COLUMNS, "exact_match": Argument.FLAG}, "column_set"
        ),
        # Of all values of a column together.
        "expect_column_min_to_be_between": _of_column({}, _BOUNDS, Columns.ORDERED),
        "expect_column_max_to_be_between": _of_column({}, _BOUNDS, Columns.ORDERED),
        "expect_column_mean_to_be_between": _of_column({}, _BOUNDS, Columns.NUMBERS),
        "expect_column_sum_to_be_between": _of_column({}, _BOUNDS, Columns.NUMBERS),
        "expect_column_stdev_to_be_between": _of_column({}, _BOUNDS, Columns.NUMBERS),
        "expect_column_proportion_of_non_null_values_to_be_between": _of_column({}, _BOUNDS),
        "expect_column_distinct_values_to_be_in_set": _of_column(_SET, columns=Columns.LISTED),
        "expect_column_distinct_values_to_contain_set": _of_column(_SET, columns=Columns.LISTED),
        "expect_column_distinct_values_to_equal_set": _of_column(_SET, columns=Columns.LISTED),
        # Of each value of a column.
        "expect_column_values_to_be_null": _of_column({}, _MOSTLY),
        "expect_column_values_to_not_be_null": _of_column({}, _MOSTLY),
        "expect_column_values_to_be_between": _of_column({}, {**_MOSTLY, **_BOUNDS}, Columns.ORDERED),
        "expect_column_values_to_be_in_set": _of_column(_SET, _MOSTLY, Columns.LISTED),
        "expect_column_values_to_not_be_in_set": _of_column(_SET, _MOSTLY, Columns.LISTED),
        "expect_column_value_lengths_to_be_between": _of_column({}, {**_MOSTLY, **_BOUNDS}, Columns.TEXT),
        "expect_column_value_lengths_to_equal": _of_column({"value": Argument.COUNT}, _MOSTLY, Columns.TEXT),
        "expect_column_values_to_match_regex": _of_column({"regex": Argument.PATTERN}, _MOSTLY, Columns.TEXT),
        "expect_column_values_to_not_match_regex": _of_column(
            {"regex": Argument.PATTERN}, _MOSTLY, Columns.TEXT
        ),
        "expect_column_values_to_match_regex_list": _of_column(
            {"regex_list": Argument.PATTERNS}, {**_MOSTLY, "match_on": Argument.ANY_OR_ALL}, Columns.TEXT
        ),
        "expect_column_values_to_not_match_regex_list": _of_column(
            {"regex_list": Argument.PATTERNS}, _MOSTLY, Columns.TEXT
        ),
        # Of two columns of each row.
        "expect_column_pair_values_to_be_equal": _of_columns(_PAIR, "column_A", "column_B"),
        "expect_column_pair_values_a_to_be_greater_than_b": _of_columns(
            {**_PAIR, "or_equal": Argument.FLAG}, "column_A", "column_B", columns=Columns.ORDERED
        ),
        # These need all values at once: order, quantiles, how often each value stands.
        "expect_column_median_to_be_between": _of_column({}, _BOUNDS, Columns.NUMBERS, is_exact=False),
        "expect_column_quantile_values_to_be_between": _of_column(
            {"quantile_ranges": Argument.ANYTHING},
            {"allow_relative_error": Argument.ANYTHING},
            Columns.NUMBERS,
            is_exact=False,
        ),
        "expect_column_unique_value_count_to_be_between": _of_column({}, _BOUNDS, is_exact=False),
        "expect_column_proportion_of_unique_values_to_be_between": _of_column({}, _BOUNDS, is_exact=False),
        "expect_column_most_common_value_to_be_in_set": _of_column(
            _SET, {"ties_okay": Argument.FLAG}, Columns.LISTED, is_exact=False
        ),
        "expect_column_values_to_be_unique": _of_column({}, _MOSTLY, is_exact=False),
        "expect_column_value_z_scores_to_be_less_than": _of_column(
            {"threshold": Argument.BOUND, "double_sided": Argument.FLAG},
            _MOSTLY,
            Columns.NUMBERS,
            is_exact=False,
        ),
        "expect_column_pair_values_to_be_in_set": _of_columns(
            {**_PAIR, "value_pairs_set": Argument.ANYTHING},
            "column_A",
            "column_B",
            "value_pairs_set",
            columns=Columns.LISTED,
            is_exact=False,
        ),
        "expect_multicolumn_values_to_be_equal": _of_columns(_LIST, "column_list", is_exact=False),
        "expect_compound_columns_to_be_unique": _of_columns(_LIST, "column_list", is_exact=False),
        "expect_select_column_values_to_be_unique_within_record": _of_columns(
            _LIST, "column_list", is_exact=False
        ),
        "expect_multicolumn_sum_to_equal": _of_columns(
            {**_LIST, "sum_total": Argument.BOUND},
            "column_list",
            "sum_total",
            columns=Columns.NUMBERS,
            is_exact=False,
        ),
    }
)
"""Every expectation that a contract may have, by its name."""

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
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
)
"""Expectations of the library that make no sense here, and what to do instead."""
