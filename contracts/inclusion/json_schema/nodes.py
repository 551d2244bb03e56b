"""Nodes of a formula: a schema as one condition on one JSON value, with dialects and references resolved.

Connectives (`All`, `AnyOf`, `ExactlyOne`, `Not`, `IfThenElse`, `DefinitionReference`) join leaves. A leaf constrains only values of
the types of its `group`. Nodes of equal form have the same `id`, in both schemas of a pair. `place` is where in the
schema document a node is written.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Final

from tidegate.contracts.inclusion.json_schema.values import ANYTHING, ARRAY, NUMBER, OBJECT, STRING, Key

_MAX_VISITED: Final = 200


class Side(StrEnum):
    """The schema of a pair that a node comes from; either can be the old or the new one."""

    ONE = "one"
    OTHER = "other"
    NEITHER = "neither"
    """Created by the proof itself."""


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """The place of a node: its JSON Pointer, its keyword ("" for a whole schema), and the value written there."""

    side: Side
    pointer: str
    keyword: str = ""
    value: Any = None


class Precision(StrEnum):
    """How the judge compares a number with a bound, for numbers beyond doubles and 64-bit integers."""

    EXACT = "exact"
    """Exactly: bounds up to 2^53, however they are written."""
    UNKNOWN = "unknown"
    """Exactly or by the nearest double: larger bounds."""


class Interner:
    """Assigns ids to forms: equal forms get the same id."""

    def __init__(self) -> None:
        self._ids: dict[Hashable, int] = {}

    def id_of(self, *form: Hashable) -> int:
        """Return the id of a form; ids count from 0 in the order of first use."""
        return self._ids.setdefault(form, len(self._ids))


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A condition on a value; `group` is the mask of the types that it constrains."""

    id: int
    place: SchemaPlace
    group: ClassVar[int] = ANYTHING


@dataclass(frozen=True, slots=True, eq=False)
class All(Node):
    """Every part holds; without parts, always true."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf(Node):
    """At least one part holds; without parts, always false."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ExactlyOne(Node):
    """Exactly one part holds."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Not(Node):
    """The part does not hold."""

    part: Node


@dataclass(frozen=True, slots=True, eq=False)
class IfThenElse(Node):
    """`then` holds if `test` holds, and `otherwise` holds if it does not."""

    test: Node
    then: Node
    otherwise: Node


@dataclass(slots=True)
class Definition:
    """The target of a reference; `node` is None until it is compiled."""

    node: Node | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DefinitionReference(Node):
    """A reference to a definition that may not be compiled yet."""

    definition: Definition = field(default_factory=Definition)


@dataclass(frozen=True, slots=True, eq=False)
class TypeIs(Node):
    """The type of the value is one of `mask`."""

    mask: int


@dataclass(frozen=True, slots=True, eq=False)
class OneValue(Node):
    """The value equals one of the listed values (`enum`, `const`); `by_key` maps `key_of` of each to the value."""

    by_key: dict[Key, Any]

    @property
    def values(self) -> tuple[Any, ...]:
        """Return the listed values, without duplicates."""
        return tuple(self.by_key.values())


@dataclass(frozen=True, slots=True, eq=False)
class Opaque(Node):
    """A condition that is not analysed; it is equivalent only to itself. `concerns` are the types it constrains."""

    concerns: int


@dataclass(frozen=True, slots=True, eq=False)
class Bound(Node):
    """The number is at least (`is_lower`) or at most `limit`, or strictly above or below it if `is_exclusive`.

    `precision` says how the judge compares.
    """

    is_lower: bool
    limit: Fraction
    is_exclusive: bool
    precision: Precision
    group: ClassVar[int] = NUMBER


@dataclass(frozen=True, slots=True, eq=False)
class MultipleOf(Node):
    """The number is an integer times `step`, which is positive.

    `precision` is UNKNOWN for steps such as 2.0, else EXACT.
    """

    step: Fraction
    precision: Precision
    group: ClassVar[int] = NUMBER


@dataclass(frozen=True, slots=True, eq=False)
class WrittenAsInteger(Node):
    """The number is written without a fraction and an exponent: an integer of draft 4."""

    group: ClassVar[int] = NUMBER


@dataclass(frozen=True, slots=True, eq=False)
class Length(Node):
    """The string has at least (`is_lower`) or at most `limit` characters."""

    is_lower: bool
    limit: int
    group: ClassVar[int] = STRING


@dataclass(frozen=True, slots=True, eq=False)
class Pattern(Node):
    """The regular expression matches somewhere in the string."""

    pattern: str
    group: ClassVar[int] = STRING


@dataclass(frozen=True, slots=True, eq=False)
class Format(Node):
    """The string has the format, which the dialect asserts."""

    name: str
    dialect_uri: str
    group: ClassVar[int] = STRING


@dataclass(frozen=True, slots=True, eq=False)
class ItemCount(Node):
    """The array has at least (`is_lower`) or at most `limit` items."""

    is_lower: bool
    limit: int
    group: ClassVar[int] = ARRAY


@dataclass(frozen=True, slots=True, eq=False)
class UniqueItems(Node):
    """No two items of the array are equal."""

    group: ClassVar[int] = ARRAY


@dataclass(frozen=True, slots=True, eq=False)
class ItemAt(Node):
    """The item at `index`, if there is one, fits `schema`."""

    index: int
    schema: Node
    group: ClassVar[int] = ARRAY


@dataclass(frozen=True, slots=True, eq=False)
class ItemsFrom(Node):
    """Every item from `index` on fits `schema`."""

    index: int
    schema: Node
    group: ClassVar[int] = ARRAY


@dataclass(frozen=True, slots=True, eq=False)
class Contains(Node):
    """At least (`is_lower`) or at most `limit` items fit `schema`."""

    is_lower: bool
    limit: int
    schema: Node
    group: ClassVar[int] = ARRAY


@dataclass(frozen=True, slots=True, eq=False)
class PropertyCount(Node):
    """The object has at least (`is_lower`) or at most `limit` properties."""

    is_lower: bool
    limit: int
    group: ClassVar[int] = OBJECT


@dataclass(frozen=True, slots=True, eq=False)
class Required(Node):
    """The object has the property."""

    name: str
    group: ClassVar[int] = OBJECT


@dataclass(frozen=True, slots=True, eq=False)
class Property(Node):
    """The property, if there is one, fits `schema`."""

    name: str
    schema: Node
    group: ClassVar[int] = OBJECT


@dataclass(frozen=True, slots=True, eq=False)
class PatternProperty(Node):
    """Every property whose name matches `pattern` fits `schema`."""

    pattern: str
    schema: Node
    group: ClassVar[int] = OBJECT


@dataclass(frozen=True, slots=True, eq=False)
class Additional(Node):
    """Every property that is neither among `names` nor matches one of `patterns` fits `schema`."""

    names: frozenset[str]
    patterns: tuple[str, ...]
    schema: Node
    group: ClassVar[int] = OBJECT


@dataclass(frozen=True, slots=True, eq=False)
class PropertyNames(Node):
    """Every name of a property, as a string, fits `schema`."""

    schema: Node
    group: ClassVar[int] = OBJECT


def concerns(node: Node) -> int:
    """Return the types that a leaf constrains."""
    return node.concerns if isinstance(node, Opaque) else node.group


def resolved(node: Node) -> Node:
    """Return the node at the end of a chain of references. Loops of references must be excluded before."""
    while isinstance(node, DefinitionReference) and node.definition.node is not None:
        node = node.definition.node
    return node


def is_false(node: Node) -> bool:
    """Return whether the form of a node shows that it accepts nothing. False is not a proof of the contrary."""
    waiting, seen = [node], set[int]()
    while waiting and len(seen) < _MAX_VISITED:
        node = resolved(waiting.pop())
        if isinstance(node, AnyOf) and not node.parts:
            return True
        if isinstance(node, All) and id(node) not in seen:
            seen.add(id(node))
            waiting.extend(node.parts)
    return False
