"""Resolution of two Avro schemas: how data written with one is read with the other.

A node describes the bytes of the writer at a place, and the value that the reader gets. The strict reader
(`avro_decoder`) and the generated one (`fastpath.avro_reader`) are built from the same nodes, so they cannot interpret
a schema differently. If both schemas are the same, nothing is resolved: a value of a union has the branch that was
written.

Source: Apache Avro 1.12 specification, "Schema Resolution", "Aliases", "Logical Types". As in Apache's Java library, a
reader's union first takes the branch of the writer's own type and name, then any other that matches. So a string stays
a string even if bytes are listed before it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final

from tidegate.contracts.formats.avro_defaults import fits
from tidegate.contracts.formats.avro_matching import field_pairs, is_same_type, matches
from tidegate.contracts.formats.avro_types import (
    TIME_LIMITS,
    Array,
    AvroType,
    Enum,
    Fixed,
    FreeValues,
    Map,
    Primitive,
    Record,
    RecordField,
    Union,
)

_TIMES: Final = ("date", "time-", "timestamp-", "local-timestamp-")


@dataclass(eq=False, slots=True)
class Plain:
    """A primitive value. `to` is the type that it is promoted to (float, double, bytes or string), or ""."""

    kind: str
    to: str = ""


@dataclass(eq=False, slots=True)
class Bounded:
    """A time of day: an integer from 0 up to, but not including, `limit`."""

    inner: Plain
    limit: int


@dataclass(eq=False, slots=True)
class Uuid:
    """A string that must be a UUID in the form of RFC 4122."""

    inner: Plain


@dataclass(eq=False, slots=True)
class FixedBytes:
    """Bytes of a fixed length."""

    size: int


@dataclass(eq=False, slots=True)
class DecimalNumber:
    """A decimal: bytes with the unscaled integer, big-endian two's complement, of at most `precision` digits."""

    inner: Plain | FixedBytes
    precision: int
    scale: int

    @property
    def limit(self) -> int:
        """Return the smallest unscaled integer that has too many digits."""
        return int(10**self.precision)


@dataclass(eq=False, slots=True)
class Symbol:
    """An enum: for each symbol of the writer, in order, what the reader gets; None if it has no such symbol."""

    symbols: tuple[str | None, ...]


@dataclass(eq=False, slots=True)
class ArrayNode:
    """An array, with the node of its items. `free_values` is the number of values in a written item without bytes.

    None if the items take bytes.
    """

    item: Node
    free_values: int | None


@dataclass(eq=False, slots=True)
class MapNode:
    """A map, with the node of its values."""

    value: Node


@dataclass(eq=False, slots=True)
class UnionNode:
    """A union of the writer, with the node of each branch."""

    branches: tuple[Node, ...]


@dataclass(eq=False, slots=True)
class RecordNode:
    """A record: `steps` are the writer's fields in order, each with the reader's name, or None if it is not read.

    `names` are the reader's fields in order, and `defaults` the values of those that were not written. `is_recursive`
    says whether the record may contain itself.
    """

    name: str
    steps: list[tuple[str | None, Node]] = field(default_factory=list)
    names: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    is_recursive: bool = False


@dataclass(eq=False, slots=True)
class UnreadableData:
    """Data that the reader cannot read; `reason` is the message of the violation."""

    reason: str


Node = (
    Plain
    | Bounded
    | Uuid
    | FixedBytes
    | DecimalNumber
    | Symbol
    | ArrayNode
    | MapNode
    | UnionNode
    | RecordNode
    | UnreadableData
)


def resolve(writer: AvroType, reader: AvroType) -> Node:
    """Return the node that reads data of `writer` as `reader`; the same object for both means the same schema."""
    return _Resolver().node(writer, reader)


class _Resolver:
    """Resolves pairs of types, each pair of records only once, so that a record may contain itself."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, int], RecordNode] = {}
        self._open: set[int] = set()
        self._free = FreeValues()

    def node(self, writer: AvroType, reader: AvroType) -> Node:  # noqa: PLR0911 - one for each type
        if isinstance(writer, Union):
            same = writer is reader
            return UnionNode(
                tuple(self.node(branch, branch if same else reader) for branch in writer.branches)
            )
        if isinstance(reader, Union):
            chosen = _branch(writer, reader)
            return _no_match(writer, reader) if chosen is None else self.node(writer, chosen)
        if not matches(writer, reader):
            return _no_match(writer, reader)
        match writer, reader:
            case Record(), Record():
                return self._record(writer, reader)
            case Array(), Array():
                return ArrayNode(self.node(writer.items, reader.items), self._free.count(writer.items))
            case Map(), Map():
                return MapNode(self.node(writer.values, reader.values))
            case Enum(), Enum():
                return _symbol(writer, reader)
            case _:
                return _leaf(writer, reader)

    def _record(self, writer: Record, reader: Record) -> Node:
        key = id(writer), id(reader)
        if key in self._records:
            node = self._records[key]
            node.is_recursive |= id(node) in self._open
            return node
        node = self._records[key] = RecordNode(writer.name, names=tuple(each.name for each in reader.fields))
        self._open.add(id(node))
        named: dict[int, RecordField] = {}
        pairs = (
            {each.name: each for each in writer.fields} if writer is reader else field_pairs(writer, reader)
        )
        for each in reader.fields:
            # Each field of the writer is read as one field only; a second one that matches it counts as not written.
            if each.name in pairs and id(pairs[each.name]) not in named:
                named[id(pairs[each.name])] = each
                continue
            if not each.has_default or not fits(each.default, each.type):
                node.steps = [(None, UnreadableData(f"has no field `{each.name}`, which has no default"))]
                break
            node.defaults[each.name] = default_value(each.default, each.type)
        else:
            for written in writer.fields:
                kept = named.get(id(written))
                inner = self.node(written.type, written.type if kept is None else kept.type)
                node.steps.append((None if kept is None else kept.name, inner))
        self._open.discard(id(node))
        return node


def _branch(writer: AvroType, reader: Union) -> AvroType | None:
    matching = [branch for branch in reader.branches if matches(writer, branch)]
    return next((branch for branch in matching if is_same_type(writer, branch)), next(iter(matching), None))


def _symbol(writer: Enum, reader: Enum) -> Symbol:
    known = frozenset(reader.symbols)
    return Symbol(tuple(symbol if symbol in known else reader.default for symbol in writer.symbols))


def _leaf(writer: AvroType, reader: AvroType) -> Node:
    """Return the node for matching primitive or fixed types; the reader's logical type determines the meaning."""
    assert isinstance(writer, Primitive | Fixed)  # noqa: S101 - narrows for the type checker
    assert isinstance(reader, Primitive | Fixed)  # noqa: S101 - the same
    inner: Plain | FixedBytes
    if isinstance(writer, Fixed):
        inner = FixedBytes(writer.size)
    else:
        assert isinstance(reader, Primitive)  # noqa: S101 - the same
        is_kept = writer.kind == reader.kind or (writer.kind, reader.kind) == ("int", "long")
        inner = Plain(writer.kind, "" if is_kept else reader.kind)
    logical, written = reader.logical, writer.logical
    if logical is None:
        return inner
    if written is not None and written != logical and _changes_meaning(written.name, logical.name):
        return UnreadableData(f"holds a {written} where the contract has a {logical}")
    if logical.name == "decimal":
        if written is not None and written.scale != logical.scale:
            return UnreadableData(f"holds a {written} where the contract has a {logical}")
        return DecimalNumber(inner, logical.precision, logical.scale)
    if isinstance(inner, Plain) and logical.name in TIME_LIMITS:
        return Bounded(inner, TIME_LIMITS[logical.name])
    return Uuid(inner) if isinstance(inner, Plain) and logical.name == "uuid" else inner


def _changes_meaning(written: str, logical: str) -> bool:
    return written != logical and written.startswith(_TIMES) and logical.startswith(_TIMES)


def _no_match(writer: AvroType, reader: AvroType) -> UnreadableData:
    return UnreadableData(f"holds a value of type {_shown(writer)} where the contract has {_shown(reader)}")


def _shown(node: AvroType) -> str:
    match node:
        case Union():
            return " or ".join(str(branch) for branch in node.branches)
        case Array(items=inner) | Map(values=inner):
            return f"{node} of {_shown(inner)}"
        case _:
            return str(node)


_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def decimal_value(unscaled: int, scale: int) -> Decimal:
    """Return the Decimal of an unscaled integer and a scale, exactly."""
    return _EXACT.scaleb(unscaled, -scale)


def _of_32_bits(number: float) -> float:
    """Return the nearest 32-bit float, as a writer writes the same number."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        return math.copysign(math.inf, number)
    return float(rounded)


def default_value(default: Any, node: AvroType) -> Any:  # noqa: PLR0911 - one for each type
    """Return the decoded value of a default that fits its type. Source: specification, "field default values"."""
    match node:
        case Primitive(kind="float"):
            return _of_32_bits(float(default))
        case Primitive(kind="double"):
            return float(default)
        case Primitive(kind="bytes") | Fixed():
            raw = default.encode("latin-1")
            if node.logical is not None and node.logical.name == "decimal":
                return decimal_value(int.from_bytes(raw, "big", signed=True), node.logical.scale)
            return raw
        case Array():
            return [default_value(item, node.items) for item in default]
        case Map():
            return {name: default_value(value, node.values) for name, value in default.items()}
        case Union():
            branch = next(branch for branch in node.branches if fits(default, branch))
            return default_value(default, branch)
        case Record():
            return {
                each.name: default_value(default.get(each.name, each.default), each.type)
                for each in node.fields
            }
        case _:
            return default
