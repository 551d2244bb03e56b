"""Matching of types, fields and names of two Avro schemas that are resolved against each other.

Source: Apache Avro 1.12 specification, "Schema Resolution" and "Aliases".
"""

from __future__ import annotations

from typing import Final

from tidegate.contracts.formats.avro_types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    RecordField,
    Union,
    unqualified,
)

PROMOTIONS: Final = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""The primitive types that a reader may promote each primitive type to."""


def matches(writer: AvroType, reader: AvroType) -> bool:
    """Return whether two types match: of the same kind or promotable, and named types by name.

    The fields of records are not compared, and a union matches everything.
    """
    while True:
        match writer, reader:
            case (Union(), _) | (_, Union()):
                return True
            case Primitive(), Primitive():
                return writer.kind == reader.kind or reader.kind in PROMOTIONS.get(writer.kind, ())
            case Array(), Array():
                writer, reader = writer.items, reader.items
            case Map(), Map():
                writer, reader = writer.values, reader.values
            case Fixed(), Fixed():
                return names_match(writer, reader) and writer.size == reader.size
            case Record(), Record():
                return names_match(writer, reader)
            case Enum(), Enum():
                return names_match(writer, reader)
            case _:
                return False


def names_match(writer: Named, reader: Named) -> bool:
    """Return whether two names match without their namespaces, or by an alias of the reader."""
    return unqualified(writer.name) == unqualified(reader.name) or writer.name in reader.aliases


def chosen_branches(writer: AvroType, reader: Union) -> list[AvroType]:
    """Return the branches that readers resolve a writer's type against, at most two; empty if no branch matches.

    The specification takes the first branch that matches, and Apache's Java library the first one of the same type and
    name.
    """
    matching = [branch for branch in reader.branches if matches(writer, branch)]
    same = [branch for branch in matching if is_same_type(writer, branch)]
    return list(dict.fromkeys([*matching[:1], *same[:1]]))


def field_pairs(writer: Record, reader: Record) -> dict[str, RecordField]:
    """Return the fields of the writer that the reader reads, by the name of the reader's field."""
    written = {each.name: each for each in writer.fields}
    pairs: dict[str, RecordField] = {}
    for each in reader.fields:
        name = next((name for name in (each.name, *each.aliases) if name in written), None)
        if name is not None:
            pairs[each.name] = written[name]
    return pairs


def ambiguous_fields(writer: Record, reader: Record) -> list[RecordField]:
    """Return the fields of the reader that match several fields of the writer, or one that another field matches."""
    written = {each.name for each in writer.fields}
    claims: dict[str, int] = {}
    for each in reader.fields:
        for name in {each.name, *each.aliases} & written:
            claims[name] = claims.get(name, 0) + 1
    found = []
    for each in reader.fields:
        meant = {each.name, *each.aliases} & written
        if len(meant) > 1 or any(claims[name] > 1 for name in meant):
            found.append(each)
    return found


def is_same_type(writer: AvroType, reader: AvroType) -> bool:
    """Return whether two types are of the same kind and, if they are named, have the same full name."""
    match writer, reader:
        case Primitive(), Primitive():
            return writer.kind == reader.kind
        case ((Record() | Enum() | Fixed()), (Record() | Enum() | Fixed())):
            return type(writer) is type(reader) and writer.name == reader.name
        case _:
            return type(writer) is type(reader)
