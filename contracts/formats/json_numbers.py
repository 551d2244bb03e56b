"""Exact bounds and multiples of numbers that no double holds.

jsonschema-rs compares a Decimal with an integer, and divides it, by the nearest double. The keywords here are exact, and
slower by far. So they judge only records that hold a Decimal, by schemas in which that makes a difference.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final, NamedTuple

import jsonschema_rs

from tidegate.contracts.document.fields import objects_of

_DOUBLE_IS_EXACT: Final = 2**53
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


class Validators(NamedTuple):
    """The validator of a schema, and the one with exact keywords for records that hold a Decimal; None if equal."""

    plain: jsonschema_rs.Validator
    exact: jsonschema_rs.Validator | None

    def of(self, record: Any) -> jsonschema_rs.Validator:
        """Return the validator that judges a record exactly."""
        return self.plain if self.exact is None or not holds_decimal(record) else self.exact

    @property
    def is_valid(self) -> Callable[[Any], bool]:
        """Return a test whether a record fits the schema."""
        fits = self.plain.is_valid
        if self.exact is None:
            return fits
        fits_exactly = self.exact.is_valid
        return lambda record: fits_exactly(record) if holds_decimal(record) else fits(record)


def needs_exact_keywords(schema: Any) -> bool:
    """Return whether a schema has a multiple, or a bound beyond 2^53."""
    return any(
        "multipleOf" in each or any(_is_large(each.get(name)) for name in _BOUNDS)
        for each in objects_of(schema)
    )


def holds_decimal(value: Any) -> bool:
    """Return whether a value is a Decimal or contains one."""
    kind = type(value)
    if kind is dict:
        value = value.values()
    elif kind is not list:
        return kind is Decimal
    for each in value:
        kind = type(each)
        if kind is Decimal or ((kind is dict or kind is list) and holds_decimal(each)):
            return True
    return False


def is_multiple(number: Decimal, step: Decimal) -> bool:
    """Return whether a number is a multiple of a step above 0; no power of ten is written out."""
    _, digits, exponent = number.as_tuple()
    _, of_step, scale = step.as_tuple()
    divisor, shift = Decimal((0, of_step, 0)), int(exponent) - int(scale)
    if shift < 0:
        if any(digits[shift:]):
            return False
        digits, shift = digits[:shift], 0
    rest = int(_EXACT.remainder(Decimal((0, digits, 0)), divisor))
    return rest * pow(10, shift, int(divisor)) % int(divisor) == 0


def _is_large(bound: Any) -> bool:
    return isinstance(bound, int | float) and abs(bound) >= _DOUBLE_IS_EXACT


def _decimal(number: float | Decimal) -> Decimal:
    """Return a number exactly: a float stands for the shortest decimal number that parses to it."""
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


def _comparison(name: str, holds: Callable[[Any, Any], bool], words: str) -> type:
    """Return the keyword of a bound. In draft 4, `exclusiveMaximum: true` beside `maximum` makes it exclusive."""
    bound = name.removeprefix("exclusive").lower()
    is_exclusive = bound != name

    class Bound:
        def __init__(self, parent: Mapping[str, Any], limit: Any, _path: list[Any]) -> None:
            is_flag = isinstance(parent.get(f"exclusive{bound.capitalize()}"), bool)
            if is_flag:
                limit = (
                    parent.get(bound) if parent[f"exclusive{bound.capitalize()}"] is is_exclusive else None
                )
            self._limit = None if limit is None else _decimal(limit)
            self._message = f"{words} {limit}"

        def validate(self, value: Any) -> None:
            if self._limit is not None and _is_number(value) and not holds(_decimal(value), self._limit):
                raise ValueError(self._message)

    return Bound


class _Multiple:
    def __init__(self, _parent: Mapping[str, Any], step: Any, _path: list[Any]) -> None:
        self._step = _decimal(step)
        self._message = f"must be a multiple of {step}"

    def validate(self, value: Any) -> None:
        if _is_number(value) and not is_multiple(_decimal(value), self._step):
            raise ValueError(self._message)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


EXACT_KEYWORDS: Final[dict[str, type]] = {
    "minimum": _comparison("minimum", operator.ge, "must be at least"),
    "maximum": _comparison("maximum", operator.le, "must be at most"),
    "exclusiveMinimum": _comparison("exclusiveMinimum", operator.gt, "must be above"),
    "exclusiveMaximum": _comparison("exclusiveMaximum", operator.lt, "must be below"),
    "multipleOf": _Multiple,
}
"""The keywords for `jsonschema_rs`, by name; the message of an error is that of the violation."""
