"""Changes between two versions of a contract, and the findings that are reported for them."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.document.model import Compatibility
from tidegate.contracts.inclusion.answer import Counterexample, Outcome
from tidegate.contracts.rules.places import is_deep


class FindingSeverity(StrEnum):
    """The severity of a finding: `breaking` blocks under the compatibility level, `warning` and `info` do not."""

    BREAKING = "breaking"
    WARNING = "warning"
    INFO = "info"


class Direction(StrEnum):
    """The direction that a change breaks: `backward` (new readers, old records) or `forward` (the reverse)."""

    BACKWARD = "backward"
    FORWARD = "forward"


def example_label(outcome: Outcome | None, direction: Direction | None) -> str:
    """Return a label for a counterexample, such as `accepted before, refused now`."""
    if outcome is Outcome.ASSUMED:
        return "assumed not to occur"
    if direction is Direction.FORWARD:
        return "accepted now, refused before"
    return "accepted before, refused now"


@dataclass(frozen=True, slots=True)
class Finding:
    """One change between two versions of a contract.

    `code` is stable (`schema.maximum-lowered`, `rule.tightened`, ...). `pointer` and `base_pointer` are JSON Pointers
    (RFC 6901) into the contract documents of candidate and base, to the nearest place that exists. Line and column
    are looked up by `pointer`. `field` is the JSON Pointer of the place in a record, "" for a finding about no field.

    `outcome` is REFUTED for a change that certainly breaks, with a counterexample if a record can show it (a changed
    topic needs none). UNDETERMINED means that neither was proven. PROVEN is a change that is known to be harmless.
    ASSUMED is one that is harmless under `undeclared: ignore`, with a record that is assumed not to occur.
    `direction` is None for a change that breaks neither direction. `consumers` are the ids of the registered consumers
    that the finding affects, sorted.
    """

    severity: FindingSeverity
    code: str
    sentence: str
    pointer: str
    base_pointer: str
    field: str
    outcome: Outcome
    direction: Direction | None = None
    counterexample: Counterexample | None = None
    consumers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """All findings of one comparison, breaking ones first; `against` is the version of the base.

    `suggested_version` is the smallest semantic version above `against` that the findings allow. `affected` and
    `unaffected` are the ids of the registered consumers, sorted.
    """

    against: str
    findings: tuple[Finding, ...]
    suggested_version: str
    affected: tuple[str, ...] = ()
    unaffected: tuple[str, ...] = ()

    @property
    def is_compatible(self) -> bool:
        """Return whether no finding is breaking."""
        return all(finding.severity is not FindingSeverity.BREAKING for finding in self.findings)


_DIRECTIONS: Final = {
    "NONE": frozenset[Direction](),
    "BACKWARD": frozenset({Direction.BACKWARD}),
    "FORWARD": frozenset({Direction.FORWARD}),
    "FULL": frozenset(Direction),
}


def directions_of(level: Compatibility) -> frozenset[Direction]:
    """Return the directions that must not break under a level, as in Confluent Schema Registry."""
    return _DIRECTIONS[level.value.removesuffix("_TRANSITIVE")]


def is_transitive(level: Compatibility) -> bool:
    """Return whether a level requires a comparison with every earlier version, not only with the latest."""
    return level.value.endswith("_TRANSITIVE")


_MAX_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Change:
    """A change between two versions, from which a finding is built.

    `breaks` are the directions that the change breaks; if there are none, the finding has the given `severity`.
    `fields` are the JSON Pointers of all places in a record that the change concerns: "" for the whole record, empty
    if it does not concern records.
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
    """Whether the change affects readers of the fields although it breaks no direction."""
    advice: str | None = None
    """Advice for a breaking change, or its reason; None for no advice."""
    consumer: str | None = None
    """The id of the only consumer that the change affects; None if the affected ones are found by `fields`."""


BOTH: Final = frozenset(Direction)
"""Both directions: a change that breaks new readers of old records and old readers of new records."""


def shown(value: Any) -> str:
    """Return a declared value as text for a sentence, truncated to 60 characters; `none` for None."""
    if value is None:
        return "none"
    text = json.dumps(value, ensure_ascii=False, default=str) if not isinstance(value, str) else value
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def was_and_is(name: str, before: Any, after: Any) -> str:
    """Return a clause that states the old and the new value of a key; None stands for a value that is not given."""
    if before is None:
        return f"{name} is {shown(after)} and was not given"
    if after is None:
        return f"{name} was {shown(before)} and is not given any more"
    if shown(before).endswith("...") and isinstance(before, list) and isinstance(after, list):
        return _changed_items(name, before, after)
    return f"{name} was {shown(before)} and is {shown(after)}"


def _changed_items(name: str, before: list[Any], after: list[Any]) -> str:
    """Return a clause about the added and removed items of a list that is too long for a sentence."""
    old, new = ({json.dumps(each, default=str): each for each in values} for values in (before, after))
    removed = [each for key, each in old.items() if key not in new]
    added = [each for key, each in new.items() if key not in old]
    parts = [
        f"{verb} {shown(values)}" + (f" ({len(values)} values)" if len(values) > 1 else "")
        for verb, values in (("removed", removed), ("added", added))
        if values
    ]
    what = ", ".join(parts) or "the same values in another order"
    return f"{name} were {len(before)} and are {len(after)}: {what}"


def overlap(one: str, other: str, declared: Container[str] = ()) -> bool:
    """Return whether two places in a record are equal or one contains the other.

    `*` matches any name except those that `declared` (the pointers that the schema declares) contains. A place at any
    depth overlaps with every place.
    """
    if any(is_deep(tokens(pointer)) for pointer in (one, other)):
        return True
    path: tuple[str, ...] = ()
    for left, right in zip(tokens(one), tokens(other), strict=False):
        if left != right and "*" not in (left, right):
            return False
        name = right if left == "*" else left
        path = (*path, name)
        if left != right and join(path) in declared:
            return False
    return True
