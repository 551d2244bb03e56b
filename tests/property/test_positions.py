"""Positions in bitmaps beside the same in plain sets."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.stream.ledger import Position, Vector
from tidegate.contracts.stream.positions import Positions, Sightings

# Near each other, at the edges of a bitmap's parts, and as far as offsets go.
offsets = (
    st.integers(0, 9) | st.integers(65_530, 65_540) | st.integers(2**32 - 2, 2**32 + 2) | st.just(2**63 - 1)
)
partitions = st.integers(0, 3)
positions = st.lists(st.tuples(partitions, offsets), max_size=30)
vectors = st.dictionaries(partitions, offsets)


@given(positions, positions)
def test_sets_of_positions_are_sets(some: list[Position], others: list[Position]) -> None:
    left, right = set(some), set(others)
    one, other = Positions(some), Positions(others)
    assert list(one) == sorted(left)
    assert one.first(3) == sorted(left)[:3]
    assert (len(one), bool(one), one == left) == (len(left), bool(left), True)
    assert (one & other, one | other, one - other) == (left & right, left | right, left - right)
    assert (one == other) == (left == right)
    assert all((each in one) == (each in left) for each in [*some, *others, (9, 0), (0, 2**64), "0/0"])
    assert one == left, "it was not changed by what was made of it"


@given(positions, vectors, vectors)
def test_parts_are_those_between_vectors(some: list[Position], begin: Vector, end: Vector) -> None:
    found = Positions(some)
    inside = {(p, offset) for p, offset in some if begin.get(p, 0) <= offset < end.get(p, 0)}
    assert found.within(begin, end) == inside
    assert found.since(begin) == {(p, offset) for p, offset in some if offset >= begin.get(p, 0)}
    assert found == set(some)


@given(st.lists(st.lists(st.tuples(st.none() | partitions, st.none() | offsets), max_size=10), max_size=5))
def test_what_comes_again_is_known_however_it_is_added(
    batches: list[list[tuple[int | None, int | None]]],
) -> None:
    told = [(p, offset) for batch in batches for p, offset in batch if p is not None and offset is not None]
    by_rows, by_arrays, by_parts = Sightings(told), Sightings(), Sightings()
    for batch in batches:
        columns = pa.array([p for p, _ in batch], pa.int32()), pa.array([o for _, o in batch], pa.int64())
        by_arrays.add_arrays(*columns)
        part = Sightings()
        part.add_arrays(*columns)
        for row in part.packed():
            by_parts.add_packed(*row)
    for found in (by_rows, by_arrays, by_parts):
        assert found.seen == set(told)
        assert found.again == {each for each, times in Counter(told).items() if times > 1}
