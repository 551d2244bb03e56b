"""Sets of values as intervals, against membership value by value."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.inclusion.intervals import Intervals

GRID = [Fraction(number, 2) for number in range(-6, 7)]
cuts = st.one_of(st.none(), st.tuples(st.integers(-2, 2), st.integers(0, 1)))
sets = st.recursive(
    st.one_of(
        st.builds(Intervals.between, cuts, cuts),
        st.lists(st.integers(-2, 2), max_size=3).map(Intervals.points),
    ),
    lambda inner: st.one_of(
        inner.map(Intervals.complement),
        st.builds(Intervals.union, inner, inner),
        st.builds(Intervals.minus, inner, inner),
    ),
    max_leaves=5,
)


def members(values: Intervals) -> set[Fraction]:
    return {value for value in GRID if any(low <= (value, 0) < high for low, high in values.parts)}


@settings(max_examples=examples(300), deadline=None)
@given(sets, sets)
def test_the_algebra_is_that_of_sets(one: Intervals, other: Intervals) -> None:
    assert members(one.complement()) == set(GRID) - members(one)
    assert members(one.union(other)) == members(one) | members(other)
    assert members(one.minus(other)) == members(one) - members(other)


@settings(max_examples=examples(300), deadline=None)
@given(sets)
def test_emptiness_is_decided_for_numbers_and_for_integers(values: Intervals) -> None:
    whole = {value for value in members(values) if value.denominator == 1}
    beyond = any(low < (-3, 0) or high > (3, 1) for low, high in values.parts)
    assert values.is_empty(whole=False) == (not values.parts)
    assert values.is_empty(whole=True) == (not whole and not beyond)
