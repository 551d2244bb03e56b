"""JSON Schemas as clients read them: text, references resolved into one schema, drafts, and the policy LENIENT.

Clients read a schema that names no draft by different drafts.

Source: Confluent Schema Registry (Java), `JsonSchema`: draft 7 unless `$schema` says otherwise. confluent-kafka for
Python, `jsonschema.validators.validator_for`: the newest draft. `CompatibilityPolicy.LENIENT`: adding an optional
property to an open content model and removing one from a closed model are compatible by definition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

from tidegate.contracts.document.fields import join, objects_of
from tidegate.contracts.formats.json_fields import names_of_members
from tidegate.contracts.formats.json_keywords import REFERENCES, subschemas
from tidegate.contracts.inclusion.json_schema.dialect import FORMATS, Dialect
from tidegate.contracts.inclusion.json_schema.keywords import KEYWORDS

_VALUES = ("enum", "const", "default", "examples", "example")


def json_text(schema: Any, *, sort_keys: bool = False) -> str:
    """Return a JSON Schema as text without spaces, its keys in the author's order or sorted."""
    return json.dumps(schema, ensure_ascii=False, allow_nan=False, sort_keys=sort_keys, separators=(",", ":"))


def bundled(schema: Any, others: Mapping[str, Any]) -> Any:
    """Return a schema with the schemas that it refers to, given by name, among its own definitions.

    References to them become pointers into the bundle, so that no reference leads out of it.
    """
    if not others or not isinstance(schema, dict):
        return schema
    keyword = "$defs" if "$defs" in schema or not _is_old(schema) else "definitions"
    taken = set(schema.get(keyword, {}))
    places: dict[str, str] = {}
    for index, name in enumerate(others):
        key = f"reference-{index}"
        while key in taken:
            key += "-"
        taken.add(key)
        places[name] = f"#/{keyword}/{key}"
    definitions = {
        place.rpartition("/")[2]: _moved(others[name], place, _names(others[name], name), places)
        for name, place in places.items()
    }
    root = _moved(schema, "#", _names(schema, ""), places)
    return {**root, keyword: {**root.get(keyword, {}), **definitions}}


def _is_old(schema: Mapping[str, Any]) -> bool:
    """Return whether the schema is of a draft that keeps definitions under `definitions`."""
    return any(draft in str(schema.get("$schema", "")) for draft in ("draft-04", "draft-06", "draft-07"))


def _names(schema: Any, name: str) -> frozenset[str]:
    """Return the addresses by which a schema may be referred to from inside itself."""
    own = (schema.get("$id"), schema.get("id")) if isinstance(schema, dict) else ()
    return frozenset(one.rstrip("#") for one in (name, *own) if isinstance(one, str) and one)


def _moved(schema: Any, place: str, names: frozenset[str], places: Mapping[str, str]) -> Any:
    """Return a schema with its references rewritten for its `place` in the bundle."""
    base = next(iter(sorted(names)), "")
    by_address = {urljoin(base, name): found for name, found in places.items()} | dict(places)

    def target(reference: str) -> str:
        address, _, fragment = reference.partition("#")
        if not address or address in names:
            return reference if place == "#" else _joined(place, fragment)
        found = by_address.get(address, by_address.get(urljoin(base, address)))
        return reference if found is None else _joined(found, fragment)

    return _rewritten(schema, target, drops_names=place != "#")


def _rewritten(part: Any, target: Callable[[str], str], *, drops_names: bool = False) -> Any:
    if isinstance(part, list):
        return [_rewritten(item, target) for item in part]
    if not isinstance(part, dict):
        return part
    found = {}
    for name, member in part.items():
        if name in REFERENCES and isinstance(member, str):
            found[name] = target(member)
        elif not (drops_names and name in {"$id", "id", "$schema"}):
            found[name] = member if name in _VALUES else _rewritten(member, target)
    return found


def _joined(place: str, fragment: str) -> str:
    if not fragment or fragment.startswith("/"):
        return place + fragment
    return f"#{fragment}"  # an anchor: its name is known in the whole bundle


DRAFT_7: Final = Dialect.DRAFT7.uri
"""The dialect of schemas without `$schema` that are registered through the Confluent API."""
NEWEST: Final = Dialect.DRAFT202012.uri
"""The dialect of schemas without `$schema` for Python clients, and of versions without a stored dialect."""
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
"""Keywords that change the meaning of a schema if they count next to `$ref`."""

_Path = tuple[Any, str] | None
"""A JSON Pointer as a linked list of tokens, last one first, so that only pointers that are shown are built."""


@dataclass(frozen=True, slots=True)
class ClientDifference:
    """A keyword that clients read differently, and a sentence: its first place, and how each client reads it."""

    keyword: str
    sentence: str


def names_draft(schema: Any) -> bool:
    """Return whether a schema names its draft, or is a boolean, which means the same in every draft."""
    return not isinstance(schema, dict) or _SCHEMA in schema


def read_as(definition: Any, dialect: str) -> Any:
    """Return a schema with the `$schema` of a dialect as its first key."""
    return {_SCHEMA: dialect, **without_dialect(definition)}


def without_dialect(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without its `$schema`."""
    return {name: member for name, member in definition.items() if name != _SCHEMA}


def differences(definition: Any) -> tuple[ClientDifference, ...]:
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
        ClientDifference(keyword, f"`{keyword}` at {_pointer(path) or 'the whole schema'} {meaning}")
        for keyword, (meaning, path) in sorted(found.items())
    )


def foreign_reference(name: str) -> ClientDifference:
    """Return the difference of a referenced schema that names another draft than the referring one is read by."""
    shown = name if len(name) <= _MAX_POINTER else f"{name[:_MAX_POINTER]}..."
    return ClientDifference(
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
    """Return a JSON Pointer as text, cut to _MAX_POINTER characters."""
    tokens: list[str] = []
    while path is not None:
        path, token = path
        tokens.append(token)
    written = join(tuple(reversed(tokens)))
    return written if len(written) <= _MAX_POINTER else f"{written[:_MAX_POINTER]}..."


_COMBINING = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if")
_OPENNESS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
_NAMED = ("properties", "$defs", "definitions")
_SINGLE = ("items", "additionalItems", "contains", "additionalProperties")


def closed(schema: Any) -> Any:
    """Forbid undeclared properties in every object that does not mention them and is not combined with others."""
    return _everywhere(schema, _close)


def opened(schema: Any) -> Any:
    """Allow undeclared properties in every object that forbids them and is not combined with others."""
    return _everywhere(schema, _open)


def _everywhere(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    for name in _NAMED:
        if isinstance(schema.get(name), dict):
            found[name] = {key: _everywhere(part, change) for key, part in schema[name].items()}
    for name in _SINGLE:
        if isinstance(schema.get(name), dict):
            found[name] = _everywhere(schema[name], change)
    for name in ("items", "prefixItems"):
        if isinstance(schema.get(name), list):
            found[name] = [_everywhere(part, change) for part in schema[name]]
    if "properties" in schema and not any(name in schema for name in _COMBINING):
        return change(found)
    return found


def _close(schema: dict[str, Any]) -> dict[str, Any]:
    """Forbid the properties that an object does not name: one that it requires is expected, though not declared."""
    if any(name in schema for name in _OPENNESS):
        return schema
    parts = [schema, *objects_of([schema.get("dependentSchemas"), schema.get("dependencies")])]
    named: dict[str, Any] = {name: {} for part in parts for name in names_of_members(part)}
    return {**schema, "properties": {**named, **schema["properties"]}, "additionalProperties": False}


def _open(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        name: part
        for name, part in schema.items()
        if not (name in {"additionalProperties", "unevaluatedProperties"} and part is False)
    }
