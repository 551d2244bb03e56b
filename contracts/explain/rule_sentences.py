"""Sentences about records that break a rule, and what would have kept it.

A sentence may hold values; whether a reader may see them is decided before it is asked for. A kind of rule that is not
known here gets no sentence of its own: the violation's message, which holds no value, stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from tidegate.contracts.document.fields import FieldType, SchemaFields, join
from tidegate.contracts.document.rule_model import (
    Cel,
    Forbidden,
    Freshness,
    Matches,
    OneOf,
    Ordered,
    Range,
    RequiredWhen,
    Rule,
)
from tidegate.contracts.explain.words import counted, length_of, listed, name_of, shown, time_of
from tidegate.contracts.rules.values import DATES, INSTANTS, NUMBERS, exact, order_of

_CEL_FIELD = re.compile(r"\bthis((?:\.[A-Za-z_][A-Za-z0-9_]*+)++)(?!\()")
_LOCAL_TIMES: Final = "local times"
_NUMBER_TYPES: Final = frozenset({int, float, Decimal})
_BROKEN: Final = {
    "minimum": "is below",
    "exclusive_minimum": "is not above",
    "maximum": "is above",
    "exclusive_maximum": "is not below",
    "not_before": "is before",
    "after": "is not after",
    "not_after": "is after",
    "before": "is not before",
}
_KEEPS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "minimum": lambda value, limit: value >= limit,
    "exclusive_minimum": lambda value, limit: value > limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusive_maximum": lambda value, limit: value < limit,
    "not_before": lambda value, limit: value >= limit,
    "after": lambda value, limit: value > limit,
    "not_after": lambda value, limit: value <= limit,
    "before": lambda value, limit: value < limit,
}
_ALLOWED: Final = {
    "minimum": "from {}",
    "exclusive_minimum": "above {}",
    "maximum": "up to {}",
    "exclusive_maximum": "below {}",
    "not_before": "from {} on",
    "after": "after {}",
    "not_after": "up to {}",
    "before": "before {}",
}


@dataclass(frozen=True, slots=True)
class Values:
    """The values of the fields that a rule is about, at the place where it was broken: None where there is none."""

    by_pointer: dict[str, Any]
    fields: SchemaFields
    places: dict[str, tuple[str, ...]]
    """By pointer the path to the value, its `*` as positions."""

    def __getitem__(self, pointer: str) -> Any:
        return self.by_pointer.get(pointer)

    def name(self, pointer: str) -> str:
        """Name a field, or the element that it is of."""
        return name_of(join(self.places[pointer]) if pointer in self.places else pointer)


def pointers_in(rule: Rule) -> tuple[str, ...]:
    """Return the pointers of the fields whose values a sentence about the rule holds; none for a kind not known here."""
    match rule:
        case Forbidden() | OneOf() | Matches() | Range() | Freshness():
            return (rule.field,)
        case Ordered():
            return rule.fields
        case RequiredWhen():
            return (rule.when.field,)
        case Cel():
            paths = (path.replace(".", "/") for path in _CEL_FIELD.findall(rule.expr))
            own = () if rule.field is None else (rule.field,)
            return tuple(dict.fromkeys((*own, *paths)))
        case _:
            return ()


def rule_sentence(rule: Rule, values: Values) -> str | None:  # noqa: PLR0911 - one for each kind
    """Say with its values how a record breaks a rule; None where the violation's message says all there is."""
    match rule:
        case Forbidden() if values[rule.field] is not None:
            return f"{values.name(rule.field)} is {shown(values[rule.field])}, a placeholder value"
        case OneOf() if values[rule.field] is not None:
            allowed = "none of the values allowed" if rule.set is None else f"not in the set {rule.set}"
            return f"{values.name(rule.field)} is {shown(values[rule.field])}, {allowed}"
        case Matches() if values[rule.field] is not None:
            return f"{values.name(rule.field)} is {shown(values[rule.field])}, not of the form {rule.pattern}"
        case Range() if values[rule.field] is not None:
            return _range(rule, values)
        case Freshness() if values[rule.field] is not None:
            return _not_fresh(rule, values)
        case Ordered():
            return _ordered(rule, values)
        case RequiredWhen():
            found = values[rule.when.field]
            condition = f"{values.name(rule.when.field)} is {shown(found)}"
            return f"{values.name(rule.field)} is missing although {condition}"
        case Cel():
            return _cel(rule, values)
        case _:
            return None


def rule_remedy(rule: Rule, fields: SchemaFields) -> str | None:  # noqa: PLR0911 - one for each kind
    """Return what would have kept a rule, from the contract alone: the rest of a sentence that begins `passes with`."""
    match rule:
        case Forbidden():
            return f"any value but {listed(rule.values)}"
        case OneOf():
            return f"one of: {listed(rule.values)}" if rule.set is None else f"a value of the set {rule.set}"
        case Matches():
            return f"text of the form {rule.pattern}"
        case Range():
            return _allowed(rule)
        case Freshness():
            ahead = f" and at most {rule.max_ahead} ahead" if rule.max_ahead else ""
            return f"a moment at most {rule.max_age} old{ahead}"
        case Ordered():
            return _in_order(rule, fields)
        case RequiredWhen():
            return f"a value in {name_of(rule.field)}, or {_condition_away(rule)}"
        case Cel():
            return f"values for which this is true: {' '.join(rule.expr.split())}"
        case _:
            return None


def _condition_away(rule: RequiredWhen) -> str:
    when = rule.when
    if when.present:
        return f"no {name_of(when.field)}"
    values = when.one_of if when.one_of is not None else (when.equals,)
    return f"{name_of(when.field)} other than {listed(values)}"


def _range(rule: Range, values: Values) -> str | None:
    """Name the bound that is broken; the one bound that counts from now, when all others hold."""
    found = values.fields.find(rule.field)
    value = values[rule.field]
    text = shown(value) if found is None or len(found.times) != 1 else time_of(value, *found.times)
    relative: list[str] = []
    for name, limit in _limits(rule):
        keys = _keys(value, limit, found)
        if keys is None:
            relative.append(f"{values.name(rule.field)} {text} {_BROKEN[name]} {limit}")
        elif not _KEEPS[name](*keys):
            return f"{values.name(rule.field)} {text} {_BROKEN[name]} {limit}"
    return relative[0] if len(relative) == 1 else None


def _keys(value: Any, limit: Any, found: FieldType | None) -> tuple[Any, Any] | None:
    """Return a value and a bound as they compare; None for a bound that counts from now, or what does not compare."""
    if found is None:
        return None
    order = order_of(found)
    if order is None:
        return None
    if order.name == NUMBERS.name:
        if type(value) not in _NUMBER_TYPES:
            return None
        return exact(value), exact(Decimal(limit) if isinstance(limit, str) else limit)
    key, bound = order.key(value), order.parse(limit)
    return None if key is None or bound is None else (key, bound)


def _limits(rule: Range) -> Iterator[tuple[str, Any]]:
    """Yield the bounds that a range has."""
    for name in _BROKEN:
        limit = getattr(rule, name)
        if limit is not None:
            yield name, limit


def _not_fresh(rule: Freshness, values: Values) -> str:
    """Return what the moment is. When now was is not known any more, so that two bounds leave open which was broken."""
    found = values.fields.find(rule.field)
    value = values[rule.field]
    text = shown(value) if found is None or len(found.times) != 1 else time_of(value, *found.times)
    ahead = f", or more than {rule.max_ahead} ahead" if rule.max_ahead else ""
    return f"{values.name(rule.field)} {text} was more than {rule.max_age} old{ahead}"


def _allowed(rule: Range) -> str | None:
    limits = dict(_limits(rule))
    if {"minimum", "maximum"} <= set(limits):
        return f"a value from {limits['minimum']} to {limits['maximum']}"
    if {"not_before", "not_after"} <= set(limits):
        return f"a value from {limits['not_before']} to {limits['not_after']}"
    if not limits:
        return None
    return "a value " + " and ".join(_ALLOWED[name].format(limit) for name, limit in limits.items())


def _ordered(rule: Ordered, values: Values) -> str | None:
    """Name the first two neighbours that are out of order, and how far apart they are."""
    found = [values.fields.find(pointer) for pointer in rule.fields]
    for (low, high), (one, other) in zip(pairwise(rule.fields), pairwise(found), strict=True):
        order = None if one is None else order_of(one)
        second_order = None if other is None else order_of(other)
        if one is None or order is None or second_order is None or order.name != second_order.name:
            return None  # dates beside timestamps compare as the rule says
        first, second = order.key(values[low]), second_order.key(values[high])
        if first is None or second is None:
            continue
        is_numbers = order.name == NUMBERS.name
        if is_numbers:
            first, second = exact(first), exact(second)
        if first < second or (first == second and not rule.strict):
            continue
        left, right = (
            shown(values[name]) if is_numbers else time_of(values[name], next(iter(field.times), ""))
            for name, field in ((high, other or one), (low, one))
        )
        if first == second:
            return f"{values.name(high)} {left} is the same as {values.name(low)}"
        if is_numbers:
            return f"{values.name(high)} {left} is below {values.name(low)} {right}"
        if order.name not in {DATES.name, INSTANTS.name, _LOCAL_TIMES}:
            return f"{values.name(high)} {left} is below {values.name(low)} {right}"
        gap = _gap(first, second, is_days=order.name == DATES.name)
        return f"{values.name(high)} {left} is {gap}before {values.name(low)} {right}"
    return None


def _gap(later: Any, earlier: Any, *, is_days: bool) -> str:
    """Return how far apart two keys of one order are, with a space behind it; nothing for years before 1."""
    if not is_days:
        return f"{length_of(later - earlier)} "
    days = [_day(each) for each in (later, earlier)]
    if None in days:
        return ""
    return f"{counted(days[0] - days[1], 'day')} "  # type: ignore[operator] # none of them is None here


def _day(key: Any) -> int | None:
    if type(key) is int:  # Avro's dates are days already
        return key
    return None if key.startswith("0000") else date.fromisoformat(key).toordinal()


def _in_order(rule: Ordered, fields: SchemaFields) -> str:
    found = fields.find(rule.fields[0])
    order = None if found is None else order_of(found)
    above, not_below = ("above", "not below") if order is NUMBERS else ("after", "not before")
    words = [name_of(pointer) for pointer in rule.fields]
    if len(words) > 2:
        return f"{', '.join(words)} in {'rising' if rule.strict else 'this'} order"
    return f"{words[1]} {above if rule.strict else not_below} {words[0]}"


def _cel(rule: Cel, values: Values) -> str | None:
    said = _said(pointers_in(rule), values)
    return f"the expression of the rule does not hold with {said}" if said else None


def _said(pointers: Sequence[str], values: Values) -> str:
    return ", ".join(
        f"no {values.name(pointer)}"
        if values[pointer] is None
        else f"{values.name(pointer)} {shown(values[pointer])}"
        for pointer in pointers
    )
