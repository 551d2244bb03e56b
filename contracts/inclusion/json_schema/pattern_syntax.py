r"""Parser of regular expressions: the subset of ECMA-262 whose meaning is unambiguous.

Supported are literals, classes, `.`, `\d \w \s` and their negations, groups, alternation, greedy and lazy repetition,
and the anchors `^` and `$`. Everything else raises `UnreadableError`: look-around, back-references, `\b`, `\p{...}`,
flags, set operations in a class, and patterns beyond the limits.

Source: ECMA-262 section 22.2: `\d` and `\w` are ASCII, `.` is any character except LF, CR, LS and PS.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MAX_REPEAT: Final = 1_000
_MAX_DEPTH: Final = 30
_LAST: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)

Ranges = tuple[tuple[int, int], ...]
"""Sorted, disjoint, inclusive ranges of code points."""


class UnreadableError(ValueError):
    """A regular expression outside the supported subset."""


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of `ranges`."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Anchor:
    """The beginning (`is_start`) or the end of the string."""

    is_start: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """The parts one after another; without parts, the empty string."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """One of the parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The part, at least `least` and at most `most` times; `most` is None if unbounded."""

    part: Expression
    least: int
    most: int | None


Expression = Characters | Anchor | Sequence | Alternatives | Repeat


def ranges(*pairs: tuple[int, int]) -> Ranges:
    """Return ranges sorted and merged, without the surrogates, which no record contains."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(_without_surrogates(pairs)):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def _without_surrogates(pairs: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    first, last = _SURROGATES
    pieces = [
        piece for low, high in pairs for piece in ((low, min(high, first - 1)), (max(low, last + 1), high))
    ]
    return [(low, high) for low, high in pieces if low <= high]


def complement(given: Ranges) -> Ranges:
    """Return the ranges of all other characters."""
    gaps, at = [], 0
    for low, high in given:
        gaps.append((at, low - 1))
        at = high + 1
    gaps.append((at, _LAST))
    return ranges(*((low, high) for low, high in gaps if low <= high))


EVERYTHING: Final = ranges((0, _LAST))
_DIGIT: Final = ranges((48, 57))
_WORD: Final = ranges((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Final = ranges(
    *((9, 13), (32, 32), (160, 160), (5760, 5760), (8192, 8202), (8232, 8233), (8239, 8239), (8287, 8287)),
    *((12288, 12288), (65279, 65279)),
)
_NO_LINE_END: Final = complement(ranges((10, 10), (13, 13), (0x2028, 0x2029)))
_CLASSES: Final = {
    "d": _DIGIT,
    "D": complement(_DIGIT),
    "w": _WORD,
    "W": complement(_WORD),
    "s": _SPACE,
    "S": complement(_SPACE),
}
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_SYNTAX: Final = frozenset("^$\\.*+?()[]{}|/-")
_NO_LITERAL: Final = frozenset("*+?)]{}")
_HEX: Final = {"x": 2, "u": 4}


def read_pattern(pattern: str) -> Expression:
    """Parse a regular expression. Raises UnreadableError."""
    reader = _Reader(pattern)
    expression = reader.choice(0)
    if reader.peek():
        raise UnreadableError(pattern)
    return expression


class _Reader:
    """A recursive-descent parser of one pattern. Its methods raise UnreadableError."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def choice(self, depth: int) -> Expression:
        if depth > _MAX_DEPTH:
            self._fail()
        parts = [self._sequence(depth)]
        while self._skip("|"):
            parts.append(self._sequence(depth))
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self, depth: int) -> Expression:
        parts: list[Expression] = []
        while self.peek() not in {"", "|", ")"}:
            parts.append(self._repeated(self._atom(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self, depth: int) -> Expression:
        character = self._take()
        match character:
            case "^" | "$":
                return Anchor(is_start=character == "^")
            case ".":
                return Characters(_NO_LINE_END)
            case "[":
                return Characters(self._class())
            case "\\":
                return Characters(self._escape())
            case "(":
                return self._group(depth)
        if character in _NO_LITERAL:
            self._fail()
        return Characters(((ord(character), ord(character)),))

    def _group(self, depth: int) -> Expression:
        if self._skip("?") and not self._skip(":"):
            self._fail()
        inner = self.choice(depth + 1)
        self._expect(")")
        return inner

    def _repeated(self, part: Expression) -> Expression:
        character = self.peek()
        if character not in {"*", "+", "?", "{"} or not character:
            return part
        if isinstance(part, Anchor):
            self._fail()
        self._take()
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character) or self._counts()
        self._skip("?")  # a lazy quantifier matches the same strings
        if self.peek() in {"*", "+", "?", "{"} and self.peek():
            self._fail()
        return Repeat(part, least, most)

    def _counts(self) -> tuple[int, int | None]:
        least = self._count()
        most: int | None = least
        if self._skip(","):
            most = None if self.peek() == "}" else self._count()
        self._expect("}")
        if most is not None and most < least:
            self._fail()
        return least, most

    def _count(self) -> int:
        digits = ""
        while self.peek().isascii() and self.peek().isdigit():
            digits += self._take()
        if not digits or len(digits) > 4 or int(digits) > MAX_REPEAT:
            self._fail()
        return int(digits)

    def _class(self) -> Ranges:
        negated = self._skip("^")
        found: list[tuple[int, int]] = []
        while self.peek() != "]":
            low = self._member()
            if self.peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in {"]", ""}:
                self._take()
                high = self._member()
                if not _is_one(low) or not _is_one(high) or low[0][0] > high[0][0]:
                    self._fail()
                low = ((low[0][0], high[0][0]),)
            found.extend(low)
        self._expect("]")
        if not found:
            self._fail()
        joined = ranges(*found)
        return complement(joined) if negated else joined

    def _member(self) -> Ranges:
        character = self._take()
        if character == "\\":
            return self._escape()
        # Some engines read `[`, `&&`, `~~` and `--` as set operations.
        if character == "[" or (character in "&~-" and self.peek() == character):
            self._fail()
        return ((ord(character), ord(character)),)

    def _escape(self) -> Ranges:
        character = self._take()
        if character in _CLASSES:
            return _CLASSES[character]
        if character in _HEX:
            return self._code_point(_HEX[character])
        if character not in _CONTROLS and character not in _SYNTAX:
            self._fail()
        point = _CONTROLS.get(character, ord(character))
        return ((point, point),)

    def _code_point(self, digits: int) -> Ranges:
        text = self._pattern[self._at : self._at + digits]
        if len(text) != digits or any(digit not in "0123456789abcdefABCDEF" for digit in text):
            self._fail()
        self._at += digits
        point = int(text, 16)
        if _SURROGATES[0] <= point <= _SURROGATES[1]:
            self._fail()
        return ((point, point),)

    def _take(self) -> str:
        character = self.peek()
        if not character:
            self._fail()
        self._at += 1
        return character

    def _skip(self, text: str) -> bool:
        if self.peek() == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            self._fail()

    def _fail(self) -> None:
        raise UnreadableError(self._pattern)


def _is_one(given: Ranges) -> bool:
    return len(given) == 1 and given[0][0] == given[0][1]


_LOOKAROUNDS: Final = ("(?=", "(?!", "(?<=", "(?<!")
_BORDERS: Final = (r"\b", r"\B")
_QUANTIFIERS: Final = frozenset("*+?{")


@lru_cache(maxsize=1024)
def without_assertions(pattern: str) -> str | None:
    r"""Return a pattern without look-around and word boundaries; None if it has none, or if their extent is unclear.

    An assertion only excludes strings. So every match of a pattern also matches the pattern without its assertions,
    which may have an automaton. For example, `^\w+$` matches every string that `^(?=A)\w+$` matches.
    """
    kept: list[str] = []
    at = 0
    is_found = False
    while at < len(pattern):
        is_assertion = pattern.startswith(_LOOKAROUNDS, at) or pattern.startswith(_BORDERS, at)
        end = _end_of_part(pattern, at)
        if end is None:
            return None
        if not is_assertion:
            # Keep only the opening parenthesis of a group, so that assertions inside it are removed too.
            end = at + 1 if pattern[at] == "(" else end
            kept.append(pattern[at:end])
        elif pattern[end : end + 1] in _QUANTIFIERS:
            return None
        is_found = is_found or is_assertion
        at = end
    return "".join(kept) if is_found else None


def _end_of_part(pattern: str, at: int) -> int | None:
    """Return the index after the escape, class, group or character that begins at `at`; None if that is unclear."""
    match pattern[at]:
        case "\\":
            return at + 2 if at + 2 <= len(pattern) else None
        case "[":
            return _end_of_class(pattern, at)
        case "(":
            return _end_of_group(pattern, at)
        case _:
            return at + 1


def _end_of_class(pattern: str, at: int) -> int | None:
    at += 2 if pattern.startswith("[^", at) else 1
    if pattern.startswith("]", at):
        return None  # engines differ on a leading `]`
    while at < len(pattern):
        if pattern[at] == "]":
            return at + 1
        if pattern[at] == "[":
            return None
        at += 2 if pattern[at] == "\\" else 1
    return None


def _end_of_group(pattern: str, at: int) -> int | None:
    depth = 0
    while at < len(pattern):
        if pattern[at] in "()":
            depth += 1 if pattern[at] == "(" else -1
            at += 1
            if not depth:
                return at
            continue
        end = _end_of_part(pattern, at)
        if end is None:
            return None
        at = end
    return None
