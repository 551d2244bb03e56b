"""Presence of fields: which fields of an object occur together, and which depend on a value of another field."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidegate.contracts.infer.columns import Mask, Positions
from tidegate.contracts.infer.pairs import Pair, Path
from tidegate.contracts.infer.values import MOST_POSITIONS, Tally, TextBatch

_MOST_FIELDS: Final = 60
_MOST_LABELS: Final = 24
_LONGEST_LABEL: Final = 60


@dataclass(slots=True)
class LabelCounts:
    """The records with a certain text in a field: how many, and those of them that lack another field."""

    records: int = 0
    lacking: Tally = field(default_factory=Tally)


class Presence:
    """The presence of the fields of one object; null counts as missing."""

    def __init__(self) -> None:
        self.rows = 0
        self.missing: dict[Path, int] = {}
        self.lone: dict[Pair, Tally] = {}
        """The records that have the first field of a pair and lack the second."""
        self.by_label: dict[Pair, dict[str, LabelCounts]] = {}
        """For each pair and text of its first field: records with that text, and those that lack the second field."""
        self._present: dict[Path, int] = {}
        self._various: set[Path] = set()

    def present(self, path: Path) -> int:
        """Return the number of records that have a field."""
        return self._present.get(path, 0)

    def keep(self, fields: Container[Path]) -> None:
        """Drop what concerns fields that are not in `fields`."""
        for path in [path for path in self.missing if path not in fields]:
            del self.missing[path]
        for pair in [pair for pair in self.by_label if pair[0] not in fields or pair[1] not in fields]:
            del self.by_label[pair]

    def add(self, masks: Mapping[Path, Mask], texts: Mapping[Path, TextBatch], positions: Positions) -> None:
        """Add a batch: a mask of presence for each field, and the texts of fields that have any."""
        before, rows = self.rows, len(positions)
        self.rows += rows
        for path in self._present.keys() - masks.keys():
            self.missing[path] = self.missing.get(path, 0) + rows
        for path, mask in masks.items():
            found = int(np.count_nonzero(mask))
            if path not in self._present and before:
                self.missing[path] = before
            self._present[path] = self._present.get(path, 0) + found
            if found < rows:
                self.missing[path] = self.missing.get(path, 0) + rows - found
        optional = [path for path in masks if path in self.missing][:_MOST_FIELDS]
        self._add_lone(optional, masks, positions)
        for path, batch in texts.items():
            if path not in self._various:
                self._add_labels(path, batch, optional, masks, positions)

    def merge(self, other: Presence) -> None:
        """Add the presence in other records, in which other fields may be optional."""
        paths = dict.fromkeys([*self._present, *other._present])
        present = {path: self.present(path) + other.present(path) for path in paths}
        rows = self.rows + other.rows
        optional = [path for path in paths if present[path] < rows][:_MOST_FIELDS]
        for pair in permutations(optional, 2):
            if count := self._count_lone(pair) + other._count_lone(pair):
                first = [*self._first_lone(pair), *other._first_lone(pair)]
                self.lone[pair] = Tally(count, sorted(first)[:MOST_POSITIONS])
        self._various |= other._various
        for pair, labels in other.by_label.items():
            mine = self.by_label.setdefault(pair, {})
            for name, counts in labels.items():
                known = mine.setdefault(name, LabelCounts())
                known.records += counts.records
                known.lacking.merge(counts.lacking)
        self._various |= {pair[0] for pair, labels in self.by_label.items() if len(labels) > _MOST_LABELS}
        self.by_label = {
            pair: labels for pair, labels in self.by_label.items() if pair[0] not in self._various
        }
        self.missing = {path: rows - present[path] for path in paths if present[path] < rows}
        self._present, self.rows = present, rows

    def _count_lone(self, pair: Pair) -> int:
        """Return the number of records that have the first field and lack the second."""
        left, right = map(self.present, pair)
        if left == self.rows or not right:  # `lone` does not have such pairs
            return min(left, self.rows - right)
        return self.lone[pair].count if pair in self.lone else 0

    def _first_lone(self, pair: Pair) -> list[int]:
        return self.lone[pair].first if pair in self.lone else []

    def _add_lone(self, optional: list[Path], masks: Mapping[Path, Mask], positions: Positions) -> None:
        if len(optional) < 2:
            return
        has = np.stack([masks[path] for path in optional], axis=1).astype(np.float32)
        counts = (has.T @ (1 - has)).astype(np.int64)
        for one, two in zip(*np.nonzero(counts), strict=True):
            left, right = optional[one], optional[two]
            tally = self.lone.setdefault((left, right), Tally())
            first: npt.NDArray[Any] = np.empty(0, np.int64)
            if tally.takes(positions):
                first = positions[np.flatnonzero(masks[left] & ~masks[right])[:MOST_POSITIONS]]
            tally.add_counted(int(counts[one, two]), first.tolist())

    def _add_labels(
        self,
        path: Path,
        batch: TextBatch,
        optional: list[Path],
        masks: Mapping[Path, Mask],
        positions: Positions,
    ) -> None:
        known = {label for pair, labels in self.by_label.items() if pair[0] == path for label in labels}
        names = batch.labels.to_pylist() if len(batch.labels) <= _MOST_LABELS else []
        if not names or len(known.union(names)) > _MOST_LABELS or max(map(len, names)) > _LONGEST_LABEL:
            if len(batch.labels):
                self._various.add(path)
                for pair in [pair for pair in self.by_label if pair[0] == path]:
                    del self.by_label[pair]
            return
        has = batch.codes >= 0
        records = np.bincount(batch.codes[has], minlength=len(names))
        for other in optional:
            if other == path:
                continue
            counts = self.by_label.setdefault((path, other), {})
            lacks = has & ~masks[other]
            lacking = np.bincount(batch.codes[lacks], minlength=len(names))
            for code, name in enumerate(names):
                entry = counts.setdefault(name, LabelCounts())
                entry.records += int(records[code])
                first: npt.NDArray[Any] = np.empty(0, np.int64)
                if lacking[code] and entry.lacking.takes(positions):
                    first = positions[np.flatnonzero(lacks & (batch.codes == code))[:MOST_POSITIONS]]
                entry.lacking.add_counted(int(lacking[code]), first.tolist())
