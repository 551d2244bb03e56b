"""Mistakes in expectations are reported at their place, with what to write instead."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidegate.contracts.document.model import Expectation
from tidegate.contracts.expectations.compile import compile_expectations

COLUMNS = pa.schema(
    [
        ("stay", pa.int32()),
        ("charge", pa.decimal128(12, 2)),
        ("ratio", pa.float64()),
        ("ward", pa.string()),
        ("left", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
    ]
)


def problems(name: str, **kwargs: Any) -> list[tuple[str, str]]:
    _, found = compile_expectations([Expectation(id="it", type=name, kwargs=kwargs)], COLUMNS)
    return [(each.pointer.removeprefix("/expectations/0"), each.message) for each in found]


BETWEEN = "expect_column_values_to_be_between"
IN_SET = "expect_column_values_to_be_in_set"


@pytest.mark.parametrize(
    ("name", "kwargs", "place", "words"),
    [
        ("expect_column_mean_to_be_betwen", {}, "/type", "did you mean `expect_column_mean_to_be_between`?"),
        ("unexpected_rows_expectation", {}, "/type", "no SQL is run on a batch"),
        ("expect_column_values_to_be_increasing", {}, "/type", "a batch is in no order"),
        ("expect_column_mean_to_be_between", {"max_value": 3}, "", "needs the argument `column`"),
        ("expect_column_mean_to_be_between", {"column": "stay"}, "", "needs a bound"),
        (BETWEEN, {"column": "stay", "min": 3}, "/kwargs/min", "takes no argument `min`"),
        (BETWEEN, {"column": "stays", "min_value": 3}, "/kwargs/column", "did you mean `stay`?"),
        (BETWEEN, {"column": 7, "min_value": 3}, "/kwargs/column", "must be the name of a column"),
        (
            BETWEEN,
            {"column": "ward", "min_value": 3},
            "/kwargs/column",
            "takes a number, a date or a timestamp",
        ),
        (BETWEEN, {"column": "stay", "min_value": "3"}, "/kwargs/min_value", "must be a number"),
        (BETWEEN, {"column": "stay", "min_value": True}, "/kwargs/min_value", "must be a number"),
        (BETWEEN, {"column": "left", "min_value": 3}, "/kwargs/min_value", "must be a date or time"),
        (BETWEEN, {"column": "left", "min_value": "soon"}, "/kwargs/min_value", "such as 2026-01-31"),
        (
            BETWEEN,
            {"column": "at", "max_value": "2026-01-31T12:00:00"},
            "/kwargs/max_value",
            "with its offset",
        ),
        (BETWEEN, {"column": "stay", "min_value": 4, "max_value": 3}, "/kwargs/max_value", "no value lies"),
        (
            BETWEEN,
            {"column": "stay", "min_value": 3, "max_value": 3, "strict_min": True},
            "/kwargs/max_value",
            "no value lies",
        ),
        (BETWEEN, {"column": "stay", "min_value": 3, "strict_min": 1}, "/kwargs/strict_min", "true or false"),
        (BETWEEN, {"column": "stay", "min_value": 3, "mostly": 1.5}, "/kwargs/mostly", "a share from 0 to 1"),
        (IN_SET, {"column": "raw", "value_set": ["a"]}, "/kwargs/column", "of type binary"),
        (IN_SET, {"column": "ward", "value_set": []}, "/kwargs/value_set", "must be a list of values"),
        (IN_SET, {"column": "ward", "value_set": ["a", None]}, "/kwargs/value_set/1", "must be text"),
        (IN_SET, {"column": "stay", "value_set": [1.5]}, "/kwargs/value_set/0", "can hold"),
        (IN_SET, {"column": "stay", "value_set": [2**31]}, "/kwargs/value_set/0", "can hold"),
        (IN_SET, {"column": "charge", "value_set": [0.125]}, "/kwargs/value_set/0", "can hold"),
        (IN_SET, {"column": "flag", "value_set": ["yes"]}, "/kwargs/value_set/0", "true or false"),
        (
            "expect_column_values_to_match_regex",
            {"column": "ward", "regex": "(?=a)"},
            "/kwargs/regex",
            "RE2",
        ),
        (
            "expect_column_min_to_be_between",
            {"column": "stay", "min_value": 10**309},
            "/kwargs/min_value",
            "at most",
        ),
        (
            "expect_column_min_to_be_between",
            {"column": "ratio", "min_value": -(10**309)},
            "/kwargs/min_value",
            "at most",
        ),
        (IN_SET, {"column": "stay", "value_set": [10**309]}, "/kwargs/value_set/0", "at most"),
        (IN_SET, {"column": "ratio", "value_set": [10**309]}, "/kwargs/value_set/0", "at most"),
        (
            "expect_column_values_to_match_regex_list",
            {"column": "ward", "regex_list": "a"},
            "/kwargs/regex_list",
            "must be a list of patterns",
        ),
        (
            "expect_column_values_to_match_regex_list",
            {"column": "ward", "regex_list": ["a"], "match_on": "some"},
            "/kwargs/match_on",
            "must be one of any, all",
        ),
        (
            "expect_column_value_lengths_to_equal",
            {"column": "ward", "value": -1},
            "/kwargs/value",
            "from 0 on",
        ),
        (
            "expect_compound_columns_to_be_unique",
            {"column_list": []},
            "/kwargs/column_list",
            "names of columns",
        ),
        (
            "expect_compound_columns_to_be_unique",
            {"column_list": ["ward", "words"]},
            "/kwargs/column_list",
            "there is no column `words`",
        ),
        (
            "expect_column_pair_values_to_be_equal",
            {"column_A": "ward", "column_B": "ward", "ignore_row_if": "never"},
            "/kwargs/ignore_row_if",
            "must be one of both_values_are_missing",
        ),
    ],
)
def test_a_mistake_is_reported(name: str, kwargs: dict[str, Any], place: str, words: str) -> None:
    ((pointer, message),) = problems(name, **kwargs)

    assert pointer == place
    assert words in message


@pytest.mark.parametrize(
    ("left", "right", "is_exact"),
    [("stay", "stay", True), ("ward", "ward", True), ("ratio", "ratio", False), ("stay", "charge", False)],
)
def test_two_columns_that_do_not_compare_exactly_are_left_to_the_library(
    left: str, right: str, *, is_exact: bool
) -> None:
    kwargs = {"column_A": left, "column_B": right}
    expectation = Expectation(id="it", type="expect_column_pair_values_to_be_equal", kwargs=kwargs)
    plan, found = compile_expectations([expectation], COLUMNS)

    assert found == ()
    assert (plan.compiled[0].check is not None) is is_exact


def test_expectations_share_what_is_noted() -> None:
    expectations = [
        Expectation(
            id=f"e{n}", type=f"expect_column_{what}_to_be_between", kwargs={"column": "stay", "max_value": n}
        )
        for n, what in enumerate(["mean", "sum", "stdev", "min", "max"], start=1)
    ]
    plan, _ = compile_expectations(expectations, COLUMNS)

    assert len(plan.metrics) == len({"rows", "filled", "total", "squares", "extremes"})


def test_a_contract_without_expectations_notes_nothing() -> None:
    plan, _ = compile_expectations([], COLUMNS)

    assert not plan
    assert plan.metrics == ()


@pytest.mark.parametrize(
    ("kwargs", "values", "unexpected"),
    [
        # What is written is meant: a tenth beside decimals, and nothing is rounded to it.
        ({"min_value": 0.1}, ["0.09", "0.10"], 1),
        ({"min_value": 0.1, "strict_min": True}, ["0.10", "0.11"], 1),
        ({"max_value": 0.105}, ["0.10", "0.11"], 1),
        ({"max_value": 0.105, "strict_max": True}, ["0.10", "0.11"], 1),
        ({"max_value": 1e30}, ["9999999999.99"], 0),
        ({"min_value": 1e30}, ["9999999999.99"], 1),
        ({"min_value": -1e30, "max_value": 0}, ["-9999999999.99", "0.01"], 1),
    ],
)
def test_bounds_of_decimals_are_exact(kwargs: dict[str, Any], values: list[str], unexpected: int) -> None:
    expectation = Expectation(id="it", type=BETWEEN, kwargs={"column": "charge", **kwargs})
    plan, _ = compile_expectations([expectation], COLUMNS)
    charges = pa.array(values).cast(pa.decimal128(12, 2))
    others = {field.name: pa.nulls(len(values), field.type) for field in COLUMNS}
    rows = pa.RecordBatch.from_pydict(others | {"charge": charges}, COLUMNS)

    (found,) = plan.find(plan.observe(rows))

    assert found is not None
    assert found.unexpected == unexpected
