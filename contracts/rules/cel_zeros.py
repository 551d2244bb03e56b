"""Records with the character U+0000 as the CEL library has to be given them.

To CEL it is a character like any other (cel-spec, "Language Definition": a string is a sequence of code points). The
library's binding for Python reads a `str` or `bytes` up to its first zero, and two names that are alike up to there
make a map that it refuses. A message of the wrapper types is read whole, and is to CEL the string or the bytes that it wraps.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

_ZERO: Final = "\0"
_WRITTEN: Final = b"\\u0000"
"""How JSON has it."""
_NO_CHARACTER: Final = "\ufffe"
"""Stands for it in names, where no message can: a noncharacter, which no text means."""


def whole(variables: dict[str, Any]) -> dict[str, Any]:
    """Return variables of which the library reads every text to its end; the same object where it does so anyway.

    A member whose name holds U+0000 keeps its place under a name that no expression knows.
    """
    return _whole(variables) if _may_hold_zero(variables) else variables


def names_it(name: str) -> bool:
    """Return whether a name is one that no expression can find."""
    return _ZERO in name


def _may_hold_zero(variables: dict[str, Any]) -> bool:
    try:
        return _WRITTEN in orjson.dumps(variables, default=_shown)
    except TypeError:  # such as an integer beyond 64 bits
        return True


def _shown(value: Any) -> str | None:
    """Stand for what JSON does not have: bytes, and numbers beyond a double."""
    return _ZERO if isinstance(value, bytes) and 0 in value else None


def _whole(value: Any) -> Any:
    match value:
        case str() if _ZERO in value:
            return StringValue(value=value)
        case bytes() if 0 in value:
            return BytesValue(value=value)
        case dict():
            return _renamed({name: _whole(member) for name, member in value.items()})
        case list():
            return [_whole(item) for item in value]
        case _:
            return value


def _renamed(members: dict[str, Any]) -> dict[str, Any]:
    if not any(_ZERO in name for name in members):
        return members
    found = {name: member for name, member in members.items() if _ZERO not in name}
    for name, member in members.items():
        if _ZERO in name:
            other = name.replace(_ZERO, _NO_CHARACTER)
            while other in found:
                other += _NO_CHARACTER
            found[other] = member
    return found
