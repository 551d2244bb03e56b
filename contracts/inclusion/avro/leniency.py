"""Parts of an Avro schema that let a reader fill in data: defaults of fields and enums, and aliases of fields.

Schema resolution fills in a field that the writer's schema lacks. Each of these parts therefore makes data of more
writer's schemas readable. Source: Apache Avro specification, "Schema Resolution".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tidegate.contracts.formats.avro_documents import definitions
from tidegate.contracts.formats.avro_types import unqualified

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
    """Return the defaults and aliases that `after` adds to fields and enums which `before` has without them.

    A type is compared with the one of its full name or, if its namespace changed, with those of its own name.
    """
    old = dict(definitions(before))
    found = (
        (node["name"], *each)
        for name, node in definitions(after)
        for each in _leniencies(node)
        if any(_lacks(earlier, each) for earlier in _earlier(old, name))
    )
    return tuple(found)


def _earlier(old: Mapping[str, dict[str, Any]], name: str) -> list[dict[str, Any]]:
    if name in old:
        return [old[name]]
    return [node for each, node in old.items() if unqualified(each) == unqualified(name)]


def _lacks(node: dict[str, Any], leniency: tuple[str, str]) -> bool:
    """Return whether a type has the field ("" for the type itself), but not its default or alias."""
    is_there = not leniency[0] or any(each["name"] == leniency[0] for each in _fields(node))
    return is_there and leniency not in set(_leniencies(node))


def _leniencies(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names of a type's fields ("" for the type itself), each with "default" or an alias."""
    if node.get("type") == "enum" and _DEFAULT in node:
        yield "", _DEFAULT
    for each in _fields(node):
        if _DEFAULT in each:
            yield each["name"], _DEFAULT
        yield from ((each["name"], str(alias)) for alias in each.get(_ALIASES) or ())


def _fields(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in node.get("fields") or ():
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            yield each
