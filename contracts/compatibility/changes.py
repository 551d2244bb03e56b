"""One change found between two contracts, before anybody knows whether it breaks the level that was asked for."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Final

from tidegate.contracts.compatibility.finding import Direction, FindingSeverity
from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.inclusion.answer import Counterexample, Outcome

_MAX_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Change:
    """What a finding is made of.

    `breaks` says in which directions the change breaks, unless it breaks none (then `severity` says what it is).
    `fields` are the JSON Pointers of every place in a record that it concerns, "" for the whole record; none when it
    concerns no record.
    """

    code: str
    sentence: str
    pointer: str
    base_pointer: str
    outcome: Outcome
    fields: tuple[str, ...] = ()
    breaks: frozenset[Direction] = frozenset()
    severity: FindingSeverity = FindingSeverity.INFO
    counterexample: Counterexample | None = None
    touches: bool = False
    """Whether who reads the fields should know, although the change breaks no direction."""
    consumer: str | None = None
    """Id of the one consumer that the change is about; None when its fields tell who is touched."""


BOTH: Final = frozenset(Direction)
"""A change that breaks readers of old records and readers of new ones."""


def shown(value: Any) -> str:
    """Write a declared value for a sentence."""
    if value is None:
        return "none"
    text = json.dumps(value, ensure_ascii=False, default=str) if not isinstance(value, str) else value
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def was_and_is(name: str, before: Any, after: Any) -> str:
    """Return what a declared value was and is."""
    if before is None:
        return f"{name} is {shown(after)} and was not given"
    if after is None:
        return f"{name} was {shown(before)} and is not given any more"
    return f"{name} was {shown(before)} and is {shown(after)}"


def overlap(one: str, other: str, declared: Container[str] = ()) -> bool:
    """Return whether one place is the other, lies in it, or holds it.

    `declared` are the pointers that the schema declares: `*` stands for none of their names.
    """
    path: tuple[str, ...] = ()
    for left, right in zip(tokens(one), tokens(other), strict=False):
        if left != right and "*" not in (left, right):
            return False
        name = right if left == "*" else left
        path = (*path, name)
        if left != right and join(path) in declared:
            return False
    return True
