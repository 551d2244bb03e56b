"""Great Expectations in Spark, which is what a job asks: nulls, a NaN, and every expectation of the vocabulary."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidegate.contracts.document.model import Expectation
from tidegate.contracts.expectations.compile import compile_expectations
from tidegate.contracts.expectations.library import agrees
from tidegate.contracts.expectations.vocabulary import VOCABULARY
from tidegate.spark_jobs.job.great_expectations_runner import GreatExpectationsRunner

MOMENT = datetime(2024, 2, 28, 23, 59, 58, tzinfo=UTC)
ROWS = pa.table(
    {
        "i": pa.array([1, 2, None, 4, 2**31 - 1], pa.int32()),
        "j": pa.array([1, 1, 3, None, 2**31 - 1], pa.int32()),
        "nil": pa.array([None] * 5, pa.int64()),
        "x": pa.array([0.1, 0.2, None, math.nan, -0.0], pa.float64()),
        "m": pa.array([Decimal("0.30"), Decimal("7.10"), None, None, Decimal("-1.00")], pa.decimal128(9, 2)),
        "s": pa.array(["icu", "er", None, "Zürich", ""], pa.string()),
        "d": pa.array([date(2024, 1, 1), date(2024, 2, 1), None, date(1900, 1, 1), None], pa.date32()),
        "t": pa.array([MOMENT, None, MOMENT, MOMENT, MOMENT], pa.timestamp("us", "UTC")),
    }
)
PAIR = {"column_A": "i", "column_B": "j"}
BOUND = {"max_value": 3}
EXPECTATIONS: list[tuple[str, dict[str, Any]]] = [
    ("expect_table_row_count_to_be_between", {"min_value": 5, "max_value": 5}),
    ("expect_table_row_count_to_equal", {"value": 4}),
    ("expect_table_column_count_to_be_between", {"max_value": 3}),
    ("expect_table_column_count_to_equal", {"value": 8}),
    ("expect_column_to_exist", {"column": "x", "column_index": 3}),
    ("expect_table_columns_to_match_ordered_list", {"column_list": ROWS.column_names}),
    ("expect_table_columns_to_match_set", {"column_set": ["i", "j"], "exact_match": False}),
    *(
        (f"expect_column_{what}_to_be_between", {"column": column, **BOUND})
        for what in ("min", "max", "mean", "sum", "stdev")
        for column in ("i", "nil", "x", "m")
    ),
    ("expect_column_min_to_be_between", {"column": "d", "min_value": "1900-01-01"}),
    ("expect_column_max_to_be_between", {"column": "t", "max_value": "2024-02-29T00:59:58+01:00"}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "i", "min_value": 0.8}),
    ("expect_column_distinct_values_to_be_in_set", {"column": "s", "value_set": ["icu", "er", ""]}),
    ("expect_column_distinct_values_to_contain_set", {"column": "d", "value_set": ["2024-01-01"]}),
    ("expect_column_distinct_values_to_equal_set", {"column": "t", "value_set": [MOMENT.isoformat()]}),
    ("expect_column_values_to_be_null", {"column": "nil"}),
    ("expect_column_values_to_not_be_null", {"column": "s", "mostly": 0.8}),
    ("expect_column_values_to_be_between", {"column": "i", "min_value": 1, "strict_min": True}),
    ("expect_column_values_to_be_between", {"column": "x", "min_value": 0}),
    ("expect_column_values_to_be_between", {"column": "x", "max_value": 0.1}),
    ("expect_column_values_to_be_between", {"column": "d", "min_value": "1900-01-01", "strict_min": True}),
    ("expect_column_values_to_be_between", {"column": "nil", "min_value": 1}),
    ("expect_column_values_to_be_in_set", {"column": "x", "value_set": [0, 0.2]}),
    ("expect_column_values_to_be_in_set", {"column": "m", "value_set": [0.3]}),
    ("expect_column_values_to_not_be_in_set", {"column": "d", "value_set": ["1900-01-01"]}),
    ("expect_column_value_lengths_to_be_between", {"column": "s", "min_value": 1, "max_value": 6}),
    ("expect_column_value_lengths_to_equal", {"column": "s", "value": 6}),
    ("expect_column_values_to_match_regex", {"column": "s", "regex": "^[a-z]*$"}),
    ("expect_column_values_to_not_match_regex", {"column": "s", "regex": "ü"}),
    (
        "expect_column_values_to_match_regex_list",
        {"column": "s", "regex_list": ["^i", "r$"], "match_on": "any"},
    ),
    ("expect_column_values_to_not_match_regex_list", {"column": "s", "regex_list": ["^i", "r$"]}),
    ("expect_column_pair_values_to_be_equal", PAIR),
    ("expect_column_pair_values_to_be_equal", PAIR | {"ignore_row_if": "neither", "mostly": 0.4}),
    ("expect_column_pair_values_a_to_be_greater_than_b", PAIR),
    (
        "expect_column_pair_values_a_to_be_greater_than_b",
        PAIR | {"or_equal": True, "ignore_row_if": "neither"},
    ),
    (
        "expect_column_pair_values_a_to_be_greater_than_b",
        PAIR | {"or_equal": True, "ignore_row_if": "either_value_is_missing"},
    ),
]
BY_LIBRARY: list[tuple[str, dict[str, Any], bool]] = [
    ("expect_column_median_to_be_between", {"column": "i", **BOUND}, True),
    (
        "expect_column_quantile_values_to_be_between",
        {"column": "i", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[5, 9]]}},
        False,
    ),
    ("expect_column_unique_value_count_to_be_between", {"column": "s", "max_value": 4}, True),
    ("expect_column_proportion_of_unique_values_to_be_between", {"column": "s", "min_value": 1}, True),
    (
        "expect_column_most_common_value_to_be_in_set",
        {"column": "t", "value_set": [MOMENT.isoformat()]},
        True,
    ),
    ("expect_column_values_to_be_unique", {"column": "t"}, False),
    (
        "expect_column_value_z_scores_to_be_less_than",
        {"column": "i", "threshold": 3, "double_sided": True},
        True,
    ),
    ("expect_compound_columns_to_be_unique", {"column_list": ["i", "j"]}, True),
    ("expect_select_column_values_to_be_unique_within_record", {"column_list": ["i", "j"]}, False),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["i", "j"], "sum_total": 2, "mostly": 0.1}, True),
    ("expect_multicolumn_values_to_be_equal", {"column_list": ["i", "j"]}, False),
    (
        "expect_column_pair_values_to_be_in_set",
        PAIR | {"value_pairs_set": [[1, 1], [2, 1]], "ignore_row_if": "either_value_is_missing"},
        False,
    ),
]


@pytest.mark.full
def test_the_library_in_spark_says_what_was_noted(spark: SparkSession) -> None:
    expectations = [
        Expectation(id=f"e{index}", type=name, kwargs=kwargs)
        for index, (name, kwargs) in enumerate(EXPECTATIONS)
    ]
    plan, problems = compile_expectations(expectations, ROWS.schema)
    assert problems == ()
    noted = plan.merge(plan.observe(batch) for batch in ROWS.to_batches(max_chunksize=2))
    answers = GreatExpectationsRunner(spark).ask(plan.compiled, ROWS)

    assert {name for name, shape in VOCABULARY.items() if shape.is_exact} == {
        name for name, _ in EXPECTATIONS
    }
    for each, ours in zip(plan.compiled, plan.find(noted), strict=True):
        theirs = answers.get(each.expectation.id)
        assert theirs is not None, f"the library cannot judge {each.expectation}"
        assert ours is not None
        assert agrees(each, ours, theirs), (each.expectation, ours, theirs)


@pytest.mark.full
def test_the_library_judges_what_cannot_be_noted(spark: SparkSession) -> None:
    expectations = [
        Expectation(id=name.replace("_", "-"), type=name, kwargs=kwargs) for name, kwargs, _ in BY_LIBRARY
    ]
    plan, problems = compile_expectations(expectations, ROWS.schema)
    assert problems == ()
    answers = GreatExpectationsRunner(spark).ask(plan.compiled, ROWS)

    assert {name for name, shape in VOCABULARY.items() if not shape.is_exact} == {
        name for name, *_ in BY_LIBRARY
    }
    assert {name: answers[name.replace("_", "-")].is_met for name, *_ in BY_LIBRARY} == {
        name: is_met for name, _, is_met in BY_LIBRARY
    }
