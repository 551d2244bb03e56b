"""Helpers to convert documents of other formats to the Open Data Contract Standard, with the source of each part."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.imported import LeftOut, pointer
from tidegate.contracts.exchange.odcs_quality import forbids_nulls

LOCAL_TIMESTAMP: Final = "yyyy-MM-dd'T'HH:mm:ss"
_LOGICAL: Final = {
    "string": "string text varchar char character bpchar nvarchar nchar uuid enum",
    "integer": "int integer long bigint smallint tinyint int64 int32 int8 int4 int2 serial bigserial",
    "number": "number decimal numeric float double real float64 float32 float8 float4",
    "boolean": "boolean bool",
    "timestamp": "timestamp timestamp_tz timestamptz timestamp_ltz timestamp_ntz datetime",
    "date": "date",
    "time": "time",
    "array": "array",
    "map": "map",
    "object": "object record struct",
}
_LOGICAL_OF: Final = {name: logical for logical, names in _LOGICAL.items() for name in names.split()}
_LOCAL: Final = frozenset({"timestamp_ntz", "datetime"})
"""Types of timestamps without a time zone."""
_FORMATS: Final = {"uuid": "uuid", "int2": "i16", "int4": "i32", "int32": "i32", "int64": "i64"}
"""Formats of types that hold nothing else, in whatever database."""
_UNSIGNED: Final = {"tinyint": "u8", "smallint": "u16", "int": "u32", "integer": "u32", "bigint": "u64"}
"""Formats of types with the suffix `unsigned`, which only MySQL and databases like it have."""
_OF_UNKNOWN_BOUNDS: Final = frozenset({"smallint", "tinyint"})
"""Types with few values in some databases; in others they hold every integer."""
_TYPE_OF_VALUE: Final = {str: "string", bool: "boolean", int: "number", float: "number"}


def logical_type(written: object) -> dict[str, Any]:
    """Return the logical type for a type such as `varchar(20)`, as keys of a property; {} for a type without one."""
    text, plain = str(written).lower().strip(), _plain(written)
    logical = _LOGICAL_OF.get(plain)
    if logical is None:
        return {}
    options: dict[str, Any] = {}
    if plain in _LOCAL or text.endswith("without time zone"):
        options = {"format": LOCAL_TIMESTAMP}
    elif text.endswith(" unsigned"):
        options = {"format": _UNSIGNED[plain]} if plain in _UNSIGNED else {"minimum": 0}
    elif plain in _FORMATS:
        options = {"format": _FORMATS[plain]}
    return {"logicalType": logical} | ({"logicalTypeOptions": options} if options else {})


def _plain(written: object) -> str:
    """Return the name of a type in lower case, without its length, time zone, precision or sign."""
    plain = str(written).lower().partition("(")[0].partition("<")[0].strip()
    plain = plain.removesuffix(" without time zone").removesuffix(" with time zone")
    return plain.removesuffix(" varying").removesuffix(" precision").removesuffix(" unsigned").strip()


def type_of_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """Return the logical type that a rule implies for a column without a declared type, as keys of a property."""
    bounds = [each for name, each in rule.items() if name not in ("kind", "field")]
    match rule:
        case {"kind": "matches"}:
            return {"logicalType": "string"}
        case {"kind": "range"} if bounds and all(isinstance(each, str) for each in bounds):
            return _type_of_times(bounds)
        case {"kind": "range"} if bounds:
            return {"logicalType": "number"}
        case {"values": [*values]}:
            found = {_TYPE_OF_VALUE.get(type(each)) for each in values if each is not None}
            return {"logicalType": found.pop()} if len(found) == 1 and None not in found else {}
        case _:
            return {}


def _type_of_times(bounds: list[str]) -> dict[str, Any]:
    """Return the type of dates or timestamps if all bounds have the same form; else {}: the rule cannot compile."""
    day = len("2026-01-31")
    if all(len(each) == day for each in bounds):
        return logical_type("date")
    has_zone = {
        each[day:].endswith("Z") or "+" in each[day:] or "-" in each[day:] for each in bounds if each[day:]
    }
    if len(has_zone) > 1 or any(len(each) == day for each in bounds):
        return {}
    return logical_type("timestamp" if True in has_zone else "timestamp_ntz")


def is_known_type(written: object) -> bool:
    """Return whether a type has a logical type, or is known to hold any value."""
    plain = str(written).lower()
    return bool(logical_type(written)) or plain in {"variant", "json", "jsonb", "null", "bytes", "binary"}


def unjudged_size(written: object, source: str) -> Iterator[LeftOut]:
    """Yield an entry for what a type says and no record is judged by.

    This is the length, digits or members of a type such as `varchar(20)`, and the bounds of one such as `smallint`.
    """
    if logical_type(written) and set(str(written)) & set("(<"):
        yield LeftOut(
            source, f"of the type `{written}`, what is in brackets is not judged; write it as a rule"
        )
    if _plain(written) in _OF_UNKNOWN_BOUNDS and "unsigned" not in str(written).lower():
        reason = f"the bounds of the type `{written}` differ by database and are not judged; write a rule"
        yield LeftOut(source, reason)


def mapping(written: Any, source: str) -> dict[str, Any]:
    """Return a part that must be a mapping; an empty one for null. Raises ContractError for another type."""
    if not isinstance(written, dict) and written is not None:
        raise ContractError.at(source, "this is not a mapping; the format has a mapping here")
    return written or {}


def sequence(written: Any, source: str) -> list[Any]:
    """Return a part that must be a list; an empty one for null. Raises ContractError for another type."""
    if not isinstance(written, list) and written is not None:
        raise ContractError.at(source, "this is not a list; the format has a list here")
    return written or []


def unread(given: dict[str, Any], read: Collection[str], source: str) -> Iterator[LeftOut]:
    """Yield the parts of a mapping whose key is not in `read`, unless they are empty."""
    for name, value in given.items():
        if name not in read and value not in (None, "", [], {}):
            yield LeftOut(source + pointer(name), f"a contract has no field for `{name}`")


_OF_EVERY_CHECK: Final = frozenset({"type", "name", "id", "description", "severity"})
_OF_A_METRIC: Final = frozenset(
    {"metric", "rule", "unit", "arguments", "mustBe", "mustBeLessThan", "mustBeLessOrEqualTo"}
)
_ARGUMENTS: Final = frozenset({"validValues", "pattern", "missingValues"})
_IMPLEMENTATION: Final = frozenset({"type", "expectation_type", "kwargs"})
_OF_A_RULE: Final = frozenset({"name", "id", "description"})
"""Keys that are not used for a check against nulls, because it becomes a part of the schema, not a rule.

The severity of such a check is listed with the quality rules of the standard.
"""


def unread_of_checks(checks: list[Any], source: str) -> Iterator[LeftOut]:
    """Yield the parts of quality rules that rules of a contract lack.

    Quality rules that cannot be converted at all are listed elsewhere as a whole.
    """
    for index, each in enumerate(checks):
        place = f"{source}/{index}"
        check = mapping(each, place)
        if check.get("type") == "custom":
            yield from unread(check, _OF_EVERY_CHECK | {"engine", "implementation"}, place)
            if isinstance(written := check.get("implementation"), dict) and "kind" not in written:
                yield from unread(written, _IMPLEMENTATION, f"{place}/implementation")
            continue
        is_of_nulls = forbids_nulls([check])
        yield from unread(
            check, _OF_EVERY_CHECK - (_OF_A_RULE if is_of_nulls else set()) | _OF_A_METRIC, place
        )
        arguments = mapping(check.get("arguments"), f"{place}/arguments")
        yield from unread(arguments, () if is_of_nulls else _ARGUMENTS, f"{place}/arguments")


def outermost(left_out: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Return the entries without duplicates, and without parts of an entry that is left out as a whole."""
    once = dict.fromkeys(left_out)
    places = {each.pointer for each in once}
    return tuple(
        each
        for each in once
        if not any(place in places for place in above(each.pointer) if place not in {"", each.pointer})
    )


class SourcePlaces:
    """The mapping from parts of a converted document to their sources, both as JSON Pointers."""

    def __init__(self) -> None:
        self._sources: dict[str, str] = {}

    def note(self, converted: str, source: str) -> None:
        """Record the source of a part of the converted document."""
        self._sources[converted] = source

    def of(self, converted: str) -> str:
        """Return the source of a recorded part. Raises KeyError for any other part."""
        return self._sources[converted]

    def restore(self, left_out: LeftOut) -> LeftOut:
        """Return an entry about the converted document as one about the source."""
        return LeftOut(self.source(left_out.pointer), left_out.reason)

    def source(self, converted: str) -> str:
        """Return the source of a part, derived from the nearest recorded part that contains it; else ""."""
        for place in above(converted):
            if (source := self._sources.get(place)) is not None:
                return source + converted[len(place) :]
        return ""


def above(place: str) -> Iterator[str]:
    """Yield a pointer and all pointers above it, the longest first."""
    yield place
    for index in range(len(place) - 1, -1, -1):
        if place[index] == "/":
            yield place[:index]
