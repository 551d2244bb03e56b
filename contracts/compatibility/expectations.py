"""Expectations as part of a contract: a batch that met the old ones must meet the new ones.

No single record shows a difference between expectations. Bounds and sets of values are compared as such, and what
that decides is certain; other changes are undetermined and warn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from contracts.compatibility.changes import Change, was_and_is
from contracts.compatibility.finding import Direction, FindingSeverity
from contracts.compatibility.inclusion import Outcome
from contracts.compatibility.intervals import Intervals
from contracts.model import DataContract, Expectation
from contracts.verdict import Severity

CODES: Final = {
    "expectation.added": "an expectation of severity error is new",
    "expectation.removed": "an expectation of severity error is gone",
    "expectation.tightened": "batches that met an expectation need not meet it any more",
    "expectation.loosened": "batches that did not meet an expectation may meet it now",
    "expectation.changed": "an expectation changed in a way that cannot be decided",
    "expectation.warning-changed": "an expectation of severity warning is another",
}
"""Every code that a comparison of expectations gives, and what it says. They are stable."""

_BOUNDS: Final = frozenset({"min_value", "max_value", "strict_min", "strict_max"})
_BETWEEN: Final = "_between"
_ALLOWED: Final = "_in_set"
_FORBIDDEN: Final = "_not_be_in_set"


def compare_expectations(base: DataContract, candidate: DataContract) -> Iterator[Change]:
    """Compare the expectations of two contracts."""
    before = {each.id: (index, each) for index, each in enumerate(base.expectations)}
    after = {each.id: (index, each) for index, each in enumerate(candidate.expectations)}
    for name in dict.fromkeys([*after, *before]):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and old[1] == new[1]:
            continue
        pointer = f"/expectations/{new[0]}" if new else _list(candidate)
        base_pointer = f"/expectations/{old[0]}" if old else _list(base)
        fields = _fields(candidate if new else base, (new or before[name])[1])
        yield _change(old[1] if old else None, new[1] if new else None, (pointer, base_pointer), fields)


def _change(
    old: Expectation | None, new: Expectation | None, places: tuple[str, str], fields: tuple[str, ...]
) -> Change:
    counts = [each is not None and each.severity is Severity.ERROR for each in (old, new)]
    name = f"the expectation `{(new or old).id}`"  # type: ignore[union-attr] # one of them is there
    if not any(counts):
        return Change(
            "expectation.warning-changed",
            f"{name} of severity warning changed",
            *places,
            Outcome.PROVEN,
            fields,
        )
    if old is None or new is None or counts[0] != counts[1]:
        code = "expectation.added" if counts[1] else "expectation.removed"
        what = "is new" if old is None else "is gone" if new is None else _severities(old, new)
        breaks = Direction.BACKWARD if counts[1] else Direction.FORWARD
        return Change(code, f"{name} {what}", *places, Outcome.REFUTED, fields, frozenset({breaks}))
    sentence = f"{name}: {_differences(old, new)}"
    tightened, loosened = _compared(old, new)
    if tightened is None or loosened is None:
        return Change(
            "expectation.changed",
            sentence,
            *places,
            Outcome.UNDETERMINED,
            fields,
            severity=FindingSeverity.WARNING,
        )
    breaks_in = frozenset(
        direction
        for direction, is_broken in ((Direction.BACKWARD, tightened), (Direction.FORWARD, loosened))
        if is_broken
    )
    code = "expectation.tightened" if tightened else "expectation.loosened"
    outcome = Outcome.REFUTED if breaks_in else Outcome.PROVEN
    return Change(code, sentence, *places, outcome, fields, breaks_in)


def _compared(old: Expectation, new: Expectation) -> tuple[bool | None, bool | None]:
    """Say whether an expectation is tighter, and whether it is looser; None when that cannot be told."""
    if old.type != new.type:
        return None, None
    left, right = dict(old.kwargs), dict(new.kwargs)
    tightened = loosened = False
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
        listed, wanted = ({(type(value), value) for value in each} for each in sets)
        if old.type.endswith(_FORBIDDEN):
            listed, wanted = wanted, listed
        tightened |= not listed <= wanted
        loosened |= not wanted <= listed
    return (tightened, loosened) if left == right else (None, None)


def _interval(kwargs: dict[str, Any]) -> Intervals | None:
    """Take the bounds out of the arguments: the values between them; None when they are no numbers."""
    bounds = {name: kwargs.pop(name, None) for name in _BOUNDS}
    low, high = bounds["min_value"], bounds["max_value"]
    if any(isinstance(each, bool) or not isinstance(each, int | float | None) for each in (low, high)):
        return None
    return Intervals.between(
        None if low is None else (Fraction(str(low)), int(bool(bounds["strict_min"]))),
        None if high is None else (Fraction(str(high)), int(not bounds["strict_max"])),
    )


def _differences(old: Expectation, new: Expectation) -> str:
    before: Mapping[str, Any] = {"type": old.type, **old.kwargs}
    after: Mapping[str, Any] = {"type": new.type, **new.kwargs}
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    return (
        ", ".join(was_and_is(name, before.get(name), after.get(name)) for name in names) or "it is the same"
    )


def _severities(old: Expectation, new: Expectation) -> str:
    return f"was of severity {old.severity.value} and is of severity {new.severity.value}"


def _fields(contract: DataContract, expectation: Expectation) -> tuple[str, ...]:
    """Give the field of the column that an expectation is about; "" where it is about the table, or many columns."""
    column = expectation.kwargs.get("column")
    declared = next((each.from_ for each in contract.columns if each.name == column), None)
    if declared is not None:
        return (declared,)
    return (f"/{column}",) if isinstance(column, str) and not contract.columns else ("",)


def _list(contract: DataContract) -> str:
    return "/expectations" if contract.expectations else ""
