"""The rule kind `ordered`: fields whose values must be in order."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, Final

from tidegate.contracts.document.fields import SchemaFields, tokens
from tidegate.contracts.document.rule_model import Ordered
from tidegate.contracts.rules.clock import day_of
from tidegate.contracts.rules.compiled import FieldCheck, when_missing
from tidegate.contracts.rules.rule_kind import OutOfOrder, RuleKind, Scope, Values
from tidegate.contracts.rules.values import (
    DATES,
    DATES_OR_INSTANTS,
    DURATIONS,
    INSTANTS,
    LOCAL_TIMES,
    NUMBERS,
    Key,
    Order,
    exact,
    has_mixed_units,
    is_large,
    is_nan,
    order_of,
    order_of_moments,
    units_of,
)
from tidegate.contracts.words import counted, length_of, name_of, shown, time_of

Test = Callable[[Any, Any], bool]
"""A comparison, such as `operator.lt`."""

_COERCED: Final = "moments"
_HOW: Final = "; say how with `compare_as: date` or `compare_as: timestamp`"


class OrderedKind(RuleKind[Ordered]):
    """Rules by which the values of fields must not decrease from first to last; with `strict`, must increase."""

    def compile(self, rule: Ordered, scope: Scope) -> FieldCheck | None:
        """Compile the comparison of adjacent fields."""
        orders = _orders(rule, scope)
        scope.together({f"/fields/{index}": pointer for index, pointer in enumerate(rule.fields)})
        if scope.problems:
            return None
        keys = tuple(order.key for order in orders)
        in_order = operator.lt if rule.strict else operator.le
        is_of_numbers = orders[0].name == NUMBERS.name
        if is_of_numbers:
            in_order = partial(_compare, in_order)
        disorder = _pair_disorder if len(keys) == 2 else _any_disorder
        breaks = disorder(keys, in_order, absent=rule.nulls == "violate")
        paths = tuple(tokens(pointer) for pointer in rule.fields)
        message = _disorder(rule, is_of_amounts=_is_of_amounts(orders[0]))
        return FieldCheck(paths, breaks, self.place(rule), message, when_missing(rule.fields, rule.nulls))

    def fields(self, rule: Ordered) -> tuple[str, ...]:
        """Return the fields in their order."""
        return rule.fields

    def place(self, rule: Ordered) -> str:
        """Return the last field."""
        return rule.fields[-1]

    def refused(self, rule: Ordered) -> OutOfOrder:
        """Return the refused set: fields out of order."""
        return OutOfOrder(rule.fields, rule.strict, rule.nulls == "violate", rule.compare_as)

    def sentence(self, rule: Ordered, values: Values) -> str | None:
        """Return a sentence with the first two adjacent fields that are out of order, and how far apart they are."""
        found = [values.fields.find(pointer) for pointer in rule.fields]
        for (low, high), (one, other) in zip(pairwise(rule.fields), pairwise(found), strict=True):
            order = None if one is None else order_of(one)
            second_order = None if other is None else order_of(other)
            if one is None or order is None or second_order is None or order.name != second_order.name:
                return None  # `compare_as` decides how dates compare with timestamps
            first, second = order.key(values[low]), second_order.key(values[high])
            if first is None or second is None:
                continue
            is_numbers = order.name == NUMBERS.name
            left, right = (
                shown(values[name]) if is_numbers else time_of(values[name], next(iter(field.times), ""))
                for name, field in ((high, other or one), (low, one))
            )
            if _is_unordered(first, second, is_numbers=is_numbers):
                return f"{values.name(high)} {left} is in no order with {values.name(low)} {right}"
            if is_numbers:
                first, second = exact(first), exact(second)
            if first < second or (first == second and not rule.strict):
                continue
            if first == second:
                return f"{values.name(high)} {left} is the same as {values.name(low)}"
            if order.name not in {DATES.name, INSTANTS.name, LOCAL_TIMES}:
                return f"{values.name(high)} {left} is below {values.name(low)} {right}"
            gap = _gap(first, second, is_days=order.name == DATES.name)
            return f"{values.name(high)} {left} is {gap}before {values.name(low)} {right}"
        return None

    def remedy(self, rule: Ordered, fields: SchemaFields) -> str:
        """Return the order that the fields should have."""
        found = fields.find(rule.fields[0])
        order = None if found is None else order_of(found)
        is_of_amounts = order is not None and _is_of_amounts(order)
        above, not_below = ("above", "not below") if is_of_amounts else ("after", "not before")
        words = [name_of(pointer) for pointer in rule.fields]
        if len(words) > 2:
            return f"{', '.join(words)} in {'rising' if rule.strict else 'this'} order"
        return f"{words[1]} {above if rule.strict else not_below} {words[0]}"


def _is_unordered(first: Any, second: Any, *, is_numbers: bool) -> bool:
    """Return whether no key is below the other, nor are they equal: NaN, and durations such as P1M and P30D."""
    if is_numbers:
        return is_nan(first) or is_nan(second)
    return not (first < second or second < first or first == second)


def _is_of_amounts(order: Order) -> bool:
    """Return whether values are above and below each other, not after and before."""
    return order.name in {NUMBERS.name, DURATIONS.name}


def _gap(later: Any, earlier: Any, *, is_days: bool) -> str:
    """Return the distance of two keys (days, or nanoseconds) and a space; "" if a date has the year 0."""
    if not is_days:
        return f"{length_of(later - earlier)} "
    days = [_day(each) for each in (later, earlier)]
    if None in days:
        return ""
    return f"{counted(days[0] - days[1], 'day')} "  # type: ignore[operator] # none of them is None here


def _day(key: Any) -> int | None:
    if type(key) is int:  # dates of Avro already count days
        return key
    return None if key.startswith("0000") else date.fromisoformat(key).toordinal()


def _pair_disorder(keys: tuple[Key, ...], in_order: Test, *, absent: bool) -> Callable[..., bool]:
    """Return the test for two fields, faster than the one for more.

    With `absent`, a missing value breaks the rule; a value of another type never does.
    """
    first_key, second_key = keys

    def breaks(first: Any, second: Any) -> bool:
        low, high = first_key(first), second_key(second)
        if low is None or high is None:
            return absent and (first is None or second is None)
        return not in_order(low, high)

    return breaks


def _any_disorder(keys: tuple[Key, ...], in_order: Test, *, absent: bool) -> Callable[..., bool]:
    """Return the test for three or more fields: those with a value must be in order, also across a missing one."""

    def breaks(*values: Any) -> bool:
        if absent and any(value is None for value in values):
            return True
        known = [each for key, value in zip(keys, values, strict=True) if (each := key(value)) is not None]
        return not all(in_order(low, high) for low, high in pairwise(known))

    return breaks


def _compare(holds: Test, one: Any, other: Any) -> bool:
    """Return whether `holds` is true for the decimals that the numbers stand for; False for NaN.

    Python would compare the binary value of a float with an int or a Decimal.
    """
    if is_nan(one) or is_nan(other):
        return False
    if type(one) is not type(other) and (Decimal in (type(one), type(other)) or is_large(one)):
        return holds(exact(one), exact(other))
    return holds(one, other)


def _disorder(rule: Ordered, *, is_of_amounts: bool) -> str:
    names = [pointer.removeprefix("/") for pointer in rule.fields]
    if len(names) == 2:
        after, before = ("above", "below") if is_of_amounts else ("after", "before")
        return f"{names[1]} is {f'not {after}' if rule.strict else before} {names[0]}"
    return f"{', '.join(names)} do not {'increase' if rule.strict else 'stand in order'}"


def _orders(rule: Ordered, scope: Scope) -> list[Order]:
    """Return the order of each field, and record a problem for each that does not fit."""
    orders: list[Order] = []
    first = ""  # the field of orders[0]
    # If one field may hold dates and date-times, all fields of times are compared in that order.
    is_either = any(
        (found := scope.fields.find(pointer)) is not None and order_of_moments(found) is DATES_OR_INSTANTS
        for pointer in rule.fields
    )
    for index, pointer in enumerate(rule.fields):
        place = f"/fields/{index}"
        found = scope.field_type(pointer, place)
        if found is None:
            continue
        order = order_of_moments(found) or order_of(found)
        if order is None:
            held = (
                units_of(found) if has_mixed_units(found) else " or ".join(sorted(found.types)) or "nothing"
            )
            what = (
                "it should hold numbers, durations, dates or timestamps (strings of format date or date-time)"
            )
            scope.refuse(place, f"the field has no order: {what}; its type in the schema is {held}")
            continue
        if rule.compare_as is not None:
            if order.moment is None:
                scope.refuse(
                    place, f"`{pointer}` holds {order.name}, and `compare_as` is about dates and timestamps"
                )
                continue
            order = _coerced(order, rule.compare_as)
        if is_either and order in {DATES, INSTANTS}:
            order = DATES_OR_INSTANTS
        if orders and order.name != orders[0].name:
            how = _HOW if order.moment is not None and orders[0].moment is not None else ""
            scope.refuse(
                place,
                f"`{pointer}` holds {order.name} and `{first}` {orders[0].name}: they do not compare{how}",
            )
        first = first or pointer
        orders.append(order)
    return orders


def _coerced(order: Order, compare_as: str) -> Order:
    """Return the order by moment (`compare_as: timestamp`; without a zone: UTC), or by UTC day (`date`)."""
    key, moment = order.key, order.moment
    assert moment is not None  # noqa: S101 - narrows for the type checker

    def moment_key(value: Any) -> Any:
        found = key(value)
        return None if found is None else moment(found)

    def day_key(value: Any) -> int | None:
        found = key(value)
        return None if found is None else day_of(moment(found))

    return replace(order, name=_COERCED, key=moment_key if compare_as == "timestamp" else day_key)
