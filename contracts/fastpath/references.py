"""Inline references: replace every local `$ref` of a JSON Schema by the subschema that it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegate.contracts.document.fields import tokens, value_at
from tidegate.contracts.formats.json_keywords import ONE_SCHEMA, SCHEMA_LIST, SCHEMA_MAP

_MAX_NODES: Final = 20_000
_SCOPED: Final = frozenset(
    {"$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$schema", "id"}
)
"""Keywords that change how references are resolved, or what keywords mean."""


class NotInlinedError(Exception):
    """A schema whose references cannot be inlined, or would make it too large."""


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its local references inlined. Raises NotInlinedError, for example for recursion.

    A `$ref` with keywords beside it becomes an `allOf` of both. Up to draft 7 such keywords are ignored.
    """
    whole: dict[str, Any] = _Inliner(schema).node(schema, ())
    return whole


class _Inliner:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        # Match a part of the URI, because jsonschema-rs accepts variants of the drafts' URIs.
        self._is_old = "/draft-0" in str(root.get("$schema"))
        self._nodes = 0

    def node(self, schema: Any, within: tuple[str, ...]) -> Any:
        """Return one schema without references; `within` are the references that are being followed."""
        if not isinstance(schema, dict):
            return schema
        self._nodes += 1
        if self._nodes > _MAX_NODES or (schema is not self._root and not _SCOPED.isdisjoint(schema)):
            raise NotInlinedError
        rewritten = dict(self._members(schema, within))
        reference = rewritten.pop("$ref", None)
        if not isinstance(reference, str):
            return rewritten
        if reference in within:
            raise NotInlinedError
        target = self.node(self._named(reference), (*within, reference))
        return target if self._is_old or not rewritten else {"allOf": [target, rewritten]}

    def _members(self, schema: dict[str, Any], within: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for keyword, value in schema.items():
            if keyword in {"$defs", "definitions"}:
                continue  # nothing refers to them after inlining
            if isinstance(value, list) and keyword in SCHEMA_LIST:
                yield keyword, [self.node(part, within) for part in value]
            elif isinstance(value, dict) and keyword in SCHEMA_MAP:
                yield keyword, {name: self.node(part, within) for name, part in value.items()}
            elif keyword in ONE_SCHEMA:
                yield keyword, self.node(value, within)
            else:
                yield keyword, value

    def _named(self, reference: str) -> Any:
        if (reference != "#" and not reference.startswith("#/")) or "%" in reference:
            raise NotInlinedError
        target: Any = self._root
        for token in tokens(reference[1:]):
            # Below an identifier, references have another base.
            if target is not self._root and _is_identified(target):
                raise NotInlinedError
            target = value_at(target, (token,), NotInlinedError)
        if target is NotInlinedError:
            raise NotInlinedError
        return target


def _is_identified(schema: Any) -> bool:
    """Return whether a schema has an identifier: a string, unlike a member of that name in a map of schemas."""
    return isinstance(schema, dict) and any(isinstance(schema.get(keyword), str) for keyword in ("$id", "id"))
