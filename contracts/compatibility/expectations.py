"""Comparison of the expectations of two contracts: a batch that met the old ones must meet the new ones.

A single record cannot show a difference between expectations. Bounds and sets of values are compared directly, with
certain results. Other changes are undetermined and reported as warnings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tidegate.contracts.compatibility.finding import Change, Direction, FindingSeverity, was_and_is
from tidegate.contracts.document.model import DataContract, Expectation
from tidegate.contracts.document.terms import OnViolation, equal_json
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.inclusion.intervals import Intervals
from tidegate.contracts.verdict import Severity

CODES: Final = {
    "expectation.added": "an expectation that keeps batches from being written is new, or did not keep them before",
    "expectation.removed": "an expectation that kept batches from being written is gone, or does not keep them any more",
    "expectation.tightened": "batches that met an expectation may fail it now",
    "expectation.loosened": "batches that failed an expectation may meet it now",
    "expectation.rewritten": "an expectation is written in another way, and met by the same batches",
    "expectation.on-violation-changed": "what becomes of a batch that does not meet an expectation is something else",
    "expectation.changed": "an expectation changed in a way that cannot be decided",
    "expectation.warning-changed": "an expectation that keeps no batch from being written is another",
}
"""Every code that a comparison of expectations can report, with its meaning. The codes are stable."""

_BOUNDS: Final = frozenset({"min_value", "max_value", "strict_min", "strict_max"})
_BETWEEN: Final = "_between"
_ALLOWED: Final = "_in_set"
_FORBIDDEN: Final = "_not_be_in_set"


@dataclass(frozen=True, slots=True)
class _Side:
    """An expectation of one of the contracts, and its consequence for a batch that does not meet it."""

    expectation: Expectation
    effect: OnViolation | None
    """None for an expectation of severity warning."""

    @property
    def counts(self) -> bool:
        """Return whether a batch that does not meet the expectation is kept from being written."""
        return self.effect not in {None, OnViolation.ALERT}

    @property
    def consequence(self) -> str:
        return "a warning" if self.effect is None else self.effect.value


def compare_expectations(base: DataContract, candidate: DataContract) -> Iterator[Change]:
    """Yield the changes between the expectations of two contracts."""
    before = {each.id: index for index, each in enumerate(base.expectations)}
    after = {each.id: index for index, each in enumerate(candidate.expectations)}
    for name in dict.fromkeys([*after, *before]):
        old, new = _side(base, before.get(name)), _side(candidate, after.get(name))
        if old == new:
            continue
        pointer, base_pointer = (
            f"/expectations/{places[name]}" if name in places else _list(contract)
            for places, contract in ((after, candidate), (before, base))
        )
        fields = _fields(candidate, new.expectation) if new else _fields(base, old.expectation)  # type: ignore[union-attr] # one of them is there
        yield from _changes(old, new, (pointer, base_pointer), fields)


def _side(contract: DataContract, index: int | None) -> _Side | None:
    if index is None:
        return None
    expectation = contract.expectations[index]
    return _Side(expectation, effect_of_batch(expectation, contract))


def effect_of_batch(expectation: Expectation, contract: DataContract) -> OnViolation | None:
    """Return the consequence for a batch that does not meet an expectation; None for a warning.

    A batch is quarantined, never dropped.
    """
    if expectation.severity is Severity.WARNING:
        return None
    effect = OnViolation(expectation.on_violation or contract.on_violation)
    return OnViolation.QUARANTINE if effect is OnViolation.DROP else effect


def _changes(
    old: _Side | None, new: _Side | None, places: tuple[str, str], fields: tuple[str, ...]
) -> Iterator[Change]:
    counts = [each is not None and each.counts for each in (old, new)]
    name = f"the expectation `{(new or old).expectation.id}`"  # type: ignore[union-attr] # one of them is there
    if not any(counts):
        sentence = f"{name}, which keeps no batch from being written, changed"
        yield Change("expectation.warning-changed", sentence, *places, Outcome.PROVEN, fields)
    elif old is None or new is None or counts[0] != counts[1]:
        code = "expectation.added" if counts[1] else "expectation.removed"
        what = "is new" if old is None else "is gone" if new is None else _consequences(old, new)
        breaks = Direction.BACKWARD if counts[1] else Direction.FORWARD
        yield Change(code, f"{name} {what}", *places, Outcome.REFUTED, fields, frozenset({breaks}))
    else:
        if old.effect is not new.effect:
            code, sentence = "expectation.on-violation-changed", f"{name} {_consequences(old, new)}"
            severity = FindingSeverity.WARNING
            yield Change(code, sentence, *places, Outcome.PROVEN, fields, frozenset(), severity)
        if not equal_json(_meaning(old), _meaning(new)):
            sentence = f"{name}: {_differences(old.expectation, new.expectation)}"
            yield _changed(old.expectation, new.expectation, sentence, places, fields)


def _changed(
    old: Expectation, new: Expectation, sentence: str, places: tuple[str, str], fields: tuple[str, ...]
) -> Change:
    tightened, loosened = _compared(old, new)
    if tightened is None or loosened is None:
        code, severity = "expectation.changed", FindingSeverity.WARNING
        return Change(code, sentence, *places, Outcome.UNDETERMINED, fields, severity=severity)
    broken = {Direction.BACKWARD: tightened, Direction.FORWARD: loosened}
    breaks = frozenset(direction for direction, is_broken in broken.items() if is_broken)
    code = "expectation.tightened" if tightened else f"expectation.{'loosened' if loosened else 'rewritten'}"
    return Change(code, sentence, *places, Outcome.REFUTED if breaks else Outcome.PROVEN, fields, breaks)


def _meaning(side: _Side) -> tuple[Any, ...]:
    expectation = side.expectation
    return expectation.type, expectation.kwargs, expectation.min_records, expectation.description


def _compared(old: Expectation, new: Expectation) -> tuple[bool | None, bool | None]:
    """Return whether the new expectation is tighter, and whether it is looser; (None, None) if unknown."""
    if old.type != new.type:
        return None, None
    left, right = dict(old.kwargs), dict(new.kwargs)
    tightened, loosened = new.min_records < old.min_records, new.min_records > old.min_records
    if old.type.endswith(_BETWEEN):
        before, after = _interval(left), _interval(right)
        if before is None or after is None:
            return None, None
        tightened |= not before.minus(after).is_empty(whole=False)
        loosened |= not after.minus(before).is_empty(whole=False)
    share = [kwargs.pop("mostly", 1) for kwargs in (left, right)]
    if not all(isinstance(each, int | float) for each in share):
        return None, None
    tightened |= share[1] > share[0]
    loosened |= share[1] < share[0]
    if old.type.endswith(_ALLOWED):
        sets = [kwargs.pop("value_set", None) for kwargs in (left, right)]
        if not all(isinstance(each, list) for each in sets):
            return None, None
        listed, wanted = ({(isinstance(value, bool), value) for value in each} for each in sets)
        if old.type.endswith(_FORBIDDEN):
            listed, wanted = wanted, listed
        tightened |= not listed <= wanted
        loosened |= not wanted <= listed
    return (tightened, loosened) if equal_json(left, right) else (None, None)


def _interval(kwargs: dict[str, Any]) -> Intervals | None:
    """Remove the bounds from the arguments and return their interval; None if they are not numbers."""
    bounds = {name: kwargs.pop(name, None) for name in _BOUNDS}
    low, high = bounds["min_value"], bounds["max_value"]
    if any(isinstance(each, bool) or not isinstance(each, int | float | None) for each in (low, high)):
        return None
    return Intervals.between(
        None if low is None else (Fraction(str(low)), int(bool(bounds["strict_min"]))),
        None if high is None else (Fraction(str(high)), int(not bounds["strict_max"])),
    )


def _differences(old: Expectation, new: Expectation) -> str:
    before, after = (
        {"type": each.type, **each.kwargs, "min_records": each.min_records} for each in (old, new)
    )
    names = [
        name for name in dict.fromkeys([*before, *after]) if not equal_json(before.get(name), after.get(name))
    ]
    return (
        ", ".join(was_and_is(name, before.get(name), after.get(name)) for name in names) or "it is the same"
    )


def _consequences(old: _Side, new: _Side) -> str:
    return f"was {old.consequence} and is {new.consequence} for a batch that does not meet it"


def _fields(contract: DataContract, expectation: Expectation) -> tuple[str, ...]:
    """Return the field of the column that an expectation is about; ("",) if it is about the table or many columns."""
    column = expectation.kwargs.get("column")
    declared = next((each.from_ for each in contract.columns if each.name == column), None)
    if declared is not None:
        return (declared,)
    return (f"/{column}",) if isinstance(column, str) and not contract.columns else ("",)


def _list(contract: DataContract) -> str:
    return "/expectations" if contract.expectations else ""
