"""The rule kinds `range` and `freshness`: bounds of numbers, of durations, and of moments, fixed or from now on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from tidegate.contracts.document.fields import FieldType, tokens
from tidegate.contracts.document.rule_model import Freshness, Now, Range
from tidegate.contracts.document.times import DATE_LENGTH
from tidegate.contracts.rules.clock import offset_of_now, span_of
from tidegate.contracts.rules.compiled import Built, when_missing
from tidegate.contracts.rules.scope import Scope
from tidegate.contracts.rules.values import DATES, Order, exact, number_of, order_of_durations, order_of_times

Test = Callable[[Any, Any], bool]
"""A comparison, such as `operator.lt`."""

LIMITS: Final[dict[str, Test]] = {
    "minimum": operator.ge,
    "exclusive_minimum": operator.gt,
    "maximum": operator.le,
    "exclusive_maximum": operator.lt,
    "not_before": operator.ge,
    "after": operator.gt,
    "not_after": operator.le,
    "before": operator.lt,
}
"""The comparison of a value with a bound that the bound asks for."""
AMOUNT_LIMITS: Final = ("minimum", "exclusive_minimum", "maximum", "exclusive_maximum")
"""The bounds of numbers and durations; the others are those of moments."""
_NUMERIC: Final = frozenset({"number", "integer"})
_NOT_TIMES: Final = (
    "the field holds no dates or date-times: give it the format date or date-time in the schema"
)
_SPAN: Final = "a span, such as `15 minutes` or `PT15M`"


@dataclass(frozen=True, slots=True)
class _FromNow:
    """A bound so many nanoseconds from now."""

    holds: Test
    offset: int


def limits_of(rule: Range) -> dict[str, Any]:
    """Return the bounds of a rule by their names."""
    return {name: limit for name in LIMITS if (limit := getattr(rule, name)) is not None}


def build_range(rule: Range, scope: Scope) -> Built | None:
    """Compile a rule of kind `range`."""
    limits = limits_of(rule)
    found = scope.field_type(rule.field, "/field")
    if found is None or not limits:
        return None
    absent = rule.nulls == "violate"
    if amounts := {name: limit for name, limit in limits.items() if name in AMOUNT_LIMITS}:
        breaks = _outside_amounts(amounts, found, scope, absent=absent)
    else:
        breaks = _outside_times(limits, found, rule.now, scope, absent=absent)
    if breaks is None:
        return None
    bounds = " and ".join(f"{name.replace('_', ' ')} {limit}" for name, limit in limits.items())
    return _about(rule, breaks, f"is outside its range ({bounds})")


def build_freshness(rule: Freshness, scope: Scope) -> Built | None:
    """Compile a rule of kind `freshness`."""
    found = scope.field_type(rule.field, "/field")
    spans = {"max_age": rule.max_age} | ({} if rule.max_ahead is None else {"max_ahead": rule.max_ahead})
    read = {name: span_of(span) for name, span in spans.items()}
    for name, span in read.items():
        if span is None:
            scope.refuse(f"/{name}", f"`{spans[name]}` is no span of time; write {_SPAN}")
    order = None if found is None else _order(found, scope)
    if order is None or None in read.values():
        return None
    bounds = [_FromNow(operator.ge, -(read["max_age"] or 0))]
    if rule.max_ahead is not None:
        bounds.append(_FromNow(operator.le, read["max_ahead"] or 0))
    if order.at is None:
        scope.refuse("/field", _no_zone(order))
        return None
    breaks = _from_now(bounds, order, scope.now(rule.now), _never, absent=rule.nulls == "violate")
    ahead = f" or more than {rule.max_ahead} ahead" if rule.max_ahead is not None else ""
    return _about(rule, breaks, f"is older than {rule.max_age}{ahead}")


def _outside_amounts(
    limits: Mapping[str, Any], found: FieldType, scope: Scope, *, absent: bool
) -> Callable[[Any], bool] | None:
    if (durations := order_of_durations(found)) is not None:
        parsed = _parsed(limits, durations, scope)
        return _outside([(LIMITS[name], limit) for name, limit in parsed.items()], durations, absent=absent)
    hint = " (dates take after, before, not_after and not_before)" if found.times else ""
    scope.expect(found, _NUMERIC, f"a number{hint}", "/field")
    numbers = {name: number_of(limit) for name, limit in limits.items()}
    for name, number in numbers.items():
        if number is None:
            scope.refuse(
                f"/{name}", "the field holds numbers; write one, as text only where no double is exact"
            )
    if None in numbers.values():
        return None
    return _outside_numbers({name: number for name, number in numbers.items() if number is not None}, absent)


def _outside_numbers(
    limits: Mapping[str, int | float | Decimal],
    absent: bool,  # noqa: FBT001 - the flag of the rule
) -> Callable[[Any], bool]:
    tests = [(LIMITS[name], limit) for name, limit in limits.items()]
    exact_tests = [(LIMITS[name], exact(limit)) for name, limit in limits.items()]
    if any(isinstance(limit, Decimal) for limit in limits.values()):

        def breaks_exactly(value: Any) -> bool:
            kind = type(value)
            if kind is int or kind is float or kind is Decimal:
                number = exact(value)
                return not all(holds(number, limit) for holds, limit in exact_tests)
            return absent and value is None

        return breaks_exactly

    def breaks(value: Any) -> bool:
        kind = type(value)
        if kind is int or kind is float:
            for holds, limit in tests:  # noqa: SIM110 - all() takes three times as long
                if not holds(value, limit):
                    return True
            return False
        if kind is Decimal:
            return not all(holds(value, limit) for holds, limit in exact_tests)
        return absent and value is None

    return breaks


def _outside_times(
    limits: Mapping[str, str], found: FieldType, now: Now, scope: Scope, *, absent: bool
) -> Callable[[Any], bool] | None:
    offsets = {name: offset_of_now(limit) for name, limit in limits.items()}
    order = _order(found, scope)
    if order is None:
        return None
    fixed = {name: limit for name, limit in limits.items() if offsets[name] is None}
    tests = [(LIMITS[name], limit) for name, limit in _parsed(fixed, order, scope).items()]
    breaks = _outside(tests, order, absent=absent)
    bounds = [_FromNow(LIMITS[name], offset) for name, offset in offsets.items() if offset is not None]
    if not bounds:
        return _quick_date(breaks, tests) if order is DATES else breaks
    if order.at is None:
        first = next(name for name, offset in offsets.items() if offset is not None)
        scope.refuse(f"/{first}", _no_zone(order))
        return None
    return _from_now(bounds, order, scope.now(now), breaks if fixed else _never, absent=absent)


def _order(found: FieldType, scope: Scope) -> Order | None:
    order = order_of_times(found)
    if order is None:
        takes = "; durations take minimum and maximum" if order_of_durations(found) is not None else ""
        scope.refuse("/field", _NOT_TIMES + takes)
    return order


def _parsed(limits: Mapping[str, Any], order: Order, scope: Scope) -> dict[str, Any]:
    parsed = {name: order.parse(limit) for name, limit in limits.items()}
    for name, key in parsed.items():
        if key is None:
            relative = "" if order.at is None else ", or `now + 5 minutes`"
            hint = relative if str(limits[name]).strip().startswith("now") else ""
            scope.refuse(f"/{name}", f"the field holds {order.name}; write {order.example}{hint}")
    return parsed


def _no_zone(order: Order) -> str:
    return f"the field holds {order.name}, which have no zone: nobody knows how far from now they are"


def _never(_: Any) -> bool:
    return False


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


def _quick_date(breaks: Callable[[Any], bool], tests: list[tuple[Test, Any]]) -> Callable[[Any], bool]:
    def breaks_date(value: Any) -> bool:
        # Ten characters within the limits break nothing, whether they are a date or not.
        if type(value) is str and len(value) == DATE_LENGTH:
            for holds, limit in tests:
                if not holds(value, limit):
                    return breaks(value)
            return False
        return breaks(value)

    return breaks_date


def _about(rule: Range | Freshness, breaks: Callable[[Any], bool], what: str) -> Built:
    detail = when_missing((rule.field,), rule.nulls)
    return Built((tokens(rule.field),), breaks, rule.field, f"{rule.field.removeprefix('/')} {what}", detail)
