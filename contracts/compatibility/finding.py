"""What a change of a contract means: findings for people and machines, each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidegate.contracts.document.model import Compatibility
from tidegate.contracts.inclusion.answer import Counterexample, Outcome


class FindingSeverity(StrEnum):
    """`breaking` blocks under the contract's compatibility level; `warning` and `info` do not."""

    BREAKING = "breaking"
    WARNING = "warning"
    INFO = "info"


class Direction(StrEnum):
    """Who is in trouble: with `backward`, readers of the new version meet old records; with `forward`, the reverse."""

    BACKWARD = "backward"
    FORWARD = "forward"


@dataclass(frozen=True, slots=True)
class Finding:
    """One change between two versions of a contract.

    `code` is stable (`schema.maximum-lowered`, `rule.tightened`, ...). `pointer` and `base_pointer` are JSON Pointers
    (RFC 6901) into the candidate's and the base's contract document, the nearest place that exists; the pointer is
    what a line and a column are found by. `field` is the JSON Pointer of the place in a record, "" when the finding is
    about no field. `outcome` is REFUTED for what certainly breaks, with a counterexample where a record can show it
    (a changed topic needs none); UNDETERMINED when the proof did not get there; PROVEN for a change that is known to
    be harmless. `direction` is None for what breaks neither. `consumers` are the ids of
    the registered consumers that the finding touches, sorted.
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
    """All findings of one change, breaking ones first; `against` is the version that was compared with.

    `suggested_version` is the smallest semantic version above `against` that the findings allow. `affected` and
    `unaffected` split the registered consumers by id, sorted.
    """

    against: str
    findings: tuple[Finding, ...]
    suggested_version: str
    affected: tuple[str, ...] = ()
    unaffected: tuple[str, ...] = ()

    @property
    def is_compatible(self) -> bool:
        """Whether no finding is breaking."""
        return all(finding.severity is not FindingSeverity.BREAKING for finding in self.findings)


_DIRECTIONS: Final = {
    "NONE": frozenset[Direction](),
    "BACKWARD": frozenset({Direction.BACKWARD}),
    "FORWARD": frozenset({Direction.FORWARD}),
    "FULL": frozenset(Direction),
}


def directions_of(level: Compatibility) -> frozenset[Direction]:
    """Return the directions in which a level forbids to break, as Confluent Schema Registry has it."""
    return _DIRECTIONS[level.value.removesuffix("_TRANSITIVE")]


def is_transitive(level: Compatibility) -> bool:
    """Return whether a level looks at every earlier version, and not at the latest alone."""
    return level.value.endswith("_TRANSITIVE")
