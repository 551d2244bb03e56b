"""Decode JSON records with orjson where it is exact.

orjson changes or rejects some valid JSON: integers from 2^64 on, fractions that a double cannot represent, 1e400. Values
that may contain such numbers are found by a search of their bytes, and are decoded exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.fastpath.number_scan import suspect_rows
from tidegate.contracts.formats.json_records import (
    MAX_DEPTH,
    MAX_INT_DIGITS,
    TOO_DEEP,
    decode_exactly,
    is_double,
)
from tidegate.contracts.formats.payload import NO_PAYLOAD

FLAT_BYTES: Final = 2 * MAX_DEPTH
"""Values up to this length cannot be too deep, because each level needs an opening and a closing bracket."""

_LONG_FRACTION: Final = "|".join(rf"[0-9]{{{whole},}}\.[0-9]{{{16 - whole}}}" for whole in range(1, 17))
_INEXACT: Final = rf"(?:^|[\s:,\[])-?(?:[0-9]+(?:\.[0-9]+)?[eE]|[0-9]{{19}}|{_LONG_FRACTION})"
"""Matches every number that orjson may change: an exponent, more than 18 digits, a fraction of more than 15 digits.

It also matches some numbers that orjson keeps, and some inside strings.
"""
_FEW: Final = 50
"""For fewer values, the bulk search for numbers costs more than it saves."""

_NUMBER = re.compile(rb"(?:^|(?<=[\s:,\[]))-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_EXPONENT = re.compile(rb"[eE]")
_SURE_DIGITS: Final = 15
"""A number of at most this many digits is exact as a double."""
_TWO_63: Final = 2**63
_TWO_64: Final = 2**64


def decode_values(values: pa.Array) -> Iterator[Any]:
    """Yield the record of each value of a binary array, or its Violation."""
    is_suspect = may_change_numbers(values) if len(values) >= _FEW else [True] * len(values)
    for value, may_change in zip(values.to_pylist(), is_suspect, strict=True):
        yield decode_value(value, may_change=may_change)


def suspects(
    values: pa.Array, fits: Callable[[Any], bool], holds: Callable[[Any], bool]
) -> Iterator[tuple[int, Any]]:
    """Yield the index and record (or Violation) of each value, except records that pass `fits` and `holds`.

    Nearly all records take this loop, so its calls are inlined.
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
    """Return the record of a value, or its Violation; `may_change` means that orjson may change its numbers."""
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
    """Return for each value whether it contains text like a number that orjson may change."""
    found = [False] * len(values)
    rows = suspect_rows(values)
    if rows:
        matches = pc.match_substring_regex(values.take(pa.array(rows)), _INEXACT).to_pylist()
        for row, is_match in zip(rows, matches, strict=True):
            found[row] = is_match
    return found


def _keeps_numbers(value: bytes) -> bool:
    """Return whether orjson keeps the exact value of all text that looks like a number."""
    for token in _NUMBER.findall(value):
        if len(token) <= _SURE_DIGITS and not _EXPONENT.search(token):
            continue
        text = token.decode()
        if text.lstrip("-").isdigit():
            if len(text) > MAX_INT_DIGITS or not -_TWO_63 <= int(text) < _TWO_64:
                return False
        elif not is_double(text):
            return False
    return True


def _is_too_deep(value: bytes, record: Any) -> bool:
    """Return whether a record that orjson decoded is nested deeper than MAX_DEPTH."""
    if value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return False
    try:
        orjson.dumps(
            record
        )  # fails at its own limit, which is MAX_DEPTH, in a tenth of the time of a traversal
    except orjson.JSONEncodeError:
        return True
    return False
