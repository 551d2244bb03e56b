"""Numbers and strings that may fit the leaves of a branch: guesses at the places where they change their mind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import chain, islice
from typing import Any, Final

from tidegate.contracts.inclusion.json_schema.branch import Branch
from tidegate.contracts.inclusion.json_schema.nodes import (
    Bound,
    Format,
    MultipleOf,
    Node,
    OneValue,
    Pattern,
    Precision,
    WrittenAsInteger,
)
from tidegate.contracts.inclusion.json_schema.regular import Question, TooLargeError, automaton_of, strings
from tidegate.contracts.inclusion.json_schema.theories import NumberFacts, StringFacts
from tidegate.contracts.inclusion.json_schema.values import NUMBER, exact, is_decimal, type_of, written

_FEW: Final = 20
_ASSERTED: Final = re.compile(r"\(\?<?[=!]([^()]*)\)")
"""What a look-around looks for."""
_OTHERS: Final = "bzBZ19 _-"
_FEW_PLACES: Final = 8
_HAIR: Final = Fraction(1, 10**20)
"""A part of a number that no double shows."""
MAX_WHOLE: Final = 10**15
"""Whole numbers below this are also written as fractions: 1.0 is a double that stands for itself."""
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
    "ipv4": ("0.0.0.0", "127.0.0.1", "255.255.255.255"),  # noqa: S104 - a sample, no binding
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
    """Yield strings for the leaves of a branch."""
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
    """Yield strings that are like one: what cannot be read may look at any character of them."""
    for other in _OTHERS:
        yield other * len(text)
        for index in range(min(len(text), _FEW_PLACES)):
            yield f"{text[:index]}{other}{text[index + 1 :]}"


def writing_matters(branch: Branch) -> bool:
    """Return whether 1 and 1.0 may be told apart."""
    return any(
        isinstance(leaf, WrittenAsInteger)
        for leaf in (*branch.broken.values(), *branch.facts.leaves.values())
    )


def number_candidates(branch: Branch, *, is_integer: bool) -> Iterator[Any]:
    """Yield numbers around every number that the leaves of a branch name, simple ones first."""
    facts = NumberFacts(branch.facts.leaves.values(), list(branch.broken.values()), is_integer=is_integer)
    found = dict.fromkeys(_COMMON)
    for leaf in (*branch.facts.leaves.values(), *branch.broken.values()):
        found.update(dict.fromkeys(_named(leaf, facts.step)))
    ends = facts.line.ends
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
            numbers = [exact(value) for value in values[:_FEW] if type_of(value) & NUMBER]
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
