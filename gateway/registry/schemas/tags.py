"""Tags of fields, inside a schema: `confluent:tags` on the field that they are of."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidegate.gateway.registry.schemas.avro_text import definitions
from tidegate.gateway.registry.schemas.entities import AVRO, EntityTags
from tidegate.gateway.registry.schemas.errors import invalid_schema
from tidegate.gateway.registry.schemas.parsing import ParsedSchema

TAGS = "confluent:tags"


def with_changed_tags(schema: ParsedSchema, add: Sequence[EntityTags], remove: Sequence[EntityTags]) -> str:
    """Write a schema with tags added to its places and removed from them. Raises Refused (42201)."""
    definition = json.loads(schema.text)
    places = {path: node for paths, node in _places(schema.schema_type, definition) for path in paths}
    for changes, is_added in ((add, True), (remove, False)):
        for change in changes:
            node = places.get(_plain(change.place.path))
            if node is None:
                raise invalid_schema(f"it has no place {change.place.path} to tag")
            held = [tag for tag in node.get(TAGS, ()) if tag not in change.tags]
            _put(node, [*held, *change.tags] if is_added else held)
    return json.dumps(definition, ensure_ascii=False)


def inherited_tags(earlier: ParsedSchema, later: ParsedSchema) -> tuple[EntityTags, ...]:
    """Return the tags of an earlier schema at the places that a later one has, too."""
    places = {path for paths, _ in _places(later.schema_type, json.loads(later.text)) for path in paths[:1]}
    return tuple(
        EntityTags(place=EntityTags.Place(path=paths[0]), tags=tuple(node[TAGS]))
        for paths, node in _places(earlier.schema_type, json.loads(earlier.text))
        if paths[0] in places and _are_tags(node.get(TAGS))
    )


def _are_tags(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(tag, str) for tag in found)


def with_inline_tags(schema_type: str, text: str, tags: Mapping[str, Iterable[str]]) -> str:
    """Write a schema's text with the tags of its metadata on the fields that their paths match.

    A path is a full name in which `*` stands for a part and `**` for any number of them.
    """
    definition = json.loads(text)
    patterns = [(_parts(path), tuple(found)) for path, found in tags.items()]
    for paths, node in _places(schema_type, definition):
        for parts, found in patterns:
            if any(_fits(path, parts) for path in paths):
                held = node.get(TAGS, [])
                _put(node, [*held, *(tag for tag in found if tag not in held)])
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"))


def _put(node: dict[str, Any], tags: list[str]) -> None:
    if tags:
        node[TAGS] = tags
    else:
        node.pop(TAGS, None)


def _plain(path: str) -> str:
    return path.lstrip(".")


def _parts(path: str) -> tuple[str, ...]:
    """Split a path into texts, each `*`, and each run of more stars, which stands for as much as `**`."""
    return tuple(part for part in re.split(r"(\*+)", _plain(path)) if part)


def _fits(name: str, parts: Iterable[str]) -> bool:
    """Return whether a name fits the parts of a path.

    All ends of a match are followed at once: the backtracking of `re` takes n^k steps for k stars.
    """
    ends: Collection[int] = (0,)
    for part in parts:
        if part == "*":
            ends = _up_to_dots(name, ends)
        elif part.startswith("**"):
            ends = range(min(ends), len(name) + 1)
        else:
            ends = [end + len(part) for end in ends if name.startswith(part, end)]
        if not ends:
            return False
    return len(name) in ends


def _up_to_dots(name: str, ends: Iterable[int]) -> list[int]:
    """Return each position, in order, that is reached from one of `ends` without crossing a dot."""
    reached: list[int] = []
    for end in ends:
        if not reached or end > reached[-1]:
            dot = name.find(".", end)
            reached.extend(range(end, (len(name) if dot < 0 else dot) + 1))
    return reached


def _places(schema_type: str, definition: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Return the places that can be tagged: the names by which each is known, and its node."""
    return _avro_places(definition) if schema_type == AVRO else _json_places(definition, ())


def _avro_places(schema: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    for name, found in definitions(schema):
        yield (name,), found
        for field in found.get("fields", ()):
            yield (f"{name}.{field['name']}",), field


def _json_places(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if not isinstance(schema, dict):
        return
    dotted = ".".join(path)
    yield (".".join(("$", *path)), ".".join(("object", *path)), dotted), schema
    for name, member in schema.get("properties", {}).items():
        yield from _json_places(member, (*path, name))
    for name in ("allOf", "anyOf", "oneOf"):
        for branch in schema.get(name, ()):
            yield from (place for place in _json_places(branch, path) if place[1] is not branch)
    yield from (
        place for place in _json_places(schema.get("items"), path) if place[1] is not schema.get("items")
    )
