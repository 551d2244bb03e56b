"""Parts of an Avro schema that let a reader fill in data: defaults of fields and enums, and aliases of fields.

Schema resolution fills in a field that the writer's schema lacks. Each of these parts therefore makes data of more
writer's schemas readable. Source: Apache Avro specification, "Schema Resolution".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
    # Counted and not compared one by one: a schema may have thousands of types and fields.
    members: Counter[tuple[str, str]] = Counter()
    lenient: Counter[tuple[str, str, str]] = Counter()
    for name, node in definitions(before):
        for key in (name, _own(name)):
            members.update((key, each) for each in {"", *(field["name"] for field in _fields(node))})
            lenient.update((key, *each) for each in set(_leniencies(node)))
    found: list[Made] = []
    for name, node in definitions(after):
        key = name if (name, "") in members else _own(name)
        added = (each for each in _leniencies(node) if members[key, each[0]] > lenient[(key, *each)])
        found.extend((node["name"], *each) for each in added)
    return tuple(found)


def _own(name: str) -> str:
    """Return the key of all types with this name in any namespace; no full name begins with an asterisk."""
    return f"*{unqualified(name)}"


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
