"""Suites come and go as Great Expectations keeps them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from tidegate.contracts.document.load import load_contract
from tidegate.contracts.errors import ContractError
from tidegate.contracts.expectations.library import read_suite, write_suite
from tidegate.contracts.verdict import Severity

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its dependencies
    from great_expectations.core.expectation_suite import ExpectationSuite
    from great_expectations.expectations.core import ExpectColumnMeanToBeBetween

EXAMPLE = Path("schemas/examples/admissions/contract.yaml")


def test_what_is_written_is_read_the_same() -> None:
    contract = load_contract(EXAMPLE).contract

    assert read_suite(write_suite(contract)) == contract.expectations


def test_the_library_reads_what_is_written() -> None:
    suite = json.loads(write_suite(load_contract(EXAMPLE).contract))

    (found,) = ExpectationSuite(**suite).expectations
    assert isinstance(found, ExpectColumnMeanToBeBetween)
    assert (found.column, found.max_value) == ("length_of_stay", 30)


def test_what_the_library_writes_is_read() -> None:
    expectation = ExpectColumnMeanToBeBetween(column="Stay", max_value=30, severity="warning")
    suite = ExpectationSuite(name="theirs", expectations=[expectation])

    (found,) = read_suite(json.dumps(suite.to_json_dict()))

    assert (found.id, found.severity) == ("column-mean-to-be-between-stay", Severity.WARNING)
    assert dict(found.kwargs) == {"column": "Stay", "max_value": 30.0}


def test_suites_of_before_are_read_and_every_id_is_another() -> None:
    entry = {"expectation_type": "expect_column_values_to_be_unique", "kwargs": {"column": "a"}}
    found = read_suite(json.dumps({"expectation_suite_name": "old", "expectations": [entry] * 3}))

    assert [each.id for each in found] == [
        "column-values-to-be-unique-a",
        "column-values-to-be-unique-a-2",
        "column-values-to-be-unique-a-3",
    ]


def test_an_id_of_the_contract_is_kept_whatever_stands_before_it() -> None:
    kwargs = {"column": "a"}
    theirs = {"type": "expect_column_values_to_be_unique", "kwargs": kwargs}
    name = "column-values-to-be-unique-a"
    ours = theirs | {"meta": {"tidegate": {"id": name}}}
    suite = json.dumps({"name": "s", "expectations": [theirs, ours, ours, theirs]})
    found = [each.id for each in read_suite(suite)]
    assert found == [f"{name}-2", name, f"{name}-3", f"{name}-4"]
    assert found == [each.id for each in read_suite(suite)]
    assert [each.id for each in read_suite(suite, {f"{name}-2"})] == [
        f"{name}-3",
        name,
        f"{name}-4",
        f"{name}-5",
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", ""),
        ("[]", "/expectations"),
        ('{"expectations": 3}', "/expectations"),
        ('{"expectations": [3]}', "/expectations/0"),
        ('{"expectations": [{"type": "t", "kwargs": {}}, {"type": "t"}]}', "/expectations/1"),
    ],
)
def test_what_is_no_suite_is_reported_with_its_place(text: str, place: str) -> None:
    with pytest.raises(ContractError) as caught:
        read_suite(text)

    assert [each.pointer for each in caught.value.problems] == [place]
