"""What the page of a stream shows of its shadow version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tidegate.contracts.stream.shadow import Change, ShadowFindings, ShadowResult, ShadowSample


@dataclass(frozen=True, slots=True)
class ShadowRule:
    """A rule by which records would be treated otherwise: refused by the shadow's, or no more by the enforced one's."""

    change: str
    stage: str
    code: str
    records: int


@dataclass(frozen=True, slots=True)
class ShadowPlace:
    """Where a record is that would be treated otherwise, and why."""

    change: str
    place: str
    reasons: str


@dataclass(frozen=True, slots=True)
class ShadowView:
    """The shadow of a stream: the one that is declared, or the last one that was. `findings` is None before its first batch."""

    version: str
    is_declared: bool
    findings: ShadowFindings | None
    rules: tuple[ShadowRule, ...] = ()
    places: tuple[ShadowPlace, ...] = ()

    @classmethod
    def of(cls, declared: str | None, findings: ShadowFindings | None) -> Self | None:
        """Make the view; None for a stream that never had a shadow. Findings of another one than is declared are old."""
        if findings is None or (declared is not None and findings.result.version != declared):
            return None if declared is None else cls(declared, is_declared=True, findings=None)
        return cls(
            findings.result.version,
            is_declared=declared is not None,
            findings=findings,
            rules=tuple(_rules(findings.result)),
            places=tuple(_place(sample) for sample in findings.result.samples),
        )


def _rules(result: ShadowResult) -> Iterator[ShadowRule]:
    for change, counts in ((Change.REFUSE, result.refused_by), (Change.ACCEPT, result.accepted_by)):
        for count in counts:
            yield ShadowRule(change.value, count.stage.value, count.code, count.records)


def _place(sample: ShadowSample) -> ShadowPlace:
    reasons = ", ".join(f"{each.code} {each.pointer}".strip() for each in sample.reasons)
    return ShadowPlace(sample.change.value, f"{sample.partition}/{sample.offset}", reasons)
