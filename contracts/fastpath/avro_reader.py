"""Quick readers of Avro: the reader of a schema node, generated as one function.

A quick reader never rejects a payload itself. It returns the record that the strict reader returns, or raises one of
DOUBTS; then the strict reader decides. Rare or deep values (long arrays, recursive records, wide integers) are read by
the strict reader for that place. Bounds are checked once, at the end: a string whose length exceeds the payload is cut
short, and the final position then differs from the end.

Only literals of a schema enter the generated code, as `ascii` writes them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from tidegate.contracts.fastpath.code_writer import FALSE, CodeWriter
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.formats.avro_decoder import (
    MALFORMED,
    Reader,
    as_float,
    compile_reader,
    read_int,
    read_long,
)
from tidegate.contracts.formats.avro_nodes import (
    ArrayNode,
    Bounded,
    DecimalNumber,
    FixedBytes,
    Node,
    Plain,
    RecordNode,
    Symbol,
    UnionNode,
    Uuid,
    decimal_value,
)
from tidegate.contracts.formats.avro_types import UUID
from tidegate.contracts.rules.places import Path

QuickReader = Callable[[Any], Any]
"""Takes a payload and returns its record, or raises one of DOUBTS."""

DOUBTS: Final = (*MALFORMED, KeyError, TypeError, ValueError)
"""Errors of a quick reader that leave the record to the strict one; a null raises TypeError."""

QuickTest = Callable[[Any], Any]
"""Takes a payload; a true result proves that its record breaks no rule. A false one or a doubt proves nothing."""

_AT_THE_END: Final = ("if i != len(p): raise Doubt",)
_STEP: Final = " "
_MOST_LINES: Final = 4_000
_DEEPEST: Final = 8
"""Maximum nesting of loops and unions; Python cannot compile more than 20 nested blocks."""


class _DoubtError(KeyError):
    """Something that only the strict reader can decide."""


def compile_quick_reader(node: Node) -> QuickReader:
    """Compile the quick reader of a node."""
    return _Writer(CodeWriter()).reader(node)


def compile_quick_test(node: Node, rules: FastRules) -> QuickTest:
    """Compile the function that reads a node and checks the rules.

    For a record it is one function with fields in variables. Fields that no rule reads are checked as strictly, but no
    object is built for them. Building a dict of the fields that rules read, and looking them up in a second function,
    took 0.7 of 3 µs.
    """
    if rules.reads is not None and isinstance(node, RecordNode) and not node.is_recursive:
        program = _FieldsProgram()
        reading, program.fields = _Writer(program).fields(node, rules.reads)
        if rules.reads <= program.fields.keys():
            rules.write_tests(program)
            return program.function(reading, (), "True", "None")
    read, hold = compile_quick_reader(node), rules.hold
    return lambda payload: hold(read(payload))


class _FieldsProgram(CodeWriter):
    """The writer of a function of a payload; some fields of its record are in variables. No field is ever missing."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}

    def reading(self, path: Path) -> str:
        """Return the expression that reads a path."""
        variable = self.fields[path[0]]
        return variable if len(path) == 1 else f"read({variable}, {self.bind(path[1:])})"

    def missing_here(self, path: Path) -> str:
        """Return the test that the object at the parent of a path lacks the path's last name."""
        return FALSE if len(path) == 1 else super().missing_here(path)

    def null_at(self, path: Path) -> str:
        """Return the test that the value at a path is null."""
        return f"{self.variable(path)} is None" if len(path) == 1 else super().null_at(path)


class _Writer:
    def __init__(self, program: CodeWriter) -> None:
        self._lines: list[str] = []
        self._program = program
        self._bind = program.bind
        program.define(
            Doubt=_DoubtError,
            as_float=as_float,
            decimal_value=decimal_value,
            is_uuid=UUID.fullmatch,
            read_double=struct.Struct("<d").unpack_from,
            read_float=struct.Struct("<f").unpack_from,
            read_int=read_int,
            read_long=_read_wide,
            read_length=_read_length,
        )
        self._variables = 0
        self._blocks = 0
        self._arrays = 0
        self._looks_later = False

    def reader(self, node: Node) -> QuickReader:
        """Build the function that reads a whole payload `p`."""
        result = self._variable()
        self._read(node, result, "", 0)
        body = ["i = 0", *self._lines, *_AT_THE_END, f"return {result}"]
        return self._program.make(("p",), body)

    def fields(self, node: RecordNode, wanted: frozenset[str]) -> tuple[list[str], dict[str, str]]:
        """Return statements that read a payload `record`, and the variables of the `wanted` fields by name."""
        self._looks_later = True
        variables = self._members(node, "", 1, wanted)
        self._look("")
        return ["p = record", "i = s = 0", *self._lines, *_AT_THE_END], variables

    def _write(self, indent: str, *lines: str) -> None:
        self._lines += [indent + line for line in lines]

    def _look(self, indent: str) -> None:
        """Write the check that the skipped strings between `s` and `i` are UTF-8.

        Only lengths and numbers of one byte lie between these strings, and they are ASCII. No character can extend
        across them, so the whole is UTF-8 if and only if each string is.
        """
        if self._looks_later:
            self._write(indent, "if not p[s:i].isascii(): p[s:i].decode()")

    def _go_on(self, indent: str) -> None:
        if self._looks_later:
            self._write(indent, "s = i")

    def _variable(self) -> str:
        self._variables += 1
        return f"r{self._variables}"

    def _read(self, node: Node, to: str | None, indent: str, depth: int) -> None:  # noqa: C901 - a table
        """Write the code that reads a value into the variable `to`; with None the value is only checked."""
        if self._blocks >= _DEEPEST or len(self._lines) > _MOST_LINES:
            self._strictly(node, to, indent, depth)
            return
        match node:
            case Plain():
                self._plain(node, to, indent)
            case Bounded():
                value = to or self._variable()
                self._plain(node.inner, value, indent)
                self._write(indent, f"if not 0 <= {value} < {node.limit}: raise Doubt")
            case Uuid():
                value = to or self._variable()
                self._plain(node.inner, value, indent)
                self._write(indent, f"if is_uuid({value}) is None: raise Doubt")
            case FixedBytes():
                self._look(indent)
                self._write(indent, *([f"{to} = p[i:i + {node.size}]"] if to else []), f"i += {node.size}")
                self._go_on(indent)
            case DecimalNumber():
                self._decimal(node, to, indent, depth)
            case Symbol():
                known = {2 * at: name for at, name in enumerate(node.symbols) if name is not None and at < 64}
                self._write(indent, f"{to or 'b'} = {self._bind(known)}[p[i]]", "i += 1")
            case ArrayNode(free_values=None):
                self._array(node, to, indent, depth)
            case UnionNode():
                self._union(node, to, indent, depth)
            case RecordNode() if not node.is_recursive:
                self._record(node, to, indent, depth + 1)
            case _:
                self._strictly(node, to, indent, depth)

    def _strictly(self, node: Node, to: str | None, indent: str, depth: int) -> None:
        self._look(indent)
        self._write(indent, f"{to or 'b'}, i = {self._bind(self._strict(node))}(p, i, {depth})")
        self._go_on(indent)

    def _strict(self, node: Node) -> Reader:
        return compile_reader(node, is_repeated=self._arrays > 0)

    def _plain(self, node: Plain, to: str | None, indent: str) -> None:
        match node.kind:
            case "null":
                self._write(indent, f"{to or 'b'} = None")
            case "boolean":
                self._write(indent, "b = p[i]", "if b > 1: raise Doubt", "i += 1")
                if to:
                    self._write(indent, f"{to} = b == 1")
            case "int" | "long":
                self._integer(node, to or "b", indent)
            case "float" | "double":
                size = 4 if node.kind == "float" else 8
                self._look(indent)
                self._write(indent, f"({to or 'b'},) = read_{node.kind}(p, i)", f"i += {size}")
                self._go_on(indent)
            case _:
                self._text(node, to, indent)

    def _integer(self, node: Plain, to: str, indent: str) -> None:
        self._write(
            indent,
            "b = p[i]",
            f"if b < 128: {to} = b >> 1 ^ -(b & 1); i += 1",
            "else:",
        )
        self._look(indent + _STEP)
        self._write(
            indent,
            " c = p[i + 1]",
            f" if c < 128: {to} = (b & 127 | c << 7) >> 1 ^ -(b & 1); i += 2",
            " else:",
            "  d = p[i + 2]",
            f"  if d < 128: {to} = (b & 127 | (c & 127) << 7 | d << 14) >> 1 ^ -(b & 1); i += 3",
            f"  else: {to}, i = read_{node.kind}(p, i)",
        )
        self._go_on(indent + _STEP)
        if node.to:
            self._write(indent, f"{to} = {'as_float' if node.to == 'float' else 'float'}({to})")

    def _text(self, node: Plain, to: str | None, indent: str) -> None:
        is_text = node.kind == "string" or node.to == "string"
        if to is None and is_text and self._looks_later:
            # A length of one byte is even and below 128.
            self._write(indent, "b = p[i]", "if not b & 129: i += 1 + (b >> 1)", "else:")
            inner = indent + _STEP
            self._look(inner)
            self._write(inner, "e, i = read_length(p, i)", "p[i:e].decode()", "s = i = e")
            return
        if not is_text or node.to == "bytes":
            self._look(indent)
        self._length(indent)
        if to is None:
            if is_text:
                self._write(indent, "if not p[i:e].isascii(): p[i:e].decode()")
        elif node.to == "bytes":
            self._write(indent, f"{to} = p[i:e]", f"if not {to}.isascii(): {to}.decode()")
        else:
            self._write(indent, f"{to} = p[i:e].decode()" if is_text else f"{to} = p[i:e]")
        self._write(indent, "i = e")
        if not is_text or node.to == "bytes":
            self._go_on(indent)

    def _length(self, indent: str) -> None:
        """Write the code that reads a length; afterwards the value begins at `i` and ends at `e`."""
        self._write(indent, "b = p[i]", "if b & 129:")
        self._look(indent + _STEP)
        self._write(indent, " e, i = read_length(p, i)")
        self._go_on(indent + _STEP)
        self._write(indent, "else: i += 1; e = i + (b >> 1)")

    def _decimal(self, node: DecimalNumber, to: str | None, indent: str, depth: int) -> None:
        limit, inner = self._bind(node.limit), indent
        raw = self._variable()
        if to is None and isinstance(node.inner, Plain) and node.inner.kind == "bytes":
            self._look(indent)
            self._length(indent)
            # A number of that many bytes or fewer cannot have too many digits.
            self._write(indent, f"{raw} = p[i:e]", "i = e")
            self._go_on(indent)
            self._write(indent, f"if len({raw}) > {(node.limit.bit_length() - 1) // 8}:")
            inner += _STEP
        else:
            self._read(node.inner, raw, indent, depth)
        self._write(inner, f"b = int.from_bytes({raw}, 'big', signed=True)")
        self._write(inner, f"if not -{limit} < b < {limit}: raise Doubt")
        if to:
            self._write(inner, f"{to} = decimal_value(b, {node.scale})")

    def _array(self, node: ArrayNode, to: str | None, indent: str, depth: int) -> None:
        item = self._variable() if to else None
        self._blocks += 1
        count, strict = self._variable(), self._bind(self._strict(node))
        self._write(indent, f"{count} = p[i]")
        # Arrays of more than 63 items, and blocks with a size in bytes, are read by the strict reader.
        self._write(indent, f"if {count} & 129:")
        self._look(indent + _STEP)
        self._write(indent, f" {to or 'b'}, i = {strict}(p, i, {depth})")
        self._go_on(indent + _STEP)
        self._write(indent, "else:")
        inner = indent + _STEP
        self._write(inner, *([f"{to} = []"] if to else []), f"while {count}:")
        self._write(inner, " i += 1", f" for _ in range({count} >> 1):")
        self._arrays += 1
        self._read(node.item, item, inner + 2 * _STEP, depth + 1)
        self._arrays -= 1
        if to:
            self._write(inner, f"  {to}.append({item})")
        self._write(inner, f" {count} = p[i]", f" if {count} & 129: raise Doubt", "i += 1")
        self._blocks -= 1

    def _union(self, node: UnionNode, to: str | None, indent: str, depth: int) -> None:
        self._blocks += 1
        choice = self._variable()
        self._write(indent, f"{choice} = p[i]", "i += 1")
        word = "if"
        for index, branch in enumerate(node.branches[:64]):
            self._write(indent, f"{word} {choice} == {2 * index}:")
            self._read(branch, to, indent + _STEP, depth)
            word = "elif"
        self._write(indent, "else: raise Doubt" if node.branches else "raise Doubt")
        self._blocks -= 1

    def _record(self, node: RecordNode, to: str | None, indent: str, depth: int) -> None:
        members = self._members(node, indent, depth, None if to else frozenset())
        pairs = (f"{name!a}: {members[name]}" for name in node.names if name in members)
        self._write(indent, f"{to} = {{{', '.join(pairs)}}}" if to else "pass")

    def _members(
        self, node: RecordNode, indent: str, depth: int, wanted: frozenset[str] | None
    ) -> dict[str, str]:
        """Write the code that reads a record's fields; return the variables by name.

        Fields that are not in `wanted` are only checked; with None all fields are read.
        """
        members: dict[str, str] = {}
        for name, inner in node.steps:
            is_wanted = name is not None and (wanted is None or name in wanted)
            variable = self._variable() if is_wanted else None
            self._read(inner, variable, indent, depth)
            if name is not None and variable is not None:
                members[name] = variable
        for name, default in node.defaults.items():
            if wanted is None or name in wanted:
                members[name] = self._bind(default)
        return members


def _read_length(payload: bytes, position: int) -> tuple[int, int]:
    """Read a length of several bytes; return the end and the start of the value. A negative one raises Doubt."""
    length, position = read_long(payload, position)
    if length < 0:
        raise _DoubtError
    return position + length, position


def _read_wide(payload: bytes, position: int) -> tuple[int, int]:
    """Read a long of more than three bytes, such as a timestamp; return it and the next position.

    It is fast up to eight bytes.
    """
    b, c, d, e = payload[position : position + 4]
    number = b & 127 | (c & 127) << 7 | (d & 127) << 14 | (e & 127) << 21
    position += 4
    if e > 127:
        for shift in (28, 35, 42, 49):
            e = payload[position]
            position += 1
            number |= (e & 127) << shift
            if e < 128:
                break
        else:
            return read_long(payload, position - 8)
    return number >> 1 ^ -(number & 1), position
