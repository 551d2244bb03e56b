"""Suites of Great Expectations, as its library writes them, become contracts that judge alike."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pyarrow as pa
import pytest

from tidegate.contracts.document.load import parse_contract, read_source
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.exchange.read import read_foreign
from tidegate.contracts.judge.plan import compile_plan

EXPECTATIONS: list[dict[str, Any]] = [
    {"type": "expect_column_to_exist", "kwargs": {"column": "note"}},
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "order-id"}},
    {"type": "expect_column_values_to_be_of_type", "kwargs": {"column": "order-id", "type_": "StringType"}},
    {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "order-id", "regex": "^A"}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "age", "min_value": 0, "max_value": 130, "strict_max": True}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "age", "max_value": 90, "mostly": 0.9}},
    {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "ward", "value_set": ["icu", "er"]}, "severity": "warning"},
    {"type": "expect_column_values_to_not_be_in_set", "kwargs": {"column": "age", "value_set": [99]}},
    {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "age", "max_value": 60}, "description": "Adults."},
    {"type": "expect_column_pair_values_a_to_be_greater_than_b", "kwargs": {"column_A": "discharged", "column_B": "admitted", "or_equal": True}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "admitted", "min_value": "1900-01-02"}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "discharged", "min_value": "1900-01-02"}},
    {"type": "expect_column_proportion_of_unique_values_to_be_between", "kwargs": {"column": "order-id", "min_value": 0.5}},
]  # fmt: skip


def imported(expectations: list[dict[str, Any]], name: str = "shop.orders") -> tuple[DataContract, list[str]]:
    suite = json.dumps({"name": name, "expectations": expectations, "meta": {}}).encode()
    found = read_foreign(read_source("suite.json", suite))
    text = json.dumps(found.document)
    return parse_contract(text, name="contract.json", read_schema=None).contract, [*map(str, found.left_out)]


def codes(contract: DataContract, **record: Any) -> list[str]:
    whole = {
        "order-id": "A1",
        "age": 5,
        "ward": "er",
        "admitted": "2026-01-01",
        "discharged": "2026-01-02",
    } | record
    values = pa.array([json.dumps(whole).encode()], pa.large_binary())
    (verdict,) = compile_plan(contract).explain_each(values)
    return [each.code for each in verdict.violations]  # fmt: skip


def test_what_holds_for_each_value_is_judged_for_each_record() -> None:
    contract, left_out = imported(EXPECTATIONS)
    assert left_out == []
    assert codes(contract) == []
    assert codes(contract, **{"order-id": None}) == ["type"]
    assert codes(contract, **{"order-id": "B"}) == ["column-values-to-match-regex-order-id"]
    assert codes(contract, age=130) == ["column-values-to-be-between-age"]
    assert codes(contract, age=99) == ["column-values-to-not-be-in-set-age"]
    assert codes(contract, age=None) == []
    assert codes(contract, ward="x") == ["column-values-to-be-in-set-ward"]
    assert codes(contract, discharged="2025-12-31") == [
        "column-pair-values-a-to-be-greater-than-b-discharged"
    ]
    assert codes(contract, admitted="1900-01-01") == ["column-values-to-be-between-admitted"]


def test_the_others_are_expectations_about_derived_columns() -> None:
    contract, _ = imported(EXPECTATIONS)
    found = {each.id: each for each in contract.expectations}
    assert [each.kwargs["column"] for each in found.values()] == ["age", "age", "order_id"]
    mean = found["column-mean-to-be-between-age"]
    assert mean.description == "Adults."
    assert {column.name for column in compile_plan(contract).typed_columns} >= {"order_id", "age"}


@pytest.mark.parametrize(
    ("expectation", "reason"),
    [
        ({"type": "expect_column_values_to_be_increasing", "kwargs": {"column": "a"}}, "a batch is in no order"),
        ({"type": "expect_the_best", "kwargs": {"column": "a"}}, "it is not known"),
        ({"type": "expect_column_values_to_be_of_type", "kwargs": {"column": "a", "type_": "MONEY"}}, "the type `MONEY`"),
    ],
)  # fmt: skip
def test_what_is_not_judged_has_its_place(expectation: dict[str, Any], reason: str) -> None:
    other = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}}
    _, (line,) = imported([other, expectation])
    assert line.startswith("/expectations/1: ")
    assert reason in line


def test_a_suite_that_the_library_writes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from great_expectations.core.expectation_suite import ExpectationSuite  # noqa: PLC0415 - within the filter of warnings
        from great_expectations.expectations import (  # noqa: PLC0415 - the same
            ExpectColumnMaxToBeBetween,
            ExpectColumnValuesToNotBeNull,
        )

        expectations = [
            ExpectColumnValuesToNotBeNull(column="age"),
            ExpectColumnMaxToBeBetween(column="age", max_value=9),
        ]
        suite = ExpectationSuite(name="theirs", expectations=expectations).to_json_dict()
    contract, left_out = imported(suite["expectations"], suite["name"])
    assert (left_out, contract.id, contract.schema_.definition["required"]) == ([], "theirs", ["age"])
    assert [each.type for each in contract.expectations] == ["expect_column_max_to_be_between"]


def test_an_expectation_with_a_condition_on_rows_is_listed() -> None:
    kwargs = {"column": "a", "min_value": 0, "row_condition": "b = 1", "condition_parser": "pandas"}
    contract, (line, whole) = imported([{"type": "expect_column_values_to_be_between", "kwargs": kwargs}])
    assert whole == "/: `shop.orders` names no fields, so every record passes; add them to the schema"
    assert line.startswith("/expectations/0: `expect_column_values_to_be_between` with a condition")
    assert contract.rules == ()


@pytest.mark.parametrize(
    ("kwargs", "good", "bad"),
    [
        ({"min_value": None, "max_value": None}, (7, "x", {}), ()),
        ({"value_set": []}, (7, "x", {}), ()),
        ({"min_value": "2020-01-01"}, ("2026-01-01",), ("2019-01-01", "2026-01-01T00:00:00", 7)),
        ({"min_value": "2020-01-01T00:00:00"}, ("2026-01-01T00:00:00",), ("2019-01-01T00:00:00",)),
        ({"min_value": "2020-01-01T00:00:00Z"}, ("2026-01-01T00:00:00Z",), ("2019-01-01T00:00:00Z",)),
        ({"min_value": "2020-01-01", "max_value": "2030-01-01T00:00:00"}, (7, "x"), ()),
    ],
)
def test_the_type_of_a_column_is_only_what_its_rule_says(
    kwargs: dict[str, Any], good: tuple[Any, ...], bad: tuple[Any, ...]
) -> None:
    name = "in_set" if "value_set" in kwargs else "between"
    expectation = {"type": f"expect_column_values_to_be_{name}", "kwargs": {"column": "age", **kwargs}}
    suite = json.dumps({"name": "s", "expectations": [expectation]})
    document = read_foreign(read_source("suite.json", suite)).document
    if not bad:
        del document["rules"]  # as the command does with a rule that does not suit its field
    contract = parse_contract(json.dumps(document), name="c.json", read_schema=None).contract
    assert [codes(contract, age=value) for value in good] == [[]] * len(good)
    assert all(codes(contract, age=value) for value in bad)
