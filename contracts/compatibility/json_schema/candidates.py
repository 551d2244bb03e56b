"""Values that may fit some nodes and break others, small ones first. Each is a guess until the judge has seen it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from contracts.compatibility.json_schema.branch import Branch
from contracts.compatibility.json_schema.containers import (
    BrokenArray,
    BrokenObject,
    PropertyPlace,
    places,
)
from contracts.compatibility.json_schema.evaluate import fits_all
from contracts.compatibility.json_schema.gaps import branch_of
from contracts.compatibility.json_schema.nodes import (
    Node,
)
from contracts.compatibility.json_schema.prover import BudgetSpentError, Prover
from contracts.compatibility.json_schema.scalars import (
    number_candidates,
    string_candidates,
    writing_matters,
)
from contracts.compatibility.json_schema.values import (
    ARRAY,
    BOOLEAN,
    FRACTION,
    INTEGER,
    NULL,
    OBJECT,
    STRING,
    key_of,
    text_of,
    type_of,
)

_MAX_DEPTH: Final = 12
_MAX_BRANCHES: Final = 8
_MAX_TRIED: Final = 200
_MAX_ITEMS: Final = 300
_FEW: Final = 6


class Maker:
    """Makes values for one pair of schemas."""

    def __init__(self, prover: Prover) -> None:
        self._prover = prover
        self._made: dict[tuple[frozenset[int], frozenset[int]], list[Any]] = {}

    def values(
        self, holding: Iterable[Node], broken: Iterable[Node], depth: int = 0, most: int = _FEW
    ) -> list[Any]:
        """Give values that may fit all of `holding` and break all of `broken`; none when no way was found."""
        fit, unfit = tuple(holding), tuple(broken)
        key = (frozenset(node.id for node in fit), frozenset(node.id for node in unfit))
        known = self._made.get(key)
        if known is not None:
            return known[:most]
        if depth > _MAX_DEPTH:
            return []
        self._made[key] = []  # a value that must hold one like itself is never made
        found: dict[str, Any] = {}
        for value in islice(self._values(fit, unfit, depth), _MAX_TRIED):
            if fits_all(value, fit, unfit) is not False:
                found.setdefault(text_of(value), value)
            if len(found) >= max(most, _FEW):
                break
        self._made[key] = sorted(found.values(), key=_size)
        return self._made[key][:most]

    def _values(self, fit: tuple[Node, ...], unfit: tuple[Node, ...], depth: int) -> Iterator[Any]:
        streams = [self._of_branch(branch, depth) for branch in self.branches(fit, unfit, depth)]
        while streams:  # one of each in turn
            for stream in list(streams):
                value = next(stream, _END)
                if value is _END:
                    streams.remove(stream)
                else:
                    yield value

    def branches(self, fit: tuple[Node, ...], unfit: tuple[Node, ...], depth: int) -> list[Branch]:
        """Give branches that are not known to be closed, choices made; at most _MAX_BRANCHES."""
        first = branch_of(self._prover, fit, unfit)
        waiting = [] if first is None else [first]
        done: list[Branch] = []
        tried = 0
        while waiting and len(done) < _MAX_BRANCHES and tried < _MAX_TRIED:
            tried += 1
            branch = self._narrowed(waiting.pop(), depth)
            if branch is None:
                continue
            if not branch.clauses:
                done.append(branch)
                continue
            clause = min(branch.clauses, key=len)
            rest = branch.without(clause)
            more = [self._prover.extended(rest, [literal]) for literal in reversed(clause)]
            waiting.extend(each for each in more if each is not None)
        return done

    def _narrowed(self, branch: Branch, depth: int) -> Branch | None:
        try:
            return None if self._prover.contradicts(branch, depth) else self._prover.narrowed(branch, depth)
        except (BudgetSpentError, RecursionError):
            self._prover.forget_path()
            return branch

    def _of_branch(self, branch: Branch, depth: int) -> Iterator[Any]:
        if branch.facts.values:
            yield from (value for each in branch.facts.values for value in _as_written(each.values, branch))
            return
        streams = [self._of_type(bit, branch, depth) for bit in _ORDER if branch.mask & bit]
        while streams:
            for stream in list(streams):
                value = next(stream, _END)
                if value is _END:
                    streams.remove(stream)
                else:
                    yield value

    def _of_type(self, bit: int, branch: Branch, depth: int) -> Iterator[Any]:
        if bit == NULL:
            yield None
        elif bit == BOOLEAN:
            yield from (False, True)
        elif bit & (INTEGER | FRACTION):
            yield from number_candidates(branch, is_integer=bit == INTEGER)
        elif bit == STRING:
            yield from string_candidates(branch)
        elif bit == ARRAY:
            yield from self.arrays(branch, depth, {})
        else:
            yield from self.objects(branch, depth, {})

    # Names.

    def names(self, place: PropertyPlace) -> list[str]:
        """Give names for a region of properties."""
        if place.name is not None:
            return [place.name]
        made = self.values(place.named, place.misnamed)
        return [name for name in made if isinstance(name, str)]

    # Arrays.

    def arrays(self, branch: Branch, depth: int, forced: dict[int, Any]) -> Iterator[list[Any]]:
        """Give arrays for the leaves of a branch, some items given."""
        facts = branch.facts.arrays
        count = facts.count.copy()
        broken = BrokenArray.of(branch, count)
        wanted = [each for each in facts.contains if each.is_lower]
        wanted += [each for each in broken.contains if not each.is_lower]
        placements: list[list[tuple[int | None, tuple[Node, ...], tuple[Node, ...]]]] = [[]]
        for index, schemas in broken.single.items():
            placements = [[*each, (index, (), tuple(schemas))] for each in placements]
        for leaf in broken.rest:
            spots = range(leaf.index, max(leaf.index, facts.regular_from) + 1)
            placements = [
                [*each, (index, (), (leaf.schema,))] for each in placements for index in islice(spots, 4)
            ]
        for contains in wanted:
            needed = contains.limit if contains.is_lower else contains.limit + 1
            extra: list[tuple[int | None, tuple[Node, ...], tuple[Node, ...]]] = [
                (None, (contains.schema,), ())
            ]
            placements = [each + extra * min(needed, _MAX_ITEMS) for each in placements]
        for placement in placements[:_MAX_BRANCHES]:
            filled = self._placed(branch, broken, placement, (dict(forced), depth))
            if filled is None:
                continue
            size = max([count.least, *(index + 1 for index in filled)])
            for length in (size, size + 1):
                array = self._filled(branch, broken, dict(filled), (length, depth))
                if array is not None:
                    yield array
                    if broken.is_repeating and len(array) > 1:
                        yield [array[0]] * len(array)
                        yield [*array[:-1], array[0]]

    def _placed(
        self,
        branch: Branch,
        broken: BrokenArray,
        placement: list[tuple[int | None, tuple[Node, ...], tuple[Node, ...]]],
        start: tuple[dict[int, Any], int],
    ) -> dict[int, Any] | None:
        filled, depth = start
        for index, holding, breaking in placement:
            done = False
            for at in [index] if index is not None else range(len(filled) + 4):
                if at in filled:
                    continue
                value = self._item(branch, broken, at, (filled, holding, breaking, depth))
                if value is not _END:
                    filled[at] = value
                    done = True
                    break
            if not done and index not in filled:
                return None
        return filled

    def _filled(
        self, branch: Branch, broken: BrokenArray, filled: dict[int, Any], size: tuple[int, int]
    ) -> list[Any] | None:
        length, depth = size
        if length > _MAX_ITEMS:
            return None
        unwanted = tuple(
            each.schema
            for group, is_lower in ((branch.facts.arrays.contains, False), (broken.contains, True))
            for each in group
            if each.is_lower is is_lower
        )
        for index in range(length):
            if index not in filled:
                value = self._item(branch, broken, index, (filled, (), unwanted, depth))
                if value is _END:
                    value = self._item(branch, broken, index, (filled, (), (), depth))
                if value is _END:
                    return None
                filled[index] = value
        return [filled[index] for index in sorted(filled)]

    def _item(
        self,
        branch: Branch,
        broken: BrokenArray,
        index: int,
        wish: tuple[dict[int, Any], tuple[Node, ...], tuple[Node, ...], int],
    ) -> Any:
        filled, holding, breaking, depth = wish
        facts = branch.facts.arrays
        most = len(filled) + 4 if facts.is_unique else 1
        made = self.values((*facts.at(index), *holding), (*broken.every, *breaking), depth + 1, most)
        if not facts.is_unique:
            return made[0] if made else _END
        taken = {key_of(value) for value in filled.values()}
        return next((value for value in made if key_of(value) not in taken), _END)

    # Objects.

    def objects(self, branch: Branch, depth: int, forced: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Give objects for the leaves of a branch, some properties given."""
        facts = branch.facts.objects
        count = facts.count.copy()
        broken = BrokenObject.of(branch, count)
        wanted = [dict(forced)]
        for leaf in broken.somewhere:
            spots = self._spots(branch, leaf, depth)
            wanted = [{**each, **spot} for each in wanted for spot in spots][:_MAX_BRANCHES]
        for start in wanted:
            made = self._completed(branch, broken, start, depth)
            for each in made:
                padded = self._padded(branch, broken, each, (count.least, depth))
                if padded is not None:
                    yield padded

    def _spots(self, branch: Branch, leaf: Any, depth: int) -> list[dict[str, Any]]:
        try:
            found = list(islice(places(self._prover, branch.facts.objects, leaf, depth), _MAX_BRANCHES))
        except (BudgetSpentError, RecursionError):
            self._prover.forget_path()
            return []
        return [
            {name: value}
            for place in found
            for name in self.names(place)[:2]
            for value in self.values(place.holding, place.broken, depth + 1)[:2]
        ]

    def _completed(
        self, branch: Branch, broken: BrokenObject, start: dict[str, Any], depth: int
    ) -> Iterator[dict[str, Any]]:
        """Add the properties that must be there; then vary one at a time."""
        facts = branch.facts.objects
        needed = [name for name in dict.fromkeys((*broken.properties, *facts.required)) if name not in start]
        choices: dict[str, list[Any]] = {}
        for name in needed:
            made = self.values(facts.at(name), broken.properties.get(name, ()), depth + 1)
            if not made:
                return
            choices[name] = made
        first = {**start, **{name: made[0] for name, made in choices.items()}}
        yield first
        for name, made in islice(choices.items(), _MAX_BRANCHES):
            for value in made[1:3]:
                yield {**first, name: value}

    def _padded(
        self, branch: Branch, broken: BrokenObject, start: dict[str, Any], size: tuple[int, int]
    ) -> dict[str, Any] | None:
        """Add properties until there are enough."""
        least, depth = size
        if least > _MAX_ITEMS:
            return None
        facts = branch.facts.objects
        names = iter(
            (
                *facts.properties,
                *(f"a{index}" for index in range(2 * least)),
                *self._free_names(branch, least),
            )
        )
        padded = dict(start)
        while len(padded) < least:
            name = next(names, None)
            if name is None:
                return None
            if name in padded or name in broken.absent:
                continue
            made = self.values(facts.at(name), (), depth + 1, 1)
            if made:
                padded[name] = made[0]
        return padded

    def _free_names(self, branch: Branch, least: int) -> list[str]:
        """Give names of the kind that `propertyNames` and `patternProperties` allow."""
        facts = branch.facts.objects
        found: list[str] = []
        patterns = [each.pattern for each in facts.matching]
        for pattern in [*patterns, None]:
            place = PropertyPlace(
                None, (), (), (self._prover.text, *facts.names, *self._prover.patterns(pattern))
            )
            made = self.values(place.named, (), 0, 2 * least + 2)
            found.extend(name for name in made if isinstance(name, str))
        return found


class _End:
    """What is given where nothing is."""


_END: Final = _End()
_MAX_LENGTH: Final = 5_000
_ORDER: Final = (INTEGER, STRING, NULL, BOOLEAN, FRACTION, OBJECT, ARRAY)


def _size(value: Any) -> tuple[int, str]:
    text = text_of(value)
    return len(text), text


def _as_written(values: Iterable[Any], branch: Branch) -> Iterator[Any]:
    """Give values, and those that are whole also with a fraction where the writing matters."""
    for value in values:
        yield value
        if writing_matters(branch) and type_of(value) == INTEGER and abs(value) < 10**15:
            yield Decimal(f"{int(value)}.0")
