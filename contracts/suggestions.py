"""Suggestions at the end of a message about an unknown name: the known names that were probably meant.

Authors of documents choose both the unknown and the known names, and producers those of a record. Without a limit, a
contract of 1 MB would be compared for an hour, and answered with a gigabyte. So all suggestions of one document share a budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

MAX_COST: Final = 5_000_000
"""Budget of a document: the sum, over all comparisons, of the product of both lengths. It lasts for some seconds."""
MAX_LENGTH: Final = 100
"""Maximum length of a compared name, in characters; longer ones are neither compared nor suggested."""
MAX_LISTED: Final = 100
"""Maximum number of known names that a message lists."""


@dataclass(slots=True)
class _Budget:
    left: int = MAX_COST


_current: ContextVar[_Budget | None] = ContextVar("suggestion_budget", default=None)


@contextmanager
def suggestion_budget() -> Iterator[None]:
    """Share one budget among all suggestions within the block. A nested block uses the budget of the outer one."""
    if _current.get() is not None:
        yield
        return
    token = _current.set(_Budget())
    try:
        yield
    finally:
        _current.reset(token)


def similar(word: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known names that are most similar to `word`, the best first, at most `most`.

    `cutoff` is the least similarity, from 0 to 1. Empty without a similar name, and when the budget is used up. Outside
    of a `suggestion_budget` block, each call has a budget of its own.
    """
    return _matches(word, _affordable(word, known), most, cutoff)


def closest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that was probably meant, ignoring case; None without one. See `similar`."""
    return _closest(word, _affordable(word, known), cutoff)


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return the end of a message about an unknown name: the closest known name, or a list of the known ones.

    The list has at most MAX_LISTED names. The text is empty when the budget is used up.
    """
    names = _affordable(word, known)
    if not names:
        return ""
    nearest = _closest(word, names, 0.6)
    if nearest is not None:
        return f"; did you mean `{nearest}`?"
    more = len(known) - MAX_LISTED
    return f"; use one of {', '.join(names[:MAX_LISTED])}" + (f" and {more:,} more" if more > 0 else "")


def _affordable(word: str, known: Iterable[str]) -> list[str]:
    """Return the known names to compare with, after subtracting the cost from the budget; empty if it is used up.

    Then `known` is not iterated either, so callers can pass an iterator that is expensive to consume.
    """
    budget = _current.get() or _Budget()
    if budget.left <= 0:
        return []
    names = [name for name in known if len(name) <= MAX_LENGTH]
    budget.left -= min(max(len(word), 1), MAX_LENGTH) * sum(map(len, names))
    return names if budget.left >= 0 else []


def _matches(word: str, names: Collection[str], most: int, cutoff: float) -> list[str]:
    return get_close_matches(word, names, most, cutoff) if len(word) <= MAX_LENGTH else []


def _closest(word: str, names: list[str], cutoff: float) -> str | None:
    folded = {name.casefold(): name for name in sorted(names)}
    matches = _matches(word.casefold(), folded, 1, cutoff)
    return folded[matches[0]] if matches else None
