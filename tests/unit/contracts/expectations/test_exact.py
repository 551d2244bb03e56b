"""Sums are those of the numbers themselves, whatever their size and the order of the parts."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.contracts.expectations.metrics import add, highest_and_lowest, total

DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
DECIMALS = st.decimals(-(10**33), 10**33, places=4, allow_nan=False, allow_infinity=False)


@settings(max_examples=60)
@given(st.lists(DOUBLES, max_size=30), st.integers(0, 30))
def test_doubles_add_up_exactly(values: list[float], cut: int) -> None:
    exact = sum(map(Fraction, values), Fraction(0))

    assert total(pa.array(values, pa.float64())) == exact
    assert total(pa.array(values, pa.float64()), squared=True) == sum(
        (Fraction(each) ** 2 for each in values), Fraction(0)
    )
    parts = [total(pa.array(part, pa.float64())) for part in (values[cut:], values[:cut])]
    assert add(*parts) == exact


@settings(max_examples=40)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_integers_do_not_overflow(values: list[int]) -> None:
    array = pa.array(values, pa.int64())

    assert total(array) == sum(values)
    assert total(array, squared=True) == sum(each * each for each in values)


@settings(max_examples=40)
@given(st.lists(DECIMALS, max_size=20), st.integers(0, 5))
def test_decimals_add_up_exactly_from_any_place_of_an_array(values: list[Decimal], skipped: int) -> None:
    array = pa.array(values, pa.decimal128(38, 4)).slice(skipped)

    assert total(array) == sum(map(Fraction, values[skipped:]), Fraction(0))
    assert total(array, squared=True) == sum((Fraction(each) ** 2 for each in values[skipped:]), Fraction(0))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, math.inf], math.inf),
        ([-math.inf, 1e308], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
    ],
)
def test_what_is_no_number_stays_none(values: list[float], expected: float) -> None:
    parts = [total(pa.array([each], pa.float64())) for each in values]

    for found in (total(pa.array(values, pa.float64())), add(*parts)):
        assert isinstance(found, float)
        assert found == expected or (math.isnan(found) and math.isnan(expected))


def test_many_doubles_of_one_size_stay_exact() -> None:
    values = pa.array([0.1] * 200_000, pa.float64())

    assert total(values) == Fraction(0.1) * 200_000
    assert total(values, squared=True) == Fraction(0.1) ** 2 * 200_000


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([2.0, 1.0], (1.0, 2.0, False)),
        ([2.0, math.nan], (2.0, 2.0, True)),
        ([math.nan], (None, None, True)),
    ],
)
def test_a_nan_is_reported_with_the_lowest_and_the_highest(values: list[float], expected: Any) -> None:
    assert highest_and_lowest(pa.array(values, pa.float64())) == expected
