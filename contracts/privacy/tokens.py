"""Tokens that replace values: keyed hashes, equal for equal values.

Without the key, guessed values cannot be verified by computing their tokens.

Source: HMAC (RFC 2104) with SHA-256.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Self

import orjson

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.formats.column_values import json_text
from tidegate.contracts.rules.values import exact

LEAST_CHARACTERS: Final = 32
_ID_CHARACTERS: Final = 8
_MOST_DIGITS: Final = 400
"""Maximum number of digits that a number is written out with, more than those of any double."""
_MADE_FOR_ID: Final = b"tidegate mask key id"


@dataclass(frozen=True, slots=True)
class MaskKey:
    """The secret key of tokens. Every token begins with `id`, which distinguishes keys and reveals nothing else."""

    secret: bytes = field(repr=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        made = hmac.digest(self.secret, _MADE_FOR_ID, "sha256").hex()[:_ID_CHARACTERS]
        object.__setattr__(self, "id", made)

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the key for a text. Raises SettingsError for a text with fewer than LEAST_CHARACTERS characters."""
        if len(text) < LEAST_CHARACTERS:
            raise SettingsError(
                f"TIDEGATE_MASK_KEY has {len(text)} characters and needs at least {LEAST_CHARACTERS}; make one with "
                "`openssl rand -hex 32`"
            )
        return cls(text.encode())

    def token(self, value: Any) -> str:
        """Return the token for a value that is not null: `<key id>:<64 hexadecimal digits>`.

        Equal numbers have equal tokens in any notation. Strings, numbers, booleans and bytes with the same characters
        have different tokens.
        """
        return f"{self.id}:{hmac.digest(self.secret, _encoded(value), 'sha256').hex()}"

    def token_of_key(self, key: bytes) -> bytes:
        """Return the token for a record's key, which is hashed as text if it is UTF-8, else as bytes."""
        try:
            return self.token(key.decode()).encode()
        except UnicodeDecodeError:
            return self.token(key).encode()


def _encoded(value: Any) -> bytes:
    match value:
        case str():
            return b"text:" + value.encode("utf-8", "surrogatepass")
        case bool():
            return b"boolean:" + (b"true" if value else b"false")
        case int() | float() | Decimal():
            return b"number:" + _number(value)
        case bytes():
            return b"bytes:" + value
        case _:
            return b"json:" + _canonical(value)


def _number(value: float | Decimal) -> bytes:
    """Return a number in canonical form: digits without leading and trailing zeros, and an exponent."""
    number = exact(value)
    if isinstance(number, float):  # an infinity or NaN
        return str(number).encode()
    sign, digits, exponent = Decimal(number).as_tuple()
    whole = "".join(map(str, digits)).lstrip("0")
    bare = whole.rstrip("0")
    if not bare or not isinstance(exponent, int):
        return b"0"
    return f"{'-' if sign else ''}{bare}e{exponent + len(whole) - len(bare)}".encode()


def _canonical(value: Any) -> bytes:
    """Return an object or array as JSON with sorted keys, and with one form for equal numbers."""
    plain = _plain(value)
    try:
        return orjson.dumps(plain)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits, a Decimal, bytes
        return (json_text(plain) or "").encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(value[name]) for name in sorted(value)}
        case list():
            return [_plain(item) for item in value]
        case bool():
            return value
        case int() | float() | Decimal():
            return _plain_number(value)
        case _:
            return value


def _plain_number(value: float | Decimal) -> int | float | Decimal:
    """Return a number as an integer, else as a double, else as a Decimal without trailing zeros."""
    number = Decimal(_number(value).decode())
    if not number.is_finite():
        return value
    if abs(number.adjusted()) > _MOST_DIGITS:
        return number
    if number == number.to_integral_value():
        return int(number)
    double = float(number)
    return double if Decimal(repr(double)) == number else number
