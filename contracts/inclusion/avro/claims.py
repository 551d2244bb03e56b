"""Claims about differences between two Avro types, with data as evidence, and the meaning of logical values.

Source: Apache Avro 1.12 specification, "Logical Types".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.avro_defaults import fits
from tidegate.contracts.formats.avro_matching import ambiguous_fields, field_pairs, names_match
from tidegate.contracts.formats.avro_types import (
    AvroType,
    Enum,
    Fixed,
    Logical,
    Primitive,
    Record,
    RecordField,
    Union,
)
from tidegate.contracts.inclusion.avro.data import Datum, Sizes, UnionValue
from tidegate.contracts.inclusion.avro.places import AvroPlace

CODES: Final = {
    "avro.type-changed": "the reader's type takes none of the writer's values",
    "avro.name-changed": "a record, enum or fixed has another name, and the reader no alias for the old one",
    "avro.fixed-size-changed": "a fixed has another size",
    "avro.enum-symbol-removed": "the reader lacks a symbol and has no default",
    "avro.union-branch-removed": "the reader takes no value of a branch of the writer's union",
    "avro.union-branch-ambiguous": "readers differ in which branch of the union they take, and read other values",
    "avro.field-without-default": "the reader wants a field that is not written, and has no default for it",
    "avro.default-invalid": "the default of a field is not a value of its type, so that readers differ",
    "avro.alias-ambiguous": "aliases leave open which field of the writer is meant",
    "avro.bytes-not-text": "bytes are read as a string, and need not be UTF-8",
    "avro.logical-type-added": "plain values are read as values of a logical type",
    "avro.logical-type-removed": "values of a logical type are read as plain values",
    "avro.logical-type-changed": "values of a logical type are read as values of another",
    "avro.time-unit-changed": "times are read in another unit",
    "avro.precision-lowered": "decimals have more digits than the reader's type holds",
    "avro.scale-changed": "decimals are read with another scale",
    "avro.too-large": "the schemas are too large or too deep to be compared",
    "avro.field-added": "a field is not written and takes its default",
    "avro.field-removed": "a field is written and not read",
    "avro.field-renamed": "a field is read under another name, by an alias",
    "avro.default-changed": "the default of a field is another",
    "avro.enum-default-changed": "the default of an enum is another",
    "avro.enum-symbol-defaulted": "a symbol that the reader lacks is read as the default",
    "avro.promotion-rounds": "large integers are rounded to the reader's floating-point type",
}
"""Every code that a comparison of Avro schemas can report, with its meaning. The codes are stable."""

_ROUNDED: Final = {
    ("int", "float"): 2**24,
    ("long", "float"): 2**24,
    ("long", "double"): 2**53,
}
"""By (writer's kind, reader's kind): above this magnitude the reader's type no longer represents every integer."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about a place, to be confirmed by a datum that cannot be read or whose meaning changes.

    `data` are candidates of the writer's type; a claim without data cannot be confirmed. With `changes_meaning` the datum is
    readable, but its value means something else. A claim that `is_harmless` is a remark and needs no evidence. `old`
    and `new` are appended to the pointers of the two types. `field` replaces the field of the place, unless "".
    """

    code: str
    keyword: str
    sentence: str
    data: tuple[Datum, ...] = ()
    old: str = ""
    new: str = ""
    field: str = ""
    is_harmless: bool = False
    changes_meaning: bool = False


def mismatch(place: AvroPlace, sizes: Sizes) -> Claim:
    """Return the claim that the two types of a place do not match."""
    writer, reader = place.writer, place.reader
    data = (sizes.smallest(writer),) if sizes.exists(writer) else ()
    named = isinstance(writer, Record | Enum | Fixed) and type(writer) is type(reader)
    if named and isinstance(writer, Fixed) and isinstance(reader, Fixed) and names_match(writer, reader):
        sentence = f"the size of {writer} was {writer.size} and is {reader.size}"
        return Claim("avro.fixed-size-changed", "size", sentence, data, "/size", "/size")
    if named:
        sentence = f"{writer} is {reader} for the reader, which names no alias for it"
        return Claim("avro.name-changed", "name", sentence, data, "/name", "/name")
    return Claim("avro.type-changed", "type", f"{writer} cannot be read as {reader}", data)


def branch_missing(writer: Union, index: int, reader: AvroType, sizes: Sizes) -> Claim:
    """Return the claim that the reader accepts no value of the branch of the writer's union at `index`."""
    branch = writer.branches[index]
    data = (UnionValue(index, sizes.smallest(branch)),) if sizes.exists(branch) else ()
    sentence = f"{branch} of the union cannot be read as {reader}"
    return Claim("avro.union-branch-removed", "type", sentence, data, f"/{index}")


def branch_ambiguous(writer: AvroType, choices: list[AvroType], old: str = "") -> Iterator[Claim]:
    """Yield the claim that readers choose different branches of a union, if they then read different values.

    Primitives other than `string` need no claim: a number has the same value in every branch, and `leaf_claims` reports
    what is lost when `bytes` are read as a string.
    """
    is_told = isinstance(writer, Primitive) and writer.kind != "string"
    if len(choices) > 1 and not is_told:
        first, same = choices
        sentence = (
            f"some readers take {writer} as {first}, the first branch that matches, and others as {same}"
        )
        yield Claim("avro.union-branch-ambiguous", "type", sentence, (), old)


def leaf_claims(place: AvroPlace) -> Iterator[Claim]:
    """Yield claims about two primitive or fixed types that match."""
    writer, reader = place.writer, place.reader
    kinds = tuple(node.kind if isinstance(node, Primitive) else "fixed" for node in (writer, reader))
    if kinds == ("bytes", "string"):
        sentence = "bytes are read as a string, and bytes that are not UTF-8 cannot be"
        yield Claim("avro.bytes-not-text", "type", sentence, (b"\xff",))
    if kinds in _ROUNDED:
        limit = _ROUNDED[kinds]
        sentence = f"{kinds[0]} is read as {kinds[1]}, which rounds integers above {limit}"
        yield Claim("avro.promotion-rounds", "type", sentence, is_harmless=True)
    before, after = logical_of(writer), logical_of(reader)
    if before != after:
        yield from _logical_claims(writer, before, after)


def enum_claims(writer: Enum, reader: Enum) -> Iterator[Claim]:
    """Yield claims about the symbols and defaults of two enums with matching names."""
    missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    listed = ", ".join(missing)
    if missing and reader.default in reader.symbols:
        sentence = f"{reader} has no {listed}, which is read as its default {reader.default}"
        yield Claim(
            "avro.enum-symbol-defaulted", "symbols", sentence, (), "/symbols", "/symbols", is_harmless=True
        )
    elif missing:
        sentence = f"{reader} has no {listed}, and no default to read instead"
        yield Claim("avro.enum-symbol-removed", "symbols", sentence, (missing[0],), "/symbols", "/symbols")
    if writer.default != reader.default:
        sentence = f"the default of {writer} was {_shown(writer.default)} and is {_shown(reader.default)}"
        old, new = ("" if each.default is None else "/default" for each in (writer, reader))
        yield Claim("avro.enum-default-changed", "default", sentence, (), old, new, is_harmless=True)


def record_claims(
    place: AvroPlace, writer: Record, reader: Record, data: tuple[Datum, ...]
) -> Iterator[Claim]:
    """Yield claims about the fields of two records with matching names, but not about the types of the fields.

    `data` are data of the writer's record, used as evidence.
    """
    pairs = field_pairs(writer, reader)
    ambiguous = {each.name for each in ambiguous_fields(writer, reader)}
    for each in reader.fields:
        field = place.field + join((each.name,))
        new = each.pointer.removeprefix(reader.pointer)
        if each.name in ambiguous:
            sentence = f"the aliases of `{each.name}` leave open which field of the writer is meant"
            yield Claim("avro.alias-ambiguous", "aliases", sentence, data, "", f"{new}/aliases", field)
        elif each.name not in pairs:
            yield from _unwritten(each, field, new, data)
        else:
            written = pairs[each.name]
            old = written.pointer.removeprefix(writer.pointer)
            if written.name != each.name:
                sentence = f"`{written.name}` is read as `{each.name}`"
                yield Claim("avro.field-renamed", "name", sentence, (), old, new, field, is_harmless=True)
            if (written.has_default, written.default) != (each.has_default, each.default):
                sentence = (
                    f"the default of `{each.name}` was {_default(written)} and is {_default(each)}; "
                    "it takes the place of a field that is not written"
                )
                yield Claim(
                    "avro.default-changed", "default", sentence, (), old, new, field, is_harmless=True
                )
    read = {id(each) for each in pairs.values()}
    for each in writer.fields:
        if id(each) not in read and each.name not in ambiguous:
            field = place.field + join((each.name,))
            sentence = f"the field `{each.name}` is written and not read"
            old = each.pointer.removeprefix(writer.pointer)
            yield Claim("avro.field-removed", "fields", sentence, (), old, "", field, is_harmless=True)


def _unwritten(each: RecordField, field: str, new: str, data: tuple[Datum, ...]) -> Iterator[Claim]:
    if not each.has_default:
        sentence = (
            f"the reader wants the field `{each.name}`, which is not written, and has no default for it"
        )
        yield Claim("avro.field-without-default", "default", sentence, data, "", new, field)
    elif not fits(each.default, each.type):
        sentence = f"the default of `{each.name}` is not a value of its type, so that readers may refuse it"
        yield Claim("avro.default-invalid", "default", sentence, (), "", f"{new}/default", field)
    else:
        sentence = f"the field `{each.name}` is not written, and read as its default {_default(each)}"
        yield Claim("avro.field-added", "fields", sentence, (), "", new, field, is_harmless=True)


def _logical_claims(writer: AvroType, before: Logical | None, after: Logical | None) -> Iterator[Claim]:
    old, new = ("" if each is None else "/logicalType" for each in (before, after))
    code, keyword = "avro.logical-type-changed", "logicalType"
    sentence = f"{before or 'a plain value'} is read as {after or 'a plain value'}"
    if before is None or after is None:
        code = f"avro.logical-type-{'added' if before is None else 'removed'}"
    elif before.name == after.name == "decimal":
        if before.scale == after.scale and before.precision <= after.precision:
            return  # the reader's type represents every decimal of the writer's
        is_scale = before.scale != after.scale
        code = "avro.scale-changed" if is_scale else "avro.precision-lowered"
        keyword = "scale" if is_scale else "precision"
    else:
        units = time_unit(before), time_unit(after)
        if None not in units and units[0][0] == units[1][0]:  # type: ignore[index] # neither is None
            code = "avro.time-unit-changed"
    if before is None and after is not None and _is_any_long(writer, after):
        yield Claim(code, keyword, sentence, (), old, new, is_harmless=True)
        return
    data = tuple(_samples(writer, before, after))
    if before is not None and before.name == "uuid" and after is None and isinstance(writer, Primitive):
        sentence = "uuid is read as a string, which is how it is written"
        yield Claim(code, keyword, sentence, (), old, new, is_harmless=True)
        return
    yield Claim(code, keyword, sentence, data, old, new, changes_meaning=True)


def _is_any_long(writer: AvroType, logical: Logical) -> bool:
    """Return whether the writer's values are longs, and every long is a valid value of the logical type."""
    is_long = isinstance(writer, Primitive) and writer.kind == "long"
    return is_long and logical.name.startswith(("timestamp-", "local-timestamp-"))


def _samples(writer: AvroType, before: Logical | None, after: Logical | None) -> Iterator[Datum]:
    """Yield values of the writer's type that may differ in meaning between two logical types, smallest first."""
    kind = writer.kind if isinstance(writer, Primitive) else "fixed"
    numbers = [1]
    if before is not None and after is not None and before.precision > after.precision:
        numbers.append(10**after.precision)
    match kind:
        case "int" | "long":
            yield from numbers
        case "string":
            yield "" if before is None else "00000000-0000-0000-0000-000000000000"
        case "bytes":
            yield from (
                number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True) for number in numbers
            )
        case "fixed":
            size = writer.size if isinstance(writer, Fixed) else 0
            fitting = [number for number in numbers if number.bit_length() < 8 * size]
            yield from (number.to_bytes(size, "big", signed=True) for number in fitting)
        case _:
            yield from (1.0, 0.0)


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


def _default(each: RecordField) -> str:
    return f"`{each.default}`" if each.has_default else "none"


_EPOCH: Final = date(1970, 1, 1)
_PER_SECOND: Final = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


def logical_of(node: AvroType) -> Logical | None:
    """Return the logical type of a primitive or fixed type; None if it has none."""
    return node.logical if isinstance(node, Primitive | Fixed) else None


def time_unit(logical: Logical) -> tuple[str, str] | None:
    """Return the kind and the unit of a time or timestamp, such as ("time", "millis"); None for other types."""
    kind, _, unit = logical.name.rpartition("-")
    return (kind, unit) if unit in _PER_SECOND else None


def meaning(value: Any, logical: Logical | None) -> str | None:
    """Return what a value of the underlying type means under a logical type, as comparable text.

    None if the logical type has no such value. `value` is as fastavro reads it without logical types: an int, bytes
    or a str. Without a logical type, the result is the value itself as text.
    """
    if logical is None:
        return repr(value) if isinstance(value, bytes) else str(value)
    if logical.name == "decimal":
        number = int.from_bytes(value, "big", signed=True)
        is_held = len(str(abs(number))) <= logical.precision
        return str(Decimal(number).scaleb(-logical.scale)) if is_held else None
    if logical.name == "date":
        return (_EPOCH + timedelta(days=value)).isoformat()
    if logical.name == "uuid":
        text = value.hex() if isinstance(value, bytes) else value
        return text if isinstance(value, bytes) or _UUID.fullmatch(text) else None
    if logical.name == "duration":
        months, days, millis = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
        return f"{months} months, {days} days and {millis} ms"
    return _time(value, logical)


def _time(value: int, logical: Logical) -> str:
    kind, unit = time_unit(logical) or ("", "nanos")
    per_second = _PER_SECOND[unit]
    seconds, fraction = divmod(value, per_second)
    days, second = divmod(seconds, 86_400)
    digits = f".{fraction:0{len(str(per_second)) - 1}}".rstrip("0").rstrip(".") if fraction else ""
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{digits}"
    if kind == "time":
        return clock
    return f"{(_EPOCH + timedelta(days=days)).isoformat()}T{clock}{'Z' if kind == 'timestamp' else ''}"
