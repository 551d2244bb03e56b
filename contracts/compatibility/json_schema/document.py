"""A schema document: where its parts stand, how its references resolve, which anchors move at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from referencing import Specification

from contracts.source import escape

if TYPE_CHECKING:
    from referencing._core import Resolver  # the library gives it to everybody and exports it nowhere

_IDS: Final = frozenset({"$id", "id"})


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

    def __init__(self, document: Any) -> None:
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
            self._has_other_dialect = self._has_other_dialect or isinstance(node.get("$schema"), str)

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
