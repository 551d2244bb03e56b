"""Values at which rules may differ: each constant of a rule, one step below and above, and a value of every type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from math import isfinite
from typing import Any, Final

from tidegate.contracts.compatibility.judging import Judge
from tidegate.contracts.compatibility.texts import first_text
from tidegate.contracts.document.fields import FieldType, join, tokens
from tidegate.contracts.document.model import JsonSchema
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
from tidegate.contracts.document.times import instant_key
from tidegate.contracts.inclusion.json_schema.prover import Budget
from tidegate.contracts.rules.ranges import AMOUNT_LIMITS, limits_of
from tidegate.contracts.rules.values import Order, native, number_of, order_of_times

MISSING: Final = object()
"""Stands for a field that is not there."""

_LITERAL = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<![\w.])(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"""
)
_CHAIN = re.compile(r"\bthis((?:\.[A-Za-z_][A-Za-z0-9_]*)+)(\s*\()?")
_KEYED = re.compile(r"""\bthis\[\s*(?:'([^'\\]+)'|"([^"\\]+)")\s*\]""")
_BARE = re.compile(r"\bthis\b(?!\s*[.\[])")
_PLAIN: Final[dict[str, tuple[Any, ...]]] = {
    "integer": (0, 1, -1),
    "number": (0, 1, 0.5, -1),
    "string": ("", "a", "0"),
    "boolean": (True, False),
    "array": ([],),
    "object": ({},),
    "bytes": (b"", b"\xff"),
}
_TEXTS: Final = {
    "date": ("2000-01-01", "2000-01-02"),
    "date-time": ("2000-01-01T00:00:00Z", "2000-01-01T00:00:01Z"),
}
_MAX_NUMBERS: Final = 8
_MAX_PATTERNS: Final = 3
_MAX_LENGTH: Final = 200
_MAX_DIGITS: Final = 100
"""Most digits of a whole number that is read exactly; CEL's have 20."""
_DAY: Final = timedelta(days=1)


def fields_of_rule(rule: Rule) -> tuple[str, ...]:
    """Return the pointers of the fields that a rule reads; of an expression those that it names."""
    match rule:
        case Ordered():
            return rule.fields
        case RequiredWhen():
            return (rule.field, rule.when.field)
        case Cel():
            return tuple(dict.fromkeys([*([rule.field] if rule.field else []), *_named(rule.expr)]))
        case _:
            return (rule.field,)


def places_of_rule(rule: Rule) -> tuple[str, ...]:
    """Return the places in a record that a rule is about: its fields, and "" for an expression about the whole record."""
    fields = fields_of_rule(rule)
    is_whole = isinstance(rule, Cel) and _BARE.search(rule.expr) is not None
    return (*fields, "") if is_whole or not fields else fields


def values_at(
    field: str,
    rules: Iterable[Rule],
    judge: Judge,
    shared: Iterable[Rule] = (),
    budget: Budget | None = None,
) -> tuple[Any, ...]:
    """Return values for a field, those of the rules about it first: constants and their neighbours, MISSING, null.

    The constants of `shared` count whatever fields those rules are about. Each rule and each value takes a step of
    the `budget`, if there is one. Raises BudgetSpentError when it is used up.
    """
    spend = _for_nothing if budget is None else budget.spend
    found = judge.fields.find(field) or FieldType()
    if isinstance(judge.contract.schema_, JsonSchema):  # a field of any type holds no bytes: JSON has none
        found = replace(found, types=found.types - {"bytes"})
    times = order_of_times(found)
    values: list[Any] = []
    about = [rule for rule in rules if field in fields_of_rule(rule)]
    for rule in [*about, *shared]:
        spend()
        for constant in _constants(rule):
            near = _around(constant, found, times)
            spend(1 + len(near))
            values += near
    patterns = [rule.pattern for rule in about if isinstance(rule, Matches)]
    values += [first_text((one,), (other,)) for one, other in permutations(patterns[:_MAX_PATTERNS], 2)]
    values += [MISSING, None, *judge.listed(tokens(field)), *_ordinary(found, times)]
    spend(len(values))
    return _unique(values)


def _for_nothing(_: int = 1) -> None:
    """Spend nothing."""


def _named(expression: str) -> Iterator[str]:
    for match in _CHAIN.finditer(expression):
        path = match[1].split(".")[1:]
        if match[2]:  # the last name is that of a function
            path.pop()
        if path:
            yield join(tuple(path))
    for match in _KEYED.finditer(expression):
        yield join((match[1] or match[2],))


def _constants(rule: Rule) -> Iterator[Any]:
    match rule:
        case Forbidden() | OneOf():
            yield from rule.values
        case Range():
            for name, limit in limits_of(rule).items():
                number = number_of(limit) if name in AMOUNT_LIMITS else None
                yield float(number) if isinstance(number, Decimal) else limit if number is None else number
        case RequiredWhen():
            yield from rule.when.one_of or (rule.when.equals,)
        case Matches():
            text = first_text((rule.pattern,))
            yield from () if text is None else (text,)
        case Cel():
            yield from _literals(rule.expr)
        case Ordered() | Freshness():
            pass


def _literals(expression: str) -> Iterator[Any]:
    """Yield the constants of an expression, the sums and differences of its numbers, and texts of their length."""
    numbers: list[Any] = []
    for match in _LITERAL.finditer(expression):
        if match["number"]:
            text = match["number"]
            is_whole = text.lstrip("-").isdigit() and len(text) <= _MAX_DIGITS
            number = int(text) if is_whole else float(text)
            numbers.extend((number,) if isfinite(number) else ())
        else:
            yield match["text"][1:-1]
    yield from numbers
    for one, other in permutations(numbers[:_MAX_NUMBERS], 2):
        yield one - other
        yield one + other
    if "size" in expression:
        yield from (
            "a" * number for number in numbers if isinstance(number, int) and 0 < number <= _MAX_LENGTH
        )


def _around(constant: Any, found: FieldType, times: Order | None) -> list[Any]:
    """Return a constant and its neighbours, as values of the field."""
    match constant:
        case bool() | None:
            return [constant]
        case int() | float():
            return _near(constant, has_fractions="number" in found.types)
        case str() if times is not None and (moments := _moments(constant, found, times)):
            return moments
        case str():
            return [constant, f"{constant}a", constant[:-1], ""]
        case _:
            return []


def _near(constant: float, *, has_fractions: bool) -> list[int | float]:
    """Return a number, one step of its last digit below and above, and one whole step; as fractions too."""
    number = Decimal(repr(native(constant)))
    step = Decimal(1).scaleb(int(number.as_tuple().exponent)) if has_fractions else Decimal(1)
    near = [number, number - step, number + step, number - 1, number + 1]
    values: list[int | float] = [
        int(each) if each == each.to_integral_value() else float(each) for each in near
    ]
    return [*values, *(float(each) for each in near[:3])] if has_fractions else values


def _moments(text: str, found: FieldType, times: Order) -> list[Any]:
    if "string" in found.types:
        try:
            if len(text) == 10:
                day = date.fromisoformat(text)
                return [(day + step * _DAY).isoformat() for step in (0, -1, 1)]
            moment = datetime.fromisoformat(text)
        except (ValueError, OverflowError):
            return []
        if instant_key(text) is None:
            return []
        near = [moment.astimezone(UTC) + timedelta(seconds=step) for step in (-1, 1)]
        return [text, *(each.isoformat().replace("+00:00", "Z") for each in near)]
    key, unit = times.parse(text), times.key(1)
    if not isinstance(key, int) or not isinstance(unit, int):
        return []
    return [key // unit + step for step in (0, -1, 1)]


def _ordinary(found: FieldType, times: Order | None) -> list[Any]:
    """Return a few values of each type of the field."""
    values: list[Any] = []
    if times is not None and "string" in found.types:
        values += _TEXTS["date" if times.name == "dates" else "date-time"]
    for kind in ("integer", "number", "string", "boolean", "bytes", "array", "object"):
        if kind in found.types:
            values += _PLAIN[kind]
    return values


def _unique(values: list[Any]) -> tuple[Any, ...]:
    return tuple({(type(value).__name__, repr(value)): value for value in values}.values())
