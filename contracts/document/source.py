"""A document as its author wrote it: its value, and the line and column of each part.

Both readers, `tidegate.contracts.document.json_source` and `tidegate.contracts.document.yaml_source`, build the same tree
of nodes; `resolve` converts it to plain values and places. Values are exact: an integer of any size stays an integer. A
fraction that a double would change is refused, because a contract's fingerprint must not depend on a parser's rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any

from tidegate.contracts.errors import ContractError, Problem

MAX_DEPTH = 100
"""Maximum nesting of a document."""
MAX_NODES = 200_000
"""Maximum number of values in a document after its aliases are expanded."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column, both counted from 1; the column counts characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar; `written` is its text in the document, which is used if it is a key."""

    place: Place
    value: str | int | float | bool | None
    written: str


@dataclass(frozen=True, slots=True)
class SourceItems:
    """A sequence."""

    place: Place
    nodes: list[Node]


@dataclass(frozen=True, slots=True)
class SourceEntries:
    """A mapping, including duplicate keys."""

    place: Place
    pairs: list[tuple[Leaf, Node]]


Node = Leaf | SourceItems | SourceEntries


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One document: its plain value, and the place of each JSON Pointer (RFC 6901) into it.

    `values` maps pointers to where the value starts, `keys` to where its key starts. `blocks` are the pointers of
    mappings and sequences. `problems` are mistakes that do not prevent reading, such as duplicate keys.
    """

    name: str
    value: Any
    values: dict[str, Place]
    keys: dict[str, Place]
    blocks: frozenset[str]
    problems: tuple[Problem, ...] = ()

    def problem(self, pointer: str, message: str, *, at_key: bool = False) -> Problem:
        """Return a problem with its position: at `pointer`, or at the nearest ancestor that the document has.

        A scalar is located at its start, a mapping or sequence at its key. With `at_key`, so is every value.
        """
        place = self._place(pointer, at_key=at_key)
        return Problem(pointer, message, self.name, place.line, place.column)

    def _place(self, pointer: str, *, at_key: bool) -> Place:
        while pointer and pointer not in self.values:
            pointer = pointer.rpartition("/")[0]
            at_key = True
        begin = self.values.get(pointer, Place(1, 1))
        key = self.keys.get(pointer)
        # A block starts on the line after its key, but authors look for the key.
        return key if key is not None and (at_key or pointer in self.blocks) else begin


def syntax_error(name: str, place: Place, message: str) -> ContractError:
    """Return the error for a document that cannot be read at all."""
    return ContractError((Problem("", message, name, place.line, place.column),))


def escape(token: str) -> str:
    """Escape one reference token of a JSON Pointer. Source: RFC 6901 section 3."""
    return token.replace("~", "~0").replace("/", "~1")


def exact_number(text: str) -> int | float | None:
    """Return a decimal number exactly; None if a double would change it.

    0.1 is exact, because the double prints as 0.1 again; 0.30000000000000001 and 1e400 are not.
    """
    try:
        return int(text)
    except ValueError:  # not an integer, or one with more digits than Python converts
        number = float(text)
    if not isfinite(number):
        return None
    try:
        return number if Decimal(text) == Decimal(repr(number)) else None
    except InvalidOperation:  # the exponent is out of range for a Decimal too
        return None


def resolve(name: str, root: Node) -> SourceDocument:
    """Convert a tree of nodes to a source. Raises ContractError if aliases make it too large."""
    resolver = _Resolver(name)
    value = resolver.value_of(root, "")
    return SourceDocument(
        name, value, resolver.values, resolver.keys, frozenset(resolver.blocks), tuple(resolver.problems)
    )


@dataclass(slots=True)
class _Resolver:
    name: str
    values: dict[str, Place] = field(default_factory=dict)
    keys: dict[str, Place] = field(default_factory=dict)
    blocks: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def value_of(self, node: Node, pointer: str) -> Any:
        if len(self.values) >= MAX_NODES:
            raise syntax_error(self.name, node.place, f"the document has more than {MAX_NODES:,} values")
        self.values[pointer] = node.place
        match node:
            case Leaf():
                return self._scalar(node, pointer)
            case SourceItems():
                self.blocks.add(pointer)
                return [self.value_of(item, f"{pointer}/{index}") for index, item in enumerate(node.nodes)]
            case SourceEntries():
                self.blocks.add(pointer)
                return self._mapping(node, pointer)

    def _mapping(self, node: SourceEntries, pointer: str) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in node.pairs:
            name = self._unicode(key.written, pointer, key.place)
            child = f"{pointer}/{escape(name)}"
            if name in mapping:
                first = self.keys[child]
                message = f"key `{name}` is given twice; the first is at {first.line}:{first.column}"
                self._report(child, message, key.place)
                continue
            self.keys[child] = key.place
            mapping[name] = self.value_of(value, child)
        return mapping

    def _scalar(self, leaf: Leaf, pointer: str) -> str | float | bool | None:
        if isinstance(leaf.value, str):
            return self._unicode(leaf.value, pointer, leaf.place)
        return leaf.value

    def _unicode(self, text: str, pointer: str, place: Place) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            self._report(pointer, "a lone surrogate (\\ud800 to \\udfff) is no character", place)
            return text.encode(errors="replace").decode()
        return text

    def _report(self, pointer: str, message: str, place: Place) -> None:
        self.problems.append(Problem(pointer, message, self.name, place.line, place.column))
