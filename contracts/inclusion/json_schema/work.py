"""How much work judging is: the judge looks at a definition once for every way that leads to it.

Forty definitions that each name the next one twice make a small schema and 2^40 looks. What would take too long is not
judged, and what is not judged is not refuted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tidegate.contracts.inclusion.json_schema.evaluate import is_additional, matches
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    All,
    AnyOf,
    Condition,
    Contains,
    ItemAt,
    ItemsFrom,
    Matching,
    Names,
    Node,
    Not,
    OneOf,
    Property,
    Reference,
)

MAX_LOOKS: Final = 100_000


def beside(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node joins: they speak of the same value."""
    match node:
        case All(parts=parts) | AnyOf(parts=parts) | OneOf(parts=parts):
            return parts
        case Not(part=part):
            return (part,)
        case Condition(test=test, then=then, otherwise=otherwise):
            return test, then, otherwise
        case Reference() if node.definition.node is not None:
            return (node.definition.node,)
        case _:
            return ()


def below(node: Node) -> tuple[Node, ...]:
    """Return the node that speaks of items, properties or names."""
    match node:
        case (
            Property(schema=schema)
            | Matching(schema=schema)
            | Additional(schema=schema)
            | Names(schema=schema)
            | ItemAt(schema=schema)
            | ItemsFrom(schema=schema)
            | Contains(schema=schema)
        ):
            return (schema,)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Effort:
    """What judging a document takes: `looks` of the judge, and how many of them had to be counted one by one."""

    looks: int
    counted: int

    @property
    def is_bounded(self) -> bool:
        """Whether the judge looks at most MAX_LOOKS times at a node and a value."""
        return self.looks <= MAX_LOOKS


class Work:
    """Tells for one schema which documents are judged in bounded time."""

    def __init__(self, root: Node, parts: int, *, is_recursive: bool) -> None:
        self.parts = parts
        self._root = root
        # No value makes the judge look more often than at every part, but for several items.
        self._is_small = not is_recursive and parts <= MAX_LOOKS // 2

    def effort(self, document: Any) -> Effort:
        """Return what judging a document takes."""
        if self._is_small:
            return Effort(0, 0)
        known: dict[tuple[int, int], int] = {}
        try:
            return Effort(_looks(document, self._root, known), len(known))
        except RecursionError:
            return Effort(MAX_LOOKS + 1, len(known))


def _looks(value: Any, node: Node, known: dict[tuple[int, int], int]) -> int:
    key = (id(value), id(node))
    if key not in known:
        known[key] = 0  # a loop is cut by the judge, too
        same = sum(_looks(value, part, known) for part in beside(node))
        known[key] = 1 + same + sum(_looks(part, inner, known) for part, inner in _members(value, node))
    return known[key]


def _members(value: Any, node: Node) -> list[tuple[Any, Node]]:
    """Return the parts of a value that a leaf looks at, and what it asks of them."""
    if isinstance(value, list) and isinstance(node, ItemAt | ItemsFrom | Contains):
        first = 0 if isinstance(node, Contains) else node.index
        last = first + 1 if isinstance(node, ItemAt) else len(value)
        return [(item, node.schema) for item in value[first:last]]
    if not isinstance(value, dict):
        return []
    names: list[str] = []
    match node:
        case Property(name=name):
            names = [name] if name in value else []
        case Matching(pattern=pattern):
            names = [name for name in value if matches(pattern, name) is not False]
        case Additional():
            names = [name for name in value if is_additional(name, node) is not False]
        case Names(schema=schema):
            return [(name, schema) for name in value]
    return [(value[name], schema) for name in names for schema in below(node)]
