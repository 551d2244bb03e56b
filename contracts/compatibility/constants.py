"""Values at which rules may differ: each constant of a rule, one step below and above, and a value of every type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from math import isfinite
from typing import Any, Final, assert_never

from tidegate.contracts.compatibility.judging import Judge
from tidegate.contracts.compatibility.texts import first_text
from tidegate.contracts.document.fields import FieldType, tokens
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.document.rule_model import AMOUNT_BOUNDS, BaseRule
from tidegate.contracts.document.times import instant_key
from tidegate.contracts.inclusion.json_schema.prover import Budget
from tidegate.contracts.rules.clock import offset_of_now
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.rules.refused_sets import (
    AbsentWhen,
    BrokenExpression,
    Listed,
    Others,
    OutOfOrder,
    Outside,
    RefusedSet,
    Unmatched,
)
from tidegate.contracts.rules.values import Order, native, number_of, order_of_times

MISSING: Final = object()
"""Stands for a field that is not there."""

_LITERAL = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<![\w.])(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"""
)
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


def values_at(
    field: str,
    rules: Iterable[BaseRule],
    judge: Judge,
    shared: Iterable[BaseRule] = (),
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
    about = [kind_of(rule).refused(rule) for rule in rules if field in kind_of(rule).fields(rule)]
    for form in [*about, *(kind_of(rule).refused(rule) for rule in shared)]:
        spend()
        for constant in _constants(form):
            near = _around(constant, found, times)
            spend(1 + len(near))
            values += near
    patterns = [form.pattern for form in about if isinstance(form, Unmatched)]
    values += [first_text((one,), (other,)) for one, other in permutations(patterns[:_MAX_PATTERNS], 2)]
    values += [MISSING, None, *judge.listed(tokens(field)), *_ordinary(found, times)]
    spend(len(values))
    return _unique(values)


def _for_nothing(_: int = 1) -> None:
    """Spend nothing."""


def _constants(form: RefusedSet | None) -> Iterator[Any]:
    match form:
        case Listed() | Others():
            yield from form.values
        case Outside():
            for name, limit in form.limits.items():
                number = number_of(limit) if name in AMOUNT_BOUNDS else None
                if number is not None:
                    yield float(number) if isinstance(number, Decimal) else number
                elif offset_of_now(str(limit)) is None:
                    yield limit
        case AbsentWhen():
            yield from (None,) if form.values is None else form.values
        case Unmatched():
            text = first_text((form.pattern,))
            yield from () if text is None else (text,)
        case BrokenExpression():
            yield from _literals(form.rule.expr)
        case None | OutOfOrder():
            pass
        case _:
            assert_never(form)


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
