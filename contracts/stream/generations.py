"""Generations of a ledger: which refusals still count after a stream was rewound. Pure arithmetic; no I/O.

A rewind begins a new generation for the offsets from its point on. A refused record names the generation that judged it.
It counts if no later rewind covers its offset: the first verdict is final within one generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidegate.contracts.errors import ConflictError

MOST_REWINDS: Final = 16
"""Maximum number of rewinds that the ledger remembers for a partition: each takes about 12 bytes of every commit."""


class Rewound(NamedTuple):
    """A rewind of one partition: offsets from `first` on are judged by `generation` or a later one."""

    first: int
    generation: int


Rewinds = Mapping[int, tuple[Rewound, ...]]
"""Partition to its rewinds, with ascending offsets and generations: each applies up to the offset of the next one."""


def oldest_counting(rewinds: Rewinds, partition: int, offset: int) -> int:
    """Return the oldest generation whose refusal of the record at this offset still counts."""
    generation = 0
    for each in rewinds.get(partition, ()):
        if each.first > offset:
            break
        generation = each.generation
    return generation


def rewound(rewinds: Rewinds, points: Mapping[int, int], generation: int) -> dict[int, tuple[Rewound, ...]]:
    """Return the rewinds after one more to `points`, which replaces those at or after the point of a partition."""
    changed = dict(rewinds)
    for partition, first in points.items():
        kept = tuple(each for each in changed.get(partition, ()) if each.first < first)
        changed[partition] = (*kept, Rewound(first, generation))
    return changed


def pruned(rewinds: Rewinds, needed: Iterable[tuple[int, int]]) -> dict[int, tuple[Rewound, ...]]:
    """Return only the rewinds in `needed`, which names those that a refusal needs by partition and first offset.

    Raises ConflictError if a partition has more than MOST_REWINDS of them.
    """
    wanted = set(needed)
    kept = {
        partition: tuple(each for each in rewinds[partition] if (partition, each.first) in wanted)
        for partition in sorted(rewinds)
    }
    for partition, each in kept.items():
        if len(each) > MOST_REWINDS:
            raise ConflictError(
                f"partition {partition} was rewound {MOST_REWINDS} times to ever later offsets, and the quarantine topic "
                f"holds refusals of each; rewind it to offset {each[-2].first} or before, which replaces the last rewinds"
            )
    return {partition: each for partition, each in kept.items() if each}


def overruling(rewinds: Rewinds, partition: int, offset: int, generation: int) -> tuple[int, int] | None:
    """Return the rewind that overrules a refusal, as partition and first offset; None if the refusal counts."""
    last = None
    for each in rewinds.get(partition, ()):
        if each.first > offset:
            break
        last = each
    return (partition, last.first) if last is not None and generation < last.generation else None
