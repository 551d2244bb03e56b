"""Many values at once become what each of them becomes alone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.contracts.columns.typed import TYPES, TypedColumn, kind_of
from tidegate.contracts.document.fields import FieldType
from tidegate.contracts.fastpath.columns import fast_column

INTEGERS = st.one_of(
    st.integers(-5, 5),
    st.integers(),
    st.sampled_from(
        [
            *(2**31 - 1, 2**31, 2**63 - 1, 2**63, 2932896, 2932897, -719162, -719163),
            *(253402300799999 * 1000**n + step for n in range(3) for step in (0, 1, 999)),
        ]
    ),
    st.integers(-(2**40), 2**40).map(lambda number: number * 1000),
)
DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-1000, max_value=1000),
    st.sampled_from(
        [
            Decimal(text)
            for text in (
                "1.50", "1.500", "1.505", "1e2", "1e999999999", "1e-999999999", "-0", "0e99999", "999.99",
                "1000", "12345678901234567890123456789012345678", "NaN", "Infinity",
            )
        ]
    ),
)  # fmt: skip
OTHERS = st.one_of(
    st.booleans(),
    st.floats(),
    st.sampled_from([0.1, 4.35, 1e22, 1.7e308]),
    # Quotients of doubles: from a scale of 23, some are not the double nearest to the decimal.
    st.builds(lambda unscaled, scale: unscaled / 10.0**scale, st.integers(1, 999), st.integers(20, 37)),
    st.binary(max_size=4),
    st.sampled_from(
        [
            *("", "x", "2024-02-29", "2023-02-29", "0000-01-01", "9999-12-31", "2024-01-01T00:00:00Z"),
            *("2024-01-01T00:00:00.1234567Z", "2024-01-01T00:00:00", "2024-01-01 00:00:00.5", "a\0b"),
        ]
    ),
    st.lists(st.integers(), max_size=2),
)
# Values of one sort, as a column most often has them, and mixed.
VALUES = st.one_of(
    *(st.lists(st.none() | sort, max_size=6) for sort in (INTEGERS, DECIMALS, OTHERS)),
    st.lists(st.one_of(st.none(), INTEGERS, DECIMALS, OTHERS), max_size=6),
)
NAMES = [
    *(name for name in TYPES if not name.startswith("decimal")),
    "decimal(5,2)",
    "decimal(38,0)",
    "decimal(12,2)",
    "decimal(38,22)",
    "decimal(38,23)",
    "decimal(38,37)",
]


@pytest.mark.parametrize("unit", [None, "timestamp-millis", "timestamp-micros", "timestamp-nanos"])
@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(values=VALUES)
def test_together_as_alone(name: str, unit: str | None, values: list[Any]) -> None:
    kind = kind_of(name, FieldType(times=frozenset() if unit is None else frozenset({unit})))
    assert kind is not None
    column = fast_column(TypedColumn("c", name, ("c",), kind))
    array, refused = column.convert_values(values)
    alone = [None if value is None else kind.convert(value) for value in values]
    # As text, for NaN equals nothing.
    assert array.type == kind.arrow_type
    assert str(array.to_pylist()) == str(pa.array(alone, kind.arrow_type).to_pylist())
    assert refused == [
        index for index, value in enumerate(values) if value is not None and alone[index] is None
    ]


@given(DECIMALS)
def test_a_decimal_is_kept_whole_or_not_at_all(value: Decimal) -> None:
    kind = kind_of("decimal(5,2)", FieldType())
    assert kind is not None
    held = kind.convert(value)
    is_held = (
        value.is_finite() and abs(value.adjusted()) < 10 and value == round(value, 2) and abs(value) < 1000
    )
    assert (held == value) if is_held or value == 0 else (held is None)
