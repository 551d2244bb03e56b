"""Estimate in bounded memory whether the values of a field are unique."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.contracts.infer.columns import Positions

_MOST_HASHES: Final = 1 << 18
_LONGEST: Final = 64
_LEAST_DISTINCT: Final = 0.9
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)


class DistinctSketch:
    """Counts repeated values among those whose hash is below a threshold, which is lowered to bound the memory.

    All values with such a hash are compared, so repetitions are detected even if few hashes are kept.
    """

    def __init__(self) -> None:
        self.seen = 0
        """Number of values whose hash was below the threshold when they were added."""
        self.repeated = 0
        self.first_repeated: list[int] = []
        self.is_off = False
        """Whether counting has stopped: the field is not a key, because values are repeated, long or fractions."""
        self._runs: list[npt.NDArray[np.uint64]] = []
        """Sorted hashes in runs of decreasing length; merging all for each batch would dominate the run time."""
        self._threshold = np.uint64(0xFFFFFFFFFFFFFFFF)

    def add_numbers(self, values: npt.NDArray[Any], positions: Positions) -> None:
        """Add numbers. Only integers can be a key: with fractions, counting stops."""
        if self.is_off or not len(values):
            return
        if values.dtype.kind != "i":
            self._give_up()
            return
        self._add(_mixed(values.astype(np.int64).view(np.uint64)), positions)

    def add_texts(self, labels: pa.Array, codes: npt.NDArray[np.int64], positions: Positions) -> None:
        """Add texts by their codes: indexes into `labels`, -1 for null."""
        if self.is_off or not len(labels):
            return
        rows = int(np.count_nonzero(codes >= 0))
        if len(labels) < _LEAST_DISTINCT * rows:
            self._give_up()
            return
        hashes = _hashes_of(labels)
        if hashes is None:
            self._give_up()
            return
        valid = codes >= 0
        self._add(hashes[codes[valid]], positions[valid])

    def _add(self, hashes: npt.NDArray[np.uint64], positions: Positions) -> None:
        below = hashes <= self._threshold
        hashes, positions = hashes[below], positions[below]
        self.seen += len(hashes)
        unique, first = np.unique(hashes, return_index=True)
        known = self._is_known(unique)
        repeated = len(hashes) - len(unique) + int(np.count_nonzero(known))
        if repeated and (len(self.first_repeated) < 5 or positions[0] < self.first_repeated[-1]):
            again = np.ones(len(hashes), bool)
            again[first[~known]] = False
            self.first_repeated = sorted([*self.first_repeated, *positions[again][:5].tolist()])[:5]
        self.repeated += repeated
        self._keep(unique[~known])

    def merge(self, other: DistinctSketch) -> None:
        """Add the values of other records; how many values both have is estimated, and their positions unknown.

        The estimate is extrapolated from the hashes below the lower of the two thresholds.
        """
        if self.is_off or other.is_off:
            self._give_up()
            return
        self._threshold = min(self._threshold, other._threshold)
        self._trim()
        hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *other._runs]))
        hashes = hashes[hashes <= self._threshold]
        known = self._is_known(hashes)
        weight = (other.seen - other.repeated) / max(len(hashes), 1)
        self.repeated += other.repeated + round(weight * np.count_nonzero(known))
        self.seen += other.seen
        self.first_repeated = sorted([*self.first_repeated, *other.first_repeated])[:5]
        self._keep(hashes[~known])

    def _is_known(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        known = np.zeros(len(hashes), bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            known |= run[at] == hashes
        return known

    def _keep(self, new: npt.NDArray[np.uint64]) -> None:
        """Keep new sorted hashes, unless too many values were repeated."""
        if self.repeated > 100 and self.repeated > (1 - _LEAST_DISTINCT) * self.seen:
            self._give_up()
            return
        if len(new):
            self._runs.append(new)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort(kind="stable")  # takes linear time for two sorted runs
            self._runs.append(merged)
        while sum(map(len, self._runs)) > _MOST_HASHES:
            self._threshold = self._threshold >> np.uint64(1)
            self._trim()

    def _trim(self) -> None:
        kept = [run[: np.searchsorted(run, self._threshold, "right")] for run in self._runs]
        self._runs = [run for run in kept if len(run)]

    def _give_up(self) -> None:
        self.is_off, self._runs = True, []


def _hashes_of(labels: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Return a hash of each text; None if any is too long for a key."""
    _, offset_buffer, data = labels.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[labels.offset : labels.offset + len(labels) + 1]
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    if longest > _LONGEST or data is None:
        return None
    text = np.frombuffer(data, np.uint8)
    hashes = _mixed(lengths.astype(np.uint64))
    for at in range(longest):
        has = lengths > at
        hashes[has] = _mixed(hashes[has] ^ text[offsets[:-1][has] + at].astype(np.uint64))
    return hashes


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return well distributed hashes. Source: the finalizer of SplitMix64."""
    with np.errstate(over="ignore"):
        mixed = (values + _MULTIPLIER) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
