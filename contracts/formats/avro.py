"""Apache Avro: records in its binary encoding, without a container file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import fastavro
import numpy as np
import orjson
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from tidegate.contracts.document.fields import FieldType, join, tokens
from tidegate.contracts.document.model import AvroSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro_nodes import MAX_PRECISION, Refused, resolve
from tidegate.contracts.formats.avro_reader import ResolvedReader
from tidegate.contracts.formats.avro_types import MAX_NESTING, AvroType, decimal_of, depth_exceeds, graph
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.formats.payload import NO_PAYLOAD
from tidegate.contracts.rules.places import is_deep
from tidegate.contracts.verdict import Violation

MAX_WRITERS: Final = 1_024
"""Maximum schemas of writers whose readers are kept; those of 30 fields take 35 KB each, so that all take 36 MB."""
_DEFINITION: Final = "/schema/definition"
_MAX_LEVELS: Final = 8
_MAX_POINTERS: Final = 20_000
"""Maximum pointers that are listed: thirty fields of the record's own type would make 30^8."""
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
    {"date", "duration"}
    | {
        f"{kind}-{unit}"
        for kind in ("timestamp", "local-timestamp")
        for unit in ("millis", "micros", "nanos")
    }
)

RecordsOf = Callable[[ResolvedReader, Sequence[bytes | None]], Iterator[Any]]
"""Decodes payloads of one writer: the record of each, or the Violation that it is."""


class AvroFormat:
    """One Avro schema, compiled. Raises ContractError, located in the contract document."""

    def __init__(self, schema: AvroSchema) -> None:
        if schema.definition is None:
            raise ContractError.at("/schema", "the schema itself is missing: give `definition` or `file`")
        self._definition = schema.definition
        parsed, named, self._reader = _compile(schema.definition)
        self._own = ResolvedReader(resolve(self._reader, self._reader))
        # Bounded: a stream meets schemas for years, and anybody who may register some can write with all of them.
        self.written_with = lru_cache(maxsize=MAX_WRITERS)(self._written_with)
        self.fields = AvroFields(parsed, named)

    @property
    def is_valid(self) -> Callable[[Any], bool]:
        """Whatever was decoded fits the schema: the bytes have no meaning without it."""
        return _is_anything

    def decode(self, framed: Framed, read: RecordsOf | None = None) -> Iterator[Any]:
        """Decode each payload: the record, or the Violation of stage decode that it is.

        `read` decodes the payloads of one writer, and gives what its `ResolvedReader` gives, which does so by default.
        """
        read = read or _records
        if framed.written_by is None:
            yield from read(self._own, framed.payloads.to_pylist())
            return
        records: list[Any] = [None] * len(framed.payloads)
        for reader, rows, payloads in self.by_writer(framed):
            for row, record in zip(rows, read(reader, payloads), strict=True):
                records[row] = record
        yield from records

    def by_writer(
        self, framed: Framed
    ) -> Iterator[tuple[ResolvedReader, Sequence[int], Sequence[bytes | None]]]:
        """Yield what each writer has written, as rows and their payloads.

        Together, for a function that is met again at once is in the processor's cache, and so is what lies beside the
        payload before: of a thousand writers that take turns neither is.
        """
        if framed.written_by is None:
            yield self._own, range(len(framed.payloads)), framed.payloads.to_pylist()
            return
        schemas, of = framed.written_by.schemas, framed.written_by.of
        # Numbers of two bytes are sorted by their bytes, in a tenth of the time.
        order = np.argsort(
            of.astype(np.int16) if len(schemas) <= np.iinfo(np.int16).max else of, kind="stable"
        )
        rows, payloads = order.tolist(), framed.payloads.take(pa.array(order)).to_pylist()
        start = 0
        ends = np.cumsum(np.bincount(of + 1, minlength=len(schemas) + 1)).tolist()
        for schema, end in zip((None, *schemas), ends, strict=True):
            if start < end:
                reader = self._own if schema is None else self.written_with(schema.text)
                yield reader, rows[start:end], payloads[start:end]
                start = end

    def violations(self, record: Any) -> tuple[Violation, ...]:  # noqa: ARG002 - what was decoded fits
        """Return none: what does not fit cannot be decoded."""
        return ()

    def _written_with(self, text: str) -> ResolvedReader:
        """Return what reads data of another schema, by its text, as records of this one.

        A text that is not a schema gives a reader that refuses everything: someone else let it into the registry.
        """
        try:
            definition = orjson.loads(text)
            if definition == self._definition:
                return self._own
            _, _, writer = _compile(definition)
            return ResolvedReader(resolve(writer, self._reader))
        except (ValueError, ContractError, RecursionError):
            return ResolvedReader(Refused("was written with a schema that cannot be read here"))


def _records(reader: ResolvedReader, payloads: Sequence[bytes | None]) -> Iterator[Any]:
    return (NO_PAYLOAD if payload is None else reader.record(payload) for payload in payloads)


class AvroFields:
    """Looks fields up in one Avro schema."""

    def __init__(self, schema: Any, named: dict[str, Any]) -> None:
        self._schema = schema
        self._named = named
        self._pointers = tuple(islice(self._walk(), _MAX_POINTERS))
        self._names: frozenset[str] | None = None

    def find(self, pointer: str) -> FieldType | None:
        """Return a field by its JSON Pointer; None if the schema does not declare it."""
        path = tokens(pointer)
        return self._find_anywhere(path[1:]) if is_deep(path) else self._find(self._schema, path)

    def pointers(self) -> tuple[str, ...]:
        """Pointers of the declared fields, outermost first; bounded."""
        return self._pointers

    def top_level(self) -> tuple[str, ...]:
        """Return the names of the fields of the record itself, in the order of the schema."""
        return tuple(name for name, _ in self._members(self._schema))

    def names(self) -> frozenset[str]:
        """Return every field name that the schema declares anywhere."""
        if self._names is None:
            records = [each for each in (self._schema, *self._named.values()) if isinstance(each, dict)]
            fields = [field for record in records for field in record.get("fields", ())]
            self._names = frozenset(field["name"] for field in fields)
        return self._names

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
            case {"type": "array", "items": items} if first == "*" or (first.isascii() and first.isdigit()):
                return self._find(items, rest)
        return None

    def _find_anywhere(self, path: tuple[str, ...]) -> FieldType | None:
        """Return what all records of the schema say together of their fields at `path`."""
        found: list[FieldType] = []
        seen: set[int] = set()
        waiting = [self._schema]
        while waiting and path:
            schema = self._resolved(waiting.pop())
            if isinstance(schema, list):
                waiting.extend(schema)
            elif isinstance(schema, dict) and id(schema) not in seen:
                seen.add(id(schema))
                for name, inner in self._members(schema):
                    waiting.append(inner)
                    each = self._find(inner, path[1:]) if name == path[0] else None
                    found += [] if each is None else [each]
                waiting.extend(schema[part] for part in ("items", "values") if part in schema)
        return _either(found) if found else None

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
            deeper: list[tuple[tuple[str, ...], Any]] = []
            for path, schema in level:
                for name, inner in self._members(schema):
                    yield join((*path, name))
                    deeper.append(((*path, name), inner))
            level = deeper


def _compile(definition: Any) -> tuple[Any, dict[str, Any], AvroType]:
    """Parse a schema, and require what fastavro accepts."""
    if depth_exceeds(definition):
        raise ContractError.at(_DEFINITION, f"a schema is nested at most {MAX_NESTING} levels deep")
    named: dict[str, Any] = {}
    try:
        parsed = fastavro.parse_schema(definition, named_schemas=named)
        _require_strict(parsed)
        types = graph(parsed)
    except UnknownType as error:
        raise ContractError.at(_DEFINITION, f"not an Avro schema: no type is named {error.name}") from None
    except SchemaParseException as error:
        raise ContractError.at(_DEFINITION, f"not an Avro schema: {error}") from None
    except OverflowError:  # fastavro turns the default of a float into a double
        raise ContractError.at(
            _DEFINITION, "not an Avro schema: a default is too large for a double; write a smaller number"
        ) from None
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ContractError.at(_DEFINITION, f"not an Avro schema: {reason}") from None
    return parsed, named, types


def _require_strict(schema: Any) -> None:
    """Raise SchemaParseException for mistakes that fastavro accepts."""
    match schema:
        case list():
            _require_union(schema)
            for branch in schema:
                _require_strict(branch)
        case {"type": "fixed"}:
            _require_fixed(schema)
        case {"type": "record" | "error", "fields": fields}:
            names = [field["name"] for field in fields]
            if not all(isinstance(name, str) for name in names):
                raise SchemaParseException(f"the names of the fields of {schema['name']} must be strings")
            if len(set(names)) < len(names):
                raise SchemaParseException(f"record {schema['name']} has two fields of one name")
            for field in fields:
                _require_strict(field["type"])
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            _require_strict(inner)
        case {"type": inner}:
            _require_decimal(schema)
            _require_strict(inner)


def _require_fixed(schema: dict[str, Any]) -> None:
    _require_decimal(schema)
    if not isinstance(schema["size"], int) or isinstance(schema["size"], bool) or schema["size"] < 0:
        raise SchemaParseException(f"the size of {schema['name']} must be a number from 0 on")


def _require_decimal(schema: dict[str, Any]) -> None:
    decimal = decimal_of(schema)
    if decimal is not None and decimal[0] > MAX_PRECISION:
        raise SchemaParseException(f"a decimal of more than {MAX_PRECISION} digits is not judged")


def _require_union(branches: list[Any]) -> None:
    """Source: specification, "Unions"."""
    kinds = [branch if isinstance(branch, str) else _kind(branch) for branch in branches]
    if "union" in kinds:
        raise SchemaParseException("a union must not stand directly in a union")
    if len(set(kinds)) < len(kinds):
        raise SchemaParseException("a union must not have two branches of one type, but for named types")


def _kind(branch: Any) -> str:
    if isinstance(branch, list):
        return "union"
    return str(branch.get("name", branch["type"]))


def _field_type(schema: Any) -> FieldType:
    if isinstance(schema, str):
        return FieldType(frozenset({_TYPES.get(schema, schema)}))
    if (decimal := decimal_of(schema)) is not None:
        return FieldType(frozenset({"number"}), decimal=decimal)
    types = _field_type(schema["type"]).types
    logical = schema.get("logicalType")
    times = frozenset({logical} if isinstance(logical, str) else ()) & _TIMES
    return FieldType(types, times, is_closed=schema["type"] in {"record", "error"})


def _either(found: list[FieldType]) -> FieldType:
    first, *others = found
    for other in others:
        first = first.either(other)
    return first


def _is_anything(_: Any) -> bool:
    return True
