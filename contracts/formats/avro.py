"""Avro payloads: records in Avro's binary encoding, without a container file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final, assert_never

import numpy as np
import orjson
import pyarrow as pa

from tidegate.contracts.document.fields import FieldType, is_index, join, tokens
from tidegate.contracts.document.model import AvroSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro_mistakes import mistakes
from tidegate.contracts.formats.avro_nodes import UnreadableData, resolve
from tidegate.contracts.formats.avro_reader import ResolvedReader
from tidegate.contracts.formats.avro_types import (
    MAX_NESTING,
    Array,
    AvroTooDeepError,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    RecordField,
    Union,
    nodes,
    parse,
)
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.formats.payload import NO_PAYLOAD
from tidegate.contracts.rules.places import is_deep
from tidegate.contracts.suggestions import suggestion_budget
from tidegate.contracts.verdict import Violation

MAX_WRITERS: Final = 1_024
"""Maximum cached readers of writer's schemas; with 30 fields each takes 35 KB, so all take 36 MB."""
_DEFINITION: Final = "/schema/definition"
_MAX_LEVELS: Final = 8
_MAX_POINTERS: Final = 20_000
"""Maximum pointers that are listed: a record with thirty fields of its own type would have 30^8."""
_TYPES: Final = {"int": "integer", "long": "integer", "float": "number", "double": "number"}
_TIMES: Final = frozenset(
    {"date", "duration"}
    | {
        f"{kind}-{unit}"
        for kind in ("timestamp", "local-timestamp")
        for unit in ("millis", "micros", "nanos")
    }
)

RecordsOf = Callable[[ResolvedReader, Sequence[bytes | None]], Iterator[Any]]
"""Decodes payloads of one writer's schema: yields for each the record, or a Violation."""


class AvroFormat:
    """A compiled Avro schema. The constructor raises ContractError, located in the contract document."""

    def __init__(self, schema: AvroSchema) -> None:
        if schema.definition is None:
            raise ContractError.at("/schema", "the schema itself is missing: give `definition` or `file`")
        self._definition = schema.definition
        self._reader = _compile(schema.definition)
        self.own = ResolvedReader(resolve(self._reader, self._reader), self._reader)
        # Bounded, because a stream sees new schemas over years, and a producer can write with any number of them.
        self.written_with = lru_cache(maxsize=MAX_WRITERS)(self._written_with)
        self.fields = AvroFields(self._reader)

    @property
    def is_valid(self) -> Callable[[Any], bool]:
        """Return a test that accepts every decoded record: data that does not fit cannot be decoded."""
        return _is_anything

    def decode(self, framed: Framed, read: RecordsOf | None = None) -> Iterator[Any]:
        """Yield for each payload the decoded record, or a Violation of stage decode.

        `read` decodes the payloads of one writer's schema, with the same results as its `ResolvedReader`, the default.
        """
        read = read or _records
        if framed.written_by is None:
            yield from read(self.own, framed.payloads.to_pylist())
            return
        records: list[Any] = [None] * len(framed.payloads)
        for reader, rows, payloads in self.by_writer(framed):
            for row, record in zip(rows, read(reader, payloads), strict=True):
                records[row] = record
        yield from records

    def by_writer(
        self, framed: Framed
    ) -> Iterator[tuple[ResolvedReader, Sequence[int], Sequence[bytes | None]]]:
        """Yield for each writer's schema its reader, the row numbers of its records, and their payloads.

        Grouping keeps the code of a reader and neighbouring payloads in the processor's cache. With a thousand
        alternating schemas, neither would stay there.
        """
        if framed.written_by is None:
            yield self.own, range(len(framed.payloads)), framed.payloads.to_pylist()
            return
        schemas, of = framed.written_by.schemas, framed.written_by.of
        # NumPy sorts 16-bit integers with a radix sort, in a tenth of the time.
        order = np.argsort(
            of.astype(np.int16) if len(schemas) <= np.iinfo(np.int16).max else of, kind="stable"
        )
        rows, payloads = order.tolist(), framed.payloads.take(pa.array(order)).to_pylist()
        start = 0
        ends = np.cumsum(np.bincount(of + 1, minlength=len(schemas) + 1)).tolist()
        for schema, end in zip((None, *schemas), ends, strict=True):
            if start < end:
                reader = self.own if schema is None else self.written_with(schema.text)
                yield reader, rows[start:end], payloads[start:end]
                start = end

    def violations(self, record: Any) -> tuple[Violation, ...]:  # noqa: ARG002 - every decoded record fits
        """Return an empty tuple: data that does not fit the schema cannot be decoded."""
        return ()

    def _written_with(self, text: str) -> ResolvedReader:
        """Return the reader of data of another schema, given as text, as records of this schema.

        If the text is not a valid schema, the reader refuses everything: a registry may not validate what it stores.
        """
        try:
            definition = orjson.loads(text)
            if definition == self._definition:
                return self.own
            writer = _compile(definition)
            return ResolvedReader(resolve(writer, self._reader), writer)
        except (ValueError, ContractError, RecursionError):
            return ResolvedReader(UnreadableData("was written with a schema that cannot be read here"))


def _records(reader: ResolvedReader, payloads: Sequence[bytes | None]) -> Iterator[Any]:
    return (NO_PAYLOAD if payload is None else reader.record(payload) for payload in payloads)


class AvroFields:
    """Lookup of the fields that an Avro schema declares."""

    def __init__(self, schema: AvroType) -> None:
        self._schema = schema
        self._pointers = tuple(islice(self._walk(), _MAX_POINTERS))
        self._names: frozenset[str] | None = None

    def find(self, pointer: str) -> FieldType | None:
        """Return the type of a field by its JSON Pointer; None if the schema does not declare it.

        After `**`, this is the combined type of all fields of that name, in any record of the schema.
        """
        path = tokens(pointer)
        return self._find_anywhere(path[1:]) if is_deep(path) else self._find(self._schema, path)

    def pointers(self) -> tuple[str, ...]:
        """Return the pointers of the declared fields, outermost first, at most _MAX_POINTERS."""
        return self._pointers

    def top_level(self) -> tuple[str, ...]:
        """Return the names of the fields of the root record, in the order of the schema."""
        return tuple(each.name for each in _members(self._schema))

    def names(self) -> frozenset[str]:
        """Return every field name that the schema declares anywhere."""
        if self._names is None:
            self._names = frozenset(
                each.name for node in nodes(self._schema) if isinstance(node, Record) for each in node.fields
            )
        return self._names

    def _find(self, node: AvroType, path: tuple[str, ...]) -> FieldType | None:
        if isinstance(node, Union):
            found = [each for branch in node.branches if (each := self._find(branch, path)) is not None]
            return _either(found) if found else None
        if not path:
            return _field_type(node)
        first, rest = path[0], path[1:]
        match node:
            case Record():
                inner = next((each.type for each in node.fields if each.name == first), None)
                return None if inner is None else self._find(inner, rest)
            case Map():
                return self._find(node.values, rest)
            case Array() if first == "*" or is_index(first):
                return self._find(node.items, rest)
        return None

    def _find_anywhere(self, path: tuple[str, ...]) -> FieldType | None:
        """Return the combined type of the fields at `path` in all records of the schema; None if none has it."""
        if not path:
            return None
        records = (node for node in nodes(self._schema) if isinstance(node, Record))
        found = [each for node in records if (each := self._find(node, path)) is not None]
        return _either(found) if found else None

    def _walk(self) -> Iterator[str]:
        level: list[tuple[tuple[str, ...], AvroType]] = [((), self._schema)]
        for _ in range(_MAX_LEVELS):
            deeper: list[tuple[tuple[str, ...], AvroType]] = []
            for path, node in level:
                for each in _members(node):
                    yield join((*path, each.name))
                    deeper.append(((*path, each.name), each.type))
            level = deeper


def _members(node: AvroType) -> Iterator[RecordField]:
    """Yield the fields of a record, or those of all records in a union."""
    for branch in node.branches if isinstance(node, Union) else (node,):
        if isinstance(branch, Record):
            yield from branch.fields


def _compile(definition: Any) -> AvroType:
    """Parse a schema strictly. Raises ContractError, located in the contract document."""
    try:
        return parse(definition, _DEFINITION, is_strict=True)
    except AvroTooDeepError:
        raise ContractError.at(_DEFINITION, f"a schema is nested at most {MAX_NESTING} levels deep") from None
    except ContractError as error:
        with suggestion_budget():
            placed = [*mistakes(definition, _DEFINITION)]
        found = tuple(replace(each, message=f"not an Avro schema: {each.message}") for each in placed)
        raise ContractError(found or error.problems) from None


def _field_type(node: AvroType) -> FieldType:
    match node:
        case Primitive(kind=kind, logical=logical):
            types = frozenset({_TYPES.get(kind, kind)})
        case Fixed(logical=logical):
            types = frozenset({"bytes"})
        case Enum():
            return FieldType(frozenset({"string"}))
        case Array():
            return FieldType(frozenset({"array"}))
        case Map() | Union():
            return FieldType(frozenset({"object"}))
        case Record():
            return FieldType(frozenset({"object"}), is_closed=True)
        case _:
            assert_never(node)
    if logical is not None and logical.name == "decimal":
        return FieldType(frozenset({"number"}), decimal=(logical.precision, logical.scale))
    times = frozenset({logical.name} if logical else ()) & _TIMES
    return FieldType(types, times, timed=types if times else frozenset())


def _either(found: list[FieldType]) -> FieldType:
    first, *others = found
    for other in others:
        first = first.either(other)
    return first


def _is_anything(_: Any) -> bool:
    return True
