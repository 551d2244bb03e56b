"""Masks in Avro's binary encoding: masked values are rewritten, all other bytes are copied.

The result still fits the writer's schema, so consumers can decode it with the same schema id. A token needs a type with
`string`; a redacted or dropped field needs a type with `null`. Only the blocks of arrays and maps with masked values get
new headers. Masks are applied along the nodes with which the judge reads the data, so both agree which field of the
contract a written value is.

Source: Apache Avro 1.12 specification, "Binary encoding".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.document.model import Mask
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.formats.avro_decoder import MalformedError, compile_reader, read_long
from tidegate.contracts.formats.avro_nodes import (
    ArrayNode,
    MapNode,
    Node,
    Plain,
    RecordNode,
    UnionNode,
    UnreadableData,
)
from tidegate.contracts.formats.avro_types import Array, AvroType, Map, Primitive, Record, Union
from tidegate.contracts.privacy.classes import ANY, PointerNode, following
from tidegate.contracts.privacy.masks import Masks, leads_into_arrays, strongest

Copier = Callable[[bytes, int, int, bytearray], int]
"""Copies one value and applies its masks.

Takes the payload, the position, the depth and the output buffer; returns the position after the value. Raises the same
errors as readers for malformed bytes.
"""


_read_text: Final = compile_reader(Plain("string"))


def compile_avro_masks(writer: AvroType, node: Node, masks: Masks) -> Callable[[bytes], bytes]:
    """Compile the function that masks payloads of the schema `writer`; it raises one of MALFORMED for unreadable ones.

    `node` is that schema resolved against the contract's, whose fields the masks name. Raises StreamStopped if a type
    of the writer cannot hold a masked value.
    """
    copy = _Compiler(masks).copier(writer, node, [masks.root], ())

    def mask(payload: bytes) -> bytes:
        written = bytearray()
        if copy(payload, 0, 0, written) < len(payload):
            raise MalformedError("avro.trailing-bytes", "goes on after its last field")
        return bytes(written)

    return mask


class _Compiler:
    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._open: dict[tuple[int, tuple[int, ...]], list[Copier]] = {}

    def copier(
        self, writer: AvroType, node: Node, steps: list[PointerNode[Mask]], path: tuple[str, ...]
    ) -> Copier:
        steps = [step for step in steps if step.children]
        if not steps or isinstance(node, UnreadableData):
            return _copied(node)
        match writer, node:
            case Union(), UnionNode():
                return self._union(writer, node, steps, path)
            case Record(), RecordNode():
                return self._record(writer, node, steps, path)
            case Array(), ArrayNode() if leads_into_arrays(steps):
                indexes = [name for step in steps for name in step.children if name.isdigit()]
                return _blocks(self._member_of((writer.items, node.item), steps, indexes, path), is_map=False)
            case Map(), MapNode():
                names = [name for step in steps for name in step.children]
                return _blocks(self._member_of((writer.values, node.value), steps, names, path), is_map=True)
            case _:  # without such members, so the masked ones cannot be found: redact the whole value
                return self._masked(writer, node, Mask.REDACT, path)

    def _union(
        self, writer: Union, node: UnionNode, steps: list[PointerNode[Mask]], path: tuple[str, ...]
    ) -> Copier:
        redact: Copier | None = None
        branches: list[Copier | None] = []
        for branch, inner in zip(writer.branches, node.branches, strict=True):
            if _is_null(branch) or isinstance(inner, UnreadableData):
                branches.append(_copied(inner))
            elif isinstance(branch, Record | Map) or (isinstance(branch, Array) and leads_into_arrays(steps)):
                branches.append(self.copier(branch, inner, steps, path))
            else:
                redact = redact or self._masked(writer, node, Mask.REDACT, path)
                branches.append(None)

        def copy(payload: bytes, position: int, depth: int, written: bytearray) -> int:
            index, after = read_long(payload, position)
            if not 0 <= index < len(branches):
                raise MalformedError("avro.invalid", "holds a branch that its union does not have")
            branch = branches[index]
            if branch is None and redact is not None:
                return redact(payload, position, depth, written)
            written += payload[position:after]
            return after if branch is None else branch(payload, after, depth, written)

        return copy

    def _record(
        self, writer: Record, node: RecordNode, steps: list[PointerNode[Mask]], path: tuple[str, ...]
    ) -> Copier:
        if any(isinstance(inner, UnreadableData) for _, inner in node.steps):
            return _copied(node)
        # A recursive record with the same masks uses the copiers of the outer record.
        key = id(node), tuple(id(step) for step in steps)
        copiers = self._open.get(key)
        if copiers is None:
            copiers = self._open[key] = []
            for each, (read_as, inner) in zip(writer.fields, node.steps, strict=True):
                name = each.name if read_as is None else read_as
                copiers.append(self._member(each.type, inner, following(steps, name), (*path, name)))
        fields = copiers

        def copy(payload: bytes, position: int, depth: int, written: bytearray) -> int:
            for field in fields:
                position = field(payload, position, depth + 1, written)
            return position

        return copy

    def _member_of(
        self,
        kind: tuple[AvroType, Node],
        steps: list[PointerNode[Mask]],
        names: list[str],
        path: tuple[str, ...],
    ) -> Callable[[str], Copier]:
        """Return the function from the index or name of a member of an array or map to its copier.

        `names` are the members with masks of their own.
        """
        copiers = {name: self._member(*kind, following(steps, name), (*path, name)) for name in {*names, ANY}}
        other = copiers[ANY]
        return lambda name: copiers.get(name, other)

    def _member(
        self, writer: AvroType, node: Node, steps: list[PointerNode[Mask]], path: tuple[str, ...]
    ) -> Copier:
        mask = strongest(steps)
        if mask is None or isinstance(node, UnreadableData):
            return self.copier(writer, node, steps, path)
        return self._masked(writer, node, mask, path)

    def _masked(self, writer: AvroType, node: Node, mask: Mask, path: tuple[str, ...]) -> Copier:
        read = compile_reader(node)
        text, null = _prefix(writer, _is_text), _prefix(writer, _is_null)
        if mask is Mask.HASH and text is None:
            raise StreamStopped(
                f"`{join(path)}` is hashed, and a token is text, which its Avro type ({writer}) does not hold: add "
                "`string` to the type in the schema, or write `mask: redact` or `drop`"
            )
        if mask is not Mask.HASH and null is None:
            raise StreamStopped(
                f"`{join(path)}` is to be written as null, which its Avro type ({writer}) does not hold: make it a union "
                "with `null` in the schema, or hash it"
            )
        token = self._masks.token

        def copy(payload: bytes, position: int, depth: int, written: bytearray) -> int:
            value, after = read(payload, position, depth)
            if mask is Mask.HASH and value is not None:
                found = token(value).encode()
                written += (text or b"") + _long(len(found)) + found
            else:
                written += null or b""
            return after

        return copy


def _copied(node: Node) -> Copier:
    read = compile_reader(node)

    def copy(payload: bytes, position: int, depth: int, written: bytearray) -> int:
        _, after = read(payload, position, depth)
        written += payload[position:after]
        return after

    return copy


def _blocks(member_of: Callable[[str], Copier], *, is_map: bool) -> Copier:
    """Return the copier for an array or a map; it keeps blocks, but not their byte sizes."""

    def copy(payload: bytes, position: int, depth: int, written: bytearray) -> int:
        index = 0
        while True:
            count, position = read_long(payload, position)
            if count < 0:
                count = -count
                _, position = read_long(payload, position)
            written += _long(count)
            if count == 0:
                return position
            for _ in range(count):
                name = str(index)
                if is_map:
                    name, after = _read_text(payload, position, depth)
                    written += payload[position:after]
                    position = after
                position = member_of(name)(payload, position, depth + 1, written)
                index += 1

    return copy


def _is_text(node: AvroType) -> bool:
    return isinstance(node, Primitive) and node.kind == "string" and node.logical is None


def _is_null(node: AvroType) -> bool:
    return isinstance(node, Primitive) and node.kind == "null"


def _prefix(writer: AvroType, is_wanted: Callable[[AvroType], bool]) -> bytes | None:
    """Return the bytes before a value of the wanted type: a union's index, or b""; None if the type is absent."""
    if isinstance(writer, Union):
        found = [index for index, branch in enumerate(writer.branches) if is_wanted(branch)]
        return _long(found[0]) if found else None
    return b"" if is_wanted(writer) else None


def _long(number: int) -> bytes:
    """Return the encoding of a long that is not negative."""
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)
