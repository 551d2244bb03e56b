"""Segments of the ledger: ranges of offsets, with the number of records of each fate.

Old segments are joined, so their number stays bounded however long a stream runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

MOST_OF_PARTITION: Final = 16
MOST_OF_STREAM: Final = 256
LEAST_OF_PARTITION: Final = 2
"""A partition has at most 16 segments, and fewer if the stream had more than 256 in all, but always room for 2.

A segment takes about 40 bytes of the ledger, which is written with each batch: at most 10 KB for up to 128 partitions.
"""


class Segment(NamedTuple):
    """The offsets of one partition in [begin, end), and how many of them were accepted, quarantined and dropped.

    The remaining offsets are absent. The ledger's totals count all records since the start, of which topics hold only a
    part. The counts of a segment can be compared with the records at its offsets. Accepted records went to the table or
    topic: they are written, superseded or deleted.
    """

    begin: int
    end: int
    accepted: int
    quarantined: int
    dropped: int

    def joined(self, following: Segment) -> Segment:
        """Return one segment that covers this one and the one that follows it."""
        return Segment(
            self.begin,
            following.end,
            self.accepted + following.accepted,
            self.quarantined + following.quarantined,
            self.dropped + following.dropped,
        )


Segments = Mapping[int, tuple[Segment, ...]]
"""Partition to its segments, in ascending order and without gaps; the last one ends where the ledger ends."""


@dataclass(frozen=True, slots=True)
class FateCounts:
    """The number of accepted, quarantined and dropped records of one partition."""

    accepted: int = 0
    quarantined: int = 0
    dropped: int = 0

    def __add__(self, other: FateCounts) -> FateCounts:
        return FateCounts(
            self.accepted + other.accepted,
            self.quarantined + other.quarantined,
            self.dropped + other.dropped,
        )


def extended(
    segments: Segments,
    start: Mapping[int, int],
    end: Mapping[int, int],
    counts: Mapping[int, FateCounts] | None,
) -> dict[int, tuple[Segment, ...]]:
    """Return the segments after a batch of offsets in [start, end); a partition missing from `counts` had no record.

    With `counts` None the fates are unknown: these offsets belong to no segment, and the segments of a partition
    restart after them.
    """
    grown = dict(segments)
    for partition, last in sorted(end.items()):
        first = start.get(partition, 0)
        if last == first:
            continue
        earlier = grown.pop(partition, ())
        if counts is None:
            continue
        found = counts.get(partition, FateCounts())
        if earlier and earlier[-1].end != first:
            earlier = ()
        new = Segment(first, last, found.accepted, found.quarantined, found.dropped)
        grown[partition] = (*earlier, new)
    limit = max(LEAST_OF_PARTITION, min(MOST_OF_PARTITION, MOST_OF_STREAM // max(1, len(grown))))
    return {partition: _merged(grown[partition], limit) for partition in sorted(grown)}


def _merged(segments: tuple[Segment, ...], limit: int) -> tuple[Segment, ...]:
    """Join adjacent segments until at most `limit` are left, starting with those that are short for their age.

    The length of a segment thus grows with its distance from the end, and recent offsets have fine-grained counts.
    """
    kept = list(segments)
    while len(kept) > limit:
        head = kept[-1].end
        shares = [(after.end - before.begin) / (head - before.begin) for before, after in pairwise(kept)]
        index = shares.index(min(shares))
        kept[index : index + 2] = [kept[index].joined(kept[index + 1])]
    return tuple(kept)


def sums(segments: Iterable[Segment]) -> FateCounts:
    """Add the counts of segments."""
    total = FateCounts()
    for each in segments:
        total += FateCounts(each.accepted, each.quarantined, each.dropped)
    return total
