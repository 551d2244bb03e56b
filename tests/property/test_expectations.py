"""What is noted part by part while rows pass says the same as Great Expectations says of all rows together."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.property.library_oracle import library_arguments_of, library_names, library_says
from tidegate.contracts.document.model import Expectation
from tidegate.contracts.expectations.compile import CompiledExpectation, compile_expectations
from tidegate.contracts.expectations.vocabulary import REFUSED, VOCABULARY

DAY = date(2024, 2, 27)
MOMENT = datetime(2024, 2, 28, 23, 59, 58)  # noqa: DTZ001 - of a column without a zone
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-3, -1, 0, 1, 2, 999]),
    "l": (pa.int64(), [-(2**40), 0, 7, 2**40]),
    "x": (pa.float64(), [-2.5, -0.0, 0.0, 0.1, 0.3, 1e9]),
    "m": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.10"), Decimal("0.30"), Decimal("7.00")]),
    "s": (pa.string(), ["", "a", "ab", "Zürich", "x-1", "x-22"]),
    "b": (pa.bool_(), [True, False]),
    "d": (pa.date32(), [DAY + timedelta(days=index) for index in range(4)]),
    "t": (
        pa.timestamp("us", "UTC"),
        [MOMENT.replace(tzinfo=UTC) + timedelta(seconds=index) for index in range(4)],
    ),
    "n": (pa.timestamp("us"), [MOMENT + timedelta(seconds=index) for index in range(4)]),
}
NUMBERS = ["i", "l", "x", "m"]
ORDERED = [*NUMBERS, "d", "t", "n"]
LISTED = [*ORDERED, "s", "b"]
SCHEMA = pa.schema([(f"{name}{n}", VALUES[name][0]) for name in VALUES for n in (1, 2)])
NOTHING: st.SearchStrategy[dict[str, Any]] = st.just({})
MOSTLY = st.sampled_from([1, 0.9, 0.75, 0.5, 0.3, 0])


def frame(seed: int, names: tuple[str, ...]) -> pa.Table:
    """Make up to 12 rows of some columns, with nulls."""
    chance = Random(seed)  # noqa: S311 - made-up rows, the same for a seed
    rows = chance.randint(1, 12)
    return pa.table(
        {
            name: pa.array(
                [None if chance.random() < 0.2 else chance.choice(VALUES[name[0]][1]) for _ in range(rows)],
                SCHEMA.field(name).type,
            )
            for name in names
        }
    )


def written(value: Any) -> Any:
    """Write a value as a contract does."""
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


@st.composite
def bounds(draw: st.DrawFn, values: list[Any], *, strict: bool = True) -> dict[str, Any]:
    """Draw one or two bounds that leave something between them."""
    low, high = sorted([draw(st.sampled_from(values)), draw(st.sampled_from(values))])
    kwargs: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"min_value": low},
                {"max_value": high},
                {"min_value": low, "max_value": high},
            ]
        )
    )
    if strict and low < high:
        kwargs |= {
            name: True
            for name, bound in (("strict_min", "min_value"), ("strict_max", "max_value"))
            if bound in kwargs and draw(st.booleans())
        }
    return {name: written(value) for name, value in kwargs.items()}


def of_values(kinds: list[str], *, more: Any = NOTHING) -> Any:
    """Draw bounds in the values of a column."""
    return st.sampled_from(kinds).flatmap(
        lambda kind: st.tuples(bounds(VALUES[kind][1]), more, st.just({"column": f"{kind}1"})).map(joined)
    )


def all_doubles(kwargs: dict[str, Any]) -> bool:
    """Return whether a double holds every bound as it is written."""
    bounds = [kwargs[name] for name in ("min_value", "max_value") if name in kwargs]
    return all(Decimal(repr(bound)) == Decimal(bound) for bound in bounds)


def joined(parts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def sets(kinds: list[str], more: Any = NOTHING) -> Any:
    return st.sampled_from(kinds).flatmap(
        lambda kind: st.tuples(
            st.lists(st.sampled_from([written(value) for value in VALUES[kind][1]]), min_size=1).map(
                lambda values: {"value_set": values}
            ),
            more,
            st.just({"column": f"{kind}1"}),
        ).map(joined)
    )


def texts(**arguments: Any) -> Any:
    return st.fixed_dictionaries({"column": st.just("s1"), **arguments}, optional={"mostly": MOSTLY})


PATTERNS = ["^x", "[a-z]", "-[0-9]+$", "^(ab|Z.*h)$", "ü", "^$"]
MOSTLY_ONLY = st.fixed_dictionaries({}, optional={"mostly": MOSTLY})
PAIRED = st.fixed_dictionaries(
    {"ignore_row_if": st.just("either_value_is_missing")}, optional={"mostly": MOSTLY}
)


def pairs(kinds: list[str], more: Any) -> Any:
    return st.tuples(
        st.sampled_from(kinds).map(lambda kind: {"column_A": f"{kind}1", "column_B": f"{kind}2"}), more
    ).map(joined)


NAMES = SCHEMA.names
ARGUMENTS: dict[str, Any] = {
    "expect_table_row_count_to_be_between": bounds(list(range(13))),
    "expect_table_row_count_to_equal": st.fixed_dictionaries({"value": st.integers(0, 6)}),
    "expect_table_column_count_to_be_between": bounds([1, len(NAMES), 99], strict=False),
    "expect_table_column_count_to_equal": st.fixed_dictionaries({"value": st.sampled_from([1, len(NAMES)])}),
    "expect_column_to_exist": st.fixed_dictionaries(
        # The library takes index 0 for none.
        {"column": st.sampled_from(["i1", "s2", "no"])},
        optional={"column_index": st.integers(1, 9)},
    ),
    "expect_table_columns_to_match_ordered_list": st.sampled_from(
        [{"column_list": NAMES}, {"column_list": NAMES[::-1]}, {"column_list": NAMES[:3]}]
    ),
    "expect_table_columns_to_match_set": st.fixed_dictionaries(
        {"column_set": st.sampled_from([NAMES[::-1], NAMES[:3], [*NAMES, "no"]])},
        optional={"exact_match": st.booleans()},
    ),
    "expect_column_min_to_be_between": of_values(ORDERED),
    "expect_column_max_to_be_between": of_values(ORDERED),
    "expect_column_mean_to_be_between": of_values(NUMBERS),
    "expect_column_sum_to_be_between": of_values(NUMBERS),
    "expect_column_stdev_to_be_between": of_values(NUMBERS),
    "expect_column_proportion_of_non_null_values_to_be_between": st.tuples(
        bounds([0, 0.25, 0.5, 0.9, 1]), st.just({"column": "i1"})
    ).map(joined),
    "expect_column_distinct_values_to_be_in_set": sets(LISTED),
    "expect_column_distinct_values_to_contain_set": sets(LISTED),
    "expect_column_distinct_values_to_equal_set": sets(LISTED),
    "expect_column_values_to_be_null": st.tuples(MOSTLY_ONLY, st.just({"column": "d1"})).map(joined),
    "expect_column_values_to_not_be_null": st.tuples(MOSTLY_ONLY, st.just({"column": "m1"})).map(joined),
    "expect_column_values_to_be_between": of_values(ORDERED, more=MOSTLY_ONLY),
    "expect_column_values_to_be_in_set": sets(LISTED, MOSTLY_ONLY),
    "expect_column_values_to_not_be_in_set": sets(LISTED, MOSTLY_ONLY),
    "expect_column_value_lengths_to_be_between": st.tuples(
        bounds([0, 1, 2, 3, 6]), MOSTLY_ONLY, st.just({"column": "s1"})
    ).map(joined),
    "expect_column_value_lengths_to_equal": texts(value=st.integers(0, 6)),
    "expect_column_values_to_match_regex": texts(regex=st.sampled_from(PATTERNS)),
    "expect_column_values_to_not_match_regex": texts(regex=st.sampled_from(PATTERNS)),
    "expect_column_values_to_match_regex_list": texts(
        regex_list=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3),
        match_on=st.sampled_from(["any", "all"]),
    ),
    "expect_column_values_to_not_match_regex_list": texts(
        regex_list=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3)
    ),
    "expect_column_pair_values_to_be_equal": pairs(["i", "l", "m", "s", "d", "n"], PAIRED),
    "expect_column_pair_values_a_to_be_greater_than_b": pairs(
        ["i", "l", "m", "d", "n"],
        st.tuples(PAIRED, st.fixed_dictionaries({}, optional={"or_equal": st.booleans()})).map(joined),
    ),
}
TABLE = ("expect_table", "expect_column_to_exist")
ROUNDED = ("mean_to", "sum_to", "stdev_to", "min_to", "max_to")


def compiled(
    name: str, kwargs: dict[str, Any], columns: pa.Schema = SCHEMA
) -> tuple[Any, CompiledExpectation]:
    plan, problems = compile_expectations([Expectation(id="it", type=name, kwargs=kwargs)], columns)
    assert problems == ()
    (one,) = plan.compiled
    return plan, one


def test_every_exact_expectation_is_held_against_the_library() -> None:
    assert {name for name, shape in VOCABULARY.items() if shape.is_exact} == set(ARGUMENTS)


@pytest.mark.parametrize("name", ARGUMENTS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_compiled_is_what_the_library_says(name: str, data: st.DataObject, seed: int) -> None:
    kwargs = data.draw(ARGUMENTS[name])
    plan, one = compiled(name, kwargs)
    rows = frame(seed, tuple(NAMES) if name.startswith(TABLE) else one.columns)
    if not name.startswith(TABLE):
        plan, one = compiled(name, kwargs, rows.schema)
    if "to_be_null" not in name:
        # Of no value pandas says 0, and Spark nothing: the test with Spark has it.
        assume(all(len(column) > column.null_count for column in rows.columns))
    cut = seed % (rows.num_rows + 1)
    parts = [each.combine_chunks().to_batches() for each in (rows.slice(cut), rows.slice(0, cut))]
    noted = plan.merge(plan.observe(batch) for part in parts for batch in part)
    (found,) = plan.find(noted)

    is_met, result = library_says(one, rows)

    observed = result.get("observed_value")
    if any(word in name for word in ROUNDED) and isinstance(observed, int | float | Decimal | np.number):
        edges = [kwargs[each] for each in ("min_value", "max_value") if each in kwargs]
        assume(not any(abs(float(observed) - edge) < 1e-9 * max(1, abs(edge)) for edge in edges))
    # Of decimals the library rounds the bounds to doubles: a value on a bound falls on either side.
    assume(not kwargs.get("column", "").startswith("m") or all_doubles(kwargs))
    assert is_met == found.is_met, (found, result)
    if "unexpected_count" in result and "distinct" not in name:  # there the library counts each value once
        assert result["unexpected_count"] == found.unexpected


def test_every_expectation_of_the_library_is_known_or_refused_with_what_to_do_instead() -> None:
    listed = library_names()
    ours = set(VOCABULARY) | set(REFUSED)

    assert ours - listed == set()
    assert {name for name in listed - ours if name.startswith(("expect_", "unexpected_"))} == set()


@pytest.mark.parametrize("name", VOCABULARY)
def test_arguments_are_those_of_the_library(name: str) -> None:
    required = library_arguments_of(name)

    assert set(VOCABULARY[name].arguments) <= set(required)
    assert {each for each in VOCABULARY[name].arguments if required[each]} <= VOCABULARY[name].required
