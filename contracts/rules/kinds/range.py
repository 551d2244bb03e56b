"""The rule kind `range`: bounds of a number, a duration, a date or a timestamp."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from tidegate.contracts.document.fields import FieldType, SchemaFields
from tidegate.contracts.document.rule_model import AMOUNT_BOUNDS, Now, Range
from tidegate.contracts.rules.clock import offset_of_now
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.rule_kind import FieldRuleKind, Outside, Scope, Values, check_of_field
from tidegate.contracts.rules.values import (
    NUMBERS,
    Order,
    exact,
    has_mixed_units,
    is_large,
    is_nan,
    number_of,
    order_of,
    order_of_durations,
    order_of_moments,
    units_of,
)
from tidegate.contracts.words import shown, time_of

Test = Callable[[Any, Any], bool]
"""A comparison, such as `operator.lt`."""


class Limit(NamedTuple):
    """A bound: the comparison that must hold, and the words for a value that breaks it and for the allowed values."""

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
"""The bounds by their key in the contract."""
_NOT_TIMES: Final = (
    "the field holds no dates or date-times: give it the format date or date-time in the schema"
)


@dataclass(frozen=True, slots=True)
class _FromNow:
    """A bound at an offset in nanoseconds from now."""

    holds: Test
    offset: int


def outside_durations(
    limits: Mapping[str, Any], order: Order, scope: Scope, *, absent: bool
) -> Callable[[Any], bool]:
    """Compile the test that a duration is outside of some bounds; `absent` is the result for a missing value."""
    return _outside(_tests(limits, order, scope), order, absent=absent)


def outside_times(
    limits: Mapping[str, str], order: Order, now: Now, scope: Scope, *, absent: bool, place: str = ""
) -> Callable[[Any], bool] | None:
    """Compile the test that a moment is outside of some bounds, which are fixed or relative to now.

    `absent` is the result for a missing value. Moments without a zone cannot be relative to now: return None and record
    a problem at `place` (by default, the first relative bound).
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


def require_moments(found: FieldType, scope: Scope) -> Order | None:
    """Return the order of a field of moments. Return None and record a problem for any other field."""
    order = order_of_moments(found)
    if order is None and has_mixed_units(found):
        _refuse_units(found, scope)
    elif order is None:
        takes = "; durations take minimum and maximum" if order_of_durations(found) is not None else ""
        scope.refuse("/field", _NOT_TIMES + takes)
    return order


def _refuse_units(found: FieldType, scope: Scope) -> None:
    message = f"the field may hold {units_of(found)}, and a value does not say which; give it one of them"
    scope.refuse("/field", message)


def _tests(limits: Mapping[str, Any], order: Order, scope: Scope) -> list[tuple[Test, Any]]:
    """Return the comparison with each bound; record a problem for a bound that does not belong to the order."""
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


_NUMERIC: Final = frozenset({"number", "integer"})
_NUMBER_TYPES: Final = frozenset({int, float, Decimal})


class RangeKind(FieldRuleKind[Range]):
    """Rules by which the value of a field must be within bounds."""

    def compile(self, rule: Range, scope: Scope) -> FieldCheck | None:
        """Compile the comparisons; a value of another type than the bounds breaks nothing."""
        limits = rule.limits
        found = scope.field_type(rule.field, "/field")
        if found is None or not limits:
            return None
        absent = rule.nulls == "violate"
        if amounts := {name: limit for name, limit in limits.items() if name in AMOUNT_BOUNDS}:
            breaks = _outside_amounts(amounts, found, scope, absent=absent)
        else:
            order = require_moments(found, scope)
            breaks = None if order is None else outside_times(limits, order, rule.now, scope, absent=absent)
        if breaks is None:
            return None
        bounds = " and ".join(f"{name.replace('_', ' ')} {limit}" for name, limit in limits.items())
        return check_of_field(rule, breaks, f"is outside its range ({bounds})")

    def refused(self, rule: Range) -> Outside:
        """Return the refused set: values outside of the bounds."""
        return Outside(rule.field, rule.limits, rule.nulls == "violate", rule.now)

    def sentence_of_value(self, rule: Range, values: Values) -> str | None:
        """Return a sentence with the broken bound: the only bound relative to now, if all fixed ones hold."""
        found = values.fields.find(rule.field)
        value = values[rule.field]
        text = shown(value) if found is None or len(found.times) != 1 else time_of(value, *found.times)
        relative: list[str] = []
        for name, limit in rule.limits.items():
            sentence = f"{values.name(rule.field)} {text} {LIMITS[name].broken} {limit}"
            keys = _keys(value, limit, found)
            if keys is None:
                relative.append(sentence)
            elif is_nan(keys[0]) or not LIMITS[name].holds(*keys):
                return sentence
        return relative[0] if len(relative) == 1 else None

    def remedy(self, rule: Range, fields: SchemaFields) -> str | None:  # noqa: ARG002 - part of the interface
        """Return the bounds."""
        limits = rule.limits
        for low, high in (("minimum", "maximum"), ("not_before", "not_after")):
            if low in limits and high in limits:
                return f"a value from {limits[low]} to {limits[high]}"
        allowed = [LIMITS[name].allowed.format(limit) for name, limit in limits.items()]
        return f"a value {' and '.join(allowed)}" if allowed else None


def _outside_amounts(
    limits: Mapping[str, Any], found: FieldType, scope: Scope, *, absent: bool
) -> Callable[[Any], bool] | None:
    if (durations := order_of_durations(found)) is not None:
        return outside_durations(limits, durations, scope, absent=absent)
    if has_mixed_units(found) and not found.types & _NUMERIC:
        _refuse_units(found, scope)
        return None
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
    tests = [(LIMITS[name].holds, limit) for name, limit in limits.items()]
    exact_tests = [(LIMITS[name].holds, exact(limit)) for name, limit in limits.items()]
    if any(isinstance(limit, Decimal) or is_large(limit) for limit in limits.values()):

        def breaks_exactly(value: Any) -> bool:
            kind = type(value)
            if kind is int or kind is float or kind is Decimal:
                number = exact(value)
                return is_nan(number) or not all(holds(number, limit) for holds, limit in exact_tests)
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


def _keys(value: Any, limit: Any, found: FieldType | None) -> tuple[Any, Any] | None:
    """Return comparable keys of a value and a bound; None if the bound is relative to now, or they do not compare."""
    order = None if found is None else order_of_moments(found) or order_of(found)
    if order is None:
        return None
    if order.name == NUMBERS.name:
        if type(value) not in _NUMBER_TYPES:
            return None
        return exact(value), exact(Decimal(limit) if isinstance(limit, str) else limit)
    key, bound = order.key(value), order.parse(limit)
    return None if key is None or bound is None else (key, bound)
