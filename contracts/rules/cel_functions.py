"""Functions on text that Confluent's clients add to CEL: tests of formats, and the strings extension.

The tests of formats are those of Confluent's Python client, which uses Python's standard library. The strings extension
is that of the Java and Go clients; a position counts characters, not UTF-16 units. Each call costs one iteration, and one
more for every 1,024 characters that it reads, or that `replace` and `join` write. So all work of an expression counts
against a budget.

Source: confluent-kafka-python 2.16, `schema_registry/rules/cel/extra_func.py`; cel-go, `ext/strings.go`.
"""

from __future__ import annotations

import string
import threading
import uuid
from collections.abc import Callable, Sequence
from email.utils import parseaddr
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final
from urllib.parse import urlparse

from cel_expr_python import cel
from google.protobuf.wrappers_pb2 import StringValue

MAX_ITERATIONS: Final = 10_000
"""Maximum iterations of all macros in one evaluation: the default of the library, which its API cannot change."""
EXHAUSTED: Final = "Iteration budget exceeded"
"""Text in the errors about too many iterations, both of the library and of the functions here."""
_CHARACTERS_PER_ITERATION: Final = 1_024
_MAX_CHARACTERS: Final = MAX_ITERATIONS * _CHARACTERS_PER_ITERATION
_MAX_HOSTNAME, _MAX_LABEL, _MAX_EMAIL, _MAX_LOCAL_PART = 253, 63, 254, 64
_LABEL: Final = frozenset(string.ascii_letters + string.digits + "-")
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_WHITE_SPACE: Final = (
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
"""Unicode whitespace. `str.strip` without arguments would also remove U+001C to U+001F."""
# The library cuts the result of a Python function declared as STRING at U+0000. It reads a wrapped string completely.
_TEXT: Final = cel.Type("google.protobuf.StringValue")


class _Spent(threading.local):
    """The characters that functions have read and written in this evaluation, plus 1,024 per call; thread-local."""

    characters: int = 0


_spent = _Spent()


def begin() -> None:
    """Reset the budget at the start of an evaluation."""
    _spent.characters = 0


def _spend(characters: int) -> None:
    """Count a call and its characters.

    Raises ValueError if the budget is exceeded; the library turns it into an error of the expression.
    """
    _spent.characters += _CHARACTERS_PER_ITERATION + characters
    if _spent.characters > _MAX_CHARACTERS:
        raise ValueError(f"{EXHAUSTED} by functions on text")


def _is_hostname(host: str) -> bool:
    if not host or len(host) > _MAX_HOSTNAME:
        return False
    labels = host.removesuffix(".").split(".")
    if not all(
        0 < len(label) <= _MAX_LABEL
        and label[0] != "-"
        and label[-1] != "-"
        and all(character in _LABEL for character in label)
        for label in labels
    ):
        return False
    return not labels[-1].isdigit()


def _is_email(address: str) -> bool:
    # Checking the length first bounds the work of the parser.
    if len(address) > _MAX_EMAIL or parseaddr(address)[1] != address:
        return False
    parts = address.split("@")
    return len(parts) == 2 and len(parts[0]) <= _MAX_LOCAL_PART and _is_hostname(parts[1])


def _is_uri(text: str) -> bool:
    parsed = urlparse(text)
    return bool(parsed.scheme and parsed.netloc and parsed.path)


def _is_uri_reference(text: str) -> bool:
    parsed = urlparse(text)
    return bool((parsed.scheme and parsed.path) or not parsed.fragment)


def _reads(kind: Callable[[Any], object]) -> Callable[[Any], bool]:
    """Return the test whether a constructor of the standard library accepts a value."""

    def test(value: Any) -> bool:
        try:
            kind(value)
        except ValueError:
            return False
        return True

    return test


def _index_of(text: str, part: str) -> int:
    return text.find(part)


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= last <= len(text):
        raise ValueError(f"substring from {start} to {last} of {len(text)} characters")
    return text[start:last]


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _replace(text: str, old: str, new: str) -> str:
    # Count before replacing, because the result may contain the new text once for each character.
    _spend(text.count(old) * len(new))
    return text.replace(old, new)


def _join(parts: Sequence[Any], separator: str = "") -> str:
    for part in parts:
        if not isinstance(part, str):
            raise ValueError("join of a list with a value that is not a text")  # noqa: TRY004 - the library expects it
    _spend(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        _spend(sum(len(each) for each in arguments if not isinstance(each, int)))
        result = function(*arguments)
        if isinstance(result, list):
            return [StringValue(value=part) for part in result]
        return StringValue(value=result) if isinstance(result, str) else result

    return call


_TESTS: Final[dict[str, Callable[[Any], bool]]] = {
    "isEmail": _is_email,
    "isHostname": _is_hostname,
    "isIpv4": _reads(IPv4Address),
    "isIpv6": _reads(IPv6Address),
    "isUri": _is_uri,
    "isUriRef": _is_uri_reference,
    "isUuid": _reads(uuid.UUID),
}
_STRING, _INT, _DYN = cel.Type.STRING, cel.Type.INT, cel.Type.DYN
_MEMBERS: Final[dict[str, tuple[Any, Callable[..., Any], tuple[tuple[Any, ...], ...]]]] = {
    "lowerAscii": (_TEXT, lambda text: text.translate(_LOWER), ((_STRING,),)),
    "upperAscii": (_TEXT, lambda text: text.translate(_UPPER), ((_STRING,),)),
    "trim": (_TEXT, lambda text: text.strip(_WHITE_SPACE), ((_STRING,),)),
    "indexOf": (_INT, _index_of, ((_STRING, _STRING),)),
    "substring": (_TEXT, _substring, ((_STRING, _INT), (_STRING, _INT, _INT))),
    "replace": (_TEXT, _replace, ((_STRING, _STRING, _STRING),)),
    "split": (cel.Type.List(_TEXT), _split, ((_STRING, _STRING),)),
    "join": (_TEXT, _join, ((cel.Type.List(_DYN),), (cel.Type.List(_DYN), _STRING))),
}
"""Functions by name: result type, function, and the argument types of each overload, receiver first."""


@cache
def declarations() -> tuple[Any, ...]:
    """Return the declarations of the functions for the library."""
    tests = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{is_member}", cel.Type.BOOL, [_STRING], is_member, _counted(test))
                for is_member in (True, False)
            ],
        )
        for name, test in _TESTS.items()
    ]
    members = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{index}", result, list(parameters), True, _counted(function))
                for index, parameters in enumerate(signatures)
            ],
        )
        for name, (result, function, signatures) in _MEMBERS.items()
    ]
    return (*tests, *members)
