"""Bounded search for a string that is in several regular languages and not in others.

The automata are made deterministic lazily, only where the search goes, so that `(a|b)*a(a|b){20}` does not cost 2^20
states. The search is breadth-first, so the first string that it finds is a shortest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from tidegate.contracts.inclusion.json_schema.pattern_syntax import (
    EVERYTHING,
    Alternatives,
    Anchor,
    Characters,
    Expression,
    Ranges,
    Repeat,
    Sequence,
    UnreadableError,
    read_pattern,
)

MAX_STATES: Final = 4_000
"""Maximum states of the nondeterministic automaton of one pattern."""
MAX_MOVES: Final = 10_000
"""Maximum transitions that one search takes."""

_MAX_REMEMBERED: Final = 10_000

_FREE: Final = 0
_AT_START: Final = 1
_AT_END: Final = 2

States = frozenset[int]


class TooLargeError(ValueError):
    """A search that would take more than MAX_MOVES."""


class Automaton:
    """A nondeterministic automaton that accepts the strings in which a pattern matches somewhere.

    State 0 is the initial state, and state 1 means that the pattern has matched. Both loop on every character, because
    a match may begin and end anywhere.
    """

    def __init__(self, expression: Expression) -> None:
        self._empty: list[list[tuple[int, int]]] = [[], []]
        self._moves: list[list[tuple[Ranges, int]]] = [[(EVERYTHING, 0)], [(EVERYTHING, 1)]]
        self._build(expression, 0, 1)
        self.borders = frozenset(
            border
            for moves in self._moves
            for each, _ in moves
            for low, high in each
            for border in (low, high + 1)
        )
        self.start = self._closure({0}, at_start=True)
        self._steps: dict[tuple[States, int], States] = {}

    def step(self, states: States, character: int) -> States:
        """Return the states after one more character."""
        known = self._steps.get((states, character))
        if known is None:
            targets = {
                target
                for state in states
                for each, target in self._moves[state]
                if any(low <= character <= high for low, high in each)
            }
            if len(self._steps) >= _MAX_REMEMBERED:
                self._steps.clear()
            known = self._steps[states, character] = self._closure(targets, at_start=False)
        return known

    def accepts(self, states: States, *, is_empty: bool) -> bool:
        """Return whether the string that led to `states` is in the language; `is_empty` if it is the empty string."""
        return 1 in states or 1 in self._closure(set(states), at_start=is_empty, at_end=True)

    def is_certain(self, states: States) -> bool:
        """Return whether every continuation from `states` is in the language."""
        return 1 in states

    def _state(self) -> int:
        if len(self._empty) >= MAX_STATES:
            raise UnreadableError
        self._empty.append([])
        self._moves.append([])
        return len(self._empty) - 1

    def _build(self, expression: Expression, begin: int, end: int) -> None:
        match expression:
            case Characters(ranges=given):
                self._moves[begin].append((given, end))
            case Anchor(is_start=is_start):
                self._empty[begin].append((end, _AT_START if is_start else _AT_END))
            case Alternatives(parts=parts):
                for part in parts:
                    self._build(part, begin, end)
            case Sequence(parts=parts):
                for part in parts[:-1]:
                    middle = self._state()
                    self._build(part, begin, middle)
                    begin = middle
                self._build(parts[-1], begin, end) if parts else self._join(begin, end)
            case Repeat():
                self._repeat(expression, begin, end)

    def _repeat(self, repeat: Repeat, begin: int, end: int) -> None:
        for _ in range(repeat.least):
            begin = self._after(repeat.part, begin)
        if repeat.most is None:
            loop = self._state()
            self._join(begin, loop)
            self._join(self._after(repeat.part, loop), loop)
            begin = loop
        for _ in range((repeat.most or 0) - repeat.least):
            self._join(begin, end)
            begin = self._after(repeat.part, begin)
        self._join(begin, end)

    def _after(self, part: Expression, begin: int) -> int:
        # Each repetition gets its own first state: a part may begin with a loop, which must not affect the one before.
        first, last = self._state(), self._state()
        self._join(begin, first)
        self._build(part, first, last)
        return last

    def _join(self, begin: int, end: int) -> None:
        self._empty[begin].append((end, _FREE))

    def _closure(self, states: set[int], *, at_start: bool, at_end: bool = False) -> States:
        found, stack = set(states), list(states)
        while stack:
            for target, condition in self._empty[stack.pop()]:
                holds = condition == _FREE or (at_start if condition == _AT_START else at_end)
                if holds and target not in found:
                    found.add(target)
                    stack.append(target)
        return frozenset(found)


@lru_cache(maxsize=1024)
def automaton_of(pattern: str) -> Automaton | None:
    """Return the automaton of a pattern; None if the pattern is outside the supported syntax or too large."""
    try:
        return Automaton(read_pattern(pattern))
    except UnreadableError:
        return None


@dataclass(frozen=True, slots=True)
class Question:
    """A search for strings that match all patterns of `inside` and none of `outside`.

    The strings have `least` to `most` characters (None: unbounded) and are not in `excluded`. `automaton_of` must
    return an automaton for every pattern.
    """

    inside: tuple[str, ...]
    outside: tuple[str, ...]
    least: int = 0
    most: int | None = None
    excluded: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def first_string(question: Question) -> str | None:
    """Return a shortest string of a question; None if there is none. Raises TooLargeError."""
    return next(strings(question), None)


def answer(question: Question) -> tuple[str | None, bool]:
    """Return a shortest string of a question (None if none was found), and whether the answer is certain."""
    try:
        return first_string(question), True
    except TooLargeError:
        return None, False


@dataclass(frozen=True, slots=True)
class Searched:
    """A shortest string of a question (None if none was found), whether that is certain, and the transitions taken."""

    text: str | None
    is_certain: bool
    moves: int


def searched(question: Question) -> Searched:
    """Answer a question as `answer` does, without a cache, and count the work."""
    try:
        search = _Search(question)
    except TooLargeError:
        return Searched(None, False, 0)
    try:
        return Searched(next(search.strings(), None), True, search.moves)
    except TooLargeError:
        return Searched(None, False, search.moves)


def strings(question: Question) -> Iterator[str]:
    """Yield strings of a question, shorter ones first, at most one for each state. Raises TooLargeError."""
    return _Search(question).strings()


class _Search:
    """A breadth-first search in the product of the automata of one question."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._inside = [_known(pattern) for pattern in question.inside]
        self._outside = [_known(pattern) for pattern in question.outside]
        self._prefixes = {text[:end] for text in question.excluded for end in range(len(text) + 1)}
        everyone = [*self._inside, *self._outside]
        borders = set().union(*(each.borders for each in everyone)) if everyone else set()
        borders |= {
            ord(character) + more for text in question.excluded for character in text for more in (0, 1)
        }
        self._alphabet = _representatives(borders)
        self.moves = 0
        # All longer texts are alike with respect to the limits on the length.
        self._enough = question.least if question.most is None else question.most + 1

    def strings(self) -> Iterator[str]:
        everyone = [*self._inside, *self._outside]
        start = tuple(each.start for each in everyone)
        queue: deque[tuple[str, tuple[States, ...]]] = deque([("", start)])
        seen = {self._memory("", start)}
        while queue:
            text, states = queue.popleft()
            if self._answers(text, states):
                yield text
            if self._question.most is not None and len(text) >= self._question.most:
                continue
            for character in self._alphabet:
                self.moves += 1
                if self.moves > MAX_MOVES:
                    raise TooLargeError
                after = tuple(each.step(at, character) for each, at in zip(everyone, states, strict=True))
                longer = text + chr(character)
                memory = self._memory(longer, after)
                if memory not in seen and self._is_open(after):
                    seen.add(memory)
                    queue.append((longer, after))

    def _memory(self, text: str, states: tuple[States, ...]) -> tuple[object, ...]:
        return (states, min(len(text), self._enough), text if text in self._prefixes else not text)

    def _answers(self, text: str, states: tuple[States, ...]) -> bool:
        question = self._question
        if len(text) < question.least or text in question.excluded:
            return False
        inside, outside = states[: len(self._inside)], states[len(self._inside) :]
        return all(
            each.accepts(at, is_empty=not text) for each, at in zip(self._inside, inside, strict=True)
        ) and not any(
            each.accepts(at, is_empty=not text) for each, at in zip(self._outside, outside, strict=True)
        )

    def _is_open(self, states: tuple[States, ...]) -> bool:
        outside = states[len(self._inside) :]
        return not any(each.is_certain(at) for each, at in zip(self._outside, outside, strict=True))


def _known(pattern: str) -> Automaton:
    automaton = automaton_of(pattern)
    if automaton is None:
        raise TooLargeError
    return automaton


_NICE: Final = (
    *range(ord("a"), ord("z") + 1),
    *range(ord("0"), ord("9") + 1),
    *range(ord("A"), ord("Z") + 1),
)


def _representatives(borders: set[int]) -> list[int]:
    """Return one character of each range between two borders, a readable one if possible, readable ones first."""
    cuts = sorted(borders | {0, 0xD800, 0xE000, 0x110000})
    pairs = [(low, high) for low, high in pairwise(cuts) if low != 0xD800]
    found = [
        next((nice for nice in (*_NICE, *range(33, 127), 32) if low <= nice < high), low)
        for low, high in pairs
        if not 0xD800 <= low < 0xE000
    ]
    return sorted(found, key=lambda point: (point not in _NICE, not 33 <= point < 127, point))
