"""Marks for the long run: parameters, and the number of examples of properties."""

from __future__ import annotations

import os

import pytest
from _pytest.mark.structures import ParameterSet


def full(*values: object) -> list[ParameterSet]:
    """Return parameters that only the long run uses; `make test` covers the same path with another parameter."""
    return [pytest.param(value, marks=pytest.mark.full) for value in values]


def is_short() -> bool:
    """Return whether this is `make test`."""
    return os.environ.get("TIDEGATE_TESTS") == "short"


def examples(number: int) -> int:
    """Return the number of examples of a property: `number`, or a fifth of it in `make test`."""
    return number // 5 if is_short() else number
