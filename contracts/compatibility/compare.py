"""Comparison of two contract versions: every change, the affected consumers, and whether the level allows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from tidegate.contracts.collector import without_collector
from tidegate.contracts.compatibility.consumers import Reader, compare_consumers, readers_of, touched
from tidegate.contracts.compatibility.declarations import compare_columns, compare_declarations
from tidegate.contracts.compatibility.expectations import compare_expectations
from tidegate.contracts.compatibility.finding import (
    Change,
    Comparison,
    Direction,
    Finding,
    FindingSeverity,
    directions_of,
)
from tidegate.contracts.compatibility.predicates import bounded_searches
from tidegate.contracts.compatibility.rules import compare_rules
from tidegate.contracts.compatibility.schemas import altered_fields, compare_schemas
from tidegate.contracts.compatibility.witness_search import Judge
from tidegate.contracts.document.fields import is_index, tokens
from tidegate.contracts.document.model import Compatibility, Consumer, DataContract
from tidegate.contracts.document.semver import next_major, next_minor, next_patch
from tidegate.contracts.rules.compile import with_reference_sets

_RANK: Final = {FindingSeverity.BREAKING: 0, FindingSeverity.WARNING: 1, FindingSeverity.INFO: 2}
_UNTOUCHED: Final = "; it touches no registered consumer"


@without_collector()
def compare(base: DataContract, candidate: DataContract, *, level: Compatibility | None = None) -> Comparison:
    """Compare a candidate with its base version. Both must be self-contained.

    `level` defaults to the compatibility level of the base, so a candidate cannot lower the level for itself. A change
    that breaks only directions that the level allows is reported as `info`, or as `warning` if it affects a consumer;
    its evidence is the same. The result is deterministic.

    Raises ContractError for an invalid schema.
    """
    directions = directions_of(base.compatibility if level is None else level)
    judges = Judge(with_reference_sets(base)), Judge(with_reference_sets(candidate))
    consumers = tuple(readers_of(base.consumers, candidate.consumers).values())
    declared = _Declared(judges)
    with bounded_searches():
        changes = dict.fromkeys(_changes(*judges))
    found: dict[tuple[str, ...], Finding] = {}
    for change in changes:
        finding = _graded(change, directions, _touched(change, consumers, declared))
        key = (finding.code, finding.pointer, finding.base_pointer, finding.field, str(finding.direction))
        known = found.get(key)
        if known is None or _RANK[finding.severity] < _RANK[known.severity]:
            found[key] = finding
    findings = tuple(sorted(found.values(), key=_order))
    affected = {consumer for finding in findings for consumer in finding.consumers}
    return Comparison(
        base.version,
        findings,
        suggested_version(base.version, findings),
        tuple(sorted(affected)),
        tuple(sorted({each.id for each in consumers} - affected)),
    )


def _changes(base: Judge, candidate: Judge) -> Iterator[Change]:
    schemas = list(compare_schemas(base, candidate))
    yield from schemas
    yield from compare_columns(base, candidate)
    yield from compare_rules(base, candidate, altered_fields(schemas))
    yield from compare_expectations(base.contract, candidate.contract)
    yield from compare_declarations(base.contract, candidate.contract)
    yield from compare_consumers(base, candidate)


class _Declared:
    """The pointers that either schema declares, collected on the first lookup."""

    def __init__(self, judges: tuple[Judge, ...]) -> None:
        self._judges = judges

    def __contains__(self, pointer: object) -> bool:
        return pointer in self._pointers

    @cached_property
    def _pointers(self) -> frozenset[str]:
        return frozenset(pointer for judge in self._judges for pointer in judge.fields.pointers())


def _touched(change: Change, consumers: tuple[Reader, ...], declared: _Declared) -> tuple[str, ...]:
    if not change.breaks and not change.touches:
        return ()
    if change.consumer is not None:
        return (change.consumer,)
    return touched(change.fields, consumers, declared)


def _graded(change: Change, directions: frozenset[Direction], consumers: tuple[str, ...]) -> Finding:
    """Return the finding for a change, by the directions that must not break and the consumers that it affects."""
    forbidden = sorted(change.breaks & directions)
    allowed = sorted(change.breaks)
    severity, sentence = change.severity, change.sentence
    if forbidden:
        severity = FindingSeverity.BREAKING
        sentence += "" if consumers or not change.fields else _UNTOUCHED
        if change.advice and Direction.BACKWARD in forbidden:
            sentence += f"; {change.advice}"
    elif consumers and severity is FindingSeverity.INFO:
        severity = FindingSeverity.WARNING
    return Finding(
        severity,
        change.code,
        sentence,
        change.pointer,
        change.base_pointer,
        change.fields[0] if change.fields else "",
        change.outcome,
        next(iter(forbidden or allowed), None),
        change.counterexample,
        consumers,
    )


def _order(finding: Finding) -> tuple[Any, ...]:
    return (
        _RANK[finding.severity],
        _place(finding.pointer),
        _place(finding.base_pointer),
        finding.code,
        finding.field,
        str(finding.direction),
    )


def _place(pointer: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key for a pointer that compares indexes as numbers."""
    return tuple((int(token), "") if is_index(token) else (-1, token) for token in tokens(pointer))


def compare_for(
    apart: tuple[Consumer, ...], base: DataContract, candidate: DataContract, level: Compatibility
) -> Comparison:
    """Compare two versions, with the additional consumers `apart`, which are registered outside both documents.

    Pointers of findings refer to the documents without these consumers. Raises ContractError for an invalid schema.
    """
    contracts = base, candidate
    named = [each.model_copy(update={"consumers": (*each.consumers, *apart)}) for each in contracts]
    found = compare(*named, level=level)
    findings = (
        replace(
            each,
            pointer=_in_document(each.pointer, len(candidate.consumers)),
            base_pointer=_in_document(each.base_pointer, len(base.consumers)),
        )
        for each in found.findings
    )
    return replace(found, findings=tuple(findings))


def _in_document(pointer: str, consumers: int) -> str:
    """Return the pointer, or that of the list (if any) for a consumer that is not in the document."""
    head, _, index = pointer.rpartition("/")
    if head != "/consumers" or not index.isdecimal() or int(index) < consumers:
        return pointer
    return head if consumers else ""


_ANNOTATIONS: Final = frozenset(
    {
        "rule.rewritten",
        "consumer.added",
        "consumer.removed",
        "consumer.reads-changed",
        "contract.status-changed",
    }
)
"""Codes of changes that do not change the meaning of any record."""


def suggested_version(base: str, findings: Iterable[Finding]) -> str:
    """Return the smallest version above `base` that some findings allow.

    A breaking finding requires a major version, any other finding about records a minor one, and annotations a patch.
    If `base` is a pre-release of the required version, the result is that version.
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
