"""The fields of a schema, and their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tidegate.contracts.document.source import escape
from tidegate.contracts.suggestions import similar

_MAX_INDEX_DIGITS = 9
ANY_TYPE = frozenset({"string", "integer", "number", "boolean", "null", "object", "array", "bytes"})


@dataclass(frozen=True, slots=True)
class FieldType:
    """The possible values of a field.

    `types` are JSON type names (`integer` is kept beside `number`; Avro bytes are `bytes`). `times` are those formats of
    its strings, or logical types of its Avro integers and bytes, that stand for times or durations, such as `date`,
    `timestamp-millis` and `duration`. `decimal` is the precision and scale of a decimal, else None. `is_closed` means
    that an object in the field has no members other than those that the schema declares.

    `is_partial` means that only some alternatives declare the field: a record that fits another one may hold any value.
    `is_mixed` means that strings and integers of the field need not be `times`.

    `timed` are the Avro types, `integer` and `bytes`, whose values may be `times`; empty for JSON Schema. `is_unclear`
    means that values of such a type may also be plain ones, and a decoded value does not say which.
    """

    types: frozenset[str] = ANY_TYPE
    times: frozenset[str] = frozenset()
    decimal: tuple[int, int] | None = None
    is_closed: bool = False
    is_partial: bool = False
    is_mixed: bool = False
    timed: frozenset[str] = frozenset()
    is_unclear: bool = False

    @property
    def possible(self) -> frozenset[str]:
        """Return the types of all values that records may hold, for proofs; `types` are the declared ones."""
        return ANY_TYPE if self.is_partial else self.types

    @property
    def is_timed(self) -> bool:
        """Return whether every string and integer of the field is one of `times`."""
        return bool(self.times) and not self.is_mixed

    def both(self, other: FieldType) -> FieldType:
        """Return the type of a field for which both types hold, as in `allOf`.

        A partial type narrows nothing, because it does not hold for all records. Only JSON Schemas have `allOf`, so what
        only Avro sets is left out: `decimal`, `timed`, `is_unclear`.
        """
        if self.is_partial and other.is_partial:
            return self.either(other)
        if self.is_partial or other.is_partial:
            return other._with_formats_of(self) if self.is_partial else self._with_formats_of(other)
        times = self.times | other.times
        return FieldType(
            _intersection(self.types, other.types),
            times,
            is_closed=self.is_closed or other.is_closed,
            is_mixed=bool(times) and not (self.is_timed or other.is_timed),
        )

    def _with_formats_of(self, partial: FieldType) -> FieldType:
        """Return this type, with the formats that a partial type adds for some records."""
        times = self.times | partial.times
        return self if self.is_timed else replace(self, times=times, is_mixed=bool(times))

    def either(self, other: FieldType) -> FieldType:
        """Return the type of a field for which either type holds, as in `anyOf`."""
        decimals = {each.decimal for each in (self, other) if each.types - {"null"}}
        objects = [each.is_closed for each in (self, other) if "object" in each.types]
        times = self.times | other.times
        timed = [each.is_timed for each in (self, other) if each.types & {"string", "integer"}]
        unclear = self.timed & (other.types - other.timed) or other.timed & (self.types - self.timed)
        return FieldType(
            self.types | other.types,
            times,
            decimals.pop() if len(decimals) == 1 else None,
            is_closed=bool(objects) and all(objects),
            is_partial=self.is_partial or other.is_partial,
            is_mixed=bool(times) and not all(timed),
            timed=self.timed | other.timed,
            is_unclear=self.is_unclear or other.is_unclear or bool(unclear),
        )


class SchemaFields(Protocol):
    """The declared fields of a schema."""

    def find(self, pointer: str) -> FieldType | None:
        """Return a field by its JSON Pointer; None if the schema does not declare it."""
        ...

    def pointers(self) -> tuple[str, ...]:
        """Return pointers of the declared fields, outermost first; their number is limited."""
        ...

    def top_level(self) -> tuple[str, ...]:
        """Return the names of the fields of the record itself, in the order of the schema."""
        ...

    def names(self) -> frozenset[str]:
        """Return every name that the schema declares anywhere."""
        ...


def refuses_null(fields: SchemaFields, pointer: str) -> bool:
    """Return whether the schema declares a field and refuses null.

    A null in a table then means a missing field.
    """
    found = fields.find(pointer)
    return found is not None and "null" not in found.types


def types_of(fields: SchemaFields, pointer: str) -> frozenset[str]:
    """Return the JSON types of a field; all types for a field that the schema does not declare."""
    found = fields.find(pointer)
    return ANY_TYPE if found is None else found.types


def tokens(pointer: str) -> tuple[str, ...]:
    """Return the unescaped tokens of a JSON Pointer. Source: RFC 6901 section 4."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def is_index(token: str) -> bool:
    """Return whether `int` reads a token as an index: it fails for digits such as `²`, and for more than 4,300 digits."""
    return token.isascii() and token.isdigit() and len(token) <= _MAX_INDEX_DIGITS


def join(parts: tuple[str, ...]) -> str:
    """Return the JSON Pointer of these tokens, escaped."""
    return "".join(f"/{escape(part)}" for part in parts)


def value_at(document: Any, path: Iterable[str], missing: Any = None) -> Any:
    """Return the value at the tokens of a JSON Pointer in a document; `missing` if there is none."""
    for token in path:
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list) and is_index(token) and int(token) < len(document):
            document = document[int(token)]
        else:
            return missing
    return document


def objects_of(document: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a JSON document at any depth, including itself, in any order. Does not recurse."""
    stack = [document]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def suggestion(pointer: str, fields: SchemaFields) -> str:
    """Return the end of a message that suggests the declared field with the most similar name; "" without one."""
    declared = fields.pointers()
    near = similar(pointer, declared)
    if not near:
        last = pointer.rpartition("/")[2]
        near = [each for each in declared if each.rpartition("/")[2] == last]
    return f"; did you mean `{near[0]}`?" if near else ""


def _intersection(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    both = one & other
    if ("number" in one and "integer" in other) or ("integer" in one and "number" in other):
        both |= {"integer"}
    return both
