"""Check that the default of a field is a value of its type.

Source: Apache Avro 1.12 specification, "Complex Types", table of field default values.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.formats.avro_types import (
    TIME_LIMITS,
    UUID,
    Array,
    AvroType,
    Enum,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Union,
)

_RANGES: Final = {"int": 2**31, "long": 2**63}


def fits(default: Any, node: AvroType) -> bool:
    """Return whether a default (as JSON) is a valid value of a type; for a union, of any of its branches.

    As in data, a value of a logical type must be one: a decimal within its precision, a UUID, or a time of day. Every
    number is a date or a timestamp; whether a column holds it depends on the column.
    """
    return _fits(default, node, {})


def _fits(default: Any, node: AvroType, known: dict[tuple[int, int], bool]) -> bool:
    """As `fits`; `known` has earlier answers by identity, because branches of a union may lead to the same part."""
    key = (id(default), id(node))
    if key not in known:
        known[key] = _fits_type(default, node, known) and _fits_logical(default, node)
    return known[key]


def _fits_logical(default: Any, node: AvroType) -> bool:
    logical = node.logical if isinstance(node, Primitive | Fixed) else None
    match logical:
        case None:
            return True
        case Logical(name="decimal", precision=precision):
            unscaled = int.from_bytes(default.encode("latin-1"), "big", signed=True)
            return bool(abs(unscaled) < 10**precision)
        case Logical(name="uuid") if isinstance(node, Primitive):
            return UUID.fullmatch(default) is not None
        case Logical(name=name) if name in TIME_LIMITS:
            return bool(0 <= default < TIME_LIMITS[name])
        case _:
            return True


def _fits_type(  # noqa: C901, PLR0911 - one for each type
    default: Any, node: AvroType, known: dict[tuple[int, int], bool]
) -> bool:
    match node:
        case Primitive(kind="null"):
            return default is None
        case Primitive(kind="boolean"):
            return isinstance(default, bool)
        case Primitive(kind="int" | "long" as kind):
            is_whole = isinstance(default, int) and not isinstance(default, bool)
            return is_whole and -_RANGES[kind] <= default < _RANGES[kind]
        case Primitive(kind="float" | "double"):
            return isinstance(default, int | float) and not isinstance(default, bool)
        case Primitive(kind="string"):
            return isinstance(default, str)
        case Primitive():
            return _is_bytes(default)
        case Fixed():
            return _is_bytes(default) and len(default) == node.size
        case Enum():
            return default in node.symbols
        case Array():
            return isinstance(default, list) and all(_fits(item, node.items, known) for item in default)
        case Map():
            return isinstance(default, dict) and all(
                _fits(value, node.values, known) for value in default.values()
            )
        case Union():
            return any(_fits(default, branch, known) for branch in node.branches)
        case Record():
            return isinstance(default, dict) and all(
                _fits(default[each.name], each.type, known) if each.name in default else each.has_default
                for each in node.fields
            )


def _is_bytes(default: Any) -> bool:
    return isinstance(default, str) and all(ord(character) < 256 for character in default)
