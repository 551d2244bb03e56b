"""Structure of a schema document: the places of its parts, how references resolve, and which anchors are dynamic."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from referencing import Specification

from tidegate.contracts.document.fields import objects_of
from tidegate.contracts.document.source import escape
from tidegate.contracts.formats.json_keywords import REFERENCES, subschemas, subschemas_changed
from tidegate.contracts.inclusion.json_schema.dialect import Dialect, dialect_of
from tidegate.contracts.inclusion.json_schema.values import shape_of

if TYPE_CHECKING:
    from referencing._core import Resolver  # part of the library's API, but not in __all__

_IDS: Final = frozenset({"$id", "id"})
_NOTED: Final = frozenset({"$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})
_NESTED: Final = frozenset({dict, list})
_ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"}
)


@dataclass(frozen=True, slots=True)
class CompilerPosition:
    """The current position of the compiler: a schema, its JSON Pointer, its resolver of references, and its depth."""

    schema: Any
    pointer: str
    resolver: Resolver[Any]
    specification: Specification[Any]
    depth: int = 0

    def at(self, *tokens: str | int) -> CompilerPosition:
        """Return the subschema at a path of tokens below this schema."""
        inner, pointer = self.schema, self.pointer
        for token in tokens:
            inner = inner[token]
            pointer = f"{pointer}/{escape(token) if isinstance(token, str) else token}"
        resolver = self.resolver
        if isinstance(inner, dict) and not _IDS.isdisjoint(inner):
            resolver = resolver.in_subresource(self.specification.create_resource(inner))
        return CompilerPosition(inner, pointer, resolver, self.specification, self.depth + 1)


class Survey:
    """The places of all parts of a document and its anchors, collected in one walk."""

    def __init__(self, document: Any, dialect: Dialect | None) -> None:
        self._dialect = dialect
        self._above: dict[int, tuple[int | None, str]] = {}
        self._anchors: dict[str, int] = {}
        self._plain_anchors: set[str] = set()
        self._root = document
        self._is_recursive = False
        self._ids = 0
        self._is_shared = False
        self._has_other_dialect = False
        self.has_ids = False
        """Whether the document or any part of it may have its own base URI."""
        self._walk(document)

    def _walk(self, document: Any) -> None:
        stack: list[tuple[int | None, str, Any]] = [(None, "", document)]
        while stack:
            above, token, node = stack.pop()
            if isinstance(node, list):
                own = id(node)
                self._above.setdefault(own, (above, token))
                stack.extend(
                    (own, str(index), item) for index, item in enumerate(node) if item.__class__ in _NESTED
                )
            elif isinstance(node, dict):
                own = id(node)
                self._is_shared = self._is_shared or own in self._above
                self._above.setdefault(own, (above, token))
                if not _NOTED.isdisjoint(node):
                    self._note(node, is_root=above is None)
                stack.extend(
                    (own, name, member) for name, member in node.items() if member.__class__ in _NESTED
                )

    def _note(self, node: dict[str, Any], *, is_root: bool) -> None:
        anchor = node.get("$dynamicAnchor")
        if isinstance(anchor, str):
            self._anchors[anchor] = self._anchors.get(anchor, 0) + 1
        plain = node.get("$anchor")
        if isinstance(plain, str):
            self._plain_anchors.add(plain)
        self._is_recursive = self._is_recursive or node.get("$recursiveAnchor") is True
        named = any(isinstance(node.get(keyword), str) for keyword in ("$id", "id"))
        self.has_ids = self.has_ids or named
        if not is_root:
            self._ids += named
            self._has_other_dialect = self._has_other_dialect or (
                "$schema" in node and dialect_of(node) is not self._dialect
            )

    @property
    def has_dynamic_anchors(self) -> bool:
        """Return whether a schema outside the document may lead back into it."""
        return bool(self._anchors) or self._is_recursive

    @property
    def is_unclear(self) -> bool:
        """Return whether a part has another dialect than the document, or an object may have two base URIs."""
        return self._has_other_dialect or (self._is_shared and self._ids > 0)

    def pointer_of(self, schema: Any) -> str | None:
        """Return the JSON Pointer of an object of the document, found by identity; None for anything else."""
        if not isinstance(schema, dict) or id(schema) not in self._above:
            return None
        found: list[str] = []
        above, token = self._above[id(schema)]
        while above is not None:
            found.append(f"/{escape(token)}")
            above, token = self._above[above]
        return "".join(reversed(found))

    def is_ambiguous(self, keyword: str, reference: str) -> bool:
        """Return whether a dynamic reference may resolve to another schema than a plain `$ref` would."""
        if keyword == "$recursiveRef":
            return self._is_recursive and self._ids > 0
        return self._anchors.get(reference.rpartition("#")[2], 0) > 1

    def outermost(self, reference: str) -> Any:
        """Return the schema in the root resource that a dynamic reference always resolves to, by its anchor.

        The root resource is the outermost one of every dynamic scope. None if it does not have exactly one such anchor.
        Source: JSON Schema 2020-12, Core, section 8.2.3.2.
        """
        name = reference.rpartition("#")[2]
        if name in self._plain_anchors:
            return None
        found = [schema for schema in self._own_schemas if schema.get("$dynamicAnchor") == name]
        return found[0] if len(found) == 1 else None

    @cached_property
    def _own_schemas(self) -> tuple[dict[str, Any], ...]:
        """Return the schemas of the root resource, without embedded resources (those with their own `$id`)."""
        found, stack = [], [self._root]
        while stack:
            schema = stack.pop()
            if isinstance(schema, dict) and (schema is self._root or _IDS.isdisjoint(schema)):
                found.append(schema)
                stack.extend(part for _, part in subschemas(schema))
        return tuple(found)


def shape(document: Any) -> Hashable:
    """Return a key that is equal for documents that differ only in annotations and in the order of members."""
    return shape_of(_without_annotations(document))


def _without_annotations(schema: Any) -> Any:
    """Return a schema without annotations, or unchanged if a reference may lead into one."""
    return schema if _refers_to_annotations(schema) else subschemas_changed(schema, _stripped)


def _stripped(schema: dict[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in schema.items() if keyword not in _ANNOTATIONS}


def refers(value: Any) -> bool:
    """Return whether a value contains a reference anywhere."""
    return next(_references(value), None) is not None


def _refers_to_annotations(value: Any) -> bool:
    return any(not _ANNOTATIONS.isdisjoint(reference.split("/")) for reference in _references(value))


def _references(value: Any) -> Iterator[str]:
    return (str(node[keyword]) for node in objects_of(value) for keyword in REFERENCES if keyword in node)
