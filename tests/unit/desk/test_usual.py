"""A stream calls for a person when it refuses more than usual, not because it refuses."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidegate.gateway.streams.summaries import SparkBucket
from tidegate.gateway.streams.usual import refused_share

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def slices(*counts: tuple[int, int]) -> list[SparkBucket]:
    return [SparkBucket(NOON, records, refused) for records, refused in counts]


@pytest.mark.parametrize(
    ("before", "newest", "is_raised"),
    [
        ((40_000, 400), (1_000, 10), False),  # as usual
        ((40_000, 400), (1_000, 19), False),  # less than three times the usual
        ((2_000, 40), (160, 10), False),  # three times the usual, and within chance
        ((40_000, 400), (1_000, 31), True),
        ((40_000, 0), (1_000, 9), False),  # too few records for an alert
        ((40_000, 0), (1_000, 10), True),  # nothing was refused before
        ((99, 0), (1_000, 500), False),  # too little history to know what is usual
        ((40_000, 30_000), (1_000, 1_000), False),  # cannot be three times as much
        ((0, 0), (1_000, 1_000), False),
        ((40_000, 400), (0, 0), False),
    ],
)
def test_a_change_is_distinguished_from_chance(
    before: tuple[int, int], newest: tuple[int, int], is_raised: bool
) -> None:
    assert refused_share(slices(before, newest)).is_raised is is_raised


def test_the_shares_are_those_of_the_newest_slice_and_of_all_before() -> None:
    found = refused_share(slices((100, 1), (300, 3), (50, 5)))
    assert (found.now, found.usual, found.is_known) == (0.1, 0.01, True)
    assert refused_share([]) == refused_share(slices())
    empty = refused_share(slices((0, 0), (0, 0)))
    assert (empty.now, empty.usual, empty.is_known) == (None, None, False)
