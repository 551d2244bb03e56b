"""Semantic versions: what a change asks for. Source: Semantic Versioning 2.0.0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate.contracts.compatibility.finding import Finding, FindingSeverity
from tidegate.contracts.document.semver import next_major, next_minor, next_patch

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
    if any(finding.severity is FindingSeverity.BREAKING for finding in findings):
        due, end = next_major(base), ".0.0"
    elif any(finding.code not in _ANNOTATIONS for finding in findings):
        due, end = next_minor(base), ".0"
    else:
        return next_patch(base)
    core, _, prerelease = base.partition("-")
    return core if prerelease and core.endswith(end) else due
