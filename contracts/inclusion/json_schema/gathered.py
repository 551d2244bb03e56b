"""Arrays and objects that may fit the leaves of a branch, built around the item or property that breaks one."""

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

_FEW: Final = 6
_MAX_STARTS: Final = 12
_MAX_SIZE: Final = 300
_EXTRA: Final[tuple[Any, ...]] = (0, "", [], {}, "a", 1)
"""Items and values to add where nothing is known of what would break a leaf."""


def arrays(
    builder: WitnessBuilder, branch: Branch, depth: int, forced: dict[int, Any]
) -> Iterator[list[Any]]:
    """Return arrays for the leaves of a branch, some items given by their index."""
    return _Arrays(builder, branch, depth).make(forced)


def objects(
    builder: WitnessBuilder, branch: Branch, depth: int, forced: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Return objects for the leaves of a branch, some properties given by their name."""
    return _Objects(builder, branch, depth).make(forced)


def _is_in_the_dark(branch: Branch) -> bool:
    return any(isinstance(leaf, Opaque) for leaf in branch.broken.values())


@dataclass(frozen=True, slots=True)
class _Wish:
    """An item that must be there: at an index or anywhere, fitting and breaking some nodes."""

    index: int | None
    holding: tuple[Node, ...] = ()
    broken: tuple[Node, ...] = ()


class _Arrays:
    def __init__(self, builder: WitnessBuilder, branch: Branch, depth: int) -> None:
        self._maker = builder
        self._branch = branch
        self._depth = depth + 1
        self._facts = branch.facts.arrays
        self._count = self._facts.count.copy()
        self._broken = BrokenArray.of(branch, self._count)
        groups = ((self._facts.contains, False), (self._broken.contains, True))
        self._unwanted = tuple(
            each.schema for group, side in groups for each in group if each.is_lower is side
        )

    def make(self, forced: dict[int, Any]) -> Iterator[list[Any]]:
        for wishes in self._wishes():
            for choice in range(_FEW):
                filled = self._granted(wishes, dict(forced), choice)
                if filled is None:
                    break
                yield from self._of_sizes(filled)
                if not wishes:
                    break

    def _of_sizes(self, filled: dict[int, Any]) -> Iterator[list[Any]]:
        size = max([self._count.least, *(index + 1 for index in filled)])
        for length in (size, size + 1):
            array = self._completed(dict(filled), length)
            if array is None:
                continue
            yield array
            if self._broken.is_repeating and len(array) > 1:
                yield [array[0]] * len(array)
                yield [*array[:-1], array[0]]
            if _is_in_the_dark(self._branch):
                yield from ([*array, extra] for extra in _EXTRA)

    def _wishes(self) -> list[list[_Wish]]:
        """Return sets of items that together break what must be broken."""
        sets = [[_Wish(index, (), tuple(schemas)) for index, schemas in self._broken.single.items()]]
        for leaf in self._broken.rest:
            last = max(leaf.index, self._facts.regular_from)
            spots = [*range(leaf.index, min(last, leaf.index + 3) + 1)]
            sets = [[*wishes, _Wish(spot, (), (leaf.schema,))] for wishes in sets for spot in spots]
        needed: dict[int, tuple[int, Node]] = {}
        for group, is_lower in ((self._facts.contains, True), (self._broken.contains, False)):
            for each in group:
                limit = each.limit if is_lower else each.limit + 1
                if each.is_lower is is_lower and limit > needed.get(each.schema.id, (0,))[0]:
                    needed[each.schema.id] = (limit, each.schema)
        for limit, schema in needed.values():
            sets = [wishes + [_Wish(None, (schema,))] * min(limit, _MAX_SIZE) for wishes in sets]
        return sets[:_MAX_STARTS]

    def _granted(self, wishes: list[_Wish], filled: dict[int, Any], choice: int) -> dict[int, Any] | None:
        """Fill in what is wished for, by the value of that number; None when there is none."""
        for wish in wishes:
            spots = [wish.index] if wish.index is not None else range(len(filled) + 4)
            if wish.index in filled:
                continue
            for spot in spots:
                values = [] if spot in filled else self._values(spot, wish, filled)
                if len(values) > choice:
                    filled[spot] = values[choice]
                    break
            else:
                return None
        return filled

    def _completed(self, filled: dict[int, Any], length: int) -> list[Any] | None:
        if length > _MAX_SIZE:
            return None
        for index in range(length):
            if index in filled:
                continue
            wishes = (_Wish(index, (), self._unwanted), _Wish(index))
            values = next((made for wish in wishes if (made := self._values(index, wish, filled))), None)
            if values is None:
                return None
            filled[index] = values[0]
        return [filled[index] for index in sorted(filled)]

    def _values(self, index: int, wish: _Wish, filled: dict[int, Any]) -> list[Any]:
        holding = (*self._facts.at(index), *wish.holding)
        broken = (*self._broken.every, *wish.broken)
        if not self._facts.is_unique:
            return self._maker.values(holding, broken, self._depth, _FEW)
        taken = {key_of(value) for value in filled.values()}
        made = self._maker.values(holding, broken, self._depth, len(filled) + _FEW)
        return [value for value in made if key_of(value) not in taken]


class _Objects:
    def __init__(self, builder: WitnessBuilder, branch: Branch, depth: int) -> None:
        self._maker = builder
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
                if _is_in_the_dark(self._branch):
                    yield from self._extended(padded)

    def _starts(self, forced: dict[str, Any]) -> list[dict[str, Any]]:
        """Return sets of properties that together break what one property, whichever, must break."""
        starts = [dict(forced)]
        for leaf in self._broken.somewhere:
            spots = [
                {name: value}
                for place in self._maker.places(self._branch, leaf, self._depth)
                for name in self._maker.names(place)[:3]
                for value in self._maker.values(place.holding, place.broken, self._depth + 1)[:4]
            ]
            starts = [{**start, **spot} for start in starts for spot in spots][:_MAX_STARTS]
        return starts

    def _completed(self, start: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Add the properties that must be there; then vary one at a time."""
        filled = None if self._broken.properties else self._facts.filled
        first = self._first(start) if filled is None else {**start, **filled, **start}
        if first is None:
            return
        yield first
        for name in islice(self._needed(start), _FEW):
            yield from ({**first, name: value} for value in self._made(name)[1:])

    def _first(self, start: dict[str, Any]) -> dict[str, Any] | None:
        first = dict(start)
        for name in self._needed(start):
            made = self._made(name)
            if not made:
                return None
            first[name] = made[0]
        return first

    def _needed(self, start: dict[str, Any]) -> Iterator[str]:
        names = dict.fromkeys((*self._broken.properties, *self._facts.required))
        return (name for name in names if name not in start)

    def _made(self, name: str) -> list[Any]:
        """Return values for a property that must be there."""
        facts, broken = self._facts, self._broken.properties
        if name in broken:
            return self._maker.values(facts.at(name), broken[name], self._depth + 1)
        made = facts.fillers.get(name)
        if made is None:
            made = self._maker.values(facts.at(name), (), self._depth + 1)
            if made:
                facts.fillers[name] = made
        return made

    def _padded(self, start: dict[str, Any]) -> dict[str, Any] | None:
        """Add properties until there are enough."""
        least = self._count.least
        if least > _MAX_SIZE:
            return None
        padded = dict(start)
        for name in self._free_names() if len(padded) < least else ():
            if len(padded) >= least:
                break
            if name not in padded and name not in self._broken.absent:
                made = self._maker.values(self._facts.at(name), (), self._depth + 1, 1)
                if made:
                    padded[name] = made[0]
        return padded if len(padded) >= least else None

    def _extended(self, start: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for name in (*islice(self._facts.properties, _FEW), "a", ""):
            if name not in start and name not in self._broken.absent:
                yield from ({**start, name: extra} for extra in _EXTRA)

    def _free_names(self) -> Iterator[str]:
        """Yield names that may be added: declared ones, any, then those that patterns ask for."""
        least = self._count.least
        yield from self._facts.properties
        yield from (f"a{index}" for index in range(2 * least))
        prover = self._maker.prover
        for pattern in [*(each.pattern for each in self._facts.matching), None]:
            named = (prover.text, *self._facts.names, *prover.patterns(pattern))
            made = self._maker.values(named, (), 0, 2 * least + 2)
            yield from (name for name in made if isinstance(name, str))


MAKERS: Final[dict[int, ContainerBuilder]] = {ARRAY: arrays, OBJECT: objects}
"""What makes values of each type of container."""
