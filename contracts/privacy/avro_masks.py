"""Masks in Avro's binary encoding: masked values are rewritten, all other bytes are copied.

The result still fits the writer's schema, so consumers can decode it with the same schema id. A token needs a type with
`string`; a redacted or dropped field needs a type with `null`. Only the blocks of arrays and maps with masked values get
new headers.

Source: Apache Avro 1.12 specification, "Binary encoding".
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.contracts.document.fields import join
from tidegate.contracts.document.model import Mask
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.formats.avro_decoder import compile_reader, read_long
from tidegate.contracts.formats.avro_matching import chosen_branches, field_pairs
from tidegate.contracts.formats.avro_nodes import resolve
from tidegate.contracts.formats.avro_types import Array, AvroType, Map, Primitive, Record, Union
from tidegate.contracts.privacy.classes import ANY, PointerNode, following
from tidegate.contracts.privacy.masks import Masks, strongest

Copier = Callable[[bytes, int, int, bytearray], int]
"""Copies one value and applies its masks.

Takes the payload, the position, the depth and the output buffer; returns the position after the value. Raises the same
errors as readers for malformed bytes.
"""


def compile_avro_masks(writer: AvroType, reader: AvroType, masks: Masks) -> Callable[[bytes], bytes]:
    """Compile the function that masks payloads of the schema `writer`. Masks name fields of `reader`.

    Raises StreamStopped if a type of the writer cannot hold a masked value.
    """
    copy = _Compiler(masks).copier(writer, reader, [masks.root], ())

    def mask(payload: bytes) -> bytes:
        written = bytearray()
        copy(payload, 0, 0, written)
        return bytes(written)

    return mask


class _Compiler:
    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._open: dict[tuple[int, tuple[int, ...]], list[Copier]] = {}

    def copier(
        self, writer: AvroType, reader: AvroType | None, steps: list[PointerNode[Mask]], path: tuple[str, ...]
    ) -> Copier:
        steps = [step for step in steps if step.children]
        if not steps:
            return _copied(writer)
        match writer:
            case Union():
                return self._union(writer, reader, steps, path)
            case Record():
                return self._record(writer, _branch(writer, reader), steps, path)
            case Array():
                inner = _branch(writer, reader)
                item = inner.items if isinstance(inner, Array) else None
                return _blocks(self._member(writer.items, item, _of_items(steps), (*path, ANY)), None)
            case Map():
                inner = _branch(writer, reader)
                value = inner.values if isinstance(inner, Map) else None
                named = [child for step in steps for child in step.children.values()]
                member = self._member(writer.values, value, named, (*path, ANY))
                return _blocks(member, _copied(Primitive("", "string")))
            case _:  # not a type with members, so the masked members cannot be found: redact the whole value
                return self._masked(writer, Mask.REDACT, path)

    def _union(
        self, writer: Union, reader: AvroType | None, steps: list[PointerNode[Mask]], path: tuple[str, ...]
    ) -> Copier:
        containers = (Record, Array, Map)
        redact = None
        if any(not isinstance(branch, containers) and not _is_null(branch) for branch in writer.branches):
            redact = self._masked(writer, Mask.REDACT, path)
        branches = [
            self.copier(branch, reader, steps, path) if isinstance(branch, containers) else None
            for branch in writer.branches
        ]

        def copy(payload: bytes, position: int, depth: int, written: bytearray) -> int:
            index, after = read_long(payload, position)
            branch = branches[index]
            if branch is None:
                if redact is None:
                    written += payload[position:after]
                    return after
                return redact(payload, position, depth, written)
            written += payload[position:after]
            return branch(payload, after, depth, written)

        return copy

    def _record(
        self, writer: Record, reader: AvroType | None, steps: list[PointerNode[Mask]], path: tuple[str, ...]
    ) -> Copier:
        # A recursive record with the same masks uses the copiers of the outer record.
        key = id(writer), tuple(id(step) for step in steps)
        fields = self._open.get(key)
        if fields is None:
            fields = self._open[key] = []
            pairs = field_pairs(writer, reader) if isinstance(reader, Record) else {}
            known = {id(written): name for name, written in pairs.items()}
            types = {each.name: each.type for each in reader.fields} if isinstance(reader, Record) else {}
            for each in writer.fields:
                name = known.get(id(each), each.name)
                below = following(steps, name)
                fields.append(self._member(each.type, types.get(name), below, (*path, name)))
        copiers = fields

        def copy(payload: bytes, position: int, depth: int, written: bytearray) -> int:
            for field in copiers:
                position = field(payload, position, depth + 1, written)
            return position

        return copy

    def _member(
        self, writer: AvroType, reader: AvroType | None, steps: list[PointerNode[Mask]], path: tuple[str, ...]
    ) -> Copier:
        mask = strongest(steps)
        return self.copier(writer, reader, steps, path) if mask is None else self._masked(writer, mask, path)

    def _masked(self, writer: AvroType, mask: Mask, path: tuple[str, ...]) -> Copier:
        read = compile_reader(resolve(writer, writer))
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


def _copied(writer: AvroType) -> Copier:
    read = compile_reader(resolve(writer, writer))

    def copy(payload: bytes, position: int, depth: int, written: bytearray) -> int:
        _, after = read(payload, position, depth)
        written += payload[position:after]
        return after

    return copy


def _blocks(copy_item: Copier, copy_name: Copier | None) -> Copier:
    """Return the copier for arrays, or with `copy_name` for maps; it keeps blocks, but not their byte sizes."""

    def copy(payload: bytes, position: int, depth: int, written: bytearray) -> int:
        while True:
            count, position = read_long(payload, position)
            if count < 0:
                count = -count
                _, position = read_long(payload, position)
            written += _long(count)
            if count == 0:
                return position
            for _ in range(count):
                if copy_name is not None:
                    position = copy_name(payload, position, depth + 1, written)
                position = copy_item(payload, position, depth + 1, written)

    return copy


def _branch(writer: AvroType, reader: AvroType | None) -> AvroType | None:
    """Return the part of the reader's schema into which a part of the writer's schema is read; None without one."""
    if isinstance(reader, Union):
        return next(iter(chosen_branches(writer, reader)), None)
    return reader


def _of_items(steps: list[PointerNode[Mask]]) -> list[PointerNode[Mask]]:
    return [child for step in steps for name, child in step.children.items() if name == ANY or name.isdigit()]


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
