"""Documents of other formats as documents of the Open Data Contract Standard, with the place that each part came from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from tidegate.contracts.exchange.imported import LeftOut, pointer

LOCAL_TIMESTAMP: Final = "yyyy-MM-dd'T'HH:mm:ss"
_LOGICAL: Final = {
    "string": "string text varchar char character nvarchar nchar uuid enum",
    "integer": "int integer long bigint smallint tinyint int64 int32 serial bigserial",
    "number": "number decimal numeric float double real float64 float32",
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


def logical_type(written: object) -> dict[str, Any]:
    """Return the logical type of a type such as `varchar(20)`, as keys of a property; {} for one that any value may have."""
    plain = str(written).lower().partition("(")[0].partition("<")[0].strip()
    plain = plain.removesuffix(" without time zone").removesuffix(" with time zone")
    logical = _LOGICAL_OF.get(plain)
    if logical is None:
        return {}
    if plain in _LOCAL or str(written).lower().endswith("without time zone"):
        return {"logicalType": logical, "logicalTypeOptions": {"format": LOCAL_TIMESTAMP}}
    return {"logicalType": logical}


def is_known_type(written: object) -> bool:
    """Return whether a type has a logical type, or may hold any value on purpose."""
    plain = str(written).lower()
    return bool(logical_type(written)) or plain in {"variant", "json", "jsonb", "null", "bytes", "binary"}


def unread(part: Mapping[str, Any], known: Collection[str], place: str) -> Iterator[LeftOut]:
    """Yield the keys of a part of a document that the converter does not read."""
    for name, value in part.items():
        if name not in known and value not in (None, "", [], {}):
            yield LeftOut(f"{place}{pointer(name)}", "a contract has no place for it")


class Places:
    """Where the parts of a converted document came from."""

    def __init__(self) -> None:
        self._sources: dict[str, str] = {}

    def note(self, converted: str, source: str) -> None:
        """Keep the place in the source of a part of the converted document."""
        self._sources[converted] = source

    def restore(self, left_out: LeftOut) -> LeftOut:
        """Return what is left out with its place in the source."""
        place = left_out.pointer
        for end in _ends(place):
            if (source := self._sources.get(place[:end])) is not None:
                return LeftOut(source + place[end:], left_out.reason)
        return LeftOut(pointer(), left_out.reason)


def _ends(place: str) -> Iterator[int]:
    """Yield the ends of a pointer and of the pointers above it, longest first."""
    yield len(place)
    for index in range(len(place) - 1, -1, -1):
        if place[index] == "/":
            yield index
