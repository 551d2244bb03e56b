"""Values of CEL that stand for all others when they are compared with some constants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from tidegate.contracts.document.times import NANOSECONDS
from tidegate.contracts.rules.cel_syntax import Call, Const, Node
from tidegate.contracts.rules.cel_times import moment_of, span_of

_EXACT: Final = 2**53
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NAN: Final = "nan"
"""Stands among types for the double that is no number, which JSON does not have."""
_NUMBER: Final = frozenset({"number"})
_WHOLE: Final = frozenset({"integer", "number"})
_FIRST_CHARACTER: Final = "\0"
_NO_MEMBER: Final[frozenset[str]] = frozenset()


class Sort(Enum):
    """What compares with each other; a truth or null only equals itself."""

    NUMBER = auto()
    STRING = auto()
    MOMENT = auto()
    SPAN = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of an expression: `key` orders those of a sort, `value` and `text` give it to the library.

    In `text`, `{}` stands for the name of the variable that holds the value.
    """

    sort: Sort
    key: Any
    value: Any
    text: str = "{}"


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a term, given to the library like a constant; `types` are those of a member that may hold it."""

    value: Any
    types: frozenset[str]
    text: str = "{}"


_OTHERS: Final = (
    Value(None, frozenset({"null"})),
    Value(True, frozenset({"boolean"})),
    Value(False, frozenset({"boolean"})),
    Value([], frozenset({"array"})),
    Value({}, frozenset({"object"})),
    Value(b"", frozenset({"bytes"})),
    Value(math.nan, frozenset({NAN})),
)


def constant_of(node: Node) -> Constant | None:
    """Read a constant whose neighbours are known; None for anything else."""
    match node:
        case Const(bool() | None as value):
            return Constant(Sort.OTHER, None, value)
        case Const(int() | float() as value) if abs(value) < _EXACT:
            return Constant(Sort.NUMBER, Fraction(value), value)
        case Const(str(value)):
            return Constant(Sort.STRING, value, value)
        case Call("timestamp", (Const(str(value)),)) if (moment := moment_of(value)) is not None:
            return Constant(Sort.MOMENT, moment, value, "timestamp({})")
        case Call("duration", (Const(str(value)),)) if (span := span_of(value)) is not None:
            return Constant(Sort.SPAN, span, value, "duration({})")
        case _:
            return None


def values_between(constants: Iterable[Constant]) -> Iterator[Value]:
    """Yield a value for each constant, for all between two neighbours, and beyond them; and one of each other sort."""
    keys: dict[Sort, set[Any]] = {sort: set() for sort in Sort}
    for constant in constants:
        keys[constant.sort].add(constant.key)
    yield from _OTHERS
    yield from _numbers(sorted(keys[Sort.NUMBER] or {Fraction(0)}))
    yield from _strings(sorted(keys[Sort.STRING]))
    for moment in _steps(keys[Sort.MOMENT]):
        yield Value(_moment_text(moment), _NO_MEMBER, "dyn(timestamp({}))")
    for span in _steps(keys[Sort.SPAN]):
        yield Value(_span_text(span), _NO_MEMBER, "dyn(duration({}))")


def _numbers(keys: list[Fraction]) -> Iterator[Value]:
    for key in keys:
        yield from _number(key)
    for low, high in pairwise(keys):
        middle = Fraction(float((low + high) / 2))
        for between in (middle, Fraction(math.floor(low) + 1)):
            if low < between < high:
                yield from _number(between)
    for edge in (Fraction(math.floor(keys[0]) - 1), Fraction(math.ceil(keys[-1]) + 1)):
        yield from _number(edge)
    for far in (-(2**63), 2**63, -1e300, 1e300):
        yield Value(far, _WHOLE)
    yield from (Value(-math.inf, _NUMBER), Value(math.inf, _NUMBER))


def _number(number: Fraction) -> Iterator[Value]:
    """Yield a number as each type that has it."""
    if number.denominator != 1:
        yield Value(float(number), _NUMBER)
        return
    yield from (Value(int(number), _WHOLE), Value(float(number), _WHOLE))
    if number >= 0:
        yield Value(int(number), _NO_MEMBER, "dyn(uint({}))")


def _strings(keys: list[str]) -> Iterator[Value]:
    """Yield texts: nothing lies between a text and that text with the first of all characters after it."""
    for text in dict.fromkeys(["", *keys, *(f"{key}{_FIRST_CHARACTER}" for key in keys)]):
        yield Value(text, frozenset({"string"}))


def _steps(keys: set[int]) -> list[int]:
    return sorted({key + step for key in keys or {0} for step in (-1, 0, 1)})


def _moment_text(nanoseconds: int) -> str:
    seconds, fraction = divmod(nanoseconds, NANOSECONDS)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09}Z"


def _span_text(nanoseconds: int) -> str:
    seconds, fraction = divmod(abs(nanoseconds), NANOSECONDS)
    return f"{'-' if nanoseconds < 0 else ''}{seconds}.{fraction:09}s"
