"""A walk over a JSON text that finds the positions of its parts. Any bytes are accepted; errors are events.

`json` and `orjson` return values without positions, and nothing for a broken text. A page that marks the offending
place needs positions, also in broken texts. The walk does not recurse, so deep texts are safe. It continues after
errors that a reader can skip (a bad escape, NaN, a raw control character), to find as many positions as possible.

Source: RFC 8259.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import orjson


class JsonEvent(IntEnum):
    """The kinds of events."""

    KEY = 1
    SCALAR = 2
    OPEN = 3
    CLOSE = 4
    SEPARATOR = 5
    """A comma or colon; never yielded."""
    FLAW = 6
    """Not JSON, but skippable: the part itself follows as a separate event."""
    STOP = 7
    """The text is invalid from here on; always the last event."""


class Event(NamedTuple):
    """One part of the text: bytes `start` to `end` (half open); `reason` says why, for FLAW and STOP."""

    part: JsonEvent
    start: int
    end: int
    reason: str = ""


_END_OF_RUN = rb'(?=[ \t\n\r,:\[\]{}"]|\Z)'
_TOKEN = re.compile(
    rb"[ \t\n\r]*+(?:"
    rb'("(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+")'
    rb"|((?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)" + _END_OF_RUN + rb")"
    rb"|(,)|(:)|([{\[])|([}\]])"
    rb'|("(?:[^"\\]|\\.)*+")'
    rb'|([^ \t\n\r,:\[\]{}"]++)'
    rb'|("))',
    re.DOTALL,
)
_STRING, _SCALAR, _COMMA, _COLON, _OPEN, _CLOSE, _ODD_STRING, _RUN, _OPEN_STRING = range(1, 10)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OBJECT = ord("{")
_QUOTE = ord('"')
_OPENING = frozenset(b"{[")
_FLAWED = frozenset({_ODD_STRING, _RUN})
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)


_VALUE, _VALUE_OR_CLOSE, _KEY_OR_CLOSE, _KEY, _AFTER_KEY, _AFTER_VALUE, _NOTHING = range(7)
"""The states of the walk, by the tokens that may come next."""
_EXPECTED = {
    _VALUE: "a value is expected here",
    _VALUE_OR_CLOSE: "a value or ] is expected here",
    _KEY_OR_CLOSE: "a property name in quotes or } is expected here",
    _KEY: "a property name in quotes is expected here",
    _AFTER_KEY: "a : is expected here",
    _AFTER_VALUE: "a comma or a closing bracket is expected here",
    _NOTHING: "the value is complete, but more text follows",
}
_A_VALUE = {
    _STRING: JsonEvent.SCALAR,
    _ODD_STRING: JsonEvent.SCALAR,
    _SCALAR: JsonEvent.SCALAR,
    _RUN: JsonEvent.SCALAR,
    _OPEN: JsonEvent.OPEN,
}
_A_KEY = {_STRING: JsonEvent.KEY, _ODD_STRING: JsonEvent.KEY}
_GRAMMAR: dict[int, dict[int, JsonEvent]] = {
    _VALUE: _A_VALUE,
    _VALUE_OR_CLOSE: {**_A_VALUE, _CLOSE: JsonEvent.CLOSE},
    _KEY_OR_CLOSE: {**_A_KEY, _CLOSE: JsonEvent.CLOSE},
    _KEY: _A_KEY,
    _AFTER_KEY: {_COLON: JsonEvent.SEPARATOR},
    _AFTER_VALUE: {_COMMA: JsonEvent.SEPARATOR, _CLOSE: JsonEvent.CLOSE},
    _NOTHING: {},
}
"""The part that a token is, by state and token; no entry: the text is invalid."""


class Walk:
    """The parts of `data` in order of position; the last is STOP if it is not a complete JSON text."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._skip_to = 0

    def skip_to(self, position: int) -> None:
        """Continue at `position`, the closing bracket of the current object or array, and skip its content."""
        self._skip_to = position

    def __iter__(self) -> Iterator[Event]:
        data = self._data
        stack = bytearray()
        expected = _VALUE
        position = 0
        if data.startswith(_BYTE_ORDER_MARK):
            position = len(_BYTE_ORDER_MARK)
            yield Event(JsonEvent.FLAW, 0, position, "a byte order mark stands before the value")
        while token := _TOKEN.match(data, position):
            kind = token.lastindex or 0
            start, position = token.span(kind)
            part = _GRAMMAR[expected].get(kind)
            # `{` and `}`, `[` and `]` are two apart in ASCII.
            if part is None or (part is JsonEvent.CLOSE and data[start] != stack[-1] + 2):
                yield _stop(data, kind, start, position, expected)
                return
            if kind in _FLAWED:
                yield Event(JsonEvent.FLAW, start, position, _flaw(data[start:position]))
            if part is not JsonEvent.SEPARATOR:
                yield Event(part, start, position)
            if part is JsonEvent.OPEN:
                stack.append(data[start])
            elif part is JsonEvent.CLOSE:
                stack.pop()
            expected = _next(part, kind, stack)
            position = max(position, self._skip_to)
        if expected != _NOTHING:
            yield Event(JsonEvent.STOP, len(data), len(data), "the record ends before its value is complete")


def is_json(data: bytes) -> bool:
    """Return whether `data` is JSON for every reader; False also for texts on which readers disagree."""
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def closing(data: bytes, position: int) -> int:
    """Return the position of the bracket that closes the one just before `position`, in a text that is JSON."""
    depth = 1
    for token in _BRACKET.finditer(data, position):
        bracket = data[token.start()]
        if bracket in _OPENING:
            depth += 1
        elif bracket != _QUOTE:
            depth -= 1
            if not depth:
                return token.start()
    return len(data)


def _next(part: JsonEvent, kind: int, stack: bytearray) -> int:
    """Return the state after a part; `stack` has the brackets that are open after it."""
    if part is JsonEvent.KEY:
        return _AFTER_KEY
    if kind == _COLON:
        return _VALUE
    if kind == _COMMA:
        return _KEY if stack[-1] == _OBJECT else _VALUE
    if part is JsonEvent.OPEN:
        return _KEY_OR_CLOSE if stack[-1] == _OBJECT else _VALUE_OR_CLOSE
    return _AFTER_VALUE if stack else _NOTHING


def _stop(data: bytes, kind: int, start: int, end: int, expected: int) -> Event:
    if kind == _OPEN_STRING:
        return Event(JsonEvent.STOP, start, len(data), "the record ends inside this string")
    return Event(JsonEvent.STOP, start, end, _EXPECTED[expected])


def _flaw(text: bytes) -> str:
    if text[:1] == b'"':
        if re.search(rb"[\x00-\x1f]", text):
            return "a raw control character stands in this string"
        return "an escape in this string is not one of JSON's"
    if text.lstrip(b"+-").lower() in {b"nan", b"inf", b"infinity"}:
        return "JSON has no value for not-a-number or infinity"
    return "this is not a JSON value"
