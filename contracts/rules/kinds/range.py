"""The rule kind `range`: bounds of a number, a duration, a date or a timestamp."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from tidegate.contracts.document.fields import FieldType, SchemaFields
from tidegate.contracts.document.rule_model import AMOUNT_BOUNDS, Range
from tidegate.contracts.rules.bounds import LIMITS, order_of_moments, outside_durations, outside_times
from tidegate.contracts.rules.compiled import Built
from tidegate.contracts.rules.refused_sets import Outside
from tidegate.contracts.rules.rule_kind import FieldRuleKind, Values, check_of_field
from tidegate.contracts.rules.scope import Scope
from tidegate.contracts.rules.values import NUMBERS, exact, number_of, order_of, order_of_durations
from tidegate.contracts.words import shown, time_of

_NUMERIC: Final = frozenset({"number", "integer"})
_NUMBER_TYPES: Final = frozenset({int, float, Decimal})


class RangeKind(FieldRuleKind[Range]):
    """The field must lie within the bounds."""

    def compile(self, rule: Range, scope: Scope) -> Built | None:
        """Compile the comparisons; a value of another type than the bounds breaks nothing."""
        limits = rule.limits
        found = scope.field_type(rule.field, "/field")
        if found is None or not limits:
            return None
        absent = rule.nulls == "violate"
        if amounts := {name: limit for name, limit in limits.items() if name in AMOUNT_BOUNDS}:
            breaks = _outside_amounts(amounts, found, scope, absent=absent)
        else:
            order = order_of_moments(found, scope)
            breaks = None if order is None else outside_times(limits, order, rule.now, scope, absent=absent)
        if breaks is None:
            return None
        bounds = " and ".join(f"{name.replace('_', ' ')} {limit}" for name, limit in limits.items())
        return check_of_field(rule, breaks, f"is outside its range ({bounds})")

    def refused(self, rule: Range) -> Outside:
        """Refuse what lies outside."""
        return Outside(rule.field, rule.limits, rule.nulls == "violate", rule.now)

    def sentence_of_value(self, rule: Range, values: Values) -> str | None:
        """Name the bound that is broken; the one bound that counts from now, when all others hold."""
        found = values.fields.find(rule.field)
        value = values[rule.field]
        text = shown(value) if found is None or len(found.times) != 1 else time_of(value, *found.times)
        relative: list[str] = []
        for name, limit in rule.limits.items():
            sentence = f"{values.name(rule.field)} {text} {LIMITS[name].broken} {limit}"
            keys = _keys(value, limit, found)
            if keys is None:
                relative.append(sentence)
            elif not LIMITS[name].holds(*keys):
                return sentence
        return relative[0] if len(relative) == 1 else None

    def remedy(self, rule: Range, fields: SchemaFields) -> str | None:  # noqa: ARG002 - of all kinds
        """Write the bounds."""
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


def _keys(value: Any, limit: Any, found: FieldType | None) -> tuple[Any, Any] | None:
    """Return a value and a bound as they compare; None for a bound that counts from now, or what does not compare."""
    order = None if found is None else order_of(found)
    if order is None:
        return None
    if order.name == NUMBERS.name:
        if type(value) not in _NUMBER_TYPES:
            return None
        return exact(value), exact(Decimal(limit) if isinstance(limit, str) else limit)
    key, bound = order.key(value), order.parse(limit)
    return None if key is None or bound is None else (key, bound)
