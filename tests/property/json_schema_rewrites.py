"""Changes of JSON Schemas that take no document away: the same said in other words, and more allowed than before.

Each is true by construction for schemas without `unevaluated*`, to which the place of a keyword makes a difference.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from tests.property.json_schema_worlds import (
    DIALECTS,
    NAMES,
    NUMBERS,
    TEXTS,
    TYPES,
    SchemaMaker,
    near_copy,
)

Schema = dict[str, Any]
Rewrite = Callable[[Random, Schema, int], Any]
"""Takes a schema and the index of its dialect; gives another, or the same where there is nothing to change."""

_TOGETHER = (
    ("properties", "patternProperties", "additionalProperties"),
    ("items", "prefixItems", "additionalItems"),
    ("contains", "minContains", "maxContains"),
    ("if", "then", "else"),
    ("minimum", "exclusiveMinimum"),
    ("maximum", "exclusiveMaximum"),
)
_HEAD = ("$schema", "$defs", "definitions", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
_DROPPED = (
    *("type", "enum", "const", "multipleOf", "minLength", "maxLength", "pattern", "format", "uniqueItems"),
    *("minItems", "maxItems", "minProperties", "maxProperties", "required", "propertyNames", "not"),
    *("allOf", "anyOf", "oneOf", "dependentRequired", "dependencies", "dependentSchemas"),
)
_LOWER = ("minimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "maxLength", "maxItems", "maxProperties")


def pair(random: Random) -> tuple[Any, Any, bool]:
    """Make two schemas, mostly one out of the other; and say whether the second surely takes what the first does."""
    dialect = random.randrange(len(DIALECTS))
    old = SchemaMaker(random, dialect).document()
    share = random.random()
    if isinstance(old, bool) or share < 0.08:
        return old, SchemaMaker(random, random.randrange(len(DIALECTS))).document(), False
    if share < 0.4:
        return old, near_copy(random, old, dialect), False
    change = random.choice((reworded, widened))
    new: Any = old
    for _ in range(random.randint(1, 4)):
        new = change(random, copy.deepcopy(new), dialect)
    if share < 0.6:
        return old, near_copy(random, new, dialect) if isinstance(new, dict) else new, False
    # A reference to the whole means another whole; and not everything keeps its place.
    text = repr(old)
    return old, new, not any(each in text for each in ("'#'", "unevaluated", "'$recursive", "'$dynamic"))


def reworded(random: Random, schema: Schema, dialect: int) -> Any:
    """Say the same as a schema in other words, at one place or several."""
    return _anywhere(random, schema, dialect, _SAME, _ALL_PLACES)


def widened(random: Random, schema: Schema, dialect: int) -> Any:
    """Allow more than a schema, at one place or several."""
    return _anywhere(random, schema, dialect, (*_SAME, *_MORE, *_MORE), _WIDER_PLACES)


def _anywhere(
    random: Random, schema: Any, dialect: int, rewrites: tuple[Rewrite, ...], places: frozenset[str]
) -> Any:
    """Rewrite a schema or one below it; a document keeps its head."""
    if not isinstance(schema, dict):
        return schema
    head = {keyword: each for keyword, each in schema.items() if keyword in _HEAD}
    rest = {keyword: each for keyword, each in schema.items() if keyword not in _HEAD}
    inner = [keyword for keyword in rest if keyword in places and isinstance(rest[keyword], dict | list)]
    if inner and random.random() < 0.6 and not (dialect <= 2 and "$ref" in rest):
        keyword = random.choice(inner)
        return {**head, **rest, keyword: _below(random, rest[keyword], keyword, dialect, (rewrites, places))}
    made = random.choice(rewrites)(random, rest, dialect)
    return {**head, **made} if isinstance(made, dict) else made if not head else {**head, "allOf": [made]}


def _below(
    random: Random,
    below: Any,
    keyword: str,
    dialect: int,
    how: tuple[tuple[Rewrite, ...], frozenset[str]],
) -> Any:
    if isinstance(below, list):
        index = random.randrange(len(below)) if below else 0
        return [
            _anywhere(random, each, dialect, *how) if at == index else each for at, each in enumerate(below)
        ]
    if keyword in {"properties", "patternProperties", "dependentSchemas"}:
        name = random.choice([*below]) if below else None
        return {
            each: _anywhere(random, part, dialect, *how) if each == name else part
            for each, part in below.items()
        }
    return _anywhere(random, below, dialect, *how)


# The same in other words.


def _wrapped(random: Random, schema: Schema, dialect: int) -> Any:
    del dialect
    return random.choice(
        (
            {"allOf": [schema]},
            {"anyOf": [schema]},
            {"oneOf": [schema]},
            {"not": {"not": schema}},
            {"anyOf": [schema, {"not": {}}]},
            {"allOf": [schema, {}, copy.deepcopy(schema)]},
        )
    )


def _conditional(random: Random, schema: Schema, dialect: int) -> Any:
    if dialect < 2:
        return schema
    return random.choice(
        (
            {"if": schema, "else": False},
            {"if": {"type": random.choice(TYPES)}, "then": schema, "else": copy.deepcopy(schema)},
            {"if": {"not": schema}, "then": False},
        )
    )


def _listed(random: Random, schema: Schema, dialect: int) -> Any:
    made = dict(schema)
    if "const" in made and "enum" not in made:
        made["enum"] = [made.pop("const")]
    elif "enum" in made and dialect > 0 and not {"anyOf", "oneOf"} & made.keys():
        made[random.choice(("anyOf", "oneOf"))] = [{"const": each} for each in made.pop("enum")]
    return made


def _typed(random: Random, schema: Schema, dialect: int) -> Any:
    del random
    made = dict(schema)
    written = made.get("type")
    if isinstance(written, list) and "anyOf" not in made:
        made["anyOf"] = [{"type": each} for each in made.pop("type")]
    elif written == "number" and dialect > 0:
        made["type"] = ["number", "integer"]
    elif written == "boolean" and "enum" not in made:
        made["enum"] = [False, True]
        del made["type"]
    return made


def _split(random: Random, schema: Schema, dialect: int) -> Any:
    if "allOf" in schema or (dialect <= 2 and "$ref" in schema):
        return schema
    moved = {keyword for keyword in schema if random.random() < 0.5}
    for group in _TOGETHER:
        if moved.intersection(group):
            moved.update(group)
    parts = [
        {keyword: each for keyword, each in schema.items() if (keyword in moved) is side}
        for side in (True, False)
    ]
    return {**parts[1], "allOf": [parts[0]]} if random.random() < 0.5 else {"allOf": parts}


def _named(random: Random, schema: Schema, dialect: int) -> Any:
    del dialect
    made = dict(schema)
    properties = made.get("properties")
    if properties and "patternProperties" not in made and all(name.isalnum() for name in properties):
        name = random.choice([*properties])
        made["properties"] = {each: part for each, part in properties.items() if each != name}
        made["patternProperties"] = {f"^{name}$": properties[name]}
    return made


def _closed(random: Random, schema: Schema, dialect: int) -> Any:
    del random
    is_plain = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    if not is_plain or dialect == 0 or "propertyNames" in schema or not schema.get("properties"):
        return schema
    made = {keyword: each for keyword, each in schema.items() if keyword != "additionalProperties"}
    return {**made, "propertyNames": {"enum": [*schema["properties"]]}}


def _needed(random: Random, schema: Schema, dialect: int) -> Any:
    made = dict(schema)
    if len(made.get("required", ())) > 1 and "allOf" not in made:
        made["allOf"] = [{"required": [name]} for name in made.pop("required")]
    elif dialect > 2 and "dependentRequired" in made and "dependentSchemas" not in made:
        asked = made.pop("dependentRequired")
        made["dependentSchemas"] = {name: {"required": more} if more else {} for name, more in asked.items()}
    elif dialect > 2 and made.get("minItems") == 1 and "contains" not in made and random.random() < 0.5:
        del made["minItems"]
        made["contains"] = {}
    return made


def _leading(random: Random, schema: Schema, dialect: int) -> Any:
    del random
    items = schema.get("items")
    if not isinstance(items, dict | bool) or "prefixItems" in schema:
        return schema
    if dialect == 4:
        return {**schema, "prefixItems": [items], "items": items}
    return {**schema, "items": [items], "additionalItems": items}


# More than before.


def _dropped(random: Random, schema: Schema, dialect: int) -> Any:
    keywords = [keyword for keyword in schema if keyword in _DROPPED]
    if not keywords or (dialect <= 2 and "$ref" in schema):
        return schema
    gone = random.choice(keywords)
    return {keyword: each for keyword, each in schema.items() if keyword != gone}


def _loosened(random: Random, schema: Schema, dialect: int) -> Any:
    del dialect
    bounds = [keyword for keyword in (*_LOWER, *_UPPER) if keyword in schema]
    if not bounds:
        return schema
    keyword = random.choice(bounds)
    moved = schema[keyword] + (-1 if keyword in _LOWER else 1) * random.choice((1, 1, 2, 10))
    return {**schema, keyword: moved if keyword in {"minimum", "maximum"} else max(0, moved)}


def _more_values(random: Random, schema: Schema, dialect: int) -> Any:
    made = dict(schema)
    if "enum" in made:
        more = [each for each in (*NUMBERS, *TEXTS, None) if not any(each == known for known in made["enum"])]
        made["enum"] = [*made["enum"], random.choice(more)]
    elif "const" in made and dialect > 0:
        made["enum"] = [made.pop("const"), "more"]
    return made


def _more_types(random: Random, schema: Schema, dialect: int) -> Any:
    del dialect
    written = schema.get("type")
    if written is None:
        return schema
    return {
        **schema,
        "type": sorted({random.choice(TYPES), *([written] if isinstance(written, str) else written)}),
    }


def _alternative(random: Random, schema: Schema, dialect: int) -> Any:
    del dialect
    other = random.choice(
        ({"type": random.choice(TYPES)}, {"minimum": random.choice(NUMBERS)}, {"maxLength": 1})
    )
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], other]}
    return {"anyOf": random.sample((schema, other), 2)}


def _opened(random: Random, schema: Schema, dialect: int) -> Any:
    del dialect
    made = dict(schema)
    if "additionalProperties" in made:
        if made["additionalProperties"] is False and random.random() < 0.5:
            free = [name for name in NAMES if name not in made.get("properties", {})]
            more = {name: {"type": random.choice(TYPES)} for name in free[:1]}
            patterns = made.get("patternProperties")
            return {**made, "properties": {**made.get("properties", {}), **more}} if not patterns else made
        del made["additionalProperties"]
    elif "required" in made:
        made["required"] = made["required"][1:] or ["a"][:0]
        if not made["required"]:
            del made["required"]
    return made


def _free(random: Random, schema: Schema, dialect: int) -> Any:
    del schema
    return random.choice(({}, {"title": "anything"}, *((True,) if dialect > 0 else ())))


def _annotated(random: Random, schema: Schema, dialect: int) -> Any:
    del dialect
    return {**schema, random.choice(("title", "description")): "words", "default": random.choice(TEXTS)}


_SAME: tuple[Rewrite, ...] = (
    *(_wrapped, _conditional, _listed, _typed, _split, _named, _closed, _needed, _leading, _annotated),
)
_MORE: tuple[Rewrite, ...] = (
    *(_dropped, _loosened, _more_values, _more_types, _alternative, _opened, _free),
)
_WIDER_PLACES = frozenset(
    {"properties", "patternProperties", "additionalProperties", "items", "prefixItems", "allOf", "anyOf"}
    | {"additionalItems", "dependentSchemas", "then", "else", "propertyNames"}
)
_ALL_PLACES = _WIDER_PLACES | {"oneOf", "not", "if", "contains"}
