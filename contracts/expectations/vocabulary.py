"""The expectations that a contract may have: their names, their arguments, and who judges them.

Names, arguments and defaults are Great Expectations' own (a test holds them against the library). What is not here
cannot be judged on a batch as it passes: it asks for another table, for SQL, or for an order that a batch does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


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

    arguments: tuple[str, ...]
    required: frozenset[str]
    columns: Columns = Columns.ANY
    is_exact: bool = True


def _shape(
    required: str, optional: str = "", columns: Columns = Columns.ANY, *, is_exact: bool = True
) -> Shape:
    names = required.split()
    return Shape((*names, *optional.split()), frozenset(names), columns, is_exact)


_BOUNDS: Final = "min_value max_value strict_min strict_max"

VOCABULARY: Final[Mapping[str, Shape]] = {
    # Of the table.
    "expect_table_row_count_to_be_between": _shape("", _BOUNDS),
    "expect_table_row_count_to_equal": _shape("value"),
    "expect_table_column_count_to_be_between": _shape("", "min_value max_value"),
    "expect_table_column_count_to_equal": _shape("value"),
    "expect_column_to_exist": _shape("column", "column_index"),
    "expect_table_columns_to_match_ordered_list": _shape("column_list"),
    "expect_table_columns_to_match_set": _shape("column_set", "exact_match"),
    # Of all values of a column together.
    "expect_column_min_to_be_between": _shape("column", _BOUNDS, Columns.ORDERED),
    "expect_column_max_to_be_between": _shape("column", _BOUNDS, Columns.ORDERED),
    "expect_column_mean_to_be_between": _shape("column", _BOUNDS, Columns.NUMBERS),
    "expect_column_sum_to_be_between": _shape("column", _BOUNDS, Columns.NUMBERS),
    "expect_column_stdev_to_be_between": _shape("column", _BOUNDS, Columns.NUMBERS),
    "expect_column_proportion_of_non_null_values_to_be_between": _shape("column", _BOUNDS),
    "expect_column_distinct_values_to_be_in_set": _shape("column value_set", columns=Columns.LISTED),
    "expect_column_distinct_values_to_contain_set": _shape("column value_set", columns=Columns.LISTED),
    "expect_column_distinct_values_to_equal_set": _shape("column value_set", columns=Columns.LISTED),
    # Of each value of a column.
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
    # Of two columns of each row.
    "expect_column_pair_values_to_be_equal": _shape("column_A column_B", "mostly ignore_row_if"),
    "expect_column_pair_values_a_to_be_greater_than_b": _shape(
        "column_A column_B", "mostly ignore_row_if or_equal", Columns.ORDERED
    ),
    # These need all values at once: order, quantiles, how often each value stands.
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
"""Every expectation that a contract may have, by its name."""

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
"""Expectations of the library that make no sense here, and what to do instead."""
