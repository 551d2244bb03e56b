"""Bounds of values that compare: of durations, and of moments, fixed or from now on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidegate.contracts.document.fields import FieldType
from tidegate.contracts.document.rule_model import Now
from tidegate.contracts.rules.clock import offset_of_now
from tidegate.contracts.rules.scope import Scope
from tidegate.contracts.rules.values import Order, order_of_durations, order_of_times

Test = Callable[[Any, Any], bool]
"""A comparison, such as `operator.lt`."""


class Limit(NamedTuple):
    """A bound: the comparison that it asks for, what a value does that breaks it, and what it allows."""

    holds: Test
    broken: str
    allowed: str


LIMITS: Final = {
    "minimum": Limit(operator.ge, "is below", "from {}"),
    "exclusive_minimum": Limit(operator.gt, "is not above", "above {}"),
    "maximum": Limit(operator.le, "is above", "up to {}"),
    "exclusive_maximum": Limit(operator.lt, "is not below", "below {}"),
    "not_before": Limit(operator.ge, "is before", "from {} on"),
    "after": Limit(operator.gt, "is not after", "after {}"),
    "not_after": Limit(operator.le, "is after", "up to {}"),
    "before": Limit(operator.lt, "is not before", "before {}"),
}
"""The bounds by the name of their key."""
_NOT_TIMES: Final = (
    "the field holds no dates or date-times: give it the format date or date-time in the schema"
)


@dataclass(frozen=True, slots=True)
class _FromNow:
    """A bound so many nanoseconds from now."""

    holds: Test
    offset: int


def outside_durations(
    limits: Mapping[str, Any], order: Order, scope: Scope, *, absent: bool
) -> Callable[[Any], bool]:
    """Compile the test that a duration lies outside of some bounds."""
    return _outside(_tests(limits, order, scope), order, absent=absent)


def outside_times(
    limits: Mapping[str, str], order: Order, now: Now, scope: Scope, *, absent: bool, place: str = ""
) -> Callable[[Any], bool] | None:
    """Compile the test that a moment lies outside of some bounds, fixed or from now on.

    None, and a problem at `place` (by default the first bound from now on), for moments without a zone.
    """
    offsets = {name: offset_of_now(limit) for name, limit in limits.items()}
    fixed = {name: limit for name, limit in limits.items() if offsets[name] is None}
    tests = _tests(fixed, order, scope)
    breaks = _outside(tests, order, absent=absent)
    bounds = [_FromNow(LIMITS[name].holds, offset) for name, offset in offsets.items() if offset is not None]
    if not bounds:
        return breaks
    if order.at is None:
        first = next(name for name, offset in offsets.items() if offset is not None)
        reason = "which have no time zone: how far they are from now is unknown"
        scope.refuse(place or f"/{first}", f"the field holds {order.name}, {reason}")
        return None
    others = breaks if fixed else lambda _: False
    return _from_now(bounds, order, scope.now(now), others, absent=absent)


def order_of_moments(found: FieldType, scope: Scope) -> Order | None:
    """Return the order of a field of moments; None, and a problem, for any other."""
    order = order_of_times(found)
    if order is None:
        takes = "; durations take minimum and maximum" if order_of_durations(found) is not None else ""
        scope.refuse("/field", _NOT_TIMES + takes)
    return order


def _tests(limits: Mapping[str, Any], order: Order, scope: Scope) -> list[tuple[Test, Any]]:
    """Return the comparison with each bound; note a problem for one that is not of the order."""
    parsed = {name: order.parse(limit) for name, limit in limits.items()}
    for name, key in parsed.items():
        if key is None:
            relative = "" if order.at is None else ", or `now + 5 minutes`"
            hint = relative if str(limits[name]).strip().startswith("now") else ""
            scope.refuse(f"/{name}", f"the field holds {order.name}; write {order.example}{hint}")
    return [(LIMITS[name].holds, limit) for name, limit in parsed.items()]


def _outside(tests: list[tuple[Test, Any]], order: Order, *, absent: bool) -> Callable[[Any], bool]:
    key = order.key

    def breaks(value: Any) -> bool:
        if value is None:
            return absent
        time = key(value)
        if time is None:
            return False
        for holds, limit in tests:  # noqa: SIM110 - all() takes three times as long
            if not holds(time, limit):
                return True
        return False

    return breaks


def _from_now(
    bounds: list[_FromNow],
    order: Order,
    moment: Callable[[], int],
    others: Callable[[Any], bool],
    *,
    absent: bool,
) -> Callable[[Any], bool]:
    key, at = order.key, order.at
    assert at is not None  # noqa: S101 - narrows for the type checker

    def breaks(value: Any) -> bool:
        if value is None:
            return absent
        time = key(value)
        if time is None:
            return False
        now = moment()
        return not all(bound.holds(time, at(now + bound.offset)) for bound in bounds) or others(value)

    return breaks
