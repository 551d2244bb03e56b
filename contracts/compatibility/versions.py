"""Semantic versions: what a change asks for. Source: Semantic Versioning 2.0.0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate.contracts.compatibility.finding import Finding, FindingSeverity

_ANNOTATIONS: Final = frozenset(
    {
        "rule.rewritten",
        "consumer.added",
        "consumer.removed",
        "consumer.reads-changed",
        "contract.status-changed",
    }
)
"""Codes of changes after which every record means what it meant."""


def suggested_version(base: str, findings: Iterable[Finding]) -> str:
    """Return the smallest version above `base` that some findings allow.

    Major for a breaking finding, minor for any other that concerns records, patch for annotations. A pre-release of
    the version that is due is followed by that version.
    """
    findings = tuple(findings)
    core, _, prerelease = base.partition("-")
    numbers = [int(part) for part in core.split(".")]
    if any(finding.severity is FindingSeverity.BREAKING for finding in findings):
        part = 0
    elif any(finding.code not in _ANNOTATIONS for finding in findings):
        part = 1
    else:
        part = 2
    if prerelease and not any(numbers[part + 1 :]):
        return core
    return ".".join(str(number) for number in [*numbers[:part], numbers[part] + 1, *([0] * (2 - part))])


def major(version: str) -> int:
    """Return the major number of a version."""
    return int(version.split(".", maxsplit=1)[0])
