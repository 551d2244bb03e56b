"""Limits of the size of a batch: by offsets, by bytes, by halving a failed batch, and by the ends of refused ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from tidegate.contracts.stream.ledger import BatchRefusal, Vector, span, up_to

_UNKNOWN_BYTES: Final = 25 * 1024
"""Assumed bytes per offset before any is read: with 256 MiB the first batch has about 10,000 offsets."""

_FORGETTING: Final = 0.75
"""Minimum share of a known mean that is kept when records become smaller, because large ones may come back."""


class BatchLimits:
    """The limits of one stream, kept across the attempts of one process.

    The bytes of a batch are known only after it is read. The next batch is limited by an estimate: the mean bytes per
    offset of earlier batches, for each partition.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes_per_offset: dict[int, float] = {}
        self._suspect: Vector = {}
        self._max_offsets = 0
        self.refused: tuple[BatchRefusal, ...] = ()
        """The batches ahead of the ledger that an earlier attempt has refused as a whole."""

    def note(self, start: Vector, end: Vector, read: Mapping[int, int]) -> None:
        """Record the bytes read of each partition between two vectors."""
        for partition, last in end.items():
            offsets = last - start.get(partition, 0)
            if offsets > 0:
                mean = read.get(partition, 0) / offsets
                known = self._bytes_per_offset.get(partition, 0.0)
                self._bytes_per_offset[partition] = max(mean, known * _FORGETTING)

    def end_of_batch(self, start: Vector, end: Vector) -> Vector:
        """Return the end of a batch that begins at `start`: `end`, or less if the limits require it.

        The batch has at least one offset. Before the end of a refused batch it has only offsets of that one. The same
        holds for a failed batch: otherwise a partition that keeps receiving records would take the share of the others.
        """
        refused = (up_to(each.end, start, end) for each in self.refused if each.overlaps(start, end))
        end = min(refused, key=partial(span, start), default=end)
        failed = up_to(self._suspect, start, end)
        if is_suspect := span(start, failed) > 0:
            end = failed
        pending = {partition: last - start.get(partition, 0) for partition, last in end.items()}
        offsets = sum(pending.values())
        estimate = sum(count * self._estimate(partition) for partition, count in pending.items())
        share = min(1.0, self._max_bytes / max(estimate, 1.0))
        if is_suspect:
            share = min(share, self._max_offsets / offsets)
        if share >= 1.0:
            return end
        taken = {partition: int(count * share) for partition, count in pending.items()}
        if not any(taken.values()):
            first = min(partition for partition, count in pending.items() if count)
            taken[first] = 1
        return {partition: start.get(partition, 0) + count for partition, count in taken.items()}

    def halve(self, start: Vector, end: Vector) -> bool:
        """Limit batches to half of a failed one until the stream is past its end; False if it has only one offset."""
        offsets = span(start, end)
        if offsets <= 1:
            return False
        self._suspect, self._max_offsets = dict(end), offsets // 2
        return True

    def _estimate(self, partition: int) -> float:
        known = self._bytes_per_offset
        if partition in known:
            return known[partition]
        return sum(known.values()) / len(known) if known else _UNKNOWN_BYTES
