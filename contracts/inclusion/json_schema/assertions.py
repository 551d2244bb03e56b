r"""Patterns without their assertions: look-around and word borders.

An assertion takes strings away and no characters up. So whatever holds a match of a pattern holds one of the pattern
without its assertions, of which an automaton may be built: `^(?=A)\w+$` matches nothing that `^\w+$` does not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_LOOKS: Final = ("(?=", "(?!", "(?<=", "(?<!")
_BORDERS: Final = (r"\b", r"\B")
_QUANTIFIERS: Final = frozenset("*+?{")


@lru_cache(maxsize=1024)
def without_assertions(pattern: str) -> str | None:
    """Leave the assertions of a pattern out; None where there are none, or it is in doubt what belongs to them."""
    kept: list[str] = []
    at = 0
    is_found = False
    while at < len(pattern):
        is_assertion = pattern.startswith(_LOOKS, at) or pattern.startswith(_BORDERS, at)
        end = _end_of_part(pattern, at)
        if end is None:
            return None
        if not is_assertion:
            # Of a group that stays, assertions inside it go.
            end = at + 1 if pattern[at] == "(" else end
            kept.append(pattern[at:end])
        elif pattern[end : end + 1] in _QUANTIFIERS:
            return None
        is_found = is_found or is_assertion
        at = end
    return "".join(kept) if is_found else None


def _end_of_part(pattern: str, at: int) -> int | None:
    """Return where an escape, a class, a group or a character ends that begins at a place."""
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
        return None  # readers differ
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
