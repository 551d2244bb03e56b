"""Candidate values that may fit some nodes and break others, small ones first. Each must be checked by the judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from itertools import chain, islice
from typing import Any, Final

from tidegate.contracts.inclusion.json_schema.branch import Branch
from tidegate.contracts.inclusion.json_schema.containers import PropertyPlace, places
from tidegate.contracts.inclusion.json_schema.evaluate import fits_all
from tidegate.contracts.inclusion.json_schema.gaps import branch_of
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    Bound,
    Format,
    MultipleOf,
    Node,
    OneValue,
    Pattern,
    PatternProperty,
    Precision,
    PropertyNames,
    WrittenAsInteger,
)
from tidegate.contracts.inclusion.json_schema.prover import Budget, BudgetSpentError, Prover
from tidegate.contracts.inclusion.json_schema.regular import Question, TooLargeError, automaton_of, strings
from tidegate.contracts.inclusion.json_schema.theories import NumberFacts, StringFacts
from tidegate.contracts.inclusion.json_schema.values import (
    ARRAY,
    BOOLEAN,
    FRACTION,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    exact,
    is_decimal,
    text_of,
    type_of,
    written,
)

_MAX_DEPTH: Final = 12
_MAX_BRANCHES: Final = 8
_MAX_TRIED: Final = 200
_MAX_CHOICES: Final = 2_000
_SHARE: Final = 4
_FEW: Final = 6
_VALUES_A_STEP: Final = 4


_Wanted = tuple[frozenset[int], frozenset[int]]
"""The ids of what a value must fit, and of what it must break."""


class WitnessBuilder:
    """Builds candidate values for one pair of schemas."""

    def __init__(self, prover: Prover, container_makers: Mapping[int, ContainerBuilder]) -> None:
        """Initialise from the builders of arrays and objects (`gathered.BUILDERS`), by type."""
        self.prover = prover
        self._container_makers = container_makers
        self._made: dict[_Wanted, tuple[int, list[Any]]] = {}
        self._starts: dict[tuple[_Wanted, int], Branch | None] = {}

    def values(
        self, holding: Iterable[Node], broken: Iterable[Node], depth: int = 0, most: int = _FEW
    ) -> list[Any]:
        """Return at most `most` values that may fit all of `holding` and break all of `broken`, small ones first.

        `depth` is the number of steps into the document. An empty list does not prove that there is no such value.
        """
        fit, unfit = tuple(holding), tuple(broken)
        key = _wanted(fit, unfit)
        requested, known = self._made.get(key, (0, []))
        if requested >= most:
            return known[:most]
        if depth > _MAX_DEPTH:
            return []
        self._made[key] = (most, [])  # a value must not contain another one for the same question
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
            del self._made[key]  # a larger budget may find more
        else:
            self._made[key] = (max(most, _FEW), sorted(found.values(), key=_size))
        return sorted(found.values(), key=_size)[:most]

    def _values(self, fit: tuple[Node, ...], unfit: tuple[Node, ...], depth: int) -> Iterator[Any]:
        return _in_turn(self._of_branch(branch, depth) for branch in self.branches(fit, unfit, depth))

    def branches(self, fit: tuple[Node, ...], unfit: tuple[Node, ...], depth: int) -> Iterator[Branch]:
        """Yield branches without open clauses that are not known to be closed; at most _MAX_BRANCHES."""
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
        """Return the narrowed branch before any choice is made; None if no value satisfies it."""
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
        """Yield the listed values that no other leaf of the branch is known to exclude."""
        leaves, broken = branch.facts.leaves.values(), branch.broken.values()
        for index, value in enumerate(branch.listed):
            self.prover.budget.spend(int(index % _VALUES_A_STEP == 0))
            if fits_all(value, leaves, broken) is not False:
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
        """Return candidate names for a property at a place: its declared name, or names in its region."""
        if place.name is not None:
            return [place.name]
        made = self.values(place.named, place.misnamed)
        return [name for name in made if isinstance(name, str)]

    def places(
        self, branch: Branch, leaf: PatternProperty | Additional | PropertyNames, depth: int
    ) -> list[PropertyPlace]:
        """Return the first places where a property may break a leaf, at most _MAX_BRANCHES."""
        try:
            return list(islice(places(self.prover, branch.facts.objects, leaf, depth), _MAX_BRANCHES))
        except (BudgetSpentError, RecursionError):
            self.prover.forget_path()
            return []


ContainerBuilder = Callable[[WitnessBuilder, Branch, int, dict[Any, Any]], Iterator[Any]]
"""Yields arrays (or objects) for the leaves of a branch at a depth, with some of their members given."""


def _wanted(fit: tuple[Node, ...], unfit: tuple[Node, ...]) -> _Wanted:
    return frozenset(node.id for node in fit), frozenset(node.id for node in unfit)


_END: Final = object()
_ORDER: Final = (INTEGER, STRING, NULL, BOOLEAN, FRACTION, OBJECT, ARRAY)


def _in_turn(streams: Iterator[Iterator[Any]]) -> Iterator[Any]:
    """Yield one value of each open stream in turn; each round opens one more stream."""
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
    """Yield values; if notation matters, also integers as floats, such as 1.0 for 1."""
    for value in values:
        yield value
        if writing_matters(branch) and type_of(value) == INTEGER and abs(value) < MAX_WHOLE:
            yield float(value)


_FEW_LISTED: Final = 20
_ASSERTED: Final = re.compile(r"\(\?<?[=!]([^()]*)\)")
"""The pattern inside a look-around."""
_OTHERS: Final = "bzBZ19 _-"
_FEW_PLACES: Final = 8
_HAIR: Final = Fraction(1, 10**20)
"""A fraction of a number that is too small to change its double."""
MAX_WHOLE: Final = 10**15
"""Integers below this are also written as floats, such as 1.0: their doubles are exact."""
_MAX_LENGTH: Final = 5_000
_COMMON: Final = tuple(Fraction(text) for text in ("0", "1", "-1", "2", "1/2", "3/2", "1/10"))
_SAMPLES: Final = {
    "date": ("2000-01-01", "1999-12-31"),
    "date-time": ("2000-01-01T00:00:00Z", "2000-01-01T00:00:00.5+01:00"),
    "time": ("00:00:00Z", "12:00:00.5+01:00"),
    "duration": ("P1D", "PT1H"),
    "email": ("a@b.cc", "someone@example.org"),
    "idn-email": ("a@b.cc", "\u00e9@example.org"),
    "hostname": ("a", "a.example.org"),
    "idn-hostname": ("a", "a.example.org"),
    "ipv4": ("0.0.0.0", "127.0.0.1", "255.255.255.255"),  # noqa: S104 - a sample, not a bind address
    "ipv6": ("::", "::1", "2001:db8::8a2e:370:7334"),
    "uri": ("a:b", "http://a.bc/", "urn:x:y"),
    "uri-reference": ("", "a", "/a", "a:b"),
    "iri": ("a:b", "http://a.bc/\u00e9"),
    "iri-reference": ("", "a", "/\u00e9"),
    "uuid": ("00000000-0000-0000-0000-000000000000",),
    "uri-template": ("", "{a}", "a"),
    "json-pointer": ("", "/a"),
    "relative-json-pointer": ("0", "1/a"),
    "regex": ("", "a", "^a$"),
}
_ANY_STRINGS: Final = ("", "MA==", "a", "0", "-", "aa", "A", "1", " ", "\u00e9", "a\n", "not this")


def string_candidates(branch: Branch) -> Iterator[str]:
    """Yield candidate strings for the leaves of a branch."""
    facts = StringFacts(branch.facts.leaves.values(), list(branch.broken.values()))
    for held in facts.formats:
        yield from _SAMPLES.get(held.name, ())
    broken_formats = [leaf.name for leaf in branch.broken.values() if isinstance(leaf, Format)]
    listed = [text for node in branch.broken.values() if isinstance(node, OneValue) for text in node.values]
    with suppress(TooLargeError):
        yield from islice(strings(facts.question), 20)
    unread = [
        leaf.pattern
        for leaf in branch.broken.values()
        if isinstance(leaf, Pattern) and automaton_of(leaf.pattern) is None
    ]
    if unread:
        with suppress(TooLargeError):
            yield from chain.from_iterable(map(_varied, islice(strings(facts.question), 2)))
    for asserted in chain.from_iterable(map(_ASSERTED.findall, unread)):
        if automaton_of(asserted) is not None:
            with suppress(TooLargeError):
                yield from islice(strings(Question((asserted,), ())), 3)
    yield from _ANY_STRINGS
    least, most = facts.count.least, facts.count.most
    for length in dict.fromkeys((least, least + 1, most if most is not None else least)):
        if length <= _MAX_LENGTH:
            yield "a" * length
            yield "0" * length
    for name in broken_formats:
        yield from (f"{sample}~" for sample in _SAMPLES.get(name, ()))
    yield from (f"{text}~" for text in listed if isinstance(text, str))
    for name in _SAMPLES:
        yield from _SAMPLES[name]


def _varied(text: str) -> Iterator[str]:
    """Yield variations of a string in each character: a pattern without an automaton may depend on any of them."""
    for other in _OTHERS:
        yield other * len(text)
        for index in range(min(len(text), _FEW_PLACES)):
            yield f"{text[:index]}{other}{text[index + 1 :]}"


def writing_matters(branch: Branch) -> bool:
    """Return whether a branch may distinguish 1 from 1.0, as draft 4 does."""
    return any(
        isinstance(leaf, WrittenAsInteger)
        for leaf in (*branch.broken.values(), *branch.facts.leaves.values())
    )


def number_candidates(branch: Branch, *, is_integer: bool) -> Iterator[Any]:
    """Yield candidate numbers around every number in the leaves of a branch, simple ones first."""
    facts = NumberFacts(branch.facts.leaves.values(), list(branch.broken.values()), is_integer=is_integer)
    found = dict.fromkeys(_COMMON)
    for leaf in (*branch.facts.leaves.values(), *branch.broken.values()):
        found.update(dict.fromkeys(_named(leaf, facts.step)))
    ends = facts.exact.ends
    if len(ends) == 2:
        found[(ends[0] + ends[1]) / 2] = None
    if facts.step is not None:
        found.update(dict.fromkeys(facts.step * factor for factor in (1, 2, 3, 5, 7, -1)))
    for number in sorted(found, key=lambda each: (each.denominator, abs(each), each < 0)):
        if (number.denominator == 1) == is_integer and is_decimal(number):
            if is_integer and abs(number) < MAX_WHOLE and writing_matters(branch):
                yield float(number)
            yield written(number)


def _named(leaf: Node, step: Fraction | None) -> Iterator[Fraction]:
    match leaf:
        case Bound(limit=limit, precision=precision):
            yield from _around(limit, step)
            if precision is not Precision.EXACT:
                yield from (limit + limit * _HAIR, limit - limit * _HAIR)
        case MultipleOf(step=own):
            yield from (own * factor for factor in (1, 2, 3, -1))
            if leaf.precision is not Precision.EXACT:
                yield own + own * _HAIR
        case OneValue(values=values):
            numbers = [exact(value) for value in values[:_FEW_LISTED] if type_of(value) & NUMBER]
            yield from (each for number in numbers if number is not None for each in (number, number + 1))


def _around(limit: Fraction, step: Fraction | None) -> Iterator[Fraction]:
    yield limit
    for distance in (Fraction(1), Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000)):
        yield limit - distance
        yield limit + distance
    if limit.denominator == 1 or step is not None:
        whole = Fraction(limit.numerator // limit.denominator)
        yield whole
        yield whole + 1
    if step is not None:
        factor = (limit / step).numerator // (limit / step).denominator
        yield from (step * (factor + offset) for offset in (-1, 0, 1, 2))
