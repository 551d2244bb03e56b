"""The rule kinds about fields: each becomes a total check of their values, or says why it cannot."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, Final

import re2  # type: ignore[import-untyped] # it publishes no types

from contracts.fields import tokens
from contracts.model import Condition, Forbidden, Matches, OneOf, Ordered, Range, RequiredWhen, Scalar
from contracts.rules.compiled import Built, read
from contracts.rules.membership import member_of
from contracts.rules.scope import Scope
from contracts.rules.times import DATE_LENGTH
from contracts.rules.values import DATES, NUMBERS, Key, Order, exact, native, order_of, order_of_times

Test = Callable[[Any, Any], bool]
"""A comparison, such as `operator.lt`."""

_LIMITS: Final[dict[str, Test]] = {
    "minimum": operator.ge,
    "exclusive_minimum": operator.gt,
    "maximum": operator.le,
    "exclusive_maximum": operator.lt,
    "not_before": operator.ge,
    "after": operator.gt,
    "not_after": operator.le,
    "before": operator.lt,
}
_NUMBER_LIMITS: Final = ("minimum", "exclusive_minimum", "maximum", "exclusive_maximum")
_NUMERIC: Final = frozenset({"number", "integer"})
_TEXT: Final = frozenset({"string"})


def build_forbidden(rule: Forbidden, scope: Scope) -> Built | None:
    """Compile a rule of kind `forbidden`."""
    found = scope.field_type(rule.field, "/field")
    if found is None:
        return None
    member, absent = member_of(_placed("/values", rule.values), found, scope), rule.nulls == "violate"

    def breaks(value: Any) -> bool:
        return absent if value is None else member(value) is True

    return _about(rule, breaks, "holds a value that the contract forbids")


def build_one_of(rule: OneOf, scope: Scope) -> Built | None:
    """Compile a rule of kind `one_of`."""
    found = scope.field_type(rule.field, "/field")
    if found is None:
        return None
    member, absent = member_of(_placed("/values", rule.values), found, scope), rule.nulls == "violate"

    def breaks(value: Any) -> bool:
        return absent if value is None else member(value) is False

    return _about(rule, breaks, "holds none of the values that the contract allows")


def build_matches(rule: Matches, scope: Scope) -> Built | None:
    """Compile a rule of kind `matches`. Source: RE2 syntax."""
    found = scope.field_type(rule.field, "/field")
    if found is not None:
        scope.expect(found, _TEXT, "a string", "/field")
    # A set of one pattern answers yes or no six times as fast as a search that also says where.
    patterns = re2.Set.SearchSet(_quiet())
    try:
        re2.compile(rule.pattern, _quiet())  # which says what is wrong; a set does not
        patterns.Add(rule.pattern)
    except re2.error as error:
        scope.refuse("/pattern", f"not a pattern in RE2 syntax: {_reason(error)}")
        return None
    patterns.Compile()
    matching, absent = patterns.Match, rule.nulls == "violate"

    def breaks(value: Any) -> bool:
        if value is None:
            return absent
        return type(value) is str and not matching(value)

    return _about(rule, breaks, "does not match the pattern of the contract")


def build_range(rule: Range, scope: Scope) -> Built | None:
    """Compile a rule of kind `range`."""
    limits = {name: limit for name in _LIMITS if (limit := getattr(rule, name)) is not None}
    found = scope.field_type(rule.field, "/field")
    if found is None or not limits:
        return None
    absent = rule.nulls == "violate"
    if set(limits) & set(_NUMBER_LIMITS):
        hint = " (dates take after, before, not_after and not_before)" if found.times else ""
        scope.expect(found, _NUMERIC, f"a number{hint}", "/field")
        numbers = {name: limit for name, limit in limits.items() if name in _NUMBER_LIMITS}
        breaks = _outside_numbers(numbers, absent=absent)
    else:
        order = order_of_times(found)
        if order is None:
            message = (
                "the field holds no dates or date-times: give it the format date or date-time in the schema"
            )
            scope.refuse("/field", message)
            return None
        breaks = _outside_times(limits, order, scope, absent=absent)
    bounds = " and ".join(f"{name.replace('_', ' ')} {limit}" for name, limit in limits.items())
    return _about(rule, breaks, f"is outside its range ({bounds})")


def _outside_numbers(limits: dict[str, Any], *, absent: bool) -> Callable[[Any], bool]:
    tests = [(_LIMITS[name], native(limit)) for name, limit in limits.items()]
    exact_tests = [(_LIMITS[name], exact(limit)) for name, limit in limits.items()]

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
    limits: dict[str, str], order: Order, scope: Scope, *, absent: bool
) -> Callable[[Any], bool]:
    tests = []
    for name, limit in limits.items():
        parsed = order.parse(limit)
        if parsed is None:
            scope.refuse(f"/{name}", f"the field holds {order.name}; write {order.example}")
        tests.append((_LIMITS[name], parsed))
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

    return _quick_date(breaks, tests) if order is DATES else breaks


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


def build_ordered(rule: Ordered, scope: Scope) -> Built | None:
    """Compile a rule of kind `ordered`."""
    orders = _orders(rule, scope)
    if scope.problems:
        return None
    keys = tuple(order.key for order in orders)
    in_order = operator.lt if rule.strict else operator.le
    if orders[0].name == NUMBERS.name:
        in_order = partial(_compare, in_order)
    disorder = _pair_disorder if len(keys) == 2 else _any_disorder
    breaks = disorder(keys, in_order, absent=rule.nulls == "violate")
    if len(keys) == 2 and orders[0] is DATES:
        breaks = _quick_date_pair(breaks, in_order)
    paths = tuple(tokens(pointer) for pointer in rule.fields)
    message = _disorder(rule, is_of_numbers=orders[0].name == NUMBERS.name)
    return Built(paths, breaks, rule.fields[-1], message, _missing(rule.fields, rule.nulls))


def _pair_disorder(keys: tuple[Key, ...], in_order: Test, *, absent: bool) -> Callable[..., bool]:
    first_key, second_key = keys

    def breaks(first: Any, second: Any) -> bool:
        low, high = first_key(first), second_key(second)
        if low is None or high is None:
            return absent and (first is None or second is None)
        return not in_order(low, high)

    return breaks


def _quick_date_pair(breaks: Callable[..., bool], in_order: Test) -> Callable[..., bool]:
    def breaks_dates(first: Any, second: Any) -> bool:
        # Two times ten characters in order break nothing, whether they are dates or not.
        if (
            type(first) is str
            and type(second) is str
            and len(first) == len(second) == DATE_LENGTH
            and in_order(first, second)
        ):
            return False
        return breaks(first, second)

    return breaks_dates


def _any_disorder(keys: tuple[Key, ...], in_order: Test, *, absent: bool) -> Callable[..., bool]:
    def breaks(*values: Any) -> bool:
        if absent and any(value is None for value in values):
            return True
        known = [each for key, value in zip(keys, values, strict=True) if (each := key(value)) is not None]
        return not all(in_order(low, high) for low, high in pairwise(known))

    return breaks


def _compare(holds: Test, one: Any, other: Any) -> bool:
    """Compare by exact value: a Decimal and a float stand for decimals that Python would compare in binary."""
    if type(one) is not type(other) and Decimal in (type(one), type(other)):
        return holds(exact(one), exact(other))
    return holds(one, other)


def _disorder(rule: Ordered, *, is_of_numbers: bool) -> str:
    names = [pointer.removeprefix("/") for pointer in rule.fields]
    if len(names) == 2:
        after, before = ("above", "below") if is_of_numbers else ("after", "before")
        return f"{names[1]} is {f'not {after}' if rule.strict else before} {names[0]}"
    return f"{', '.join(names)} do not {'increase' if rule.strict else 'stand in order'}"


def _orders(rule: Ordered, scope: Scope) -> list[Order]:
    orders: list[Order] = []
    for index, pointer in enumerate(rule.fields):
        place = f"/fields/{index}"
        found = scope.field_type(pointer, place)
        if found is None:
            continue
        order = order_of(found)
        if order is None:
            held = " or ".join(sorted(found.types)) or "nothing"
            what = "it should hold numbers, dates or timestamps (strings of format date or date-time)"
            scope.refuse(place, f"the field has no order: {what}; its type in the schema is {held}")
            continue
        if orders and order.name != orders[0].name:
            first = f"`{rule.fields[0]}` {orders[0].name}"
            scope.refuse(place, f"`{pointer}` holds {order.name} and {first}: they do not compare")
        orders.append(order)
    return orders


def build_required_when(rule: RequiredWhen, scope: Scope) -> Built | None:
    """Compile a rule of kind `required_when`; `nulls` makes no difference to it."""
    scope.field_type(rule.field, "/field")
    holds = _condition(rule.when, scope)
    if holds is None:
        return None

    def breaks(value: Any, condition: Any) -> bool:
        return value is None and holds(condition)

    paths = (tokens(rule.field), tokens(rule.when.field))
    reason = f"is missing although {rule.when.field.removeprefix('/')} calls for it"
    return Built(paths, breaks, rule.field, f"{rule.field.removeprefix('/')} {reason}")


def _condition(when: Condition, scope: Scope) -> Callable[[Any], bool] | None:
    found = scope.field_type(when.field, "/when/field")
    if found is None:
        return None
    if when.present:
        return lambda value: value is not None
    values = {"/when/equals": when.equals} if when.one_of is None else _placed("/when/one_of", when.one_of)
    member = member_of(values, found, scope)
    return lambda value: member(value) is True


def _placed(place: str, values: tuple[Scalar, ...]) -> dict[str, Scalar]:
    return {f"{place}/{index}": value for index, value in enumerate(values)}


def _about(rule: Forbidden | Range | Matches | OneOf, breaks: Callable[[Any], bool], what: str) -> Built:
    message = f"{rule.field.removeprefix('/')} {what}"
    detail = _missing((rule.field,), rule.nulls)
    return Built((tokens(rule.field),), breaks, rule.field, message, detail)


def _missing(pointers: tuple[str, ...], nulls: str) -> Callable[[Any], str | None] | None:
    """Make what says which field is missing, when that breaks a rule."""
    if nulls != "violate":
        return None

    def detail(record: Any) -> str | None:
        missing = (pointer for pointer in pointers if read(record, tokens(pointer)) is None)
        return next((f"{pointer.removeprefix('/')} is missing or null" for pointer in missing), None)

    return detail


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False  # they would go to stderr; the problem says it
    return options


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode() if isinstance(reason, bytes) else str(reason)
