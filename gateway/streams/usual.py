"""Comparison of a stream's refused share with its usual one: only an increase needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from tidegate.gateway.streams.summaries import SparkBucket

TIMES_USUAL: Final = 3.0
"""Least multiple of the usual refused share that counts as raised."""
LEAST_RECORDS: Final = 10
"""Fewer refused records in the newest slice never count as raised."""
_STANDARD_DEVIATIONS: Final = 4.0
"""Least deviation of the refused records from the expected number; chance alone exceeds it once in 30,000 slices."""
LEAST_HISTORY: Final = 100
"""Least records before the newest slice that make a usual share known."""


@dataclass(frozen=True, slots=True)
class RefusedShare:
    """Refused shares, from 0 to 1: of the newest slice, and of all before it; None without records.

    `is_known` is True if there are enough earlier records to know the usual share.
    """

    now: float | None
    usual: float | None
    is_known: bool
    is_raised: bool


def refused_share(slices: Sequence[SparkBucket]) -> RefusedShare:
    """Compare the newest slice with those before it.

    It is raised if its share is at least three times the usual one, and its refused records are more than chance
    explains. That is four standard deviations above the expected number, assumed to be Poisson distributed.
    """
    if not slices:
        return RefusedShare(None, None, is_known=False, is_raised=False)
    *before, newest = slices
    earlier = sum(each.records for each in before)
    usual = sum(each.refused for each in before) / earlier if earlier else None
    now = newest.refused / newest.records if newest.records else None
    is_known = earlier >= LEAST_HISTORY
    is_raised = False
    if is_known and now is not None and usual is not None and newest.refused >= LEAST_RECORDS:
        expected = usual * newest.records
        beyond_chance = newest.refused - expected > _STANDARD_DEVIATIONS * sqrt(expected)
        is_raised = beyond_chance and now >= TIMES_USUAL * usual
    return RefusedShare(now, usual, is_known, is_raised)
