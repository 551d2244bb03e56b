"""Avro schemas as a graph of types, each with its place in the schema document.

fastavro parses the schemas, which makes names full and checks references. The graph has types in place of references,
so it may have cycles. Source: Apache Avro 1.12 specification, "Schema Declaration" and "Logical Types".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from tidegate.contracts.errors import ContractError

MAX_NESTING: Final = 150
"""Maximum nesting of a schema, because types are processed recursively."""
MAX_PRECISION: Final = 1_000
"""Maximum precision of a decimal that is accepted."""
MAX_FREE_VALUES: Final = 1_000
"""Maximum values in a row that take no bytes: a record of nulls, or an array of them."""

_BASES: Final = {
    "date": {"int"},
    "time-millis": {"int"},
    "time-micros": {"long"},
    "timestamp-millis": {"long"},
    "timestamp-micros": {"long"},
    "timestamp-nanos": {"long"},
    "local-timestamp-millis": {"long"},
    "local-timestamp-micros": {"long"},
    "local-timestamp-nanos": {"long"},
    "uuid": {"string", "fixed"},
    "duration": {"fixed"},
}
UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
"""A UUID in the form of RFC 4122."""
_DAY_MILLIS: Final = 86_400_000
TIME_LIMITS: Final = {"time-millis": _DAY_MILLIS, "time-micros": 1_000 * _DAY_MILLIS}
"""The smallest number that is no time of day, by logical type."""
_SIZES: Final = {"uuid": 16, "duration": 12}


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type of the specification on an underlying type that it allows; all others are ignored.

    `precision` and `scale` are those of a decimal.
    """

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


@dataclass(eq=False, slots=True)
class Primitive:
    """A primitive type: null, boolean, int, long, float, double, bytes or string."""

    pointer: str
    kind: str
    logical: Logical | None = None

    def __str__(self) -> str:
        return str(self.logical or self.kind)


@dataclass(eq=False, slots=True)
class Fixed:
    """A fixed type: bytes of a fixed length. Name and aliases are full names."""

    pointer: str
    name: str
    aliases: frozenset[str]
    size: int
    logical: Logical | None = None

    def __str__(self) -> str:
        return f"{self.logical or 'fixed'} `{self.name}`"


@dataclass(eq=False, slots=True)
class Enum:
    """An enum type; a reader uses `default`, unless it is None, for a symbol that it does not have."""

    pointer: str
    name: str
    aliases: frozenset[str]
    symbols: tuple[str, ...]
    default: str | None

    def __str__(self) -> str:
        return f"enum `{self.name}`"


@dataclass(eq=False, slots=True)
class Array:
    """An array type."""

    pointer: str
    items: AvroType

    def __str__(self) -> str:
        return "array"


@dataclass(eq=False, slots=True)
class Map:
    """A map type, from strings to values of one type."""

    pointer: str
    values: AvroType

    def __str__(self) -> str:
        return "map"


@dataclass(eq=False, slots=True)
class Union:
    """A union type: a value is of one of the branches."""

    pointer: str
    branches: tuple[AvroType, ...]

    def __str__(self) -> str:
        return f"union of {', '.join(str(branch) for branch in self.branches)}"


@dataclass(eq=False, slots=True)
class RecordField:
    """A field of a record; `default` is only meaningful if `has_default`, because null is a default too."""

    pointer: str
    name: str
    aliases: tuple[str, ...]
    type: AvroType
    has_default: bool = False
    default: Any = None


@dataclass(eq=False, slots=True)
class Record:
    """A record type, with its fields in the order of the encoding."""

    pointer: str
    name: str
    aliases: frozenset[str]
    fields: list[RecordField] = field(default_factory=list)

    def __str__(self) -> str:
        return f"record `{self.name}`"


Named = Record | Enum | Fixed
AvroType = Primitive | Fixed | Enum | Array | Map | Union | Record
"""A type of the graph, compared by identity."""


class AvroTooDeepError(Exception):
    """A schema nested deeper than MAX_NESTING."""


def parse(definition: Any, pointer: str = "", *, is_strict: bool = False) -> AvroType:
    """Parse a schema document; with `is_strict`, also refuse mistakes that fastavro accepts.

    Raises ContractError at `pointer` for an invalid schema, and TooDeepError.
    """
    if depth_exceeds(definition):
        raise AvroTooDeepError
    try:
        parsed = fastavro.parse_schema(definition, named_schemas={})
        if is_strict:
            _require_strict(parsed)
        root = graph(parsed)
    except UnknownType as error:
        reason = f"no type is named {error.name}"
    except OverflowError:  # fastavro converts the default of a float to a double
        reason = "a default is too large for a double; write a smaller number"
    except KeyError as error:
        reason = f"{error} is missing"
    except (SchemaParseException, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = str(error)
    else:
        _check_free_values(root, pointer)
        return root
    raise ContractError.at(pointer, f"not an Avro schema: {reason}")


class FreeValues:
    """Counts the values of types that take no bytes, each record once."""

    def __init__(self) -> None:
        self._known: dict[int, int | None] = {}

    def count(self, node: AvroType) -> int | None:
        """Return the number of values in a value of a type, itself included; None if the value takes bytes."""
        match node:
            case Primitive(kind="null") | Fixed(size=0):
                return 1
            case Record():
                if id(node) not in self._known:
                    self._known[id(node)] = None  # a record that contains itself has no finite value
                    counts = [self.count(each.type) for each in node.fields]
                    free = [count for count in counts if count is not None]
                    if len(free) == len(counts):
                        self._known[id(node)] = 1 + sum(free)
                return self._known[id(node)]
            case _:
                return None


def _check_free_values(root: AvroType, pointer: str) -> None:
    """Raise ContractError for a record that takes no bytes, or a default, of more than MAX_FREE_VALUES values.

    Thirty records that each contain the next one twice take 2 KB, and a value of the first has 2^30 values.
    """
    free, defaults = FreeValues(), _DefaultValues()
    for node in nodes(root):  # in this order no count goes deeper than the schema is nested
        if not isinstance(node, Record):
            continue
        if (free.count(node) or 0) > MAX_FREE_VALUES:
            reason = f"{node} takes no bytes and has more than {MAX_FREE_VALUES:,} values; remove some of its fields"
            raise ContractError.at(f"{pointer}{node.pointer}", reason)
        for each in node.fields:
            if each.has_default and defaults.count(each.default, each.type) > MAX_FREE_VALUES:
                reason = (
                    f"the default has more than {MAX_FREE_VALUES:,} values, with those of the records in it"
                )
                raise ContractError.at(f"{pointer}{each.pointer}", reason)


class _DefaultValues:
    """Counts the values of defaults, with the defaults of fields that they omit; each pair of both only once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}

    def count(self, default: Any, node: AvroType) -> int:
        """Return the number of values, for a union the largest of any branch."""
        key = (id(default), id(node))
        if key not in self._known:
            self._known[key] = MAX_FREE_VALUES + 1  # a default that contains itself is infinite
            self._known[key] = 1 + self._inner(default, node)
        return self._known[key]

    def _inner(self, default: Any, node: AvroType) -> int:
        match node, default:
            case Record(), dict():
                if not all(each.has_default or each.name in default for each in node.fields):
                    return 0  # no value of the type, so nothing has it
                return sum(
                    self.count(default.get(each.name, each.default), each.type) for each in node.fields
                )
            case Array(), list():
                return sum(self.count(item, node.items) for item in default)
            case Map(), dict():
                return sum(self.count(value, node.values) for value in default.values())
            case Union(), _:
                return max((self.count(default, branch) for branch in node.branches), default=0)
            case _:
                return 0


def graph(parsed: Any) -> AvroType:
    """Build the graph of a schema that fastavro parsed."""
    return _Builder().build(parsed, "")


def decimal_of(schema: dict[str, Any]) -> tuple[int, int] | None:
    """Return precision and scale of a decimal; None for any other type, and for an invalid decimal, to be ignored."""
    if schema.get("logicalType") != "decimal" or schema["type"] not in ("bytes", "fixed"):
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0:
        return precision, scale
    return None


def unqualified(name: str) -> str:
    """Return a full name without its namespace."""
    return name.rpartition(".")[2]


def nodes(root: AvroType) -> Iterator[AvroType]:
    """Yield every type of a graph once, in the order of the document."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack.extend(reversed(children(node)))


def children(node: AvroType) -> list[AvroType]:
    """Return the direct component types of a type; empty for a primitive, fixed or enum."""
    match node:
        case Record():
            return [each.type for each in node.fields]
        case Array():
            return [node.items]
        case Map():
            return [node.values]
        case Union():
            return list(node.branches)
        case _:
            return []


class _Builder:
    """Builds the graph of types from a parsed schema, in which all names are full."""

    def __init__(self) -> None:
        self._named: dict[str, Named] = {}

    def build(self, schema: Any, pointer: str) -> AvroType:  # noqa: PLR0911 - one for each type
        if isinstance(schema, list):
            branches = (self.build(branch, f"{pointer}/{index}") for index, branch in enumerate(schema))
            return Union(pointer, tuple(branches))
        if isinstance(schema, str):
            return self._named[schema] if schema in self._named else Primitive(pointer, schema)
        match schema["type"]:
            case "array":
                return Array(pointer, self.build(schema["items"], f"{pointer}/items"))
            case "map":
                return Map(pointer, self.build(schema["values"], f"{pointer}/values"))
            case "record" | "error" | "enum" | "fixed":
                return self._define(schema, pointer)
            case str(kind) if kind not in self._named:
                return Primitive(pointer, kind, _logical(schema, kind))
            case wrapped:
                return self.build(wrapped, f"{pointer}/type")

    def _define(self, schema: Any, pointer: str) -> Named:
        name = schema["name"]
        namespace = name.rpartition(".")[0]
        aliases = frozenset(
            alias if "." in alias or not namespace else f"{namespace}.{alias}"
            for alias in schema.get("aliases", [])
        )
        match schema["type"]:
            case "enum":
                enum = Enum(pointer, name, aliases, tuple(schema["symbols"]), schema.get("default"))
                self._named[name] = enum
                return enum
            case "fixed":
                fixed = Fixed(pointer, name, aliases, schema["size"], _logical(schema, "fixed"))
                self._named[name] = fixed
                return fixed
        record = Record(pointer, name, aliases)
        self._named[name] = record
        for index, each in enumerate(schema["fields"]):
            place = f"{pointer}/fields/{index}"
            inner = self.build(each["type"], f"{place}/type")
            more = (True, each["default"]) if "default" in each else (False, None)
            record.fields.append(
                RecordField(place, each["name"], tuple(each.get("aliases", [])), inner, *more)
            )
        return record


def _logical(schema: dict[str, Any], kind: str) -> Logical | None:
    name = schema.get("logicalType")
    if (decimal := decimal_of(schema)) is not None:
        return Logical("decimal", *decimal)
    if kind not in _BASES.get(str(name), ()):
        return None
    if kind == "fixed" and schema["size"] != _SIZES[str(name)]:
        return None
    return Logical(str(name))


def depth_exceeds(definition: Any, most: int = 3 * MAX_NESTING) -> bool:
    """Return whether a document has more than `most` levels, so that a recursive walk may fail.

    The default corresponds to MAX_NESTING: each field takes three levels of the document.
    """
    level = [definition]
    for _ in range(most):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


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
    """Require a valid union. Source: specification, "Unions"."""
    kinds = [branch if isinstance(branch, str) else _kind(branch) for branch in branches]
    if "union" in kinds:
        raise SchemaParseException("a union must not stand directly in a union")
    if len(set(kinds)) < len(kinds):
        raise SchemaParseException("a union must not have two branches of one type, but for named types")


def _kind(branch: Any) -> str:
    if isinstance(branch, list):
        return "union"
    return str(branch.get("name", branch["type"]))
