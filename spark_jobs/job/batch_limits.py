"""How much of a stream one batch takes: by offsets, by bytes, and less where a batch has failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegate.contracts.stream.ledger import Vector, span

_UNKNOWN_BYTES: Final = 25 * 1024
"""What an offset is taken to hold before any was read: of 256 MiB the first batch then takes about 10,000."""

_FORGETTING: Final = 0.75
"""Share of a known mean that stays where records have become smaller: large ones may come back."""


class BatchLimits:
    """The limits of one stream, kept from attempt to attempt of one process.

    The bytes of a batch are known when it has been read. The next one is bounded by an estimate: the mean bytes of an offset
    in the batches before, for each partition.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes_per_offset: dict[int, float] = {}
        self._suspect: Vector = {}
        self._max_offsets = 0

    def note(self, start: Vector, end: Vector, read: Mapping[int, int]) -> None:
        """Take note of the bytes that were read of each partition between two vectors."""
        for partition, last in end.items():
            offsets = last - start.get(partition, 0)
            if offsets > 0:
                mean = read.get(partition, 0) / offsets
                known = self._bytes_per_offset.get(partition, 0.0)
                self._bytes_per_offset[partition] = max(mean, known * _FORGETTING)

    def end_of_batch(self, start: Vector, end: Vector) -> Vector:
        """Return where a batch ends that begins at `start`: at `end`, or before it by as much as the limits ask for.

        The batch has one offset at least.
        """
        pending = {partition: last - start.get(partition, 0) for partition, last in end.items()}
        offsets = sum(pending.values())
        estimate = sum(count * self._estimate(partition) for partition, count in pending.items())
        share = min(1.0, self._max_bytes / max(estimate, 1.0))
        if self._is_suspect(start):
            share = min(share, self._max_offsets / offsets)
        if share >= 1.0:
            return end
        taken = {partition: int(count * share) for partition, count in pending.items()}
        if not any(taken.values()):
            first = min(partition for partition, count in pending.items() if count)
            taken[first] = 1
        return {partition: start.get(partition, 0) + count for partition, count in taken.items()}

    def halve(self, start: Vector, end: Vector) -> bool:
        """Halve a batch that has failed, until the stream is past its end. Return False when it has one offset only."""
        offsets = span(start, end)
        if offsets <= 1:
            return False
        self._suspect, self._max_offsets = dict(end), offsets // 2
        return True

    def _is_suspect(self, start: Vector) -> bool:
        """Return whether what begins here is, or comes before, a batch that has failed."""
        return any(start.get(partition, 0) < last for partition, last in self._suspect.items())

    def _estimate(self, partition: int) -> float:
        known = self._bytes_per_offset
        if partition in known:
            return known[partition]
        return sum(known.values()) / len(known) if known else _UNKNOWN_BYTES
