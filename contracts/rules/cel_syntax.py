"""The syntax tree of a compiled CEL expression, read from the library's serialized form, with macros expanded.

Only nodes that a lowering supports are distinguished; any other node is None. Source: cel-spec, `cel/expr/syntax.proto`
and `checked.proto`; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidegate.contracts.rules.places import ANYWHERE, EACH, Path

_DOUBLE: Final = struct.Struct("<d")
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_ANY_VALUE = 2
_CHECKED_EXPR = 4
_FOLD_NAMES: Final = (1, 3, 8)
_FOLD_PARTS: Final = (2, 4, 5, 6, 7)


@dataclass(frozen=True, slots=True)
class Const:
    """A constant: null, a boolean, an integer, a double or a string."""

    value: Any


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A member of a map; with `is_test`, whether the member exists, as in `has(a.b)`."""

    operand: Node
    field: str
    is_test: bool


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function or operator, by CEL's internal name; the receiver, if any, is the first argument."""

    function: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """A list literal."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapLiteral:
    """A map literal: its keys and values."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """The expansion of a macro over a list or map.

    `names` are the variables of the element and of the accumulator. `parts` are the range, the accumulator's initial
    value, the loop condition, the loop step, and the result.
    """

    names: tuple[str, ...]
    parts: tuple[Node, ...]


Node = Const | Ident | Select | FunctionCall | ListLiteral | MapLiteral | Fold | None
"""A node of the tree; None for a node that no lowering supports."""


def syntax_of(expression: Any) -> Node:
    """Return the tree of an expression that the library has compiled."""
    checked = _last(expression.serialize(), _ANY_VALUE)
    return _node(_last(checked, _CHECKED_EXPR))


def _node(data: bytes) -> Node:  # noqa: PLR0911 - one for each node
    for field, value in _fields(data):
        match field:
            case 3:
                return _const(value)
            case 4:
                return Ident(_last(value, 1).decode())
            case 5:
                is_test = any(number == 3 and flag for number, flag in _fields(value))
                return Select(_node(_last(value, 1)), _last(value, 2).decode(), is_test)
            case 6:
                args = [_node(part) for number, part in _fields(value) if number in {1, 3}]
                return FunctionCall(_last(value, 2).decode(), tuple(args))
            case 8:
                entries = [part for number, part in _fields(value) if number == 2]
                return MapLiteral(
                    tuple(_node(part) for each in entries for at, part in _fields(each) if at in {3, 4})
                )
            case 9:
                return _fold(value)
            case 7:
                if any(number == 2 for number, _ in _fields(value)):  # optional items
                    return None
                return ListLiteral(tuple(_node(part) for number, part in _fields(value) if number == 1))
    return None


def _fold(data: bytes) -> Node:
    fields = dict(_fields(data))
    names = tuple(fields[number].decode() for number in _FOLD_NAMES if number in fields)
    return Fold(names, tuple(_node(fields[number]) for number in _FOLD_PARTS if number in fields))


def _const(data: bytes) -> Node:
    for field, value in _fields(data):
        match field:
            case 1:
                return Const(None)
            case 2:
                return Const(bool(value))
            case 3:
                return Const(value - 2**64 if value >= 2**63 else value)
            case 5:
                return Const(_DOUBLE.unpack(value)[0])
            case 6:
                return Const(value.decode())
    return None


def _last(data: bytes, field: int) -> bytes:
    """Return the bytes of the last occurrence of a field; empty without one."""
    found = [value for number, value in _fields(data) if number == field]
    return found[-1] if found else b""


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each field of a message: an int, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        else:
            length = 8 if kind == _FIXED64 else 4
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7


@dataclass(frozen=True, slots=True)
class Roots:
    """The paths of an expression's variables: the record; for a rule about a field also `value` and `parent`.

    The expression is evaluated only if the value exists and is not null.
    """

    value: Path = ()
    parent: Path = ()

    def path(self, node: Node) -> Path | None:
        """Return the path of a node that is the record or a member of it; None for any other node."""
        match node:
            case Ident("this"):
                return ()
            case Ident("value") if self.value:
                return self.value
            case Ident("parent") if self.value:
                return self.parent
            case Select(operand, field, False):
                holder = self.path(operand)
            case FunctionCall("_[_]", (operand, Const(str(field)))):
                holder = self.path(operand)
            case _:
                return None
        # Readers of paths do not take a token of digits, `*` or `**` as a name; the library does not take U+0000.
        is_name = not field.isdigit() and field not in {EACH, ANYWHERE} and "\0" not in field
        return None if holder is None or not is_name else (*holder, field)

    def paths(self, node: Node) -> frozenset[Path]:
        """Return the paths of the record that an expression reads."""
        if (path := self.path(node)) is not None:
            return frozenset({path}) if path else frozenset()
        match node:
            case Select(operand, field):
                holder = self.path(operand)
                return frozenset() if holder is None else frozenset({(*holder, field)})
            case FunctionCall(_, args) | ListLiteral(args):
                return frozenset().union(*(self.paths(arg) for arg in args))
            case _:
                return frozenset()

    def holders(self, node: Node) -> frozenset[Path]:
        """Return the paths that an expression uses as a list or map, in `size` or `in`."""
        match node:
            case FunctionCall("size", (operand,)) | FunctionCall("@in", (_, operand)) if path := self.path(
                operand
            ):
                return frozenset({path})
            case FunctionCall(_, args):
                return frozenset().union(*(self.holders(arg) for arg in args))
            case _:
                return frozenset()
