"""JSON Schemas as text, and references resolved into one self-contained schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urljoin

from tidegate.contracts.formats.json_keywords import REFERENCES

_VALUES = ("enum", "const", "default", "examples", "example")


def json_text(schema: Any, *, sort_keys: bool = False) -> str:
    """Write a JSON Schema without spaces, its keys in the order of its author or sorted."""
    return json.dumps(schema, ensure_ascii=False, allow_nan=False, sort_keys=sort_keys, separators=(",", ":"))


def bundled(schema: Any, others: Mapping[str, Any]) -> Any:
    """Put the schemas that `$ref` names, given by those names, under the schema's own definitions.

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
    """Rewrite the references of a schema that now stands at `place` in the bundle."""
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
