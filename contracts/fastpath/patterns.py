"""Patterns and formats as regular expressions that can be matched for many strings in one pass.

The strings of many records are joined, each ended by a separator, and matched against the repetition of all their
patterns. This is correct only if no pattern can match a separator. So the separators are control characters, which occur
only escaped in a JSON string, and only patterns of printable characters are used.

Source: ECMA-262, section 22.2.1, for the patterns; RE2 for the expressions; RFC 3339, section 5.6, for dates.
"""

from __future__ import annotations

import string
from typing import Final

END: Final = "\x1f"
"""Ends a string."""
ABSENT: Final = "\x1e"
"""Takes the place of a value that is null or missing."""
LAST: Final = "\x1d"
"""Takes the place of a string after the last string of a list."""

ANYTHING: Final = f"[^{LAST}-{END}]*"
"""Matches every string without a separator."""

_MAX_REPEAT: Final = 1000
_PRINTABLE: Final = frozenset(string.printable) - frozenset(string.whitespace) | {" "}
_PUNCTUATION: Final = frozenset(string.punctuation)
_CLASSES: Final = {"d": "0-9", "w": "0-9A-Za-z_"}
_SPECIAL: Final = frozenset("^$.*+?()[]{}|\\")

_DATE: Final = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
)
_TIME_OF_DAY: Final = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
FORMATS: Final = {
    "date": _DATE,
    "date-time": f"{_DATE}T{_TIME_OF_DAY}:[0-5][0-9](?:\\.[0-9]+)?(?:Z|[+-]{_TIME_OF_DAY})",
    "uuid": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
}
"""Expressions by format. They match only valid strings, but not all of them: not leap seconds, for example."""


def searched_strings(pattern: str) -> str | None:
    """Return an expression that matches exactly the strings in which an ECMA-262 pattern is found.

    Return None for a pattern that `_Reader` does not support.
    """
    begins, ends = pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")
    reader = _Reader(pattern[begins : len(pattern) - ends])
    try:
        body, branches = reader.alternatives()
        reader.require_end()
    except _UnsupportedError:
        return None
    if branches > 1 and (begins or ends):
        return None  # an anchor belongs to one branch only
    return f"{'' if begins else ANYTHING}(?:{body}){'' if ends else ANYTHING}"


class _UnsupportedError(Exception):
    """A part of a pattern that cannot be translated."""


class _Reader:
    """Translates a pattern, character by character. Raises _UnsupportedError for syntax that it does not know."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def alternatives(self) -> tuple[str, int]:
        """Read branches up to a closing parenthesis or the end; return their expression and their number."""
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return "|".join(branches), len(branches)

    def require_end(self) -> None:
        """Raise _UnsupportedError if any of the pattern is left."""
        if self._at < len(self._pattern):
            raise _UnsupportedError

    def _sequence(self) -> str:
        parts = []
        while self._peek() not in {"", "|", ")"}:
            parts.append(self._atom() + self._quantifier())
        return "".join(parts)

    def _atom(self) -> str:
        character = self._next()
        if character == "(":
            if self._take("?") and not self._take(":"):
                raise _UnsupportedError
            body, _ = self.alternatives()
            if not self._take(")"):
                raise _UnsupportedError
            return f"(?:{body})"
        if character == "[":
            return f"[{self._class()}]"
        if character == "\\":
            escaped = self._next()
            return f"[{_CLASSES[escaped]}]" if escaped in _CLASSES else _literal(_escaped(escaped))
        if character in _SPECIAL:
            raise _UnsupportedError
        return _literal(character)

    def _class(self) -> str:
        parts = []
        if self._peek() in {"^", "]"}:
            raise _UnsupportedError
        while not self._take("]"):
            first = self._member()
            if len(first) == 1 and self._peek() == "-" and self._peek(1) != "]":
                self._next()
                last = self._member()
                if len(last) != 1 or last < first:
                    raise _UnsupportedError
                parts.append(f"{_literal(first)}-{_literal(last)}")
            else:
                parts.append(_literal(first) if len(first) == 1 else first)
        return "".join(parts)

    def _member(self) -> str:
        """Read a member of a class: one character, or the characters of a class escape."""
        character = self._next()
        if character == "\\":
            escaped = self._next()
            return _CLASSES.get(escaped) or _escaped(escaped)
        if character == "[" or character not in _PRINTABLE:
            raise _UnsupportedError
        return character

    def _quantifier(self) -> str:
        symbol = self._peek()
        if symbol == "{":
            self._next()
            symbol = self._bounds()
        elif symbol and symbol in "?*+":
            self._next()
        else:
            return ""
        self._take("?")  # a lazy quantifier matches the same strings
        if self._peek() in set("?*+{"):
            raise _UnsupportedError
        return symbol

    def _bounds(self) -> str:
        least = self._number()
        most = least
        if self._take(","):
            most = "" if self._peek() == "}" else self._number()
        if not self._take("}") or int(most or least) > _MAX_REPEAT or int(least) > int(most or least):
            raise _UnsupportedError
        return f"{{{least}}}" if least == most else f"{{{least},{most}}}"

    def _number(self) -> str:
        digits = ""
        while self._peek() in set(string.digits):
            digits += self._next()
        if not digits or len(digits) > 4:
            raise _UnsupportedError
        return digits

    def _peek(self, ahead: int = 0) -> str:
        return self._pattern[self._at + ahead : self._at + ahead + 1]

    def _take(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise _UnsupportedError
        self._at += 1
        return character


def _escaped(character: str) -> str:
    """Return the character that an escape of punctuation stands for."""
    if character not in _PUNCTUATION:
        raise _UnsupportedError
    return character


def _literal(character: str) -> str:
    if character not in _PRINTABLE:
        raise _UnsupportedError
    return f"\\{character}" if character in _PUNCTUATION else character
