"""Presence of fields: which fields of an object occur together, and which depend on a value of another field."""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import permutations, product
from typing import Final

import numpy as np

from tidegate.contracts.infer.columns import Mask, Positions
from tidegate.contracts.infer.pairs import Pair, Path
from tidegate.contracts.infer.values import MOST_POSITIONS, Occurrences, TextBatch

_MOST_FIELDS: Final = 60
_MOST_LABELS: Final = 24
_LONGEST_LABEL: Final = 60

Labels = dict[str, Occurrences]
"""The records with each text of a field."""


class Presence:
    """The presence of the fields of one object; null counts as missing."""

    def __init__(self) -> None:
        self.all = Occurrences()
        self.has: dict[Path, Occurrences] = {}
        self.lacks: dict[Path, Occurrences] = {}
        self.lone: dict[Pair, Occurrences] = {}
        """For each pair of optional fields, the records that have the first one and lack the second."""
        self.labels: dict[Path, Labels] = {}
        """The texts of each field that has few different ones."""
        self.lacking: dict[Pair, Labels] = {}
        """For each such field and optional other one: the records with each text that lack the other field."""
        self._left_out: set[Path] = set()
        self._various: set[Path] = set()

    @property
    def rows(self) -> int:
        """Return the number of records."""
        return self.all.count

    @property
    def optional(self) -> list[Path]:
        """Return the fields that some records have and others lack, at most `_MOST_FIELDS`."""
        return [path for path in self.has if self._is_optional(path) and path not in self._left_out]

    def present(self, path: Path) -> int:
        """Return the number of records that have a field."""
        return self.has[path].count if path in self.has else 0

    def keep(self, fields: Container[Path]) -> None:
        """Drop what concerns fields that are not in `fields`."""
        for found in (self.has, self.lacks, self.labels):
            for path in [path for path in found if path not in fields]:
                del found[path]

    def add(self, masks: Mapping[Path, Mask], texts: Mapping[Path, TextBatch], positions: Positions) -> None:
        """Add a batch: a mask of presence for each field, and the texts of fields that have any."""
        batch = Presence()
        batch.all.add(np.ones(len(positions), bool), positions)
        for path, mask in masks.items():
            batch.has[path], batch.lacks[path] = Occurrences(), Occurrences()
            batch.has[path].add(mask, positions)
            batch.lacks[path].add(~mask, positions)
        batch._leave_out()
        batch._add_lone(masks, positions, self.lone)
        for path, some in texts.items():
            if path not in self._various:
                batch._add_labels(path, some, masks, positions, self.lacking)
        self.merge(batch)

    def merge(self, other: Presence) -> None:
        """Add the presence in other records, in which other fields may be optional."""
        merged = Presence()
        merged.all = _sum(self.all, other.all)
        for path in dict.fromkeys([*self.has, *other.has]):
            merged.has[path] = _sum(self.has.get(path, _NONE), other.has.get(path, _NONE))
            merged.lacks[path] = _sum(self.lacks.get(path, self.all), other.lacks.get(path, other.all))
        merged._left_out = self._left_out | other._left_out
        merged._leave_out()
        for pair in permutations(merged.optional, 2):
            mine, others = self._lone(pair), other._lone(pair)
            if mine.count or others.count:
                merged.lone[pair] = _sum(mine, others)
        merged._various = self._various | other._various
        for path in dict.fromkeys([*self.labels, *other.labels]):
            labels = _sum_labels(self.labels.get(path, {}), other.labels.get(path, {}))
            if len(labels) > _MOST_LABELS:
                merged._various.add(path)
            if path not in merged._various:
                merged.labels[path] = labels
        for pair in product(merged.labels, merged.optional):
            if lacking := _sum_labels(self._lacking(pair), other._lacking(pair)):
                merged.lacking[pair] = lacking
        vars(self).update(vars(merged))

    def _is_optional(self, path: Path) -> bool:
        return 0 < self.has[path].count < self.rows

    def _leave_out(self) -> None:
        """Leave out optional fields above the maximum for good, because later counts of them would lack these records."""
        self._left_out.update(self.optional[_MOST_FIELDS:])

    def _lone(self, pair: Pair) -> Occurrences:
        """Return the records that have the first field and lack the second; every record may have one of them."""
        left, right = pair
        if not self.present(right):
            return self.has.get(left, _NONE)
        return self.lacks[right] if self.present(left) == self.rows else self.lone.get(pair, _NONE)

    def _lacking(self, pair: Pair) -> Labels:
        """Return, for each text of the first field, the records that lack the second; no record may have that one."""
        path, other = pair
        return self.lacking.get(pair, {}) if self.present(other) else self.labels.get(path, {})

    def _add_lone(
        self, masks: Mapping[Path, Mask], positions: Positions, known: Mapping[Pair, Occurrences]
    ) -> None:
        """Count the pairs of a batch. Positions are left out where the first ones are in `known`."""
        optional = self.optional
        if len(optional) < 2:
            return
        has = np.stack([masks[path] for path in optional], axis=1).astype(np.float32)
        counts = (has.T @ (1 - has)).astype(np.int64)
        for one, two in zip(*np.nonzero(counts), strict=True):
            pair = left, right = optional[one], optional[two]
            first: list[int] = []
            if known.get(pair, _NONE).takes(positions):
                first = positions[np.flatnonzero(masks[left] & ~masks[right])[:MOST_POSITIONS]].tolist()
            self.lone[pair] = Occurrences(int(counts[one, two]), first)

    def _add_labels(
        self,
        path: Path,
        batch: TextBatch,
        masks: Mapping[Path, Mask],
        positions: Positions,
        known: Mapping[Pair, Labels],
    ) -> None:
        """Count the texts of a field in a batch. Positions are left out where the first ones are in `known`."""
        names = batch.labels.to_pylist() if len(batch.labels) <= _MOST_LABELS else []
        if not names or max(map(len, names)) > _LONGEST_LABEL:
            if len(batch.labels):
                self._various.add(path)
            return
        self.labels[path] = {name: Occurrences() for name in names}
        for code, name in enumerate(names):
            self.labels[path][name].add(batch.codes == code, positions)
        for other in self.optional:
            lacks = (batch.codes >= 0) & ~masks[other]
            counts = np.bincount(batch.codes[lacks], minlength=len(names))
            found = {}
            for code in np.flatnonzero(counts).tolist():
                first: list[int] = []
                if known.get((path, other), {}).get(names[code], _NONE).takes(positions):
                    rows = np.flatnonzero(lacks & (batch.codes == code))[:MOST_POSITIONS]
                    first = positions[rows].tolist()
                found[names[code]] = Occurrences(int(counts[code]), first)
            if found:
                self.lacking[path, other] = found


_NONE: Final = Occurrences()


def _sum(one: Occurrences, two: Occurrences) -> Occurrences:
    first = sorted([*one.first, *two.first])[:MOST_POSITIONS] if two.first else one.first
    return Occurrences(one.count + two.count, first)


def _sum_labels(one: Labels, two: Labels) -> Labels:
    return {name: _sum(one.get(name, _NONE), two.get(name, _NONE)) for name in dict.fromkeys([*one, *two])}
