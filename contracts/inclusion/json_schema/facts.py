"""What a set of leaves says together, sorted so that one property or item is looked up in one step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tidegate.contracts.inclusion.json_schema.evaluate import is_additional, matches
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    Contains,
    ItemAt,
    ItemCount,
    ItemsFrom,
    Matching,
    Names,
    Node,
    OneValue,
    Property,
    PropertyCount,
    Required,
    TypeIs,
    UniqueItems,
    concerns,
)
from tidegate.contracts.inclusion.json_schema.values import ANYTHING, type_of


class Facts:
    """Leaves that all hold of one value; never changed once built."""

    def __init__(self, leaves: dict[int, Node]) -> None:
        self.leaves = leaves
        self.mask = ANYTHING
        self.speaks_of = 0
        self.values: list[OneValue] = []
        for leaf in leaves.values():
            if isinstance(leaf, TypeIs):
                self.mask &= leaf.mask
            elif isinstance(leaf, OneValue):
                self.values.append(leaf)
                self.mask &= types_of(leaf)
            else:
                self.speaks_of |= concerns(leaf)

    @cached_property
    def objects(self) -> ObjectFacts:
        """What the leaves say of an object."""
        return ObjectFacts(self.leaves.values())

    @cached_property
    def arrays(self) -> ArrayFacts:
        """What the leaves say of an array."""
        return ArrayFacts(self.leaves.values())


def types_of(node: OneValue) -> int:
    """Return the types of the values that are listed."""
    mask = 0
    for value in node.values:
        mask |= type_of(value)
    return mask


@dataclass(slots=True)
class Count:
    """How many there may be; `most` None is without end."""

    least: int = 0
    most: int | None = None

    def at_least(self, limit: int) -> None:
        """Narrow the range from below."""
        self.least = max(self.least, limit)

    def at_most(self, limit: int) -> None:
        """Narrow the range from above."""
        self.most = limit if self.most is None else min(self.most, limit)

    @property
    def is_empty(self) -> bool:
        """Whether no number is left."""
        return self.most is not None and self.least > self.most

    def copy(self) -> Count:
        """Return a range that may be narrowed without changing this one."""
        return Count(self.least, self.most)


@dataclass(slots=True)
class ObjectFacts:
    """What holds of the properties of an object."""

    leaves: Iterable[Node]
    count: Count = field(default_factory=Count)
    required: dict[str, Required] = field(default_factory=dict)
    properties: dict[str, list[Node]] = field(default_factory=dict)
    matching: list[Matching] = field(default_factory=list)
    additional: list[Additional] = field(default_factory=list)
    names: list[Node] = field(default_factory=list)
    is_possible: bool = False
    """Whether no required property was found to be impossible."""
    fillers: dict[str, list[Any]] = field(default_factory=dict)
    """Values that were made for properties."""
    _at: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    _filled: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for leaf in self.leaves:
            match leaf:
                case Required(name=name):
                    self.required[name] = leaf
                case Property(name=name, schema=schema):
                    self.properties.setdefault(name, []).append(schema)
                case Matching():
                    self.matching.append(leaf)
                case Additional():
                    self.additional.append(leaf)
                case Names(schema=schema):
                    self.names.append(schema)
                case PropertyCount(is_lower=True, limit=limit):
                    self.count.at_least(limit)
                case PropertyCount(limit=limit):
                    self.count.at_most(limit)

    @property
    def filled(self) -> dict[str, Any] | None:
        """Return the required properties, each with the first of its fillers; None as long as one has none."""
        if self._filled is None and self.required.keys() <= self.fillers.keys():
            self._filled = {name: self.fillers[name][0] for name in self.required}
        return self._filled

    def at(self, name: str) -> tuple[Node, ...]:
        """Return what the value of a property must fit. What surely applies is given, what only may is not."""
        known = self._at.get(name)
        if known is None:
            known = (
                *self.properties.get(name, ()),
                *(each.schema for each in self.matching if matches(each.pattern, name)),
                *(each.schema for each in self.additional if is_additional(name, each)),
            )
            self._at[name] = known
        return known


@dataclass(slots=True)
class ArrayFacts:
    """What holds of the items of an array."""

    leaves: Iterable[Node]
    count: Count = field(default_factory=Count)
    is_unique: bool = False
    single: dict[int, list[Node]] = field(default_factory=dict)
    rest: list[ItemsFrom] = field(default_factory=list)
    contains: list[Contains] = field(default_factory=list)
    every: list[Node] = field(default_factory=list)
    """What no item may fit: `contains` with at most 0."""

    def __post_init__(self) -> None:
        for leaf in self.leaves:
            match leaf:
                case ItemCount(is_lower=True, limit=limit):
                    self.count.at_least(limit)
                case ItemCount(limit=limit):
                    self.count.at_most(limit)
                case UniqueItems():
                    self.is_unique = True
                case ItemAt(index=index, schema=schema):
                    self.single.setdefault(index, []).append(schema)
                case ItemsFrom():
                    self.rest.append(leaf)
                case Contains():
                    self.contains.append(leaf)
                    if not leaf.is_lower and leaf.limit == 0:
                        self.every.append(leaf.schema)

    @property
    def regular_from(self) -> int:
        """Return the index from which on all items are under the same schemas."""
        return max([0, *(index + 1 for index in self.single), *(each.index for each in self.rest)])

    def at(self, index: int) -> tuple[Node, ...]:
        """Return what the item at an index must fit."""
        return (
            *self.single.get(index, ()),
            *(each.schema for each in self.rest if each.index <= index),
        )
