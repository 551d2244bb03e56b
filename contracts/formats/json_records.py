"""JSON records, decoded exactly.

Two paths, one meaning. The fast path is orjson. What orjson would change or refuse although it is JSON (integers from
2^64 on, fractions beyond a double, 1e400) is found by its bytes and decoded with `int` and `Decimal` instead. A float
stands for the shortest decimal number that reads back as it, which is what was written.

Source: RFC 8259; section 9 allows limits on nesting and numbers, section 8.2 calls lone surrogates unpredictable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.formats.number_scan import suspect_rows
from tidegate.contracts.formats.payload import NO_PAYLOAD
from tidegate.contracts.verdict import Severity, Stage, Violation

MAX_DEPTH: Final = 254
"""Deepest nesting of a record: orjson writes nothing deeper, and jsonschema-rs cannot say what is wrong with it."""

_LONG_FRACTION: Final = "|".join(rf"[0-9]{{{whole},}}\.[0-9]{{{16 - whole}}}" for whole in range(1, 17))
_INEXACT: Final = rf"(?:^|[\s:,\[])-?(?:[0-9]+(?:\.[0-9]+)?[eE]|[0-9]{{19}}|{_LONG_FRACTION})"
"""Finds every number that orjson may change: an exponent, more than 18 digits, a fraction of more than 15 digits.

It also finds some that orjson keeps, and some inside strings.
"""
_FEW: Final = 50
"""Below this many values the sieve for numbers costs more than it saves."""

_NUMBER = re.compile(rb"(?:^|(?<=[\s:,\[]))-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_EXPONENT = re.compile(rb"[eE]")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)", re.DOTALL
)
_MAX_INT_DIGITS: Final = 400
_SURE_DIGITS: Final = 15
_DOUBLE_IS_EXACT: Final = 2**53
_TWO_63: Final = 2**63
_TWO_64: Final = 2**64


def _violation(code: str, message: str) -> Violation:
    return Violation(Stage.DECODE, code, "", Severity.ERROR, message)


FLAT_BYTES: Final = 2 * MAX_DEPTH
"""Each level takes an opening and a closing bracket, so that values this short need no look."""

TOO_DEEP: Final = _violation("json.too-deep", f"is nested deeper than {MAX_DEPTH} levels")
"""What a value is that is nested deeper than MAX_DEPTH."""


def decode_json(values: pa.Array) -> Iterator[Any]:
    """Decode each value of a binary array: the record, or the Violation of stage decode that it is."""
    # The sieve pays for many; a few are looked at one by one.
    is_suspect = may_change_numbers(values) if len(values) >= _FEW else [True] * len(values)
    for value, may_change in zip(values.to_pylist(), is_suspect, strict=True):
        yield decode_value(value, may_change=may_change)


def unsound(
    values: pa.Array, fits: Callable[[Any], bool], holds: Callable[[Any], bool]
) -> Iterator[tuple[int, Any]]:
    """Decode each value and give, with their index, all but the records for which `fits` and `holds` say yes.

    The loop that nearly all records pass: nothing is called here that need not be.
    """
    loads = orjson.loads
    may_change = may_change_numbers(values)
    for index, value in enumerate(values.to_pylist()):
        try:
            record = loads(value)
        except orjson.JSONDecodeError:
            pass
        else:
            if (
                not may_change[index]
                and fits(record)
                and holds(record)
                and (len(value) <= FLAT_BYTES or not _is_too_deep(value, record))
            ):
                continue
        yield index, decode_value(value, may_change=may_change[index])


def decode_value(value: bytes | None, *, may_change: bool) -> Any:
    """Decode one value: the record, or the Violation that it is. `may_change` says that its numbers need a look."""
    if value is None:
        return NO_PAYLOAD
    if may_change and not _keeps_numbers(value):
        return decode_exactly(value)
    try:
        record = orjson.loads(value)
    except orjson.JSONDecodeError:
        return decode_exactly(value)
    return TOO_DEEP if len(value) > FLAT_BYTES and _is_too_deep(value, record) else record


def may_change_numbers(values: pa.Array) -> list[bool]:
    """Return which values hold what looks like a number that orjson may change."""
    found = [False] * len(values)
    rows = suspect_rows(values)
    if rows:
        matches = pc.match_substring_regex(values.take(pa.array(rows)), _INEXACT).to_pylist()
        for row, is_match in zip(rows, matches, strict=True):
            found[row] = is_match
    return found


def _keeps_numbers(value: bytes) -> bool:
    """Return whether orjson keeps all that looks like a number in a value."""
    for token in _NUMBER.findall(value):
        if len(token) <= _SURE_DIGITS and not _EXPONENT.search(token):
            continue
        text = token.decode()
        if text.lstrip("-").isdigit():
            if len(text) > _MAX_INT_DIGITS or not -_TWO_63 <= int(text) < _TWO_64:
                return False
        elif not _is_double(text):
            return False
    return True


def decode_exactly(value: bytes) -> Any:
    """Decode one value whatever it holds: the record, or the Violation of stage decode that it is."""
    if not value:
        return _violation("json.empty", "the value is empty")
    try:
        text = value.decode()
        record = _DECODER.decode(text)
    except (ValueError, InvalidOperation, RecursionError) as error:
        return _REFUSALS.get(type(error), _NOT_JSON)
    if any(match[1] for match in _ESCAPE.finditer(text)):
        return _LONE_SURROGATE
    # No value is nested deeper than it has brackets, and to count those takes less than a walk.
    may_be_deep = text.count("[") + text.count("{") > MAX_DEPTH
    return TOO_DEEP if may_be_deep and _depth_exceeds(record) else record


def _is_too_deep(value: bytes, record: Any) -> bool:
    """Return whether a record that orjson read is nested deeper than MAX_DEPTH."""
    if value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return False
    try:
        orjson.dumps(record)  # a tenth of the time that a walk takes
    except orjson.JSONEncodeError:
        return True
    return False


def _depth_exceeds(record: Any) -> bool:
    """Return whether any record is nested deeper than MAX_DEPTH."""
    level = [record] if isinstance(record, dict | list) else []
    for _ in range(MAX_DEPTH):
        children = (child for node in level for child in (node.values() if type(node) is dict else node))
        level = [child for child in children if type(child) is dict or type(child) is list]
        if not level:
            return False
    return True


class _NotFiniteError(ValueError):
    """NaN or Infinity where JSON wants a number."""


def _refuse_constant(_: str) -> NoReturn:
    raise _NotFiniteError


def _integer(text: str) -> int | Decimal:
    # int() takes quadratic time, and refuses more than 4,300 digits.
    return int(text) if len(text) <= _MAX_INT_DIGITS else Decimal(text)


def _fraction(text: str) -> float | Decimal:
    """Keep a double where it stands for the number that was written, and compares like it."""
    return float(text) if _is_double(text) else Decimal(text)


def _is_double(text: str) -> bool:
    number = float(text)
    if abs(number) >= _DOUBLE_IS_EXACT:
        return False
    if number == 0:  # Decimal does not read every exponent
        return not text.strip("-0.")
    return repr(number) == text or Decimal(repr(number)) == Decimal(text)


_DECODER = json.JSONDecoder(
    parse_int=_integer, parse_float=_fraction, parse_constant=_refuse_constant, strict=True
)


_NOT_JSON: Final = _violation("json.invalid", "is not JSON")
_LONE_SURROGATE: Final = _violation(
    "json.lone-surrogate", "holds half of a surrogate pair (\\ud800 to \\udfff), which is no character"
)
_REFUSALS: Final[dict[type[Exception], Violation]] = {
    UnicodeDecodeError: _violation("json.invalid-utf8", "is not UTF-8"),
    _NotFiniteError: _violation("json.not-finite", "holds NaN or Infinity, which JSON does not have"),
    RecursionError: TOO_DEEP,
    InvalidOperation: _violation(
        "json.number-range", "holds a number whose exponent has more than 18 digits"
    ),
}
