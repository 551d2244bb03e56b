"""A schema document: where its parts stand, how its references resolve, which anchors move at run time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from referencing import Specification

from contracts.compatibility.json_schema.dialect import Dialect, dialect_of
from contracts.source import escape

if TYPE_CHECKING:
    from referencing._core import Resolver  # the library gives it to everybody and exports it nowhere

_IDS: Final = frozenset({"$id", "id"})
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"}
)
_IN_ONE: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
    }
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_IN_LIST: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_IN_MAP: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the compiler is: a schema, its JSON Pointer, how its references resolve, how deep it lies."""

    schema: Any
    pointer: str
    resolver: Resolver[Any]
    specification: Specification[Any]
    depth: int = 0

    def at(self, *tokens: str | int) -> Spot:
        """Give the subschema below some tokens. Raises TooDeepError."""
        inner, pointer = self.schema, self.pointer
        for token in tokens:
            inner = inner[token]
            pointer = f"{pointer}/{escape(token) if isinstance(token, str) else token}"
        resolver = self.resolver
        if isinstance(inner, dict) and not _IDS.isdisjoint(inner):
            resolver = resolver.in_subresource(self.specification.create_resource(inner))
        return Spot(inner, pointer, resolver, self.specification, self.depth + 1)


class Survey:
    """What a look at every part of a document tells: where each part stands, and which anchors are moved at run time."""

    def __init__(self, document: Any, dialect: Dialect | None) -> None:
        self._dialect = dialect
        self._pointers: dict[int, str] = {}
        self._anchors: dict[str, int] = {}
        self._is_recursive = False
        self._ids = 0
        self._is_shared = False
        self._has_other_dialect = False
        self._walk(document)

    def _walk(self, document: Any) -> None:
        stack: list[tuple[str, Any]] = [("", document)]
        while stack:
            pointer, node = stack.pop()
            if isinstance(node, list):
                stack.extend((f"{pointer}/{index}", item) for index, item in enumerate(node))
            elif isinstance(node, dict):
                self._is_shared = self._is_shared or id(node) in self._pointers
                self._pointers.setdefault(id(node), pointer)
                self._note(pointer, node)
                stack.extend((f"{pointer}/{escape(str(name))}", member) for name, member in node.items())

    def _note(self, pointer: str, node: dict[str, Any]) -> None:
        anchor = node.get("$dynamicAnchor")
        if isinstance(anchor, str):
            self._anchors[anchor] = self._anchors.get(anchor, 0) + 1
        self._is_recursive = self._is_recursive or node.get("$recursiveAnchor") is True
        if pointer:
            self._ids += any(isinstance(node.get(keyword), str) for keyword in ("$id", "id"))
            self._has_other_dialect = self._has_other_dialect or (
                "$schema" in node and dialect_of(node) is not self._dialect
            )

    @property
    def has_dynamic_anchors(self) -> bool:
        """Whether a schema outside the document may lead back into it."""
        return bool(self._anchors) or self._is_recursive

    @property
    def is_unclear(self) -> bool:
        """Whether one place has another dialect than the document, or one object stands under two base URIs."""
        return self._has_other_dialect or (self._is_shared and self._ids > 0)

    def pointer_of(self, schema: Any) -> str | None:
        """Give where an object of the document stands; None for anything else."""
        return self._pointers.get(id(schema)) if isinstance(schema, dict) else None

    def is_ambiguous(self, keyword: str, reference: str) -> bool:
        """Whether a dynamic reference may lead elsewhere than a plain one."""
        if keyword == "$recursiveRef":
            return self._is_recursive and self._ids > 0
        return self._anchors.get(reference.rpartition("#")[2], 0) > 1


def without_annotations(schema: Any) -> Any:
    """Leave out what says nothing about a record, wherever a schema stands; nothing where a reference may lead there."""
    return schema if _refers_to_annotations(schema) else _stripped(schema)


def _stripped(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _IN_MAP and isinstance(value, dict):
            kept[keyword] = {name: _stripped(each) for name, each in value.items()}
        elif keyword in _IN_LIST and isinstance(value, list):
            kept[keyword] = [_stripped(each) for each in value]
        elif keyword not in _ANNOTATIONS:
            kept[keyword] = _stripped(value) if keyword in _IN_ONE else value
    return kept


def refers(value: Any) -> bool:
    """Whether a reference stands anywhere in a value."""
    return next(_references(value), None) is not None


def _refers_to_annotations(value: Any) -> bool:
    return any(not _ANNOTATIONS.isdisjoint(reference.split("/")) for reference in _references(value))


def _references(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            stack.extend(node.values())
            yield from (str(node[keyword]) for keyword in _REFERENCES if keyword in node)
