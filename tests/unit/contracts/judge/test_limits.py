"""A limit says the same however it is written, also of numbers that no double holds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.formats.json_schema import JsonSchemaFormat


def accepts(definition: dict[str, Any], value: Any) -> bool:
    return JsonSchemaFormat(JsonSchema(type="json-schema", definition=definition)).is_valid(value)


@pytest.mark.parametrize(
    ("keyword", "limit", "value", "expected"),
    [
        ("maximum", 10, "10.0000000000000000001", False),
        ("maximum", 10, "10", True),
        ("minimum", 0, "-1e-330", False),
        ("minimum", 0, "-0.0", True),
        ("exclusiveMinimum", 0, "1e-330", True),
        ("exclusiveMaximum", 1, "0.99999999999999999999", True),
        ("multipleOf", 2, "4", True),
        ("multipleOf", 2, "3", False),
        ("maximum", 2**53, "9007199254740992.0000001", False),
    ],
)
def test_a_whole_limit_is_one_however_it_is_written(
    keyword: str, limit: int, value: str, expected: bool
) -> None:
    for definition in ({keyword: limit}, {keyword: float(limit)}):
        assert accepts(definition, Decimal(value)) is expected, definition
        nested = {"properties": {"n": {"allOf": [definition]}}}
        assert accepts(nested, {"n": Decimal(value)}) is expected, nested


def test_numbers_that_are_no_limits_stay() -> None:
    assert accepts({"const": {"maximum": 10.0}}, {"maximum": 10.0})
    assert accepts({"maximum": 1e300}, 1e300)
    assert not accepts({"maximum": 9.5}, 10)
