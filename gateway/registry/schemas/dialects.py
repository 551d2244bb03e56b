"""The drafts by which clients read a JSON Schema that names none, and the keywords on which they differ.

Source: Confluent Schema Registry (Java), `JsonSchema`: draft 7 unless `$schema` says otherwise. confluent-kafka for
Python, `jsonschema.validators.validator_for`: the newest draft.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.json_keywords import subschemas
from tidegate.contracts.inclusion.json_schema.dialect import FORMATS, Dialect
from tidegate.contracts.inclusion.json_schema.keywords import KEYWORDS

DRAFT_7: Final = Dialect.DRAFT7.uri
"""The `$schema` by which a schema without one is read on this face."""
NEWEST: Final = Dialect.DRAFT202012.uri
"""The `$schema` by which Python clients read one, and by which versions without a stored dialect are read."""
READINGS: Final = (DRAFT_7, NEWEST)
NAMES: Final = {DRAFT_7: "draft 7", NEWEST: "2020-12"}

_SCHEMA: Final = "$schema"
_MAX_POINTER: Final = 120
_NEWER_ONLY: Final = "counts in 2020-12 and not in draft 7"
_OLDER_ONLY: Final = "counts in draft 7 and not in 2020-12"
_KEYWORDS: Final = {
    **dict.fromkeys(("prefixItems", "minContains", "maxContains"), _NEWER_ONLY),
    **dict.fromkeys(("dependentRequired", "dependentSchemas"), _NEWER_ONLY),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), _NEWER_ONLY),
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$dynamicRef"), _NEWER_ONLY),
    **dict.fromkeys(("$recursiveAnchor", "$recursiveRef"), "counts in 2019-09 alone"),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _OLDER_ONLY),
    "dependencies": "counts in draft 7 and here, and not for clients that read 2020-12",
}
_NEWER_FORMATS: Final = FORMATS[Dialect.DRAFT202012] - FORMATS[Dialect.DRAFT7]
_SIBLINGS: Final = (
    KEYWORDS[Dialect.DRAFT202012]
    | {"then", "else", "minContains", "maxContains", "additionalItems", "$id", "$anchor"}
) - {"$ref"}
"""What changes the meaning of a schema when it counts beside `$ref`."""

_Path = tuple[Any, str] | None
"""The tokens of a JSON Pointer as links to the place above, so that no pointer is built that is not shown."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A keyword that clients read differently, and a sentence: where it stands first, and who reads it how."""

    keyword: str
    sentence: str


def names_draft(schema: Any) -> bool:
    """Return whether a schema says which draft it is of, or is a boolean, which says the same in each."""
    return not isinstance(schema, dict) or _SCHEMA in schema


def read_as(definition: Any, dialect: str) -> Any:
    """Return a schema with the `$schema` of a dialect, in front."""
    return {_SCHEMA: dialect, **without_dialect(definition)}


def without_dialect(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without its `$schema`."""
    return {name: member for name, member in definition.items() if name != _SCHEMA}


def differences(definition: Any) -> tuple[Difference, ...]:
    """Return the keywords of a schema that draft 7 and 2020-12 read differently, each once, by name.

    Takes one step for each part of the schema.
    """
    found: dict[str, tuple[str, _Path]] = {}
    stack: list[tuple[Any, _Path]] = [(definition, None)]
    while stack:
        schema, path = stack.pop()
        if isinstance(schema, dict):
            for keyword, meaning in _own(schema):
                found.setdefault(keyword, (meaning, path))
            stack.extend(reversed(list(_parts(schema, path))))
    return tuple(
        Difference(keyword, f"`{keyword}` at {_pointer(path) or 'the whole schema'} {meaning}")
        for keyword, (meaning, path) in sorted(found.items())
    )


def foreign_reference(name: str) -> Difference:
    """Return the message that a schema which is referred to names another draft than it is read by with the whole."""
    shown = name if len(name) <= _MAX_POINTER else f"{name[:_MAX_POINTER]}..."
    return Difference(
        _SCHEMA, f"`{_SCHEMA}` of the reference `{shown}` counts for clients in Python, and not in draft 7"
    )


def _own(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keywords of one schema that are read differently, and how."""
    yield from ((name, _KEYWORDS[name]) for name in schema if name in _KEYWORDS)
    if isinstance(schema.get("items"), list):
        yield "items", "is a list, for each item its schema in draft 7 and no schema in 2020-12"
        if "additionalItems" in schema:
            yield "additionalItems", _OLDER_ONLY
    if isinstance(schema.get("$ref"), str) and not _SIBLINGS.isdisjoint(schema):
        yield "$ref", "hides the keywords beside it in draft 7, and they count in 2020-12"
    fragment = schema["$id"].partition("#")[2] if isinstance(schema.get("$id"), str) else ""
    if fragment:
        yield "$id", "holds a fragment, which names a place in draft 7 and is refused by 2020-12"
    form = schema.get("format")
    if isinstance(form, str) and form in _NEWER_FORMATS:
        yield "format", f"is {form}, which 2020-12 has and draft 7 has not"


def _parts(schema: dict[str, Any], path: _Path) -> Iterator[tuple[Any, _Path]]:
    for tokens, part in subschemas(schema):
        below = path
        for token in tokens:
            below = (below, token)
        yield part, below


def _pointer(path: _Path) -> str:
    """Write a JSON Pointer, shortened."""
    tokens: list[str] = []
    while path is not None:
        path, token = path
        tokens.append(token)
    written = join(tuple(reversed(tokens)))
    return written if len(written) <= _MAX_POINTER else f"{written[:_MAX_POINTER]}..."
