"""Candidate arrays and objects for a counterexample, which fit some nodes of a branch and break others.

A branch is a conjunction of nodes: those that must hold, and `broken` ones that must not. A candidate is built around
the items or properties that break a node. It may not satisfy the branch, so the caller must check it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from tidegate.contracts.inclusion.json_schema.branch import Branch, Count
from tidegate.contracts.inclusion.json_schema.candidates import ContainerBuilder, WitnessBuilder
from tidegate.contracts.inclusion.json_schema.containers import BrokenArray, BrokenObject
from tidegate.contracts.inclusion.json_schema.nodes import Node, Opaque
from tidegate.contracts.inclusion.json_schema.values import ARRAY, OBJECT, key_of

_MAX_VALUES: Final = 6
"""Values to try for one item or property."""
_MAX_STARTS: Final = 12
"""Sets of required items or properties to try."""
_MAX_SIZE: Final = 300
"""Maximum items or properties of a candidate."""
_EXTRA_VALUES: Final[tuple[Any, ...]] = (0, "", [], {}, "a", 1)
"""Items and property values to add where it is unknown what would break a leaf."""


def arrays(
    builder: WitnessBuilder, branch: Branch, depth: int, forced: dict[int, Any]
) -> Iterator[list[Any]]:
    """Yield candidate arrays for a branch; `forced` maps indexes to given items."""
    return _Arrays(builder, branch, depth).make(forced)


def objects(
    builder: WitnessBuilder, branch: Branch, depth: int, forced: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield candidate objects for a branch; `forced` maps names to given property values."""
    return _Objects(builder, branch, depth).make(forced)


def _has_opaque_leaf(branch: Branch) -> bool:
    """Return whether an opaque node must be broken, so that values can only be guessed."""
    return any(isinstance(leaf, Opaque) for leaf in branch.broken.values())


@dataclass(frozen=True, slots=True)
class _RequiredItem:
    """An item that an array must have, at `index` or (None) anywhere. It fits `holding` and breaks `broken`."""

    index: int | None
    holding: tuple[Node, ...] = ()
    broken: tuple[Node, ...] = ()


class _Arrays:
    """Builds candidate arrays for one branch."""

    def __init__(self, builder: WitnessBuilder, branch: Branch, depth: int) -> None:
        self._builder = builder
        self._branch = branch
        self._depth = depth + 1
        self._facts = branch.facts.arrays
        self._count = self._facts.count.copy()
        self._broken = BrokenArray.of(branch, self._count)
        # Other items should not match these, to keep an upper limit of `contains` or to break a lower one.
        self._unwanted = (
            *(each.schema for each in self._facts.contains if not each.is_lower),
            *(each.schema for each in self._broken.contains if each.is_lower),
        )

    def make(self, forced: dict[int, Any]) -> Iterator[list[Any]]:
        for required in self._required_items():
            for choice in range(_MAX_VALUES):
                filled = self._fill_in(required, dict(forced), choice)
                if filled is None:  # some item has no value with this number
                    break
                yield from self._of_lengths(filled)
                if not required:
                    break

    def _of_lengths(self, filled: dict[int, Any]) -> Iterator[list[Any]]:
        """Yield arrays with the filled items, of the shortest possible length and of one item more."""
        size = max([self._count.least, *(index + 1 for index in filled)])
        for length in (size, size + 1):
            array = self._completed(dict(filled), length)
            if array is None:
                continue
            yield array
            if self._broken.is_repeating and len(array) > 1:
                yield [array[0]] * len(array)
                yield [*array[:-1], array[0]]
            if _has_opaque_leaf(self._branch):
                yield from ([*array, extra] for extra in _EXTRA_VALUES)

    def _required_items(self) -> list[list[_RequiredItem]]:
        """Return alternative lists of required items; the items of each list together break all broken leaves."""
        sets = [[_RequiredItem(index, (), tuple(schemas)) for index, schemas in self._broken.single.items()]]
        for leaf in self._broken.rest:
            last = max(leaf.index, self._facts.regular_from)
            indexes = [*range(leaf.index, min(last, leaf.index + 3) + 1)]
            sets = [
                [*required, _RequiredItem(index, (), (leaf.schema,))]
                for required in sets
                for index in indexes
            ]
        needed: dict[int, tuple[int, Node]] = {}  # by schema id: how many items must match, and the schema
        for group, is_lower in ((self._facts.contains, True), (self._broken.contains, False)):
            for each in group:
                limit = each.limit if is_lower else each.limit + 1
                if each.is_lower is is_lower and limit > needed.get(each.schema.id, (0,))[0]:
                    needed[each.schema.id] = (limit, each.schema)
        for limit, schema in needed.values():
            sets = [required + [_RequiredItem(None, (schema,))] * min(limit, _MAX_SIZE) for required in sets]
        return sets[:_MAX_STARTS]

    def _fill_in(
        self, required: list[_RequiredItem], filled: dict[int, Any], choice: int
    ) -> dict[int, Any] | None:
        """Add the required items, each with its value number `choice`; None if one has no such value."""
        for item in required:
            if item.index in filled:
                continue
            for index in [item.index] if item.index is not None else range(len(filled) + 4):
                values = [] if index in filled else self._values(index, item, filled)
                if len(values) > choice:
                    filled[index] = values[choice]
                    break
            else:
                return None
        return filled

    def _completed(self, filled: dict[int, Any], length: int) -> list[Any] | None:
        """Fill the other indexes below `length`, if possible with items that match no unwanted schema.

        Returns None if an index cannot be filled or the array would be too large.
        """
        if length > _MAX_SIZE:
            return None
        for index in range(length):
            if index in filled:
                continue
            required = (_RequiredItem(index, (), self._unwanted), _RequiredItem(index))
            values = next((made for item in required if (made := self._values(index, item, filled))), None)
            if values is None:
                return None
            filled[index] = values[0]
        return [filled[index] for index in sorted(filled)]

    def _values(self, index: int, item: _RequiredItem, filled: dict[int, Any]) -> list[Any]:
        """Return values for an item at an index; with `uniqueItems`, only values that are not in the array yet."""
        holding = (*self._facts.at(index), *item.holding)
        broken = (*self._broken.every, *item.broken)
        if not self._facts.is_unique:
            return self._builder.values(holding, broken, self._depth, _MAX_VALUES)
        taken = {key_of(value) for value in filled.values()}
        made = self._builder.values(holding, broken, self._depth, len(filled) + _MAX_VALUES)
        return [value for value in made if key_of(value) not in taken]


class _Objects:
    """Builds candidate objects for one branch."""

    def __init__(self, builder: WitnessBuilder, branch: Branch, depth: int) -> None:
        self._builder = builder
        self._branch = branch
        self._depth = depth
        self._facts = branch.facts.objects
        self._count: Count = self._facts.count.copy()
        self._broken = BrokenObject.of(branch, self._count)

    def make(self, forced: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for start in self._starts(forced):
            for completed in self._completed(start):
                padded = self._padded(completed)
                if padded is None:
                    continue
                yield padded
                if _has_opaque_leaf(self._branch):
                    yield from self._extended(padded)

    def _starts(self, forced: dict[str, Any]) -> list[dict[str, Any]]:
        """Return alternative sets of properties that break the nodes which a property of any name may break."""
        starts = [dict(forced)]
        for leaf in self._broken.somewhere:
            additions = [
                {name: value}
                for place in self._builder.places(self._branch, leaf, self._depth)
                for name in self._builder.names(place)[:3]
                for value in self._builder.values(place.holding, place.broken, self._depth + 1)[:4]
            ]
            starts = [{**start, **added} for start in starts for added in additions][:_MAX_STARTS]
        return starts

    def _completed(self, start: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the object with all required properties, then variants that differ in one property."""
        filled = None if self._broken.properties else self._facts.filled
        first = self._first(start) if filled is None else {**start, **filled, **start}
        if first is None:
            return
        yield first
        for name in islice(self._needed(start), _MAX_VALUES):
            yield from ({**first, name: value} for value in self._values_of(name)[1:])

    def _first(self, start: dict[str, Any]) -> dict[str, Any] | None:
        first = dict(start)
        for name in self._needed(start):
            made = self._values_of(name)
            if not made:
                return None
            first[name] = made[0]
        return first

    def _needed(self, start: dict[str, Any]) -> Iterator[str]:
        names = dict.fromkeys((*self._broken.properties, *self._facts.required))
        return (name for name in names if name not in start)

    def _values_of(self, name: str) -> list[Any]:
        """Return values for a required property."""
        facts, broken = self._facts, self._broken.properties
        if name in broken:
            return self._builder.values(facts.at(name), broken[name], self._depth + 1)
        made = facts.fillers.get(name)
        if made is None:
            made = self._builder.values(facts.at(name), (), self._depth + 1)
            if made:
                facts.fillers[name] = made
        return made

    def _padded(self, start: dict[str, Any]) -> dict[str, Any] | None:
        """Add optional properties up to the minimum number; None if there are not enough."""
        least = self._count.least
        if least > _MAX_SIZE:
            return None
        padded = dict(start)
        for name in self._free_names() if len(padded) < least else ():
            if len(padded) >= least:
                break
            if name not in padded and name not in self._broken.absent:
                made = self._builder.values(self._facts.at(name), (), self._depth + 1, 1)
                if made:
                    padded[name] = made[0]
        return padded if len(padded) >= least else None

    def _extended(self, start: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for name in (*islice(self._facts.properties, _MAX_VALUES), "a", ""):
            if name not in start and name not in self._broken.absent:
                yield from ({**start, name: extra} for extra in _EXTRA_VALUES)

    def _free_names(self) -> Iterator[str]:
        """Yield names for optional properties: declared ones, arbitrary ones, then those that match patterns."""
        least = self._count.least
        yield from self._facts.properties
        yield from (f"a{index}" for index in range(2 * least))
        prover = self._builder.prover
        for pattern in [*(each.pattern for each in self._facts.matching), None]:
            named = (prover.text, *self._facts.names, *prover.patterns(pattern))
            made = self._builder.values(named, (), 0, 2 * least + 2)
            yield from (name for name in made if isinstance(name, str))


BUILDERS: Final[dict[int, ContainerBuilder]] = {ARRAY: arrays, OBJECT: objects}
"""The builder of candidates, by container type."""
