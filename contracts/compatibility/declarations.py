"""What a contract declares beside schema and rules: where the records are, what stands around them, what becomes of them.

These changes are certain by themselves; no record is needed to show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegate.contracts.compatibility.changes import BOTH, Change, shown, was_and_is
from tidegate.contracts.compatibility.finding import Direction, FindingSeverity
from tidegate.contracts.compatibility.levels import directions_of, is_transitive
from tidegate.contracts.document.fields import join
from tidegate.contracts.document.model import Compatibility, DataContract, Status
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.inclusion.answer import Outcome

CODES: Final = {
    "contract.id-changed": "the contracts have different ids",
    "contract.status-changed": "the contract is in another state of its life",
    "contract.topic-changed": "the records are in another topic",
    "contract.framing-changed": "something else stands around the payload",
    "contract.tombstones-changed": "a null value does something else",
    "contract.primary-key-changed": "other columns identify a record",
    "contract.on-violation-changed": "what breaking the contract does to a record is something else",
    "contract.error-budget-changed": "the stream stops for another share of refused records",
    "contract.classification-changed": "a field is classified in another way, and masked accordingly",
    "contract.mask-changed": "sinks get something else instead of a field or a key",
    "contract.compatibility-lowered": "later versions may change what this one must not",
    "contract.compatibility-raised": "later versions may change less",
}
"""Every code that a comparison of declarations gives, and what it says. They are stable."""

_PAYLOADS: Final = {
    "none": {"bare", "bare with a header"},
    "confluent-header": {"bare with a header"},
    "confluent-prefix": {"prefixed"},
    "auto": {"bare", "bare with a header", "prefixed"},
}
"""Which forms of a record each framing takes."""


def compare_declarations(base: DataContract, candidate: DataContract) -> Iterator[Change]:
    """Compare everything but schema, columns, rules, expectations and consumers."""
    if base.id != candidate.id:
        yield _of("contract.id-changed", "id", base, candidate, severity=FindingSeverity.WARNING)
    yield from _status(base, candidate)
    if base.topic != candidate.topic:
        yield _of("contract.topic-changed", "topic", base, candidate, BOTH)
    yield from _framing(base, candidate)
    yield from _tombstones(base, candidate)
    if base.primary_key != candidate.primary_key:
        yield _of("contract.primary-key-changed", "primary_key", base, candidate, BOTH)
    yield from _on_violation(base, candidate)
    if base.error_budget != candidate.error_budget:
        code = "contract.error-budget-changed"
        yield _of(code, "error_budget", base, candidate, severity=FindingSeverity.WARNING)
    yield from _of_fields("classification", "contract.classification-changed", base, candidate)
    yield from _of_fields("mask", "contract.mask-changed", base, candidate)
    if base.key_mask != candidate.key_mask:
        yield _of("contract.mask-changed", "key_mask", base, candidate, severity=FindingSeverity.WARNING)
    yield from _compatibility(base, candidate)


def _status(base: DataContract, candidate: DataContract) -> Iterator[Change]:
    if base.status is not candidate.status:
        enforced = {Status.ACTIVE, Status.DEPRECATED}
        is_dropped = base.status in enforced and candidate.status not in enforced
        severity = FindingSeverity.WARNING if is_dropped else FindingSeverity.INFO
        yield _of("contract.status-changed", "status", base, candidate, severity=severity)


def _framing(base: DataContract, candidate: DataContract) -> Iterator[Change]:
    if base.framing != candidate.framing:
        before, after = _PAYLOADS[base.framing], _PAYLOADS[candidate.framing]
        yield _of("contract.framing-changed", "framing", base, candidate, _broken(before, after))


def _tombstones(base: DataContract, candidate: DataContract) -> Iterator[Change]:
    if base.tombstones != candidate.tombstones:
        before, after = (set() if each.tombstones == "refuse" else {None} for each in (base, candidate))
        breaks = _broken(before, after)
        severity = FindingSeverity.INFO if breaks else FindingSeverity.WARNING
        yield _of("contract.tombstones-changed", "tombstones", base, candidate, breaks, severity)


def _on_violation(base: DataContract, candidate: DataContract) -> Iterator[Change]:
    if base.on_violation is not candidate.on_violation:
        before, after = (
            {"sound", "unsound"} if each.on_violation is OnViolation.ALERT else {"sound"}
            for each in (base, candidate)
        )
        breaks = _broken(before, after)
        severity = FindingSeverity.INFO if breaks else FindingSeverity.WARNING
        yield _of("contract.on-violation-changed", "on_violation", base, candidate, breaks, severity)


def _of_fields(key: str, code: str, base: DataContract, candidate: DataContract) -> Iterator[Change]:
    """Compare what two contracts say of single fields under a key."""
    former: dict[str, str] = getattr(base, key)
    latter: dict[str, str] = getattr(candidate, key)
    for field in sorted({*former, *latter}):
        before, after = former.get(field), latter.get(field)
        if before != after:
            sentence = f"`{field}`: {was_and_is(key, before, after)}"
            place, base_place = (
                f"/{key}" + (join((field,)) if field in each else "") for each in (latter, former)
            )
            yield Change(
                code,
                sentence,
                place,
                base_place,
                Outcome.PROVEN,
                (field,),
                severity=FindingSeverity.WARNING,
                touches=True,
            )


def _compatibility(base: DataContract, candidate: DataContract) -> Iterator[Change]:
    before, after = base.compatibility, candidate.compatibility
    if before is after:
        return
    keeps = keeps_level(before, after)
    code = "contract.compatibility-raised" if keeps else "contract.compatibility-lowered"
    severity = FindingSeverity.INFO if keeps else FindingSeverity.WARNING
    yield _of(code, "compatibility", base, candidate, severity=severity)


def keeps_level(before: Compatibility, after: Compatibility) -> bool:
    """Return whether a level forbids all that another one forbids."""
    return directions_of(before) <= directions_of(after) and is_transitive(before) <= is_transitive(after)


def accepts_more_framings(base: DataContract, candidate: DataContract) -> bool:
    """Return whether records in another form than those that the base takes pass under the candidate's framing."""
    return not _PAYLOADS[candidate.framing] <= _PAYLOADS[base.framing]


def _broken(before: set[Any], after: set[Any]) -> frozenset[Direction]:
    """Say in which directions a change from one set to another breaks."""
    broken = {Direction.BACKWARD: before <= after, Direction.FORWARD: after <= before}
    return frozenset(direction for direction, holds in broken.items() if not holds)


def _of(
    code: str,
    key: str,
    base: DataContract,
    candidate: DataContract,
    breaks: frozenset[Direction] = frozenset(),
    severity: FindingSeverity = FindingSeverity.INFO,
) -> Change:
    """Say that the value of a key of the contract changed."""
    before, after = (each.model_dump(mode="json")[key] for each in (base, candidate))
    sentence = f"{key} was {shown(before or None)} and is {shown(after or None)}"
    outcome = Outcome.REFUTED if breaks else Outcome.PROVEN
    place, base_place = (f"/{key}" if key in each.model_fields_set else "" for each in (candidate, base))
    return Change(code, sentence, place, base_place, outcome, ("",) if breaks else (), breaks, severity)
