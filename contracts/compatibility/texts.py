"""Patterns compared as sets of strings, through the automata of the JSON Schema prover.

RE2, which judges rules, and ECMA-262, which those automata read, agree on the patterns that `is_common` lets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped] # it publishes no types

from tidegate.contracts.inclusion.json_schema.regular import Question, answer

MAX_SEARCHES: Final = 200
"""Most searches of one comparison."""
_left: Final[ContextVar[list[int]]] = ContextVar("left", default=[MAX_SEARCHES])  # noqa: B039 - replaced for each comparison
_UNSURE: Final = re.compile(r"\\[^dwDW.\\/\-+*?()\[\]{}|^$]|\(\?|\[\[:|\{,")


def is_common(pattern: str) -> bool:
    """Return whether a pattern means the same in RE2 and in ECMA-262."""
    return not _UNSURE.search(pattern)


@contextmanager
def bounded_searches(most: int = MAX_SEARCHES) -> Iterator[None]:
    """Let at most so many searches go through the automata of patterns; the others find nothing."""
    token = _left.set([most])
    try:
        yield
    finally:
        _left.reset(token)


def first_text(inside: tuple[str, ...], outside: tuple[str, ...] = ()) -> str | None:
    """Return a shortest string that matches some patterns and not others; None when none was found."""
    return _answer(inside, outside)[0] if _may_search() else None


def includes_pattern(wide: str, narrow: str) -> bool:
    """Return whether every string that matches `narrow` surely matches `wide`."""
    return wide == narrow or (_may_search() and _answer((narrow,), (wide,)) == (None, True))


def matches(pattern: str, text: str) -> bool:
    """Return whether a string holds a match of a pattern, as the judge of rules sees it."""
    return _compiled(pattern).search(text) is not None


def _may_search() -> bool:
    """Count a search, whether its answer is remembered or not, so that the same question has the same answer."""
    left = _left.get()
    left[0] -= 1
    return left[0] >= 0


@lru_cache(maxsize=1024)
def _answer(inside: tuple[str, ...], outside: tuple[str, ...]) -> tuple[str | None, bool]:
    """Return a string, and whether the answer is certain."""
    if not all(is_common(each) for each in (*inside, *outside)):
        return None, False
    return answer(Question(inside, outside))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern)
