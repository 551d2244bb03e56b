"""Places in a record where two types are compared, and the complete record around a datum at such a place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.avro_matching import chosen_branches, field_pairs, matches
from tidegate.contracts.formats.avro_types import Array, AvroType, Enum, Map, Record, Union
from tidegate.contracts.inclusion.avro.data import Datum, Sizes, UnionValue

ANY: Final = "*"
"""The pointer token for any item of an array and any key of a map."""
_MAX_DEPTH: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class AvroPlace:
    """A writer's type, the reader's type that it is resolved against, and the path to them from the root.

    `field` is the JSON Pointer of the place in a record. `step` is the name of a field or the index of a union's branch
    in `parent`; None for items of arrays and values of maps. `is_certain` is False if some readers choose another
    branch of a union, and so do not resolve these two types against each other.
    """

    writer: AvroType
    reader: AvroType
    field: str = ""
    parent: AvroPlace | None = None
    step: str | int | None = None
    is_certain: bool = True

    def below(
        self, writer: AvroType, reader: AvroType, step: str | int | None = None, *, is_certain: bool = True
    ) -> AvroPlace:
        """Return the place of two types that are direct parts of these."""
        field = self.field
        if isinstance(self.writer, Array | Map):
            field += join((ANY,))
        elif isinstance(step, str):
            field += join((step,))
        return AvroPlace(writer, reader, field, self, step, self.is_certain and is_certain)

    def path(self) -> Iterator[AvroPlace]:
        """Yield this place and the places that enclose it, innermost first."""
        place: AvroPlace | None = self
        while place is not None:
            yield place
            place = place.parent


class Filling:
    """Builds data that a reader can read where possible, so that a witness shows one difference only."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._records: dict[tuple[int, int], dict[str, Datum]] = {}

    def around(self, place: AvroPlace, datum: Datum) -> Datum:
        """Return the record around a datum of the writer's type at a place, with small readable values elsewhere."""
        while place.parent is not None:
            outer = place.parent
            match outer.writer:
                case Record():
                    datum = {**self._record(outer.writer, outer.reader, 0), str(place.step): datum}
                case Union():
                    datum = UnionValue(int(place.step or 0), datum)
                case Array():
                    datum = [datum]
                case Map():
                    datum = {"": datum}
            place = outer
        return datum

    def fill(self, writer: AvroType, reader: AvroType | None, depth: int = 0) -> Datum:
        """Build a small datum of the writer's type that the reader can read, or the smallest one if there is none.

        `reader` is None for a field that the reader does not read.
        """
        if reader is None or depth > _MAX_DEPTH:
            return self._sizes.smallest(writer)
        match writer:
            case Enum():
                known = reader.symbols if isinstance(reader, Enum) else ()
                return next((symbol for symbol in writer.symbols if symbol in known), writer.symbols[0])
            case Union():
                order = self._sizes.order(writer)
                readable = (index for index in order if _resolved(writer.branches[index], reader) is not None)
                index = next(readable, order[0])
                branch = writer.branches[index]
                return UnionValue(index, self.fill(branch, _resolved(branch, reader), depth + 1))
            case Record():
                return self._record(writer, reader, depth)
            case _:
                return self._sizes.smallest(writer)

    def _record(self, writer: Record, reader: AvroType, depth: int) -> dict[str, Datum]:
        key = id(writer), id(reader)
        if key not in self._records:
            inner = _resolved(writer, reader)
            read_as: dict[str, AvroType] = {}
            if isinstance(inner, Record):
                types = {each.name: each.type for each in inner.fields}
                read_as = {written.name: types[name] for name, written in field_pairs(writer, inner).items()}
            self._records[key] = {
                each.name: self.fill(each.type, read_as.get(each.name), depth + 1) for each in writer.fields
            }
        return self._records[key]


def choices(writer: AvroType, reader: AvroType) -> list[AvroType]:
    """Return the reader's types that a writer's type (not a union) may be resolved against, the usual one first."""
    if isinstance(reader, Union):
        return chosen_branches(writer, reader)
    return [reader] if matches(writer, reader) else []


def _resolved(writer: AvroType, reader: AvroType) -> AvroType | None:
    return next(iter(choices(writer, reader)), None)
