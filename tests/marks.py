"""What only the long run tries: parameters, and most examples of properties."""

from __future__ import annotations

import os

import pytest
from _pytest.mark.structures import ParameterSet


def full(*values: object) -> list[ParameterSet]:
    """Return parameters that `make test` leaves out: the path that they take is tested there with another one."""
    return [pytest.param(value, marks=pytest.mark.full) for value in values]


def is_short() -> bool:
    """Return whether this is `make test`."""
    return os.environ.get("TIDEGATE_TESTS") == "short"


def examples(number: int) -> int:
    """Return how many examples of a property are tried: all of them, and a fifth in `make test`."""
    return number // 5 if is_short() else number
