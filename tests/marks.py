"""Which parameters of a test only the long run has."""

from __future__ import annotations

import pytest
from _pytest.mark.structures import ParameterSet


def full(*values: object) -> list[ParameterSet]:
    """Return parameters that `make test` leaves out: the path that they take is tested there with another one."""
    return [pytest.param(value, marks=pytest.mark.full) for value in values]
