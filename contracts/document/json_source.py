"""A JSON reader that keeps positions. It is strict, exact and bounded. Source: RFC 8259."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import NoReturn

from tidegate.contracts.document.source import (
    MAX_DEPTH,
    Leaf,
    Node,
    Place,
    SourceDocument,
    SourceEntries,
    SourceItems,
    exact_number,
    resolve,
    syntax_error,
)

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_]+")
_CONSTANTS = {"true": True, "false": False, "null": None}


def read_json(name: str, text: str) -> SourceDocument:
    """Read one JSON text; `name` is in messages. Raises ContractError unless it is JSON.

    Duplicate keys do not raise: they are in the `problems` of the source.
    """
    return resolve(name, _Reader(name, text).read())


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._at = 0
        self._line_starts = [0, *(match.end() for match in re.finditer(r"\n", text))]

    def read(self) -> Node:
        node = self._node(depth=1)
        self._skip_space()
        if self._at < len(self._text):
            self._fail("text after the end of the JSON value")
        return node

    def _node(self, depth: int) -> Node:
        self._skip_space()
        if depth > MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels")
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._entries(depth)
            case "[":
                return self._items(depth)
            case '"':
                return self._string()
            case _:
                return self._constant()

    def _entries(self, depth: int) -> SourceEntries:
        place = self._take("{")
        pairs: list[tuple[Leaf, Node]] = []
        if self._next_is("}"):
            return SourceEntries(place, pairs)
        while True:
            self._skip_space()
            if not self._text.startswith('"', self._at):
                self._fail("expected a key in double quotes")
            key = self._string()
            self._skip_space()
            self._take(":")
            pairs.append((key, self._node(depth + 1)))
            if self._next_is("}"):
                return SourceEntries(place, pairs)
            self._take(",", or_else="expected `,` or `}`")

    def _items(self, depth: int) -> SourceItems:
        place = self._take("[")
        nodes: list[Node] = []
        if self._next_is("]"):
            return SourceItems(place, nodes)
        while True:
            nodes.append(self._node(depth + 1))
            if self._next_is("]"):
                return SourceItems(place, nodes)
            self._take(",", or_else="expected `,` or `]`")

    def _string(self) -> Leaf:
        place = self._place()
        match = _STRING.match(self._text, self._at)
        if match is None:
            self._fail("a string that is not closed, or holds a raw control character or an unknown escape")
        self._at = match.end()
        text = match.group()
        value = str(json.loads(text)) if "\\" in text else text[1:-1]
        return Leaf(place, value, value)

    def _constant(self) -> Leaf:
        place = self._place()
        if number := _NUMBER.match(self._text, self._at):
            value = exact_number(number.group())
            if value is None:
                self._fail(f"the number {number.group():.40} cannot be kept exactly")
            self._at = number.end()
            return Leaf(place, value, number.group())
        if self._at == len(self._text):
            self._fail("the text ends where a value is expected")
        word = _WORD.match(self._text, self._at)
        if word is None or word.group() not in _CONSTANTS:
            self._fail("expected a JSON value")
        self._at = word.end()
        return Leaf(place, _CONSTANTS[word.group()], word.group())

    def _next_is(self, closing: str) -> bool:
        self._skip_space()
        if self._text.startswith(closing, self._at):
            self._at += 1
            return True
        return False

    def _take(self, token: str, *, or_else: str = "") -> Place:
        place = self._place()
        if not self._text.startswith(token, self._at):
            self._fail(or_else or f"expected `{token}`")
        self._at += 1
        return place

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _place(self) -> Place:
        line = bisect_right(self._line_starts, self._at)
        return Place(line, self._at - self._line_starts[line - 1] + 1)

    def _fail(self, message: str) -> NoReturn:
        raise syntax_error(self._name, self._place(), f"not JSON: {message}")
