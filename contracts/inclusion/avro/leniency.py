"""Parts of an Avro schema that let a reader fill in data: defaults of fields and enums, and aliases of fields.

Schema resolution fills in a field that the writer's schema lacks. Each of these parts therefore makes data of more
writer's schemas readable. Source: Apache Avro specification, "Schema Resolution".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_ALIASES: Final = "aliases"
_DEFAULT: Final = "default"
_PARTS: Final = ("type", "items", "values")

Made = tuple[str, str, str]
"""The name of a record or enum, the name of a field ("" for the type itself), and "default" or an alias."""


def strict_reader(definition: Any) -> Any:
    """Return a schema without the defaults and aliases of fields and enums, so that a reader fills nothing in."""
    match definition:
        case list():
            return [strict_reader(branch) for branch in definition]
        case dict():
            return {
                key: _strict_part(key, value)
                for key, value in definition.items()
                if key not in {_DEFAULT, _ALIASES}
            }
    return definition


def _strict_part(key: str, value: Any) -> Any:
    if key == "fields" and isinstance(value, list):
        return [strict_reader(each) for each in value]
    return strict_reader(value) if key in _PARTS else value


def made_up(before: Any, after: Any) -> tuple[Made, ...]:
    """Return the defaults and aliases that `after` adds to fields and enums which `before` has without them."""
    known, old = set(_members(before)), set(_leniencies(before))
    return tuple(each for each in _leniencies(after) if each[:2] in known and each not in old)


def _members(definition: Any) -> Iterator[tuple[str, str]]:
    for node in _named(definition):
        yield node["name"], ""
        yield from ((node["name"], each["name"]) for each in _fields(node))


def _leniencies(definition: Any) -> Iterator[Made]:
    for node in _named(definition):
        if node.get("type") == "enum" and _DEFAULT in node:
            yield node["name"], "", _DEFAULT
        for each in _fields(node):
            if _DEFAULT in each:
                yield node["name"], each["name"], _DEFAULT
            yield from ((node["name"], each["name"], str(alias)) for alias in each.get(_ALIASES) or ())


def _named(definition: Any) -> Iterator[dict[str, Any]]:
    """Yield the definitions of the named types of a schema."""
    pending = [definition]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, dict):
            if isinstance(node.get("name"), str):
                yield node
            pending.extend(node[part] for part in _PARTS if part in node)
            pending.extend(each.get("type") for each in _fields(node))


def _fields(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in node.get("fields") or ():
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            yield each
