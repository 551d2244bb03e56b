"""Data of a writer schema: the smallest datum of a type, its binary and JSON encoding, and how a reader reads it.

Data is encoded here because fastavro chooses the branch of a union itself, and a counterexample needs a specific one.
fastavro does the reading, which decides. Source: Apache Avro 1.12 specification, "Data Serialization".
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import fastavro

from tidegate.contracts.formats.avro_leaves import encoded_bytes, encoded_long
from tidegate.contracts.formats.avro_types import (
    MAX_NESTING,
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    children,
    nodes,
)
from tidegate.contracts.inclusion.avro.documents import schema_of

Datum = Any
"""A value of a writer's type: a Branch for a union, a dict for a record, the symbol for an enum."""

_MAX_SIZE: Final = 20_000
_TOO_LARGE: Final = (_MAX_SIZE, MAX_NESTING)
_ZEROS: Final[dict[str, Datum]] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "bytes": b"",
    "string": "",
}


@dataclass(frozen=True, slots=True)
class UnionValue:
    """A value of a union: the index of the branch, and the value of that branch."""

    index: int
    value: Datum


class Sizes:
    """The smallest datum of each type of a schema, measured as (values plus bytes, levels of nesting).

    The sizes are the fixed point of `_size`, because types can be recursive.
    """

    def __init__(self, root: AvroType) -> None:
        every = list(nodes(root))
        self._of: dict[int, tuple[int, int]] = {}
        changed = True
        while changed:
            changed = False
            for node in reversed(every):
                size = self._size(node)
                if size is not None and size < self._of.get(id(node), _TOO_LARGE):
                    self._of[id(node)] = size
                    changed = True

    def exists(self, node: AvroType) -> bool:
        """Return whether a type has a datum within the size limits."""
        return id(node) in self._of

    def smallest(self, node: AvroType) -> Datum:  # noqa: PLR0911 - one for each type
        """Build the smallest datum of a type for which `exists` is true."""
        match node:
            case Primitive():
                return _ZEROS[node.kind]
            case Fixed():
                return bytes(node.size)
            case Enum():
                return node.symbols[0]
            case Array():
                return []
            case Map():
                return {}
            case Record():
                return {each.name: self.smallest(each.type) for each in node.fields}
            case Union():
                index = self.order(node)[0]
                return UnionValue(index, self.smallest(node.branches[index]))

    def order(self, union: Union) -> list[int]:
        """Return the indexes of the branches that have data, ordered by the size of their smallest datum."""
        known = [(self._of[id(b)], index) for index, b in enumerate(union.branches) if id(b) in self._of]
        return [index for _, index in sorted(known)]

    def _size(self, node: AvroType) -> tuple[int, int] | None:
        """Return size and levels from the sizes of the child types; None while the type has no known datum."""
        match node:
            case Array() | Map() | Primitive():
                return 1, 0
            case Fixed():
                return (1 + node.size, 0) if node.size < _MAX_SIZE else None
            case Enum():
                return (1, 0) if node.symbols else None
        inner = [self._of.get(id(child)) for child in children(node)]
        known = [size for size in inner if size is not None]
        if isinstance(node, Union):
            known = [min(known)] if known else []
        elif len(known) < len(inner):
            return None
        if isinstance(node, Union) and not known:
            return None
        size = 1 + sum(size for size, _ in known)
        levels = 1 + max((levels for _, levels in known), default=0)
        return (size, levels) if size < _MAX_SIZE and levels < MAX_NESTING else None


def encode(node: AvroType, datum: Datum) -> bytes:  # noqa: PLR0911 - one for each type
    """Encode a datum in Avro's binary encoding."""
    match node:
        case Primitive():
            return _ENCODERS[node.kind](datum)
        case Fixed():
            return bytes(datum)
        case Enum():
            return encoded_long(node.symbols.index(datum))
        case Array():
            return _block([encode(node.items, item) for item in datum])
        case Map():
            return _block([_string(name) + encode(node.values, value) for name, value in datum.items()])
        case Union():
            return encoded_long(datum.index) + encode(node.branches[datum.index], datum.value)
        case Record():
            return b"".join(encode(each.type, datum[each.name]) for each in node.fields)


def json_text(node: AvroType, datum: Datum) -> str:
    """Return a datum in Avro's JSON encoding."""
    return json.dumps(_json(node, datum), ensure_ascii=False)


class Readings:
    """Reads data with fastavro, with one type as the writer's schema and another as the reader's.

    Logical types are left out of the schemas: integers stay integers, and decimals stay bytes. Schemas are parsed once.
    """

    def __init__(self) -> None:
        self._schemas: dict[int, tuple[AvroType, Any]] = {}

    def read(self, encoded: bytes, writer: AvroType, reader: AvroType) -> tuple[Any, str | None]:
        """Return the value that a reader reads and None, or None and the name of the error. Raises TooDeepError."""
        return read(encoded, self._schema(writer), self._schema(reader))

    def _schema(self, node: AvroType) -> Any:
        if id(node) not in self._schemas:
            self._schemas[id(node)] = node, fastavro.parse_schema(schema_of(node))
        return self._schemas[id(node)][1]


def read(encoded: bytes, writer: Any, reader: Any) -> tuple[Any, str | None]:
    """Read a datum with a writer's and a reader's schema document.

    Returns the value and None, or None and the name of the error that fastavro raised.
    """
    try:
        return fastavro.schemaless_reader(io.BytesIO(encoded), writer, reader), None
    except Exception as error:  # noqa: BLE001 - any exception means that the datum is not readable
        return None, type(error).__name__


def _json(node: AvroType, datum: Datum) -> Any:  # noqa: PLR0911 - one for each type
    match node:
        case Primitive(kind="bytes") | Fixed():
            return datum.decode("latin-1")
        case Array():
            return [_json(node.items, item) for item in datum]
        case Map():
            return {name: _json(node.values, value) for name, value in datum.items()}
        case Union():
            branch = node.branches[datum.index]
            if isinstance(branch, Primitive) and branch.kind == "null":
                return None
            return {_branch_name(branch): _json(branch, datum.value)}
        case Record():
            return {each.name: _json(each.type, datum[each.name]) for each in node.fields}
        case _:
            return datum


def _branch_name(branch: AvroType) -> str:
    match branch:
        case Record() | Enum() | Fixed():
            return branch.name
        case Primitive():
            return branch.kind
        case _:
            return "array" if isinstance(branch, Array) else "map"


def _string(text: str) -> bytes:
    return encoded_bytes(text.encode())


def _block(items: list[bytes]) -> bytes:
    return (encoded_long(len(items)) + b"".join(items) if items else b"") + b"\0"


_ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "null": lambda _: b"",
    "boolean": lambda value: bytes([value]),
    "int": encoded_long,
    "long": encoded_long,
    "float": struct.Struct("<f").pack,
    "double": struct.Struct("<d").pack,
    "bytes": encoded_bytes,
    "string": _string,
}


_INTEGERS: Final = {"int": 2**31, "long": 2**63}


class NoDatumError(ValueError):
    """A value that is not a value of its type."""


def plain_of(datum: Datum) -> Any:
    """Return a datum as a plain value, with every Branch replaced by its value."""
    match datum:
        case UnionValue():
            return plain_of(datum.value)
        case dict():
            return {name: plain_of(value) for name, value in datum.items()}
        case list():
            return [plain_of(item) for item in datum]
    return datum


def datum_of(node: AvroType, value: Any) -> Datum:  # noqa: PLR0911 - one for each type
    """Build a datum of a type from a plain value; for a union, in the first branch that fits. Raises NoDatumError.

    A string is taken as bytes (one byte a character) where the type requires bytes, as in defaults of fields.
    """
    match node:
        case Primitive():
            return _primitive(node.kind, value)
        case Fixed():
            fixed = _primitive("bytes", value)
            return fixed if len(fixed) == node.size else _refuse(node)
        case Enum():
            return value if isinstance(value, str) and value in node.symbols else _refuse(node)
        case Array():
            return (
                [datum_of(node.items, item) for item in value] if isinstance(value, list) else _refuse(node)
            )
        case Map():
            if not isinstance(value, dict):
                return _refuse(node)
            return {name: datum_of(node.values, member) for name, member in value.items()}
        case Union():
            return _branch(node, value)
        case Record():
            if not isinstance(value, dict):
                return _refuse(node)
            return {each.name: datum_of(each.type, _member(value, each.name)) for each in node.fields}


def symbols_at(node: AvroType, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the symbols of the enum at a path of field names, through unions; empty if there is no enum."""
    match node:
        case Union():
            return tuple(symbol for branch in node.branches for symbol in symbols_at(branch, path))
        case Enum():
            return () if path else node.symbols
        case Record() if path:
            inner = next((each.type for each in node.fields if each.name == path[0]), None)
            return () if inner is None else symbols_at(inner, path[1:])
    return ()


def _member(value: dict[str, Any], name: str) -> Any:
    if name not in value:
        raise NoDatumError(name)
    return value[name]


def _branch(union: Union, value: Any) -> UnionValue:
    for index, branch in enumerate(union.branches):
        try:
            return UnionValue(index, datum_of(branch, value))
        except NoDatumError:
            continue
    raise NoDatumError(str(union))


def _primitive(kind: str, value: Any) -> Any:  # noqa: PLR0911 - one for each type
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "null" if value is None:
            return None
        case "boolean" if isinstance(value, bool):
            return value
        case "int" | "long" if is_number and isinstance(value, int):
            return value if -_INTEGERS[kind] <= value < _INTEGERS[kind] else _refuse(kind)
        case "float" | "double" if is_number:
            return float(value)
        case "string" if isinstance(value, str):
            return value
        case "bytes" if isinstance(value, bytes):
            return value
        case "bytes" if isinstance(value, str) and all(ord(character) < 256 for character in value):
            return value.encode("latin-1")
    raise NoDatumError(kind)


def _refuse(what: AvroType | str) -> NoReturn:
    raise NoDatumError(str(what))
