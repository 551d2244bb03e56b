"""Values that may fit some nodes and break others, small ones first. Each is a guess until the judge has seen it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from tidegate.contracts.inclusion.json_schema.branch import Branch
from tidegate.contracts.inclusion.json_schema.containers import PropertyPlace, places
from tidegate.contracts.inclusion.json_schema.evaluate import fits, fits_all
from tidegate.contracts.inclusion.json_schema.gaps import branch_of
from tidegate.contracts.inclusion.json_schema.nodes import Additional, Matching, Names, Node
from tidegate.contracts.inclusion.json_schema.prover import Budget, BudgetSpentError, Prover
from tidegate.contracts.inclusion.json_schema.scalars import (
    MAX_WHOLE,
    number_candidates,
    string_candidates,
    writing_matters,
)
from tidegate.contracts.inclusion.json_schema.values import (
    ARRAY,
    BOOLEAN,
    FRACTION,
    INTEGER,
    NULL,
    OBJECT,
    STRING,
    text_of,
    type_of,
)

_MAX_DEPTH: Final = 12
_MAX_BRANCHES: Final = 8
_MAX_TRIED: Final = 200
_MAX_CHOICES: Final = 2_000
_SHARE: Final = 4
_FEW: Final = 6
_LOOKS_A_STEP: Final = 4


_Wanted = tuple[frozenset[int], frozenset[int]]
"""The ids of what a value must fit, and of what it must break."""


class Maker:
    """Makes values for one pair of schemas."""

    def __init__(self, prover: Prover, container_makers: Mapping[int, ContainerMaker]) -> None:
        """Take what makes arrays and objects (`gathered.MAKERS`), by type."""
        self.prover = prover
        self._container_makers = container_makers
        self._made: dict[_Wanted, tuple[int, list[Any]]] = {}
        self._starts: dict[tuple[_Wanted, int], Branch | None] = {}

    def values(
        self, holding: Iterable[Node], broken: Iterable[Node], depth: int = 0, most: int = _FEW
    ) -> list[Any]:
        """Return values that may fit all of `holding` and break all of `broken`; none when no way was found."""
        fit, unfit = tuple(holding), tuple(broken)
        key = _wanted(fit, unfit)
        asked, known = self._made.get(key, (0, []))
        if asked >= most:
            return known[:most]
        if depth > _MAX_DEPTH:
            return []
        self._made[key] = (most, [])  # a value that must hold one like itself is never made
        found: dict[str, Any] = {}
        try:
            for value in islice(self._values(fit, unfit, depth), _MAX_TRIED):
                self.prover.budget.spend()
                if fits_all(value, fit, unfit) is not False:
                    found.setdefault(text_of(value), value)
                if len(found) >= max(most, _FEW):
                    break
        except BudgetSpentError:
            self.prover.forget_path()
            del self._made[key]  # with more steps there may be more
        else:
            self._made[key] = (max(most, _FEW), sorted(found.values(), key=_size))
        return sorted(found.values(), key=_size)[:most]

    def _values(self, fit: tuple[Node, ...], unfit: tuple[Node, ...], depth: int) -> Iterator[Any]:
        return _in_turn(self._of_branch(branch, depth) for branch in self.branches(fit, unfit, depth))

    def branches(self, fit: tuple[Node, ...], unfit: tuple[Node, ...], depth: int) -> Iterator[Branch]:
        """Yield branches that are not known to be closed, choices made; at most _MAX_BRANCHES."""
        start = self._start(fit, unfit, depth)
        waiting = [] if start is None else [start]
        given = tried = 0
        while waiting and given < _MAX_BRANCHES and tried < _MAX_CHOICES:
            tried += 1
            branch = waiting.pop()
            clause = next((each for each in branch.clauses if not branch.has(each)), None)
            if clause is None:
                given += 1
                yield branch.core
                continue
            rest = branch.without(clause)
            more = (self.prover.extended(rest, [literal]) for literal in reversed(clause))
            waiting.extend(each for each in more if each is not None and not self._contradicts(each, depth))

    def _contradicts(self, branch: Branch, depth: int) -> bool:
        try:
            return self.prover.contradicts(branch, depth)
        except RecursionError:
            self.prover.forget_path()
            return False

    def _start(self, fit: tuple[Node, ...], unfit: tuple[Node, ...], depth: int) -> Branch | None:
        """Return what is known before any choice is made; None when no value is like that."""
        key = _wanted(fit, unfit), depth
        if key in self._starts:
            return self._starts[key]
        branch = branch_of(self.prover, fit, unfit)
        if branch is None:
            return None
        whole = self.prover.budget
        given = whole.left // _SHARE
        self.prover.budget = Budget(given)
        try:
            is_closed = self.prover.contradicts(branch, depth)
            self._starts[key] = None if is_closed else self.prover.narrowed(branch, depth)
            return self._starts[key]
        except (BudgetSpentError, RecursionError):
            self.prover.forget_path()
            return branch
        finally:
            whole.left -= given - max(self.prover.budget.left, 0)
            self.prover.budget = whole

    def _of_branch(self, branch: Branch, depth: int) -> Iterator[Any]:
        if branch.facts.values:
            yield from _as_written(self._fitting(branch), branch)
            return
        yield from _in_turn(self._of_type(bit, branch, depth) for bit in _ORDER if branch.mask & bit)

    def _fitting(self, branch: Branch) -> Iterator[Any]:
        """Yield the listed values that nothing known of the branch speaks against."""
        leaves, broken = branch.facts.leaves.values(), branch.broken.values()
        for index, value in enumerate(branch.listed):
            self.prover.budget.spend(int(index % _LOOKS_A_STEP == 0))
            if not any(fits(value, leaf) is False for leaf in leaves) and not any(
                fits(value, leaf) is True for leaf in broken
            ):
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
        else:
            yield from self._container_makers[bit](self, branch, depth, {})

    def names(self, place: PropertyPlace) -> list[str]:
        """Return names for a region of properties."""
        if place.name is not None:
            return [place.name]
        made = self.values(place.named, place.misnamed)
        return [name for name in made if isinstance(name, str)]

    def places(self, branch: Branch, leaf: Matching | Additional | Names, depth: int) -> list[PropertyPlace]:
        """Return where a property may break a leaf, a few of them."""
        try:
            return list(islice(places(self.prover, branch.facts.objects, leaf, depth), _MAX_BRANCHES))
        except (BudgetSpentError, RecursionError):
            self.prover.forget_path()
            return []


ContainerMaker = Callable[[Maker, Branch, int, dict[Any, Any]], Iterator[Any]]
"""Makes arrays (or objects) for the leaves of a branch at a depth, some of their members given."""


def _wanted(fit: tuple[Node, ...], unfit: tuple[Node, ...]) -> _Wanted:
    return frozenset(node.id for node in fit), frozenset(node.id for node in unfit)


_END: Final = object()
_ORDER: Final = (INTEGER, STRING, NULL, BOOLEAN, FRACTION, OBJECT, ARRAY)


def _in_turn(streams: Iterator[Iterator[Any]]) -> Iterator[Any]:
    """Yield one value of each stream in turn; a stream more is opened at every turn."""
    is_open, active = True, list[Iterator[Any]]()
    while is_open or active:
        more = next(streams, None)
        is_open = more is not None
        if more is not None:
            active.append(more)
        for stream in list(active):
            value = next(stream, _END)
            if value is _END:
                active.remove(stream)
            else:
                yield value


def _size(value: Any) -> tuple[int, str]:
    text = text_of(value)
    return len(text), text


def _as_written(values: Iterable[Any], branch: Branch) -> Iterator[Any]:
    """Yield values, and those that are whole also with a fraction where the writing matters."""
    for value in values:
        yield value
        if writing_matters(branch) and type_of(value) == INTEGER and abs(value) < MAX_WHOLE:
            yield float(value)
