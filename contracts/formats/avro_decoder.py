"""Strict decoder of Avro's binary encoding: it accounts for every byte, and never allocates by an unchecked length.

fastavro parses the schemas, but its reader is not used on records, because it crashes the process on deep nesting. It
also accepts negative indexes of unions and enums and booleans above 1, and truncates overlong integers. Dates and
timestamps stay integers; decimals become Decimal.

Source: Apache Avro 1.12 specification, "Binary encoding", "Schema Resolution" and "Logical types".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from tidegate.contracts.formats.avro_nodes import (
    ArrayNode,
    Bounded,
    DecimalNumber,
    FixedBytes,
    MapNode,
    Node,
    Plain,
    RecordNode,
    Symbol,
    UnionNode,
    UnreadableData,
    Uuid,
    decimal_value,
)
from tidegate.contracts.formats.avro_types import MAX_FREE_VALUES, UUID

MAX_DEPTH: Final = 254
"""Maximum nesting of records, arrays and maps in a record; the same as for JSON."""
MAX_REPEATED_FREE_VALUES: Final = 16
"""Maximum values without bytes of an array within an array or a map; such an array may take only three bytes."""

Reader = Callable[[bytes, int, int], tuple[Any, int]]
"""Reads one value: takes the payload, the position and the depth; returns the value and the position after it.

Raises one of MALFORMED for bytes that are not such a value.
"""

_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")
_FLOAT_BITS: Final = 24


class MalformedError(Exception):
    """Bytes that do not match the schema: the code and the message of the violation, and the path to the place."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.path: list[str] = []
        """Names and indexes, innermost first; `*` for keys of maps, which the contract does not declare."""


MALFORMED: Final = (MalformedError, IndexError, struct.error, UnicodeDecodeError)
"""Errors that a reader raises for bytes that are not a value of its schema."""


def malformed(error: Exception) -> MalformedError:
    """Return one of MALFORMED as a MalformedError, with the code and message that describe it."""
    if isinstance(error, MalformedError):
        return error
    if isinstance(error, UnicodeDecodeError):
        return MalformedError("avro.invalid-utf8", "holds a string that is not UTF-8")
    return MalformedError("avro.truncated", "ends before its last field")


def compile_reader(node: Node, *, is_repeated: bool = False) -> Reader:
    """Compile the reader of a node; `is_repeated` says that its values are items of arrays or members of maps."""
    return _Compiler().reader(node, is_repeated=is_repeated)


class _Compiler:
    """Compiles nodes to readers, each record only once, so that a record may contain itself."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, bool], Reader] = {}

    def reader(self, node: Node, *, is_repeated: bool) -> Reader:  # noqa: C901, PLR0911 - one for each kind of node
        match node:
            case Plain():
                return _promoted(_PRIMITIVES[node.kind], node)
            case Bounded():
                return _bounded(self.reader(node.inner, is_repeated=is_repeated), node.limit)
            case Uuid():
                return _uuid(self.reader(node.inner, is_repeated=is_repeated))
            case FixedBytes():
                return _fixed(node.size)
            case DecimalNumber():
                return _decimal(self.reader(node.inner, is_repeated=is_repeated), node)
            case Symbol():
                return _symbol(node.symbols)
            case ArrayNode():
                return _array(
                    self.reader(node.item, is_repeated=True), _most_items(node, is_repeated=is_repeated)
                )
            case MapNode():
                return _map(self.reader(node.value, is_repeated=True))
            case UnionNode():
                return _union([self.reader(branch, is_repeated=is_repeated) for branch in node.branches])
            case UnreadableData():
                return _refused(node.reason)
            case RecordNode():
                return self._record(node, is_repeated=is_repeated)

    def _record(self, node: RecordNode, *, is_repeated: bool) -> Reader:
        key = (id(node), is_repeated)
        if key not in self._records:
            # The reader is registered before its steps are compiled, because a record may contain itself.
            steps: list[tuple[str | None, Reader]] = []
            self._records[key] = _record(steps, dict.fromkeys(node.names) | node.defaults)
            steps += [(name, self.reader(inner, is_repeated=is_repeated)) for name, inner in node.steps]
        return self._records[key]


def _read_null(_: bytes, position: int, __: int) -> tuple[None, int]:
    return None, position


def _read_boolean(payload: bytes, position: int, _: int) -> tuple[bool, int]:
    byte = payload[position]
    if byte > 1:
        raise MalformedError("avro.invalid", "holds a boolean that is neither 0 nor 1")
    return byte == 1, position + 1


def read_long(payload: bytes, position: int, _: int = 0) -> tuple[int, int]:
    """Read a long: return it and the position after it. Raises one of MALFORMED."""
    byte = payload[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    number, shift = byte & 0x7F, 7
    while True:
        position += 1
        byte = payload[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise MalformedError("avro.invalid", "holds an integer of more than 64 bits")
    if number >= 2**64:
        raise MalformedError("avro.invalid", "holds an integer of more than 64 bits")
    return (number >> 1) ^ -(number & 1), position + 1


def read_int(payload: bytes, position: int, _: int = 0) -> tuple[int, int]:
    """Read an int: return it and the position after it. Raises one of MALFORMED."""
    number, position = read_long(payload, position)
    if not -(2**31) <= number < 2**31:
        raise MalformedError("avro.invalid", "holds an int of more than 32 bits")
    return number, position


def _read_float(payload: bytes, position: int, _: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(payload, position)[0], position + 4


def _read_double(payload: bytes, position: int, _: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(payload, position)[0], position + 8


def _read_bytes(payload: bytes, position: int, _: int) -> tuple[bytes, int]:
    length, position = read_long(payload, position)
    end = position + length
    if length < 0 or end > len(payload):
        raise MalformedError("avro.truncated", "ends before a string or bytes of the length that it says")
    return payload[position:end], end


def _read_string(payload: bytes, position: int, depth: int) -> tuple[str, int]:
    text, position = _read_bytes(payload, position, depth)
    return text.decode(), position


_PRIMITIVES: Final[dict[str, Reader]] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": read_int,
    "long": read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_string,
}


def as_float(number: int) -> float:
    """Return the 32-bit float nearest to a 64-bit integer; ties are rounded to even."""
    surplus = max(0, abs(number).bit_length() - _FLOAT_BITS)
    whole, rest = divmod(abs(number), 1 << surplus)
    half = (1 << surplus) / 2
    nearest = whole + (rest > half or (rest == half and surplus > 0 and whole & 1))
    return float((nearest << surplus) * (-1 if number < 0 else 1))


_PROMOTIONS: Final[dict[tuple[str, str], Callable[[Any], Any]]] = {
    ("int", "float"): as_float,
    ("long", "float"): as_float,
    ("int", "double"): float,
    ("long", "double"): float,
    ("float", "double"): float,
    ("string", "bytes"): str.encode,
    ("bytes", "string"): bytes.decode,
}


def _promoted(inner: Reader, node: Plain) -> Reader:
    if not node.to:
        return inner
    promote = _PROMOTIONS[node.kind, node.to]

    def read(payload: bytes, position: int, depth: int) -> tuple[Any, int]:
        value, position = inner(payload, position, depth)
        return promote(value), position

    return read


def _bounded(inner: Reader, limit: int) -> Reader:
    def read(payload: bytes, position: int, depth: int) -> tuple[int, int]:
        value, position = inner(payload, position, depth)
        if not 0 <= value < limit:
            raise MalformedError("avro.invalid-time", "holds a time of day that is before or after the day")
        return value, position

    return read


def _uuid(inner: Reader) -> Reader:
    def read(payload: bytes, position: int, depth: int) -> tuple[str, int]:
        text, position = inner(payload, position, depth)
        if UUID.fullmatch(text) is None:
            raise MalformedError("avro.invalid-uuid", "holds a string that is no UUID")
        return text, position

    return read


def _symbol(symbols: tuple[str | None, ...]) -> Reader:
    def read(payload: bytes, position: int, _: int) -> tuple[str, int]:
        index, position = read_long(payload, position)
        if not 0 <= index < len(symbols):
            raise MalformedError("avro.invalid", "holds a symbol that its enum does not have")
        symbol = symbols[index]
        if symbol is None:
            raise MalformedError("avro.unreadable", "holds a symbol that the contract's enum does not have")
        return symbol, position

    return read


def _fixed(size: int) -> Reader:
    def read(payload: bytes, position: int, _: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(payload):
            raise MalformedError("avro.truncated", "ends within a fixed value")
        return payload[position:end], end

    return read


def _decimal(inner: Reader, node: DecimalNumber) -> Reader:
    scale, limit = node.scale, node.limit

    def read(payload: bytes, position: int, depth: int) -> tuple[Any, int]:
        unscaled, position = inner(payload, position, depth)
        # Empty bytes are read as 0; the specification leaves this open.
        number = int.from_bytes(unscaled, "big", signed=True)
        if not -limit < number < limit:
            raise MalformedError(
                "avro.decimal-precision", "holds a decimal of more digits than its precision"
            )
        return decimal_value(number, scale), position

    return read


def _refused(reason: str) -> Reader:
    def read(_: bytes, __: int, ___: int) -> tuple[Any, int]:
        raise MalformedError("avro.unreadable", reason)

    return read


def _union(branches: list[Reader]) -> Reader:
    def read(payload: bytes, position: int, depth: int) -> tuple[Any, int]:
        index, position = read_long(payload, position)
        if not 0 <= index < len(branches):
            raise MalformedError("avro.invalid", "holds a branch that its union does not have")
        return branches[index](payload, position, depth)

    return read


def _record(steps: list[tuple[str | None, Reader]], empty: dict[str, Any]) -> Reader:
    def read(payload: bytes, position: int, depth: int) -> tuple[dict[str, Any], int]:
        depth = _deeper(depth)
        record = empty.copy()
        name: str | None = None
        try:
            for name, read_field in steps:
                value, position = read_field(payload, position, depth)
                if name is not None:
                    record[name] = value
        except MALFORMED as error:
            raise _at(name or "*", error) from None
        return record, position

    return read


def _most_items(node: ArrayNode, *, is_repeated: bool) -> int | None:
    """Return the maximum number of items of an array, at least 1; None if the items take bytes."""
    if node.free_values is None:
        return None
    return max(1, (MAX_REPEATED_FREE_VALUES if is_repeated else MAX_FREE_VALUES) // node.free_values)


def _array(read_item: Reader, most: int | None) -> Reader:
    """Return the reader of an array of at most `most` items; with None the length of the payload is the limit."""

    def read(payload: bytes, position: int, depth: int) -> tuple[list[Any], int]:
        depth = _deeper(depth)
        items: list[Any] = []
        while True:
            count, position = _block(payload, position)
            if count == 0:
                return items, position
            limit = len(payload) - position if most is None else most - len(items)
            if count > limit:
                raise MalformedError(
                    "avro.too-many-items", "holds an array of more items than its bytes allow"
                )
            try:
                for _ in range(count):
                    item, position = read_item(payload, position, depth)
                    items.append(item)
            except MALFORMED as error:
                raise _at(str(len(items)), error) from None

    return read


def _map(read_value: Reader) -> Reader:
    def read(payload: bytes, position: int, depth: int) -> tuple[dict[str, Any], int]:
        depth = _deeper(depth)
        members: dict[str, Any] = {}
        while True:
            count, position = _block(payload, position)
            if count == 0:
                return members, position
            if count > len(payload) - position:
                raise MalformedError(
                    "avro.too-many-items", "holds a map of more members than its bytes allow"
                )
            try:
                for _ in range(count):
                    name, position = _read_string(payload, position, depth)
                    members[name], position = read_value(payload, position, depth)
            except MALFORMED as error:
                raise _at("*", error) from None

    return read


def _block(payload: bytes, position: int) -> tuple[int, int]:
    """Read the header of a block: return the number of items and the position after it.

    A negative count is followed by the size of the block in bytes, which is skipped.
    """
    count, position = read_long(payload, position)
    if count >= 0:
        return count, position
    _, position = read_long(payload, position)
    return -count, position


def _deeper(depth: int) -> int:
    if depth == MAX_DEPTH:
        raise MalformedError("avro.too-deep", f"is nested deeper than {MAX_DEPTH} levels")
    return depth + 1


def _at(token: str, error: Exception) -> MalformedError:
    """Return an error with the name or index of the enclosing place added to its path."""
    found = malformed(error)
    found.path.append(token)
    return found
