"""Avro's binary encoding, decoded strictly: every byte accounted for, nothing allocated on a hostile record's word.

fastavro parses the schemas. Its reader is not used on records: it crashes the process on deep nesting, takes union
and enum indexes below zero and booleans beyond 1, and cuts overlong integers. Dates and timestamps stay the integers
that they are; decimals become Decimal.

Source: Apache Avro 1.12 specification, "Binary encoding" and "Logical types".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Final

from fastavro.schema import SchemaParseException

MAX_DEPTH: Final = 254
"""Deepest nesting of records, arrays and maps in a record; the same as for JSON."""
MAX_FREE_ITEMS: Final = 1_000
"""Most items of an array whose items take no bytes."""

Reader = Callable[[bytes, int, int], tuple[Any, int]]
"""Reads one value: takes the payload, the position and the depth; gives the value and the position behind it.

Raises MalformedError, IndexError, struct.error or UnicodeDecodeError for bytes that are no such value.
"""

_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")


class MalformedError(Exception):
    """Bytes that are not what the schema says. `code` is the code of the violation."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def compile_reader(schema: Any, named: dict[str, Any]) -> Reader:
    """Compile a schema that fastavro parsed; `named` gives its named types.

    Raises SchemaParseException for mistakes that fastavro lets pass.
    """
    return _Compiler(named).reader(schema)


class _Compiler:
    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._readers: dict[str, Reader] = {}

    def reader(self, schema: Any) -> Reader:
        if isinstance(schema, list):
            _expect_union(schema)
            return _union([self.reader(branch) for branch in schema])
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else self._named_reader(schema)
        match schema["type"]:
            case "record" | "error" | "enum" | "fixed":
                return self._named_reader(schema["name"], schema)
            case "array":
                return _array(self.reader(schema["items"]), is_free=self._is_free(schema["items"], ()))
            case "map":
                return _map(self.reader(schema["values"]))
            case kind:
                inner = self.reader(kind)
                return _decimal(inner, schema)

    def _named_reader(self, name: str, schema: Any = None) -> Reader:
        if name not in self._readers:
            self._readers[name] = partial(self._read_later, name)
            self._readers[name] = self._definition(self._named[name] if schema is None else schema)
        return self._readers[name]

    def _read_later(self, name: str, payload: bytes, position: int, depth: int) -> tuple[Any, int]:
        """Read a type that is met again inside its own definition, and was not compiled yet there."""
        return self._readers[name](payload, position, depth)

    def _definition(self, schema: dict[str, Any]) -> Reader:
        match schema["type"]:
            case "enum":
                return _enum(tuple(schema["symbols"]))
            case "fixed":
                if not isinstance(schema["size"], int) or schema["size"] < 0:
                    raise SchemaParseException(f"the size of {schema['name']} must be a number from 0 on")
                return _decimal(_fixed(schema["size"]), schema)
            case _:
                names = [field["name"] for field in schema["fields"]]
                if len(set(names)) < len(names):
                    raise SchemaParseException(f"record {schema['name']} has two fields of one name")
                return _record([(field["name"], self.reader(field["type"])) for field in schema["fields"]])

    def _is_free(self, schema: Any, seen: tuple[str, ...]) -> bool:
        """Whether a value takes no bytes."""
        if isinstance(schema, str) and schema in self._named and schema not in seen:
            return self._is_free(self._named[schema], (*seen, schema))
        match schema:
            case "null" | {"type": "null"} | {"type": "fixed", "size": 0}:
                return True
            case {"type": "record", "name": name, "fields": fields}:
                return all(self._is_free(field["type"], (*seen, name)) for field in fields)
            case _:
                return False


def _expect_union(branches: list[Any]) -> None:
    """Refuse what fastavro lets pass. Source: specification, "Unions"."""
    kinds = [branch if isinstance(branch, str) else _kind(branch) for branch in branches]
    if "union" in kinds:
        raise SchemaParseException("a union must not stand directly in a union")
    if len(set(kinds)) < len(kinds):
        raise SchemaParseException("a union must not have two branches of one type, but for named types")


def _kind(branch: Any) -> str:
    if isinstance(branch, list):
        return "union"
    return str(branch.get("name", branch["type"]))


def _read_null(_: bytes, position: int, __: int) -> tuple[None, int]:
    return None, position


def _read_boolean(payload: bytes, position: int, _: int) -> tuple[bool, int]:
    byte = payload[position]
    if byte > 1:
        raise MalformedError("avro.invalid", "holds a boolean that is neither 0 nor 1")
    return byte == 1, position + 1


def _read_long(payload: bytes, position: int, _: int = 0) -> tuple[int, int]:
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


def _read_int(payload: bytes, position: int, _: int) -> tuple[int, int]:
    number, position = _read_long(payload, position)
    if not -(2**31) <= number < 2**31:
        raise MalformedError("avro.invalid", "holds an int of more than 32 bits")
    return number, position


def _read_float(payload: bytes, position: int, _: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(payload, position)[0], position + 4


def _read_double(payload: bytes, position: int, _: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(payload, position)[0], position + 8


def _read_bytes(payload: bytes, position: int, _: int) -> tuple[bytes, int]:
    length, position = _read_long(payload, position)
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
    "int": _read_int,
    "long": _read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_string,
}


def _enum(symbols: tuple[str, ...]) -> Reader:
    def read(payload: bytes, position: int, _: int) -> tuple[str, int]:
        index, position = _read_long(payload, position)
        if not 0 <= index < len(symbols):
            raise MalformedError("avro.invalid", "holds a symbol that its enum does not have")
        return symbols[index], position

    return read


def _fixed(size: int) -> Reader:
    def read(payload: bytes, position: int, _: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(payload):
            raise MalformedError("avro.truncated", "ends within a fixed value")
        return payload[position:end], end

    return read


def decimal_of(schema: dict[str, Any]) -> tuple[int, int] | None:
    """Give precision and scale of a decimal; None for another type, or a decimal that is to be ignored as wrong."""
    if schema.get("logicalType") != "decimal" or schema["type"] not in {"bytes", "fixed"}:
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0:
        return precision, scale
    return None


def _decimal(inner: Reader, schema: dict[str, Any]) -> Reader:
    decimal = decimal_of(schema)
    if decimal is None:
        return inner
    _, scale = decimal

    def read(payload: bytes, position: int, depth: int) -> tuple[Decimal, int]:
        unscaled, position = inner(payload, position, depth)
        number = int.from_bytes(unscaled, "big", signed=True)
        sign, digits = int(number < 0), tuple(map(int, str(abs(number))))
        return Decimal((sign, digits, -scale)), position

    return read


def _union(branches: list[Reader]) -> Reader:
    def read(payload: bytes, position: int, depth: int) -> tuple[Any, int]:
        index, position = _read_long(payload, position)
        if not 0 <= index < len(branches):
            raise MalformedError("avro.invalid", "holds a branch that its union does not have")
        return branches[index](payload, position, depth)

    return read


def _record(fields: list[tuple[str, Reader]]) -> Reader:
    def read(payload: bytes, position: int, depth: int) -> tuple[dict[str, Any], int]:
        depth = _deeper(depth)
        record = {}
        for name, read_field in fields:
            record[name], position = read_field(payload, position, depth)
        return record, position

    return read


def _array(read_item: Reader, *, is_free: bool) -> Reader:
    def read(payload: bytes, position: int, depth: int) -> tuple[list[Any], int]:
        depth = _deeper(depth)
        items: list[Any] = []
        while True:
            count, position = _block(payload, position)
            if count == 0:
                return items, position
            limit = MAX_FREE_ITEMS - len(items) if is_free else len(payload) - position
            if count > limit:
                raise MalformedError(
                    "avro.too-many-items", "holds an array of more items than its bytes allow"
                )
            for _ in range(count):
                item, position = read_item(payload, position, depth)
                items.append(item)

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
            for _ in range(count):
                name, position = _read_string(payload, position, depth)
                members[name], position = read_value(payload, position, depth)

    return read


def _block(payload: bytes, position: int) -> tuple[int, int]:
    """Read the number of items in a block; a negative one is followed by the size of the block in bytes."""
    count, position = _read_long(payload, position)
    if count >= 0:
        return count, position
    _, position = _read_long(payload, position)
    return -count, position


def _deeper(depth: int) -> int:
    if depth == MAX_DEPTH:
        raise MalformedError("avro.too-deep", f"is nested deeper than {MAX_DEPTH} levels")
    return depth + 1
