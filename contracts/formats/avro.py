"""Apache Avro: records in its binary encoding, without a container file."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from contracts.errors import ContractError
from contracts.fields import FieldType, join, tokens
from contracts.formats.avro_decoder import MalformedError, Reader, compile_reader, decimal_of
from contracts.formats.payload import NO_PAYLOAD
from contracts.model import AvroSchema
from contracts.verdict import Severity, Stage, Violation

_DEFINITION: Final = "/schema/definition"
_MAX_LEVELS: Final = 8
_TYPES: Final = {
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "fixed": "bytes",
    "enum": "string",
    "record": "object",
    "error": "object",
    "map": "object",
}
_TIMES: Final = frozenset(
    {"date"}
    | {
        f"{kind}-{unit}"
        for kind in ("timestamp", "local-timestamp")
        for unit in ("millis", "micros", "nanos")
    }
)


class AvroFormat:
    """One Avro schema, compiled. Raises ContractError, located in the contract document."""

    def __init__(self, schema: AvroSchema) -> None:
        if schema.definition is None:
            raise ContractError.at("/schema", "the schema itself is missing: give `definition` or `file`")
        parsed, named, self._read = _compile(schema.definition)
        self.fields = AvroFields(parsed, named)

    @property
    def is_valid(self) -> Callable[[Any], bool]:
        """Whatever was decoded fits the schema: the bytes have no meaning without it."""
        return _is_anything

    def decode(self, payloads: pa.Array) -> Iterator[Any]:
        """Decode each payload: the record, or the Violation of stage decode that it is."""
        return (NO_PAYLOAD if payload is None else self._decode(payload) for payload in payloads.to_pylist())

    def unsound(self, payloads: pa.Array, holds: Callable[[Any], bool]) -> Iterator[tuple[int, Any]]:
        """Decode each payload and give all but the records for which `holds` says yes, with their index."""
        for index, record in enumerate(self.decode(payloads)):
            if type(record) is Violation or not holds(record):
                yield index, record

    def violations(self, record: Any) -> tuple[Violation, ...]:  # noqa: ARG002 - what was decoded fits
        """Give none: what does not fit cannot be decoded."""
        return ()

    def _decode(self, payload: bytes) -> Any:
        try:
            record, end = self._read(payload, 0, 0)
        except MalformedError as error:
            return _violation(error.code, error.message)
        except (IndexError, struct.error):
            return _violation("avro.truncated", "ends before its last field")
        except UnicodeDecodeError:
            return _violation("avro.invalid-utf8", "holds a string that is not UTF-8")
        if end < len(payload):
            return _violation("avro.trailing-bytes", "goes on after its last field")
        return record


class AvroFields:
    """Looks fields up in one Avro schema."""

    def __init__(self, schema: Any, named: dict[str, Any]) -> None:
        self._schema = schema
        self._named = named
        self._pointers = tuple(self._walk())

    def find(self, pointer: str) -> FieldType | None:
        """Look a field up by its JSON Pointer; None when the schema does not declare it."""
        return self._find(self._schema, tokens(pointer))

    def pointers(self) -> tuple[str, ...]:
        """Pointers of the declared fields, outermost first; bounded."""
        return self._pointers

    def top_level(self) -> tuple[str, ...]:
        """Names of the fields of the record itself, in the order of the schema."""
        return tuple(name for name, _ in self._members(self._schema))

    def names(self) -> frozenset[str]:
        """Every field name that the schema declares anywhere."""
        return frozenset(token for pointer in self._pointers for token in tokens(pointer))

    def _find(self, schema: Any, path: tuple[str, ...]) -> FieldType | None:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            found = [each for branch in schema if (each := self._find(branch, path)) is not None]
            return None if not found else _either(found)
        if not path:
            return _field_type(schema)
        first, rest = path[0], path[1:]
        match schema:
            case {"type": "record" | "error"}:
                for name, inner in self._members(schema):
                    if name == first:
                        return self._find(inner, rest)
            case {"type": "map", "values": values}:
                return self._find(values, rest)
            case {"type": "array", "items": items} if first.isascii() and first.isdigit():
                return self._find(items, rest)
        return None

    def _resolved(self, schema: Any) -> Any:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def _members(self, schema: Any) -> Iterator[tuple[str, Any]]:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            for branch in schema:
                yield from self._members(branch)
        elif isinstance(schema, dict) and schema["type"] in {"record", "error"}:
            for field in schema["fields"]:
                yield field["name"], field["type"]

    def _walk(self) -> Iterator[str]:
        level: list[tuple[tuple[str, ...], Any]] = [((), self._schema)]
        for _ in range(_MAX_LEVELS):
            level = [
                ((*path, name), inner) for path, schema in level for name, inner in self._members(schema)
            ]
            yield from (join(path) for path, _ in level)


def _compile(definition: Any) -> tuple[Any, dict[str, Any], Reader]:
    named: dict[str, Any] = {}
    try:
        parsed = fastavro.parse_schema(definition, named_schemas=named)
        return parsed, named, compile_reader(parsed, named)
    except UnknownType as error:
        raise ContractError.at(_DEFINITION, f"not an Avro schema: no type is named {error.name}") from None
    except SchemaParseException as error:
        raise ContractError.at(_DEFINITION, f"not an Avro schema: {error}") from None
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ContractError.at(_DEFINITION, f"not an Avro schema: {reason}") from None


def _field_type(schema: Any) -> FieldType:
    if isinstance(schema, str):
        return FieldType(frozenset({_TYPES.get(schema, schema)}))
    if (decimal := decimal_of(schema)) is not None:
        return FieldType(frozenset({"number"}), decimal=decimal)
    types = _field_type(schema["type"]).types
    return FieldType(types, frozenset({schema.get("logicalType")}) & _TIMES)


def _either(found: list[FieldType]) -> FieldType:
    first, *others = found
    for other in others:
        first = first.either(other)
    return first


def _is_anything(_: Any) -> bool:
    return True


def _violation(code: str, message: str) -> Violation:
    return Violation(Stage.DECODE, code, "", Severity.ERROR, message)
