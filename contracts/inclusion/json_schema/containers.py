"""Prove that no array or object fits a branch, through its items or properties.

A leaf is one constraint of a schema. A branch is a set of leaves: some hold, and the broken ones must be violated.
`facts` summarizes those that hold. Every answer True is a proof; False means only that none was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tidegate.contracts.inclusion.json_schema.branch import ArrayFacts, Branch, Count, ObjectFacts
from tidegate.contracts.inclusion.json_schema.evaluate import fits, is_additional, matches
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    Contains,
    ItemAt,
    ItemCount,
    ItemsFrom,
    Node,
    OneValue,
    PatternProperty,
    Property,
    PropertyCount,
    PropertyNames,
    Required,
    SchemaPlace,
    Side,
    UniqueItems,
)
from tidegate.contracts.inclusion.json_schema.prover import ContainerTheory, Prover
from tidegate.contracts.inclusion.json_schema.values import ARRAY, OBJECT, key_of

_MAX_POSITIONS: Final = 64
"""Indexes that are examined one by one; an array with more is not decided."""
_MAX_PATTERNS: Final = 6
"""Patterns that split names into regions: n patterns make 2^n regions."""
_MAX_EXCLUDED: Final = 20
"""Declared names that a region with patterns excludes; more would slow the search."""
_MAX_LISTED: Final = 300
"""Declared names that a region without patterns excludes."""
_MAX_PAIRED: Final = 8
"""Items at the start of an array that are compared in pairs."""


# Objects.


@dataclass(slots=True)
class BrokenObject:
    """The leaves that an object must violate, sorted by what they constrain."""

    absent: set[str] = field(default_factory=set)
    properties: dict[str, list[Node]] = field(default_factory=dict)
    somewhere: list[PatternProperty | Additional | PropertyNames] = field(default_factory=list)
    """Leaves that each must be broken by some property."""

    @classmethod
    def of(cls, branch: Branch, count: Count) -> BrokenObject:
        """Sort the broken leaves of a branch, and narrow `count` (of properties) to what they imply."""
        broken = cls()
        for leaf in branch.broken.values():
            match leaf:
                case Required(name=name):
                    broken.absent.add(name)
                case Property(name=name, schema=schema):
                    broken.properties.setdefault(name, []).append(schema)
                case PatternProperty() | Additional() | PropertyNames():
                    broken.somewhere.append(leaf)
                case PropertyCount(is_lower=True, limit=limit):
                    count.at_most(limit - 1)
                case PropertyCount(limit=limit):
                    count.at_least(limit + 1)
        if broken.somewhere:
            count.at_least(1)
        return broken


def object_contradicts(prover: Prover, branch: Branch, depth: int) -> bool:
    """Return whether it is proven that no object satisfies a branch."""
    facts = branch.facts.objects
    count = facts.count.copy()
    broken = BrokenObject.of(branch, count)
    present = broken.properties.keys() | facts.required.keys()
    if not broken.absent.isdisjoint(present):
        return True
    count.at_least(len(present))
    if count.least > len(present):
        limit = _most_properties(prover, facts, depth)
        if limit is not None:
            count.at_most(limit)
    if count.is_empty or _lacks_required(prover, facts, depth):
        return True
    for name, schemas in broken.properties.items():
        if not _may_be_named(name, facts) or prover.is_empty(facts.at(name), schemas, depth + 1):
            return True
    return any(next(places(prover, facts, leaf, depth), None) is None for leaf in broken.somewhere)


def _lacks_required(prover: Prover, facts: ObjectFacts, depth: int) -> bool:
    """Return whether some required property is impossible."""
    if facts.is_possible:
        return False
    for name in facts.required:
        if not _may_be_named(name, facts) or prover.is_empty(facts.at(name), (), depth + 1):
            return True
    facts.is_possible = True  # the facts never change, so a proof is not searched again
    return False


def _may_be_named(name: str, facts: ObjectFacts) -> bool:
    """Return whether `propertyNames` may permit a name; unknown counts as permitted, because only proofs exclude."""
    return all(fits(name, schema) is not False for schema in facts.names)


def _most_properties(prover: Prover, facts: ObjectFacts, depth: int) -> int | None:
    """Return the maximum number of properties if only declared ones are allowed; None if others are."""
    closing = [
        each
        for each in facts.additional
        if not each.patterns and prover.is_empty((each.schema,), (), depth + 1)
    ]
    if not closing:
        return None
    allowed = frozenset.intersection(*(each.names for each in closing))
    return sum(1 for name in allowed if not prover.is_empty(facts.at(name), (), depth + 1))


@dataclass(frozen=True, slots=True)
class PropertyPlace:
    """A property that may break a leaf: one with a declared name, or any in a region of undeclared names.

    The value must fit `holding` and break `broken`. In a region `name` is None; the name, as a string, must fit `named`
    and break `misnamed`.
    """

    name: str | None
    holding: tuple[Node, ...]
    broken: tuple[Node, ...]
    named: tuple[Node, ...] = ()
    misnamed: tuple[Node, ...] = ()


def places(
    prover: Prover, facts: ObjectFacts, leaf: PatternProperty | Additional | PropertyNames, depth: int
) -> Iterator[PropertyPlace]:
    """Yield every place where a property may break a leaf; no other property can break it."""
    broken = () if isinstance(leaf, PropertyNames) else (leaf.schema,)
    for name in explicit_names(facts):
        if _speaks_of(leaf, name) is not False and _may_be_named(name, facts):
            holding = facts.at(name)
            if not prover.is_empty(holding, broken, depth + 1):
                yield PropertyPlace(name, holding, broken)
    yield from _Regions(prover, facts, leaf, depth).places()


def explicit_names(facts: ObjectFacts) -> list[str]:
    """Return the names that the leaves list explicitly, in `properties` or beside `additionalProperties`."""
    names = dict.fromkeys(facts.properties)
    for each in facts.additional:
        names.update(dict.fromkeys(sorted(each.names - names.keys())))
    return list(names)


def _speaks_of(leaf: PatternProperty | Additional | PropertyNames, name: str) -> bool | None:
    """Return whether a property of that name may break a leaf; None if that is unknown."""
    if isinstance(leaf, PatternProperty):
        return matches(leaf.pattern, name)
    if isinstance(leaf, Additional):
        return is_additional(name, leaf)
    answer = fits(name, leaf.schema)
    return None if answer is None else not answer


class _Regions:
    """The undeclared names, split into regions by the patterns that they match."""

    def __init__(
        self,
        prover: Prover,
        facts: ObjectFacts,
        leaf: PatternProperty | Additional | PropertyNames,
        depth: int,
    ) -> None:
        self._prover = prover
        self._facts = facts
        self._depth = depth
        self._broken = () if isinstance(leaf, PropertyNames) else (leaf.schema,)
        self._misnamed = (leaf.schema,) if isinstance(leaf, PropertyNames) else ()
        self._matched = {leaf.pattern} if isinstance(leaf, PatternProperty) else set()
        self._spared = sorted(leaf.names) if isinstance(leaf, Additional) else []
        self._unmatched = set(leaf.patterns) if isinstance(leaf, Additional) else set()
        patterns = [each.pattern for each in facts.matching]
        patterns += [pattern for each in facts.additional for pattern in each.patterns]
        self._open = [each for each in dict.fromkeys(patterns) if each not in self._matched | self._unmatched]

    def places(self) -> Iterator[PropertyPlace]:
        """Yield the regions in which a property may break the leaf."""
        patterns = self._open if len(self._open) <= _MAX_PATTERNS else []
        yield from self._split(patterns, frozenset(self._matched), frozenset(self._unmatched))

    def _split(
        self, patterns: list[str], matched: frozenset[str], unmatched: frozenset[str]
    ) -> Iterator[PropertyPlace]:
        self._prover.budget.spend()
        holding = self._values(matched, unmatched)
        if self._prover.is_empty(holding, self._broken, self._depth + 1):
            return
        place = self._place(holding, matched, unmatched)
        if self._prover.is_empty(place.named, place.misnamed, self._depth + 1):
            return
        if not patterns:
            yield place
            return
        first, *rest = patterns
        yield from self._split(rest, matched, unmatched | {first})
        yield from self._split(rest, matched | {first}, unmatched)

    def _values(self, matched: frozenset[str], unmatched: frozenset[str]) -> tuple[Node, ...]:
        return (
            *(each.schema for each in self._facts.matching if each.pattern in matched),
            *(each.schema for each in self._facts.additional if unmatched.issuperset(each.patterns)),
        )

    def _place(
        self, holding: tuple[Node, ...], matched: frozenset[str], unmatched: frozenset[str]
    ) -> PropertyPlace:
        named = (self._prover.text, *self._facts.names, *self._prover.patterns(*sorted(matched)))
        misnamed = (*self._misnamed, *self._prover.patterns(*sorted(unmatched)), *self._declared(matched))
        return PropertyPlace(None, holding, self._broken, named, misnamed)

    def _declared(self, matched: frozenset[str]) -> Iterator[Node]:
        """Yield a node that lists the declared names, which are not part of a region.

        Yield nothing without matched patterns and `propertyNames`: then some undeclared name always exists.
        """
        if not matched and not self._facts.names:
            return
        declared = dict.fromkeys((*explicit_names(self._facts), *self._spared))
        names = [name for name in declared if all(matches(each, name) is not False for each in matched)]
        if 0 < len(names) <= (_MAX_EXCLUDED if matched else _MAX_LISTED):
            by_key = {key_of(name): name for name in names}
            number = self._prover.interner.id_of("values", frozenset(by_key))
            yield OneValue(number, SchemaPlace(Side.NEITHER, ""), by_key)


# Arrays.


@dataclass(slots=True)
class BrokenArray:
    """The leaves that an array must violate, sorted by what they constrain."""

    single: dict[int, list[Node]] = field(default_factory=dict)
    rest: list[ItemsFrom] = field(default_factory=list)
    contains: list[Contains] = field(default_factory=list)
    every: list[Node] = field(default_factory=list)
    """Schemas that no item may fit."""
    is_repeating: bool = False

    @classmethod
    def of(cls, branch: Branch, count: Count) -> BrokenArray:
        """Sort the broken leaves of a branch, and narrow `count` (of items) to what they imply."""
        broken = cls(every=list(branch.facts.arrays.every))
        for leaf in branch.broken.values():
            match leaf:
                case ItemAt(index=index, schema=schema):
                    broken.single.setdefault(index, []).append(schema)
                    count.at_least(index + 1)
                case ItemsFrom(index=index):
                    broken.rest.append(leaf)
                    count.at_least(index + 1)
                case Contains():
                    broken.contains.append(leaf)
                    if not leaf.is_lower:
                        count.at_least(leaf.limit + 1)
                    elif leaf.limit == 1:
                        broken.every.append(leaf.schema)
                case ItemCount(is_lower=True, limit=limit):
                    count.at_most(limit - 1)
                case ItemCount(limit=limit):
                    count.at_least(limit + 1)
                case UniqueItems():
                    broken.is_repeating = True
                    count.at_least(2)
        return broken


def array_contradicts(prover: Prover, branch: Branch, depth: int) -> bool:
    """Return whether it is proven that no array satisfies a branch."""
    return _Array(prover, branch, depth).contradicts()


class _Array:
    """The contradiction check of the array constraints of one branch."""

    def __init__(self, prover: Prover, branch: Branch, depth: int) -> None:
        self._prover = prover
        self._depth = depth + 1
        self._facts: ArrayFacts = branch.facts.arrays
        self._count = self._facts.count.copy()
        self._broken = BrokenArray.of(branch, self._count)
        for each in self._facts.contains:
            if each.is_lower:
                self._count.at_least(each.limit)
        if self._facts.is_unique and not self._facts.regular_from:
            self._limit_by_values()
        indexes = [*(index + 1 for index in self._broken.single), *(each.index for each in self._broken.rest)]
        self._regular = max([self._facts.regular_from, *indexes])
        """From this index on, the same constraints apply to all items."""

    def contradicts(self) -> bool:
        if self._count.is_empty or (self._broken.is_repeating and self._facts.is_unique):
            return True
        if self._regular > _MAX_POSITIONS:
            return False
        for index in range(self._regular + 1):
            if self._none(index):
                self._count.at_most(index)
                break
        if self._count.is_empty:
            return True
        return (
            self._lacks_broken_item()
            or any(self._miscounts(each, holds=True) for each in self._facts.contains)
            or any(self._miscounts(each, holds=False) for each in self._broken.contains)
            or self._cannot_repeat()
        )

    def _limit_by_values(self) -> None:
        """Limit the number of unique items to the number of values that `enum` or `const` lists for them."""
        base = self._prover.base({node.id: node for node in self._facts.at(0)})
        if base is not None and base.facts.values:
            self._count.at_most(len(base.listed))

    def _positions(self, first: int = 0) -> range:
        """Return the indexes to examine from `first` on; the last one stands for all that follow."""
        last = self._regular if self._count.most is None else min(self._regular, self._count.most - 1)
        return range(first, last + 1)

    def _none(self, index: int, holding: tuple[Node, ...] = (), broken: tuple[Node, ...] = ()) -> bool:
        """Return whether it is proven that no item at an index also fits `holding` and breaks `broken`."""
        return self._prover.is_empty(
            (*self._facts.at(index), *holding), (*self._broken.every, *broken), self._depth
        )

    def _lacks_broken_item(self) -> bool:
        single = any(self._none(index, (), tuple(schemas)) for index, schemas in self._broken.single.items())
        return single or any(
            all(self._none(index, (), (each.schema,)) for index in self._positions(each.index))
            for each in self._broken.rest
        )

    def _miscounts(self, leaf: Contains, *, holds: bool) -> bool:
        """Return whether it is proven that too many or too few items fit the schema of a `contains`."""
        if leaf.is_lower is holds:
            needed = leaf.limit if holds else leaf.limit + 1
            return self._most_fitting(leaf.schema, needed) < needed or any(
                not each.is_lower and each.limit < needed and self._is_within(leaf.schema, each.schema)
                for each in self._facts.contains
            )
        allowed = leaf.limit if holds else leaf.limit - 1
        return self._least_fitting(leaf.schema, allowed + 1) > allowed or any(
            each.is_lower and each.limit > allowed and self._is_within(each.schema, leaf.schema)
            for each in self._facts.contains
        )

    def _is_within(self, part: Node, whole: Node) -> bool:
        return all(self._none(index, (part,), (whole,)) for index in self._positions())

    def _most_fitting(self, schema: Node, enough: int) -> int:
        """Return an upper bound of the items that may fit a schema; `enough` stands for an unlimited number."""
        most = 0
        for index in self._positions():
            if not self._none(index, (schema,)):
                ends = index < self._regular
                most += 1 if ends else self._remaining(enough)
        return most

    def _remaining(self, enough: int) -> int:
        return enough if self._count.most is None else self._count.most - self._regular

    def _least_fitting(self, schema: Node, enough: int) -> int:
        """Return a lower bound of the items that must fit a schema; stop at `enough`."""
        least = 0
        for index in range(min(self._count.least, self._regular + 1)):
            if least >= enough:
                break
            if self._none(index, (), (schema,)):
                least += 1 if index < self._regular else self._count.least - self._regular
        return least

    def _cannot_repeat(self) -> bool:
        """Return whether it is proven that no two items are equal; only short arrays are examined."""
        if not self._broken.is_repeating or self._count.most is None or self._regular > _MAX_PAIRED:
            return False
        positions = [*self._positions()]
        pairs = [(one, other) for place, one in enumerate(positions) for other in positions[place + 1 :]]
        if self._count.most > self._regular + 1:
            pairs.append((self._regular, self._regular))
        return all(self._none(one, self._facts.at(other)) for one, other in pairs)


THEORIES: Final[dict[int, ContainerTheory]] = {ARRAY: array_contradicts, OBJECT: object_contradicts}
"""The contradiction check of each container type."""
