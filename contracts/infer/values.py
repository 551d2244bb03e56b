"""Profiles of the values of one field, in bounded memory: numbers, days, texts.

Each profile counts all values exactly until there are too many distinct ones. After that it still has exact counts of
what proposals need: the smallest and largest values, and common sentinels for "unknown".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.infer.columns import Mask, Positions
from tidegate.contracts.infer.shapes import Shapes
from tidegate.contracts.infer.text_formats import FORMATS, TextFormat, days_of_dates, instants_of_texts

MOST_POSITIONS: Final = 5
"""Number of positions that are kept for the exceptions to a proposal."""
# Maximum numbers of distinct values of a field that are counted exactly. 80,000 days are more than two centuries.
_MOST_NUMBERS: Final = 5_000
_MOST_DAYS: Final = 80_000
_MOST_TEXTS: Final = 20_000
_MOST_LENGTHS: Final = 1_000
_LONGEST_TEXT: Final = 200
"""Maximum length in bytes of texts whose values are counted."""
_EDGE: Final = 24
"""Number of smallest and of largest values that stay counted above these maxima."""
_SAMPLE: Final = 40_000
"""Number of values in the sample of a field; its second half takes one value of every `_LATE_SAMPLE`."""
_LATE_SAMPLE: Final = 50

NUMBER_SENTINELS: Final = (
    0, -1, -2, -8, -9, -88, -99, -888, -999, -9999, -99999, -999999,
    88, 99, 888, 999, 8888, 9999, 99999, 999999, 9999999, 99999999, 999999999,
    -32768, 32767, 65535, -2147483648, 2147483647, 4294967295, -9223372036854775808, 9223372036854775807,
    9999.99, 99999.99, 999.9, 999.99, 99.9, 99.99, -9.99, -99.9, -99.99, -999.9, -999.99, -9999.99,
)  # fmt: skip
"""Numbers that often stand for "unknown"; whether one does in a field depends on the distribution of its values."""
DAY_SENTINELS: Final = frozenset(
    int(np.datetime64(day, "D").astype(np.int64))
    for day in (
        "0001-01-01", "1582-10-15", "1753-01-01", "1800-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1900-01-02",
        "1901-01-01", "1904-01-01", "1969-12-31", "1970-01-01", "1970-01-02", "1980-01-01", "2038-01-19", "2099-01-01",
        "2099-12-31", "2100-01-01", "2199-12-31", "2200-01-01", "2222-02-02", "2262-04-11", "2500-12-31", "2999-12-31",
        "3000-01-01", "4712-12-31", "9999-01-01", "9999-12-30", "9999-12-31",
    )
)  # fmt: skip
"""Days since 1970 of dates that often stand for "unknown" or "never"."""
TEXT_SENTINELS: Final = (
    "", "-", "--", "?", "??", ".", "n/a", "#n/a", "na", "n.a.", "n.a", "nan", "nil", "none", "null", "(null)", "<null>", "\\n",
    "unknown", "unk", "undefined", "not available", "not applicable", "not known", "missing", "tbd", "tba", "xxx", "xx", "test",
    "dummy", "default", "empty", "(blank)", "blank", "void", "no data", "0000-00-00", "00000000-0000-0000-0000-000000000000",
)  # fmt: skip
"""Texts that often stand for "unknown", in lower case."""


@dataclass(slots=True)
class Occurrences:
    """The number of records with some property, and the positions of the first ones."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, mask: Mask, positions: Positions) -> None:
        """Count the records of a batch for which `mask` is true."""
        found = int(np.count_nonzero(mask))
        if not found:
            return
        first = positions[np.flatnonzero(mask)[:MOST_POSITIONS]] if self.takes(positions) else ()
        self.add_counted(found, (int(each) for each in first))

    def takes(self, positions: Positions) -> bool:
        """Return whether any of these ascending positions may be among the first; batches come in any order."""
        return len(self.first) < MOST_POSITIONS or bool(positions[0] < self.first[-1])

    def add_counted(self, count: int, first: Iterable[int]) -> None:
        """Add `count` records; `first` has the positions of the first of them, in any order."""
        self.count += count
        self.first = sorted([*self.first, *first])[:MOST_POSITIONS]

    def merge(self, other: Occurrences) -> None:
        """Add the tally of other records."""
        self.add_counted(other.count, other.first)


@dataclass(slots=True)
class Seen:
    """The number of occurrences of a value, and the position of the first one."""

    count: int
    first: int


class ValueCounts:
    """Counts of distinct values; above `most` of them, `is_complete` is False and only the edges are kept."""

    def __init__(self, most: int) -> None:
        self.values: dict[Any, Seen] = {}
        self.low: dict[Any, Seen] = {}
        self.high: dict[Any, Seen] = {}
        self.is_complete = True
        self._most = most

    def add(self, values: Sequence[Any], counts: Sequence[int], firsts: Sequence[int]) -> None:
        """Add distinct values in ascending order, with their counts and first positions."""
        if self.is_complete:
            _merge(self.values, values, counts, firsts)
            if len(self.values) > self._most:
                self._keep_edges()
            return
        _merge(self.low, values[:_EDGE], counts[:_EDGE], firsts[:_EDGE])
        _merge(self.high, values[-_EDGE:], counts[-_EDGE:], firsts[-_EDGE:])
        self._cut()

    def merge(self, other: ValueCounts) -> None:
        """Add the counts of other records."""
        if self.is_complete and other.is_complete:
            _merge_seen(self.values, other.values.items())
            if len(self.values) > self._most:
                self._keep_edges()
            return
        if self.is_complete:
            self._keep_edges()
        low, high = other.edges()
        _merge_seen(self.low, low[:_EDGE])
        _merge_seen(self.high, high[:_EDGE])
        self._cut()

    def _keep_edges(self) -> None:
        low, high = self.edges()
        self.is_complete, self.values = False, {}
        self.low, self.high = dict(low[:_EDGE]), dict(high[:_EDGE])

    def _cut(self) -> None:
        if len(self.low) > _EDGE:
            self.low = {value: self.low[value] for value in sorted(self.low)[:_EDGE]}
        if len(self.high) > _EDGE:
            self.high = {value: self.high[value] for value in sorted(self.high)[-_EDGE:]}

    def edges(self) -> tuple[list[tuple[Any, Seen]], list[tuple[Any, Seen]]]:
        """Return the smallest values in ascending order, and the largest ones in descending order."""
        if self.is_complete:
            ordered = sorted(self.values.items())
            return ordered, ordered[::-1]
        return sorted(self.low.items()), sorted(self.high.items(), reverse=True)


def _merge(
    into: dict[Any, Seen], values: Sequence[Any], counts: Sequence[int], firsts: Sequence[int]
) -> None:
    for value, count, first in zip(values, counts, firsts, strict=True):
        seen = into.get(value)
        if seen is None:
            into[value] = Seen(count, first)
        else:
            seen.count += count
            seen.first = min(seen.first, first)


def _merge_seen(into: dict[Any, Seen], values: Iterable[tuple[Any, Seen]]) -> None:
    for value, seen in values:
        _merge(into, [value], [seen.count], [seen.first])


class NumberProfile:
    """The profile of the numbers of one field."""

    def __init__(self) -> None:
        self.count = 0
        self.not_finite = Occurrences()
        self.counts = ValueCounts(_MOST_NUMBERS)
        self.sentinels: dict[float, Seen] = {}
        self.near: dict[float, int] = dict.fromkeys(map(float, NUMBER_SENTINELS), 0)
        """For each known sentinel, the number of values within 2 % of it, or within 5 if that is more."""
        self.sample: list[npt.NDArray[np.float64]] = []
        self._sampled = 0

    def add(self, values: npt.NDArray[Any], positions: Positions) -> None:
        """Add the numbers of a batch, without nulls."""
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                self.not_finite.add(~finite, positions)
                values, positions = values[finite], positions[finite]
        if not len(values):
            return
        self.count += len(values)
        unique, first, counts = np.unique(values, return_index=True, return_counts=True)
        firsts = positions[first]
        if self.counts.is_complete or len(unique) <= 2 * _EDGE:
            self.counts.add(unique.tolist(), counts.tolist(), firsts.tolist())
        else:
            edge = np.r_[:_EDGE, len(unique) - _EDGE : len(unique)]
            self.counts.add(unique[edge].tolist(), counts[edge].tolist(), firsts[edge].tolist())
        self._count_sentinels(unique, counts, firsts)
        if self._sampled < _SAMPLE:
            step = 1 if self._sampled < _SAMPLE // 2 else _LATE_SAMPLE
            some = values[::step].astype(np.float64)
            self.sample.append(some)
            self._sampled += len(some)

    def merge(self, other: NumberProfile) -> None:
        """Add the profile of the numbers of other records."""
        self.count += other.count
        self.not_finite.merge(other.not_finite)
        self.counts.merge(other.counts)
        _merge_seen(self.sentinels, other.sentinels.items())
        for centre, count in other.near.items():
            self.near[centre] += count
        self.sample += other.sample
        self._sampled += other._sampled
        if self._sampled > 2 * _SAMPLE:
            self.sample = [np.concatenate(self.sample)[::2]]
            self._sampled = len(self.sample[0])

    def _count_sentinels(
        self, unique: npt.NDArray[Any], counts: npt.NDArray[np.int64], firsts: Positions
    ) -> None:
        """Count the known sentinels, and the values near them."""
        cumulated = np.concatenate(([0], np.cumsum(counts)))
        centres = np.array(list(self.near))
        reach = np.maximum(5.0, 0.02 * np.abs(centres))
        low = np.searchsorted(unique, centres - reach, "left")
        high = np.searchsorted(unique, centres + reach, "right")
        at = np.minimum(np.searchsorted(unique, centres), len(unique) - 1)
        around = cumulated[high] - cumulated[low]
        for index in np.flatnonzero(around):
            centre = float(centres[index])
            self.near[centre] += int(around[index])
            if unique[at[index]] == centre:
                seen = self.sentinels.setdefault(centre, Seen(0, int(firsts[at[index]])))
                seen.count += int(counts[at[index]])
                seen.first = min(seen.first, int(firsts[at[index]]))

    def sampled(self) -> npt.NDArray[np.float64]:
        """Return a sample of the values in ascending order; empty without values."""
        return np.sort(np.concatenate(self.sample)) if self.sample else np.empty(0)


class DayProfile:
    """The profile of the days of dates and timestamps, counted since 1970."""

    def __init__(self) -> None:
        self.count = 0
        self.counts = ValueCounts(_MOST_DAYS)

    def add(self, days: npt.NDArray[np.int64], positions: Positions) -> None:
        """Add the days of a batch, without nulls."""
        if not len(days):
            return
        self.count += len(days)
        unique, first, counts = np.unique(days, return_index=True, return_counts=True)
        self.counts.add(unique.tolist(), counts.tolist(), positions[first].tolist())

    def merge(self, other: DayProfile) -> None:
        """Add the profile of the days of other records."""
        self.count += other.count
        self.counts.merge(other.counts)


@dataclass(slots=True)
class TextBatch:
    """The texts of one field in a batch, as relations between fields need them.

    `codes` are indexes into `labels`, -1 for null. `instants` are days of dates or seconds of timestamps, NaN where a
    text does not have the format; None if the field has no such format.
    """

    codes: npt.NDArray[np.int64]
    labels: pa.Array
    instants: npt.NDArray[np.float64] | None = None


class TextProfile:
    """The profile of the texts of one field."""

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0
        self.lengths = ValueCounts(_MOST_LENGTHS)
        self.counts: dict[str, Seen] = {}
        self.is_complete = True
        self.sentinels: dict[str, Seen] = {}
        self.shapes = Shapes()
        self.formats: dict[TextFormat, Occurrences] = {each: Occurrences() for each in FORMATS}
        """Formats that most values have, each with the records whose text does not have it."""
        self.days = DayProfile()
        self.first: int = -1

    def add(self, array: pa.Array, positions: Positions) -> TextBatch:
        """Add the texts of a batch without its nulls, and return them for relations."""
        encoded = array.dictionary_encode()
        labels: pa.Array = encoded.dictionary
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        valid = codes >= 0
        batch = TextBatch(codes, labels)
        counts = np.bincount(codes[valid], minlength=len(labels))
        if not len(labels):
            return batch
        first = np.zeros(len(labels), np.int64)
        rows = np.flatnonzero(valid)
        first[codes[rows[::-1]]] = rows[::-1]  # the last assignment wins: that of the first row
        firsts = positions[first]
        count = int(counts.sum())
        self.count += count
        lengths = pc.utf8_length(labels).to_numpy()
        self.longest = max(self.longest, int(lengths.max()))
        self._count_lengths(lengths, counts, firsts)
        self._count_values(labels, counts, firsts)
        self._count_sentinels(labels, counts, firsts)
        self.shapes.add(labels, counts)
        self._try_formats(batch, positions)
        return batch

    def merge(self, other: TextProfile) -> None:
        """Add the profile of the texts of other records."""
        self.count += other.count
        self.longest = max(self.longest, other.longest)
        self.lengths.merge(other.lengths)
        if self.is_complete and other.is_complete:
            _merge_seen(self.counts, other.counts.items())
            self.is_complete = len(self.counts) <= _MOST_TEXTS
        else:
            self.is_complete = False
        if not self.is_complete:
            self.counts = {}
        _merge_seen(self.sentinels, other.sentinels.items())
        self.shapes.merge(other.shapes)
        self.days.merge(other.days)
        for each, tally in list(self.formats.items()):
            if each in other.formats:
                tally.merge(other.formats[each])
            if each not in other.formats or self._is_hopeless(tally):
                del self.formats[each]

    def _is_hopeless(self, fails: Occurrences) -> bool:
        return fails.count > max(0.05 * self.count, 2)

    def _count_lengths(
        self, lengths: npt.NDArray[np.int32], counts: npt.NDArray[np.int64], firsts: Positions
    ) -> None:
        unique, inverse = np.unique(lengths, return_inverse=True)
        first = np.full(len(unique), np.iinfo(np.int64).max)
        np.minimum.at(first, inverse, firsts)
        number = np.bincount(inverse, weights=counts).astype(np.int64)
        self.lengths.add(unique.tolist(), number.tolist(), first.tolist())

    def _count_values(self, labels: pa.Array, counts: npt.NDArray[np.int64], firsts: Positions) -> None:
        if not self.is_complete:
            return
        if pc.max(pc.binary_length(labels)).as_py() > _LONGEST_TEXT or len(labels) > _MOST_TEXTS:
            self.is_complete, self.counts = False, {}
            return
        _merge(self.counts, labels.to_pylist(), counts.tolist(), firsts.tolist())
        if len(self.counts) > _MOST_TEXTS:
            self.is_complete, self.counts = False, {}

    def _count_sentinels(self, labels: pa.Array, counts: npt.NDArray[np.int64], firsts: Positions) -> None:
        short = pc.less(pc.binary_length(labels), 40)
        plain = pc.utf8_lower(pc.utf8_trim_whitespace(pc.if_else(short, labels, "~")))
        for index in np.flatnonzero(pc.is_in(plain, value_set=_words()).to_numpy(zero_copy_only=False)):
            _merge(self.sentinels, [labels[int(index)].as_py()], [int(counts[index])], [int(firsts[index])])

    def _try_formats(self, batch: TextBatch, positions: Positions) -> None:
        """Count the texts without each format, drop formats that too many lack, and read the times of the others."""
        for each in list(self.formats):
            has_format = each.test(batch.labels)
            tally = self.formats[each]
            fails = ~has_format[batch.codes] & (batch.codes >= 0)
            tally.add(fails, positions)
            if self._is_hopeless(tally):
                del self.formats[each]
                continue
            instants = None
            if each is TextFormat.DATE:
                instants = days_of_dates(batch.labels, has_format)
            elif each in (TextFormat.DATE_TIME, TextFormat.LOCAL_DATE_TIME):
                instants = instants_of_texts(batch.labels, has_format)
            if instants is not None:
                rows = np.where(batch.codes >= 0, instants[batch.codes], np.nan)
                batch.instants = rows
                known = ~np.isnan(rows)
                scale = 1 if each is TextFormat.DATE else 86_400
                self.days.add(np.floor(rows[known] / scale).astype(np.int64), positions[known])


@cache
def _words() -> pa.Array:
    return pa.array(TEXT_SENTINELS)
