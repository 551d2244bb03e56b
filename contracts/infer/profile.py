"""The profile of a stream of records: a tree of fields, with the relations between the fields of each object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.infer.columns import (
    ArrowRows,
    FieldColumn,
    Mask,
    ObjectRows,
    Positions,
    PythonRows,
    ValueKind,
)
from tidegate.contracts.infer.distinct import DistinctSketch
from tidegate.contracts.infer.pairs import FieldPairs, Floats, Path
from tidegate.contracts.infer.presence import Presence
from tidegate.contracts.infer.values import DayProfile, NumberProfile, Occurrences, TextBatch, TextProfile
from tidegate.contracts.rules.places import ANYWHERE

EACH: Final = "*"
MOST_NAMES: Final = 1_000
"""Maximum number of fields of one object. An object with more is taken to be a map from keys to values."""
_MOST_FIELDS: Final = 2_000
_DEEPEST: Final = 10


@dataclass(slots=True)
class FieldProfile:
    """The profile of one field; `rows` counts the records (or elements) that have the object around it."""

    path: Path
    rows: int = 0
    null: Occurrences = field(default_factory=Occurrences)
    absent: Occurrences = field(default_factory=Occurrences)
    kinds: dict[ValueKind, Occurrences] = field(default_factory=dict)
    words: Occurrences = field(default_factory=Occurrences)
    """Of a file without types: cells that are neither a number nor a truth value."""
    numbers: NumberProfile = field(default_factory=NumberProfile)
    texts: TextProfile = field(default_factory=TextProfile)
    days: DayProfile = field(default_factory=DayProfile)
    keys: DistinctSketch = field(default_factory=DistinctSketch)
    properties: ObjectProfile | None = None
    items: FieldProfile | None = None
    fewest_items: int = 1 << 62
    most_items: int = 0
    untyped: bool = False
    has_nanoseconds: bool = False
    """Whether any timestamp has a fraction of a microsecond, which columns of timestamps cannot hold."""

    @property
    def values(self) -> int:
        """Return the number of values that are not null."""
        return sum(tally.count for tally in self.kinds.values()) if not self.untyped else self.texts.count


@dataclass(slots=True)
class ObjectProfile:
    """The profile of an object, with its fields in the order of their first occurrence."""

    fields: dict[str, FieldProfile] = field(default_factory=dict)
    rows: int = 0
    names_left_out: int = 0

    @property
    def is_map(self) -> bool:
        """Return whether the object has so many names that they are taken to be keys of a map, without profiles."""
        return self.names_left_out > 0


@dataclass(slots=True)
class _Batch:
    """The input of relations in one batch: the fields of one object, without those in arrays below it."""

    positions: Positions
    comparable: dict[str, dict[Path, Floats]] = field(default_factory=dict)
    present: dict[Path, Mask] = field(default_factory=dict)
    texts: dict[Path, TextBatch] = field(default_factory=dict)


@dataclass(slots=True)
class Relations:
    """The relations between the fields of the objects at one path that have one value for each object."""

    pairs: FieldPairs = field(default_factory=FieldPairs)
    presence: Presence = field(default_factory=Presence)


class Profile:
    """The profile of all records that were added."""

    def __init__(self) -> None:
        self.root = ObjectProfile()
        self.relations: dict[Path, Relations] = {}
        """Relations by path of the object: () for the record, ("lines", "*") for the elements of /lines."""
        self.too_deep = Occurrences()
        self._number_of_fields = 0

    @property
    def records(self) -> int:
        """Return the number of records that were added."""
        return self.root.rows

    def add_rows(self, rows: list[dict[str, Any]], positions: Positions) -> None:
        """Add decoded records."""
        if rows:
            self._add_table(PythonRows(rows), np.ones(len(rows), bool), positions)

    def add_table(self, batch: pa.RecordBatch, positions: Positions, *, untyped: bool = False) -> None:
        """Add the rows of a table; `untyped` means that its columns are texts from a file without types."""
        if len(positions):
            rows = ArrowRows(batch.schema.names, batch.columns, untyped=untyped)
            self._add_table(rows, np.ones(len(positions), bool), positions)

    def merge(self, other: Profile) -> None:
        """Add the profile of other records; `other` must not be used again."""
        self._merge_objects(self.root, other.root)
        for path, relations in other.relations.items():
            known = self.relations.setdefault(path, Relations())
            known.pairs.merge(relations.pairs)
            known.presence.merge(relations.presence)
        self.too_deep.merge(other.too_deep)

    def _merge_objects(self, mine: ObjectProfile, others: ObjectProfile) -> None:
        before = mine.rows
        mine.rows += others.rows
        mine.names_left_out += others.names_left_out
        for name, found in others.fields.items():
            known = mine.fields.get(name)
            if known is None:
                if len(mine.fields) >= MOST_NAMES or self._number_of_fields >= _MOST_FIELDS:
                    mine.names_left_out += 1
                    continue
                self._number_of_fields += 1
                known = mine.fields[name] = FieldProfile(found.path)
                known.absent.count = known.rows = before
            self._merge_fields(known, found)
        if mine.is_map:
            self._number_of_fields -= len(mine.fields)
            mine.fields = {}
        for name in mine.fields.keys() - others.fields.keys():
            mine.fields[name].rows += others.rows
            mine.fields[name].absent.count += others.rows

    def _merge_fields(self, mine: FieldProfile, other: FieldProfile) -> None:
        mine.rows += other.rows
        mine.untyped |= other.untyped
        mine.has_nanoseconds |= other.has_nanoseconds
        mine.null.merge(other.null)
        mine.words.merge(other.words)
        mine.absent.merge(other.absent)
        for kind, tally in other.kinds.items():
            mine.kinds.setdefault(kind, Occurrences()).merge(tally)
        mine.numbers.merge(other.numbers)
        mine.texts.merge(other.texts)
        mine.days.merge(other.days)
        mine.keys.merge(other.keys)
        mine.fewest_items = min(mine.fewest_items, other.fewest_items)
        mine.most_items = max(mine.most_items, other.most_items)
        if other.properties is not None:
            mine.properties = mine.properties or ObjectProfile()
            self._merge_objects(mine.properties, other.properties)
        if other.items is not None:
            mine.items = mine.items or FieldProfile(other.items.path)
            self._merge_fields(mine.items, other.items)

    def fields(self) -> Iterator[FieldProfile]:
        """Yield the profiles of all fields, in the order of a record, each before those within it."""
        pending = list(self.root.fields.values())[::-1]
        while pending:
            found = pending.pop()
            yield found
            if found.items is not None:
                pending.append(found.items)
            if found.properties is not None:
                pending += list(found.properties.fields.values())[::-1]

    def _add_table(self, rows: ObjectRows, exists: Mask, positions: Positions) -> None:
        """Add records, with the relations between their fields."""
        batch = _Batch(positions)
        self._add_object((), self.root, rows, exists, batch)
        relations = self.relations.setdefault((), Relations())
        relations.pairs.add(batch.comparable, positions)
        relations.presence.add(batch.present, batch.texts, positions)

    def _add_object(
        self, path: Path, profile: ObjectProfile, rows: ObjectRows, exists: Mask, batch: _Batch
    ) -> None:
        if len(path) > _DEEPEST:
            self.too_deep.add(exists, batch.positions)
            return
        number = int(np.count_nonzero(exists))
        before = profile.rows
        profile.rows += number
        if profile.is_map:
            return
        seen = set()
        for name, column in rows.fields(MOST_NAMES):
            if name in {EACH, ANYWHERE}:  # in pointers, they mean every element and any depth
                continue
            known = profile.fields.get(name)
            if known is None:
                if len(profile.fields) >= MOST_NAMES or self._number_of_fields >= _MOST_FIELDS:
                    profile.names_left_out += 1
                    continue
                self._number_of_fields += 1
                known = profile.fields[name] = FieldProfile((*path, name))
                known.absent.count = known.rows = before
            seen.add(name)
            known.rows += number
            absent = exists & column.absent if column.absent is not None else None
            if absent is not None:
                known.absent.add(absent, batch.positions)
            self._add_column(known, column, batch)
        profile.names_left_out += rows.names_left_out
        if profile.is_map:
            self._number_of_fields -= len(profile.fields)
            profile.fields = {}
            return
        for name in profile.fields.keys() - seen:
            profile.fields[name].rows += number
            profile.fields[name].absent.add(exists, batch.positions)

    def _add_column(self, profile: FieldProfile, column: FieldColumn, batch: _Batch) -> None:
        """Add the values of one field."""
        positions = batch.positions
        profile.untyped |= column.untyped
        profile.has_nanoseconds |= column.has_nanoseconds
        if column.null is not None:
            profile.null.add(column.null, positions)
        present, typed = np.zeros(column.length, bool), np.zeros(column.length, bool)
        for kind, array in column.scalars.items():
            valid: Mask = pc.is_valid(array).to_numpy(zero_copy_only=False).astype(bool)
            present |= valid
            typed |= valid & (kind is not ValueKind.STRING)
            profile.kinds.setdefault(kind, Occurrences()).add(valid, positions)
            self._add_scalars(profile, kind, array, valid, batch)
        if column.untyped:
            profile.words.add(present & ~typed, positions)
        if column.objects is not None and column.is_object is not None:
            present |= column.is_object
            profile.kinds.setdefault(ValueKind.OBJECT, Occurrences()).add(column.is_object, positions)
            profile.properties = profile.properties or ObjectProfile()
            self._add_object(profile.path, profile.properties, column.objects, column.is_object, batch)
        if column.elements is not None and column.is_array is not None:
            present |= column.is_array
            profile.kinds.setdefault(ValueKind.ARRAY, Occurrences()).add(column.is_array, positions)
            self._add_elements(profile, column, positions)
        batch.present[profile.path] = present

    def _add_elements(self, profile: FieldProfile, column: FieldColumn, positions: Positions) -> None:
        elements = column.elements
        if elements is None or len(profile.path) > _DEEPEST:
            return
        if len(elements.lengths):
            profile.fewest_items = min(profile.fewest_items, int(elements.lengths.min()))
            profile.most_items = max(profile.most_items, int(elements.lengths.max()))
        if not len(elements.parents):
            return
        profile.items = profile.items or FieldProfile((*profile.path, EACH))
        profile.items.rows += len(elements.parents)
        inner = _Batch(positions[elements.parents])
        self._add_column(profile.items, elements.values, inner)
        if elements.values.objects is not None:
            relations = self.relations.setdefault(profile.items.path, Relations())
            relations.pairs.add(inner.comparable, inner.positions)

    def _add_scalars(
        self, profile: FieldProfile, kind: ValueKind, array: pa.Array, valid: Mask, batch: _Batch
    ) -> None:
        positions = batch.positions
        if kind in (ValueKind.INTEGER, ValueKind.NUMBER):
            values = array.drop_null().to_numpy(zero_copy_only=False)
            profile.numbers.add(values, positions[valid])
            if not profile.untyped:  # for untyped columns, the texts are added instead
                profile.keys.add_numbers(values, positions[valid])
            _merge_floats(batch, "number", profile.path, array)
        elif kind is ValueKind.STRING:
            texts = profile.texts.add(array, positions)
            profile.keys.add_texts(texts.labels, texts.codes, positions)
            batch.texts[profile.path] = texts
            if texts.instants is not None:
                is_day = any(each == "date" for each in profile.texts.formats)
                batch.comparable.setdefault("date" if is_day else "timestamp", {})[profile.path] = (
                    texts.instants
                )
        elif kind in (ValueKind.DATE, ValueKind.TIMESTAMP, ValueKind.LOCAL_TIMESTAMP):
            unit = pa.int32() if kind is ValueKind.DATE else pa.int64()
            values = array.drop_null().cast(unit).to_numpy(zero_copy_only=False).astype(np.int64)
            scale = 1 if kind is ValueKind.DATE else 86_400_000_000
            profile.days.add(values // scale, positions[valid])
            instants: npt.NDArray[np.float64] = np.full(len(valid), np.nan)
            instants[valid] = values
            batch.comparable.setdefault(str(kind), {})[profile.path] = instants


def _merge_floats(batch: _Batch, kind: str, path: Path, array: pa.Array) -> None:
    """Add the numbers of a field for comparisons, where its integers and fractions form one column."""
    values = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    values = np.where(np.isfinite(values), values, np.nan)
    known = batch.comparable.setdefault(kind, {}).get(path)
    batch.comparable[kind][path] = values if known is None else np.where(np.isnan(known), values, known)
