"""Random JSON Schemas of every keyword, near copies of them, and documents around their constants.

Constants come from small pools, so that two schemas and a document meet at the same values often.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

DIALECTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
NUMBERS = (-1, 0, 1, 1.0, 1.5, 2, 2.0, 3, 4, 0.5, 10)
TEXTS = ("", "a", "b", "ab", "aa", "ba", "aab", "1", "x1", "2000-01-01", "1.2.3.4")
NAMES = ("a", "b", "c", "ab", "x1")
PATTERNS = (
    "^(?!ab)[a-c]*$",
    r"\bab\b",
    "^a",
    "b$",
    "^[ab]*$",
    "^x",
    "a",
    "^.{2}$",
    "^(a|b)$",
    "^[a-c]{1,2}$",
    "(?=a).b",
    "^a+$",
    "",
)
FORMATS = ("date", "ipv4", "uri", "email", "uuid", "nonsense", "regex", "date-time", "hostname")
_SCALARS = (None, True, False, *NUMBERS, *TEXTS)


def seeded(seed: int) -> Random:
    """Return the source of everything random of one example."""
    return Random(seed)  # noqa: S311 - nothing here is secret


def value(random: Random, depth: int = 2) -> Any:
    """Make a JSON value."""
    kind = random.randrange(10 if depth else 6)
    if kind < 6:
        return random.choice(_SCALARS)
    if kind < 8:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    return {name: value(random, depth - 1) for name in random.sample(NAMES, random.randrange(4))}


class SchemaMaker:
    """Makes schemas of one dialect; each is accepted by its meta-schema."""

    def __init__(self, random: Random, dialect: int) -> None:
        self._random = random
        self._dialect = dialect
        self._favoured = random.choice(((), (), ("_later", "_combined"), ("_later", "_array"), ("_object",)))
        self._definitions = random.sample(("d", "e"), random.choice((0, 1, 1, 2, 2)))
        self._anchors = {name: f"#{name}" for name in self._definitions if random.random() < 0.3}
        """Definitions that have a name of their own, by which references may call them."""

    def document(self) -> Any:
        """Make a whole schema."""
        schema = self.schema(3)
        if isinstance(schema, bool):
            return schema
        keyword = "$defs" if self._dialect > 2 else "definitions"
        definitions = {name: self._named(name, self.schema(2)) for name in self._definitions}
        return {
            "$schema": DIALECTS[self._dialect],
            **schema,
            **({keyword: definitions} if definitions else {}),
        }

    def _named(self, name: str, schema: Any) -> Any:
        """Return a definition the name by which it may be called, or an identifier below which names begin again."""
        if name not in self._anchors or isinstance(schema, bool):
            return schema
        if self._dialect < 3:
            return {**schema, "id" if self._dialect == 0 else "$id": f"#{name}"}
        keyword = self._random.choice(("$anchor", "$anchor", "$dynamicAnchor"))
        if self._dialect == 3:
            keyword = "$anchor"
        return {**schema, keyword: name}

    def schema(self, depth: int) -> Any:
        """Make a schema whose subschemas are nested `depth` deep at most."""
        random = self._random
        if self._dialect > 0 and random.random() < 0.08:
            return random.random() < 0.7
        made: dict[str, Any] = {}
        for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 4))):
            made.update(self._keywords(depth))
        return made

    def _keywords(self, depth: int) -> dict[str, Any]:
        random = self._random
        if depth <= 0 or random.random() < 0.45:
            return random.choice((self._any, self._number, self._string, self._counts))()
        choices = [self._object, self._array, self._combined, self._object]
        if self._dialect > 2:
            choices.append(self._later)
        # Few kinds of keywords in one schema meet each other more often than all kinds do.
        favoured = [each for each in choices if each.__name__ in self._favoured]
        return random.choice(favoured or choices)(depth - 1)

    def _any(self) -> dict[str, Any]:
        random = self._random
        kind = random.randrange(4)
        if kind == 0:
            return {"type": random.choice(TYPES)}
        if kind == 1:
            return {"type": random.sample(TYPES, random.randint(1, 4))}
        if kind == 2 and self._dialect > 0:
            return {"const": value(random, 1)}
        values: list[Any] = []
        for _ in range(random.randint(1, 4)):
            one = value(random, 1)
            if not any(_same(one, other) for other in values):
                values.append(one)
        return {"enum": values}

    def _number(self) -> dict[str, Any]:
        random = self._random
        keyword = random.choice(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
        if keyword == "multipleOf":
            return {keyword: random.choice((1, 2, 3, 0.5, 1.5, 6))}
        limit = random.choice(NUMBERS)
        if self._dialect == 0 and keyword.startswith("exclusive"):
            plain = keyword.removeprefix("exclusive").lower()
            return {plain: limit, keyword: random.random() < 0.7}
        return {keyword: limit}

    def _string(self) -> dict[str, Any]:
        random = self._random
        return random.choice(
            (
                {"minLength": random.randrange(4)},
                {"maxLength": random.randrange(4)},
                {"pattern": random.choice(PATTERNS)},
                {"pattern": random.choice(PATTERNS)},
                {"format": random.choice(FORMATS)},
                {"contentEncoding": "base64"},
                {"contentMediaType": "application/json"},
                {"title": "words"},
            )
        )

    def _counts(self) -> dict[str, Any]:
        random = self._random
        return random.choice(
            (
                {"minItems": random.randrange(4)},
                {"maxItems": random.randrange(4)},
                {"uniqueItems": random.random() < 0.8},
                {"minProperties": random.randrange(4)},
                {"maxProperties": random.randrange(4)},
                {"required": random.sample(NAMES, random.randint(1, 2))},
                {"required": random.sample(NAMES, random.randint(1, 2))},
            )
        )

    def _object(self, depth: int) -> dict[str, Any]:
        random = self._random
        kind = random.randrange(8)
        if kind < 3:
            names = random.sample(NAMES, random.randint(1, 3))
            return {"properties": {name: self.schema(depth) for name in names}}
        if kind == 3:
            return {
                "patternProperties": {
                    each: self.schema(depth) for each in random.sample(PATTERNS, random.randint(1, 2))
                }
            }
        if kind == 4:
            return {"additionalProperties": random.choice((False, self.schema(depth)))}
        if kind == 5 and self._dialect > 0:
            return {"propertyNames": self.schema(depth)}
        names = random.sample(NAMES, random.randint(1, 2))
        if random.random() < 0.5:
            return {"dependencies": {name: [random.choice(NAMES)] for name in names}}
        return {"dependencies": {name: self.schema(depth) for name in names}}

    def _array(self, depth: int) -> dict[str, Any]:
        random = self._random
        kind = random.randrange(5)
        if kind < 2:
            return {"items": self.schema(depth)}
        if kind < 4:
            listed = [self.schema(depth) for _ in range(random.randint(1, 3))]
            rest = random.choice((False, self.schema(depth)))
            if self._dialect == 4:
                return random.choice(({"prefixItems": listed}, {"prefixItems": listed, "items": rest}))
            return random.choice(({"items": listed}, {"items": listed, "additionalItems": rest}))
        if self._dialect == 0:
            return {"items": self.schema(depth)}
        made: dict[str, Any] = {"contains": self.schema(depth)}
        if self._dialect > 2 and random.random() < 0.5:
            made["minContains"] = random.randrange(3)
        if self._dialect > 2 and random.random() < 0.5:
            made["maxContains"] = random.randrange(3)
        return made

    def _combined(self, depth: int) -> dict[str, Any]:
        random = self._random
        kind = random.randrange(8)
        if kind < 4:
            keyword = ("allOf", "anyOf", "oneOf", "anyOf")[kind]
            return {keyword: [self.schema(depth) for _ in range(random.randint(1, 3))]}
        if kind == 4:
            return {"not": self.schema(depth)}
        if kind == 5 and self._dialect > 1:
            made: dict[str, Any] = {"if": self.schema(depth)}
            if random.random() < 0.8:
                made["then"] = self.schema(depth)
            if random.random() < 0.6:
                made["else"] = self.schema(depth)
            return made
        # A reference to the whole says something only of a part of the value.
        return {"$ref": self._reference()} if self._definitions or depth < 2 else {}

    def _reference(self) -> str:
        keyword = "$defs" if self._dialect > 2 else "definitions"
        if not self._definitions or self._random.random() < 0.1:
            return "#"
        name = self._random.choice(self._definitions)
        return self._random.choice(
            (f"#/{keyword}/{name}", f"#/{keyword}/{name}", self._anchors.get(name, "#"))
        )

    def _later(self, depth: int) -> dict[str, Any]:
        random = self._random
        kind = random.randrange(6)
        names = random.sample(NAMES, random.randint(1, 2))
        if kind == 0:
            return {"dependentRequired": {name: [random.choice(NAMES)] for name in names}}
        if kind == 1:
            return {"dependentSchemas": {name: self.schema(depth) for name in names}}
        if kind < 4:
            return {"unevaluatedProperties": random.choice((False, self.schema(depth)))}
        if kind == 4:
            return {"unevaluatedItems": random.choice((False, self.schema(depth)))}
        if self._dialect == 3:
            return {"$recursiveRef": "#"}
        return {"$dynamicRef": self._reference()}


def near_copy(random: Random, schema: Any, dialect: int) -> Any:
    """Copy a schema and change one to three places of it."""
    changed = copy.deepcopy(schema)
    for _ in range(random.randint(1, 3)):
        changed = _changed(random, changed, SchemaMaker(random, dialect), is_root=True)
    return changed


def _changed(random: Random, schema: Any, maker: SchemaMaker, *, is_root: bool = False) -> Any:
    if isinstance(schema, bool):
        return random.choice((not schema, {})) if not is_root else schema
    inner = [
        (keyword, below)
        for keyword, below in schema.items()
        if isinstance(below, dict | list) and keyword in _DEEP
    ]
    if inner and random.random() < 0.6:
        keyword, below = random.choice(inner)
        return {**schema, keyword: _changed_below(random, keyword, below, maker)}
    return random.choice((_dropped, _shifted, _wrapped, _typed, _shuffled, _added))(
        random, schema, maker, is_root=is_root
    )


def _own(schema: dict[str, Any]) -> list[str]:
    return [keyword for keyword in schema if not keyword.startswith("$") and keyword != "definitions"]


def _dropped(random: Random, schema: dict[str, Any], maker: SchemaMaker, *, is_root: bool) -> Any:
    own = _own(schema)
    if not own:
        return _added(random, schema, maker, is_root=is_root)
    gone = random.choice(own)
    return {keyword: each for keyword, each in schema.items() if keyword not in {gone, _PARTNERS.get(gone)}}


def _shifted(random: Random, schema: dict[str, Any], maker: SchemaMaker, *, is_root: bool) -> Any:
    numbers = [each for each in _own(schema) if type(schema[each]) in {int, float} and each != "multipleOf"]
    if not numbers:
        return _added(random, schema, maker, is_root=is_root)
    keyword = random.choice(numbers)
    shifted = schema[keyword] + random.choice((-1, 1))
    return {**schema, keyword: shifted if keyword in _SIGNED else max(0, shifted)}


def _wrapped(random: Random, schema: dict[str, Any], maker: SchemaMaker, *, is_root: bool) -> Any:
    if is_root:
        return schema
    return {random.choice(("allOf", "anyOf", "oneOf")): [schema, *random.choice(([], [maker.schema(1)]))]}


def _typed(random: Random, schema: dict[str, Any], maker: SchemaMaker, *, is_root: bool) -> Any:
    if not isinstance(schema.get("type"), str):
        return _added(random, schema, maker, is_root=is_root)
    return {**schema, "type": sorted({schema["type"], random.choice(TYPES)})}


def _shuffled(random: Random, schema: dict[str, Any], maker: SchemaMaker, *, is_root: bool) -> Any:
    del maker, is_root
    return {keyword: schema[keyword] for keyword in random.sample(list(schema), len(schema))}


def _added(random: Random, schema: dict[str, Any], maker: SchemaMaker, *, is_root: bool) -> Any:
    del random, is_root
    made = maker.schema(1)
    return {**schema, **(made if isinstance(made, dict) else {})}


def _changed_below(random: Random, keyword: str, below: Any, maker: SchemaMaker) -> Any:
    if isinstance(below, list):
        index = random.randrange(len(below))
        return [*below[:index], _changed(random, below[index], maker), *below[index + 1 :]]
    if keyword in _MAPS:
        names = [name for name, each in below.items() if isinstance(each, dict | bool)]
        if not names:
            return below
        name = random.choice(names)
        return {**below, name: _changed(random, below[name], maker)}
    return _changed(random, below, maker)


_MAPS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependencies", "dependentSchemas"}
)
_DEEP = _MAPS | {
    "items",
    "additionalItems",
    "prefixItems",
    "contains",
    "additionalProperties",
    "propertyNames",
}
_DEEP |= {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties"}
_SIGNED = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_PARTNERS = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON, or may be: a meta-schema wants no value twice."""
    return repr(one).replace(".0", "") == repr(other).replace(".0", "") or (
        one == other and type(one) is type(other)
    )
