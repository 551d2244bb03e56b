"""JSON records, decoded exactly.

Two paths, one meaning. The fast path is orjson. What orjson would change or refuse although it is JSON (integers from
2^64 on, fractions beyond a double, 1e400) is found by its bytes and decoded with `int` and `Decimal` instead. A float
stands for the shortest decimal number that reads back as it, which is what was written.

Source: RFC 8259; section 9 allows limits on nesting and numbers, section 8.2 calls lone surrogates unpredictable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from contracts.formats.payload import NO_PAYLOAD
from contracts.verdict import Severity, Stage, Violation

MAX_DEPTH: Final = 250
"""Deepest nesting of a record. Deeper ones are refused: every later reader would need as deep a stack."""

_LONG_FRACTION: Final = "|".join(rf"[0-9]{{{whole},}}\.[0-9]{{{16 - whole}}}" for whole in range(1, 17))
_INEXACT: Final = rf"(?:^|[\s:,\[])-?(?:[0-9]+(?:\.[0-9]+)?[eE]|[0-9]{{19}}|{_LONG_FRACTION})"
"""Finds every number that orjson may change: an exponent, more than 18 digits, a fraction of more than 15 digits.

It also finds some that orjson keeps, and some inside strings.
"""

_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)", re.DOTALL
)
_MAX_INT_DIGITS: Final = 400


def decode_json(values: pa.Array) -> Iterator[Any]:
    """Decode each value of a binary array: the record, or the Violation of stage decode that it is."""
    for value, is_suspect in zip(values.to_pylist(), _suspects(values), strict=True):
        if is_suspect:
            yield decode_exactly(value)
            continue
        try:
            yield orjson.loads(value)
        except orjson.JSONDecodeError:
            yield NO_PAYLOAD if value is None else decode_exactly(value)


def decode_exactly(value: bytes) -> Any:
    """Decode one value whatever it holds: the record, or the Violation of stage decode that it is."""
    if not value:
        return _violation("json.empty", "the value is empty")
    if is_too_deep(value):
        return _violation("json.too-deep", f"is nested deeper than {MAX_DEPTH} levels")
    try:
        text = value.decode()
        record = _DECODER.decode(text)
    except (ValueError, InvalidOperation) as error:
        return _REFUSALS.get(type(error), _NOT_JSON)
    if any(match[1] for match in _ESCAPE.finditer(text)):
        return _LONE_SURROGATE
    return record


def is_too_deep(value: bytes) -> bool:
    """Whether a JSON text is nested deeper than MAX_DEPTH."""
    if value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for match in _STRUCTURE.finditer(value):
        token = match[0]
        if token in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token in b"]}":
            depth -= 1
    return False


def _suspects(values: pa.Array) -> list[bool]:
    # A JSON text nested deeper than this has an opening and a closing bracket for each level; one that has not is
    # no JSON and fails on the fast path too.
    deep = pc.greater(pc.binary_length(values), 2 * MAX_DEPTH)
    inexact = pc.match_substring_regex(values, _INEXACT)
    suspects: list[bool] = pc.or_(deep, inexact).to_pylist()
    return suspects


class _NotFiniteError(ValueError):
    """NaN or Infinity where JSON wants a number."""


def _refuse_constant(_: str) -> NoReturn:
    raise _NotFiniteError


def _integer(text: str) -> int | Decimal:
    # int() takes quadratic time, and refuses more than 4,300 digits.
    return int(text) if len(text) <= _MAX_INT_DIGITS else Decimal(text)


def _fraction(text: str) -> float | Decimal:
    """Keep a double where it stands for the number that was written, and compares like it."""
    exact = Decimal(text)
    number = float(text)
    if abs(number) < 2**53 and Decimal(repr(number)) == exact and (number != 0 or not exact):
        return number
    return exact


_DECODER = json.JSONDecoder(
    parse_int=_integer, parse_float=_fraction, parse_constant=_refuse_constant, strict=True
)


def _violation(code: str, message: str) -> Violation:
    return Violation(Stage.DECODE, code, "", Severity.ERROR, message)


_NOT_JSON: Final = _violation("json.invalid", "is not JSON")
_LONE_SURROGATE: Final = _violation(
    "json.lone-surrogate", "holds half of a surrogate pair (\\ud800 to \\udfff), which is no character"
)
_REFUSALS: Final[dict[type[Exception], Violation]] = {
    UnicodeDecodeError: _violation("json.invalid-utf8", "is not UTF-8"),
    _NotFiniteError: _violation("json.not-finite", "holds NaN or Infinity, which JSON does not have"),
    InvalidOperation: _violation(
        "json.number-range", "holds a number whose exponent has more than 18 digits"
    ),
}
