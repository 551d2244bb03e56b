"""Encoder from JSON records to Avro's binary encoding, for plain JSON and for Avro's own JSON encoding.

* A missing field takes its default, or else null if its type allows null. A field that the schema does not declare is
  refused, because it would be lost.
* A value of a union may name its branch, as in Avro's JSON encoding: `{"string": "a"}`, `{"shop.Order": {...}}`.
  Otherwise it takes the first branch that fits; an object fits a record that declares all of its members, or a map.
  Text is encoded as bytes only if no other branch fits. An object that can be read both ways is read as naming its
  branch.

A number with a decimal point prefers a branch of float or double. For the other types see the table in `avro_leaves`.
Source: Apache Avro 1.12 specification, "JSON Encoding".
"""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro_defaults import fits
from tidegate.contracts.formats.avro_leaves import (
    NotEncodableError,
    encoded_bytes,
    encoded_long,
    leaf,
    mismatch,
)
from tidegate.contracts.formats.avro_types import (
    Array,
    AvroTooDeepError,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    RecordField,
    Union,
    parse,
    unqualified,
)
from tidegate.contracts.suggestions import similar

MAX_POINTER_TOKENS: Final = 16
_SHOWN_NAME: Final = 60


class AvroEncoder:
    """Encodes records with one schema. The constructor raises ContractError for an invalid schema.

    With `is_avro_json`, text for bytes, fixed and decimal is that of Avro's own JSON encoding.
    """

    def __init__(self, definition: Any, *, is_avro_json: bool = False) -> None:
        try:
            self._root = parse(definition)
        except AvroTooDeepError:
            raise ContractError.at("", "an Avro schema that is nested too deeply") from None
        self._writer = _Writer(is_avro_json=is_avro_json)

    def encode(self, record: Any) -> bytes:
        """Return the encoding of a record that `decode_exactly` has read, without framing.

        Raises NotEncodableError with the path to the place; `place_of` returns it as a JSON Pointer.
        """
        encoded = bytearray()
        try:
            self._writer.write(self._root, record, encoded)
        except RecursionError:
            raise NotEncodableError("is nested too deeply") from None
        return bytes(encoded)


class _Writer:
    """Appends encodings to a bytearray. With `is_default`, values are defaults of the schema and name no branch."""

    def __init__(self, *, is_avro_json: bool, is_default: bool = False) -> None:
        self._is_avro_json = is_avro_json
        self._is_default = is_default
        self._defaults: dict[int, bytes] = {}

    def write(self, node: AvroType, value: Any, to: bytearray) -> None:
        """Append the encoding of a value. Raises NotEncodableError."""
        match node:
            case Record():
                self._write_record(node, value, to)
            case Union():
                index, inner = self._branch(node, value)
                to += encoded_long(index)
                self.write(node.branches[index], inner, to)
            case Array():
                self._write_items(node, value, to)
            case Map():
                self._write_members(node, value, to)
            case Enum():
                if value not in node.symbols:
                    raise NotEncodableError(f"is not a symbol of the {node}")
                to += encoded_long(node.symbols.index(value))
            case _:
                to += leaf(node, value, is_avro_json=self._is_avro_json)

    def _write_record(self, node: Record, value: Any, to: bytearray) -> None:
        if not isinstance(value, dict):
            raise mismatch(value, str(node))
        found = 0
        for field in node.fields:
            try:
                if field.name in value:
                    found += 1
                    self.write(field.type, value[field.name], to)
                else:
                    self._write_missing(field, to)
            except NotEncodableError as error:
                error.path.append(field.name)
                raise
        if found < len(value):
            declared = [field.name for field in node.fields]
            name = next(name for name in value if name not in declared)
            near = similar(name, declared)
            raise NotEncodableError(
                f"has a field `{name[:_SHOWN_NAME]}`, which the {node} does not declare"
                + (f"; did you mean `{near[0]}`?" if near else "")
            )

    def _write_missing(self, field: RecordField, to: bytearray) -> None:
        if field.has_default and fits(field.default, field.type):
            if id(field) not in self._defaults:
                encoded = bytearray()
                _Writer(is_avro_json=True, is_default=True).write(field.type, field.default, encoded)
                self._defaults[id(field)] = bytes(encoded)
            to += self._defaults[id(field)]
        elif _takes_null(field.type):
            self.write(field.type, None, to)
        else:
            raise NotEncodableError("is missing, and has no default")

    def _write_items(self, node: Array, value: Any, to: bytearray) -> None:
        if not isinstance(value, list):
            raise mismatch(value, "an array")
        if value:
            to += encoded_long(len(value))
        for index, item in enumerate(value):
            try:
                self.write(node.items, item, to)
            except NotEncodableError as error:
                error.path.append(str(index))
                raise
        to.append(0)

    def _write_members(self, node: Map, value: Any, to: bytearray) -> None:
        if not isinstance(value, dict):
            raise mismatch(value, "a map")
        if value:
            to += encoded_long(len(value))
        for name, member in value.items():
            to += encoded_bytes(name.encode())
            try:
                self.write(node.values, member, to)
            except NotEncodableError as error:
                error.path.append("*")
                raise
        to.append(0)

    def _branch(self, union: Union, value: Any) -> tuple[int, Any]:
        """Return the index of the branch for a value, and the value without the name of its branch.

        Raises NotEncodableError.
        """
        if self._is_default:
            return next(index for index, branch in enumerate(union.branches) if fits(value, branch)), value
        if isinstance(value, dict) and len(value) == 1:
            ((name, inner),) = value.items()
            for index, branch in enumerate(union.branches):
                if name in _names(branch) and self._may_be(branch, inner):
                    return index, inner
        fitting = [index for index, branch in enumerate(union.branches) if self._may_be(branch, value)]
        if fitting:
            return min(fitting, key=lambda index: _is_second_choice(union.branches[index], value)), value
        others = [index for index, branch in enumerate(union.branches) if not _is_null(branch)]
        if len(others) == 1 and value is not None:
            return others[0], value  # encoding it fails there, with a more specific reason and place
        raise mismatch(value, str(union))

    def _may_be(self, branch: AvroType, value: Any) -> bool:  # noqa: PLR0911 - one for each type
        """Return whether a value can be encoded as a branch. Members and items of the value are not checked."""
        match branch:
            case Record():
                names = {field.name for field in branch.fields}
                return (
                    isinstance(value, dict)
                    and value.keys() <= names
                    and all(
                        field.name in value or field.has_default or _takes_null(field.type)
                        for field in branch.fields
                    )
                )
            case Array():
                return isinstance(value, list)
            case Map():
                return isinstance(value, dict)
            case Enum():
                return isinstance(value, str) and value in branch.symbols
            case Union():
                return False
            case _:
                try:
                    leaf(branch, value, is_avro_json=self._is_avro_json)
                except NotEncodableError:
                    return False
                return True


def place_of(error: NotEncodableError) -> str:
    """Return the JSON Pointer of the place of an error, cut to its first MAX_POINTER_TOKENS tokens."""
    return join(tuple(reversed(error.path))[:MAX_POINTER_TOKENS])


def _names(branch: AvroType) -> tuple[str, ...]:
    """Return the names that select a branch: a full name or that without namespace, or the name of the type."""
    match branch:
        case Record() | Enum() | Fixed():
            return branch.name, unqualified(branch.name)
        case Array():
            return ("array",)
        case Map():
            return ("map",)
        case Primitive():
            return (branch.kind,)
        case Union():
            return ()


def _takes_null(node: AvroType) -> bool:
    return any(map(_is_null, node.branches)) if isinstance(node, Union) else _is_null(node)


def _is_null(node: AvroType) -> bool:
    return isinstance(node, Primitive) and node.kind == "null"


def _is_second_choice(node: AvroType, value: Any) -> bool:
    """Return whether another fitting branch is preferred: a string over bytes, or for 5.0 a double over a long."""
    match value:
        case str():
            return isinstance(node, Fixed) or (isinstance(node, Primitive) and node.kind == "bytes")
        case float():
            return isinstance(node, Primitive) and node.kind in ("int", "long")
        case _:
            return False
