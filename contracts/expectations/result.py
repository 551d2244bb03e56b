"""What became of an expectation in one batch, as it is kept: figures about many values, never a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FEWEST_SUMMED: Final = 10
"""A mean or sum of fewer values says too much about each of them to be kept."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a batch is as expected. `considered` counts the values looked at, `unexpected` those that are not so.

    `observed` is a figure about many values, such as their mean: None where it would be a value of the payload.
    """

    is_met: bool
    considered: int
    unexpected: int | None = None
    observed: float | None = None
