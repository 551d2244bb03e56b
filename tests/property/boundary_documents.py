"""Documents around the places where two JSON Schemas change their mind.

A document is made by walking both schemas at once: at every place some of what they say there is taken up, by chance, and
its constants are met, missed by one, or ignored. Nothing here knows what the comparison under test thinks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from tests.property.json_schema_worlds import NAMES, TEXTS, value
from tidegate.contracts.document.fields import tokens

_MAX_DEPTH = 5
_MAX_FOLLOWED = 24
_KEYWORDS_OF_TYPE = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "array": ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"),
    "object": (
        *("properties", "patternProperties", "additionalProperties", "required", "propertyNames"),
        *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies"),
        "unevaluatedProperties",
    ),
}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_FORMATTED = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "ipv4": "1.2.3.4",
    "uri": "a:b",
    "email": "a@b.cc",
    "uuid": "2eb8aa08-aa98-11ea-b4aa-73b441d16380",
    "regex": "^a",
    "hostname": "a.b",
}


class Boundary:
    """Makes documents for two schemas, each a whole document with its own definitions."""

    def __init__(self, random: Random, old: Any, new: Any) -> None:
        self._random = random
        self._roots = (old, new)
        self._named = [dict(_named(root)) for root in self._roots]

    def document(self) -> Any:
        """Make one document."""
        sides = [
            (side, root) for side, root in enumerate(self._roots) if side == 0 or self._random.random() < 0.6
        ]
        return self._value(sides, 0)

    def _value(self, parts: list[tuple[int, Any]], depth: int) -> Any:
        random = self._random
        parts = list(self._spread(parts))
        constants = [each for _, part in parts for each in _listed(part)]
        if constants and random.random() < 0.5:
            chosen = random.choice(constants)
            return chosen if random.random() < 0.85 else self._altered(chosen)
        kind = self._kind(parts, depth)
        if kind == "null":
            return None
        if kind == "boolean":
            return random.random() < 0.5
        if kind in {"integer", "number"}:
            return self._number(parts, whole=kind == "integer")
        if kind == "string":
            return self._string(parts)
        return self._array(parts, depth) if kind == "array" else self._object(parts, depth)

    def _spread(self, parts: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the schemas, and some of those beside them that speak of the same value."""
        random, waiting, given = self._random, list(parts), 0
        while waiting and given < _MAX_FOLLOWED:
            side, part = waiting.pop()
            if not isinstance(part, dict):
                continue
            given += 1
            yield side, part
            named = [part[each] for each in _REFERENCES if isinstance(part.get(each), str)]
            waiting.extend((side, self._target(side, each)) for each in named)
            waiting.extend((side, each) for each in part.get("allOf", ()))
            for keyword in ("anyOf", "oneOf"):
                if part.get(keyword):
                    chosen = random.sample(
                        part[keyword], min(len(part[keyword]), random.choice((1, 1, 1, 2)))
                    )
                    waiting.extend((side, each) for each in chosen)
            for keyword, share in (("if", 0.6), ("then", 0.6), ("else", 0.3), ("not", 0.3)):
                if keyword in part and random.random() < share:
                    waiting.append((side, part[keyword]))
            for keyword in ("dependentSchemas", "dependencies"):
                below = part.get(keyword, {})
                waiting.extend((side, each) for each in below.values() if random.random() < 0.5)

    def _target(self, side: int, reference: str) -> Any:
        named = self._named[side].get(reference.rpartition("#")[2]) or self._named[side].get(reference)
        if named is not None:
            return named
        if not reference.startswith("#"):
            return None
        target = self._roots[side]
        for token in tokens(reference[1:]):
            if isinstance(target, list) and token.isdecimal() and int(token) < len(target):
                target = target[int(token)]
            else:
                target = target.get(token) if isinstance(target, dict) else None
        return target

    def _kind(self, parts: list[tuple[int, dict[str, Any]]], depth: int) -> str:
        random = self._random
        named: list[str] = []
        for _, part in parts:
            written = part.get("type")
            named += [written] * 3 if isinstance(written, str) else (written or [])
            named += [
                kind for kind, keywords in _KEYWORDS_OF_TYPE.items() if any(each in part for each in keywords)
            ]
        if not named or random.random() < 0.08:
            named = ["null", "boolean", "integer", "number", "string", "array", "object"]
        if depth >= _MAX_DEPTH:
            named = [each for each in named if each not in {"array", "object"}] or [
                "null",
                "string",
                "integer",
            ]
        return random.choice(named)

    def _altered(self, chosen: Any) -> Any:
        random = self._random
        if isinstance(chosen, bool) or chosen is None:
            return random.choice((0, 1, None, "", not chosen))
        if isinstance(chosen, int | float):
            return chosen + random.choice((1, -1, 0.5, 0.0))
        if isinstance(chosen, str):
            return random.choice((chosen + "a", chosen[:-1], chosen + "\n", chosen.upper()))
        if isinstance(chosen, list):
            return random.choice((chosen[:-1], [*chosen, value(random, 1)], chosen[::-1]))
        return {**chosen, random.choice(NAMES): value(random, 1)}

    def _number(self, parts: list[tuple[int, dict[str, Any]]], *, whole: bool) -> int | float:
        random = self._random
        found: list[float] = []
        for _, part in parts:
            for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
                bound = part.get(keyword)
                if isinstance(bound, int | float) and not isinstance(bound, bool):
                    found += [bound, bound, bound + 1, bound - 1, bound + 0.5, bound - 0.5]
            step = part.get("multipleOf")
            if step is not None:
                found += [step, 2 * step, 3 * step, -step, 6 * step, step / 2]
        number = random.choice(found or [0, 1, -1, 2, 1.5, 0.5, 12])
        if whole and number == int(number):
            return int(number)
        return random.choice((number, float(number)))

    def _string(self, parts: list[tuple[int, dict[str, Any]]]) -> str:
        random = self._random
        patterns = [part["pattern"] for _, part in parts if "pattern" in part]
        formats = [part["format"] for _, part in parts if part.get("format") in _FORMATTED]
        if formats and random.random() < 0.5:
            text = _FORMATTED[random.choice(formats)]
            return text if random.random() < 0.7 else text[:-1]
        lengths = [part[each] for _, part in parts for each in ("minLength", "maxLength") if each in part]
        pool = [*TEXTS, *("".join(random.choices("abcx1", k=random.randrange(5))) for _ in range(8))]
        if lengths:
            size = max(0, int(random.choice(lengths)) + random.choice((-1, 0, 0, 1)))
            pool = ["".join(random.choices("abcx1", k=min(size, 40))) for _ in range(8)]
        fitting = [text for text in pool if all(_finds(each, text) for each in patterns)]
        return random.choice(fitting if fitting and random.random() < 0.8 else pool)

    def _array(self, parts: list[tuple[int, dict[str, Any]]], depth: int) -> list[Any]:
        random = self._random
        sizes = [0, 1, 2]
        for _, part in parts:
            for keyword in ("minItems", "maxItems", "minContains", "maxContains"):
                if keyword in part:
                    sizes += [int(part[keyword]), int(part[keyword]) + 1]
            for keyword in ("prefixItems", "items"):
                if isinstance(part.get(keyword), list):
                    sizes += [len(part[keyword]), len(part[keyword]) + 1]
        items: list[Any] = []
        for index in range(min(random.choice(sizes), 6)):
            if items and random.random() < 0.12:
                items.append(random.choice(items))
                continue
            inner = [each for side, part in parts for each in self._of_item(side, part, index)]
            items.append(self._value(inner, depth + 1))
        return items

    def _of_item(self, side: int, part: dict[str, Any], index: int) -> Iterator[tuple[int, Any]]:
        listed = part.get("prefixItems", part.get("items"))
        if isinstance(listed, list) and index < len(listed):
            yield side, listed[index]
        elif isinstance(listed, list):
            yield side, part.get("additionalItems", part.get("items"))
        elif "items" in part:
            yield side, part["items"]
        for keyword, share in (("contains", 0.5), ("unevaluatedItems", 0.5)):
            if keyword in part and self._random.random() < share:
                yield side, part[keyword]

    def _object(self, parts: list[tuple[int, dict[str, Any]]], depth: int) -> dict[str, Any]:
        random = self._random
        needed = [name for _, part in parts for name in part.get("required", ()) if isinstance(name, str)]
        declared = [
            name
            for _, part in parts
            for keyword in ("properties", "dependencies", "dependentRequired", "dependentSchemas")
            for name in part.get(keyword, ())
        ]
        ruled = [(side, part["propertyNames"]) for side, part in parts if "propertyNames" in part]
        named = [each for each in (self._value(ruled, _MAX_DEPTH) for _ in range(2)) if isinstance(each, str)]
        names = dict.fromkeys(each for each in needed if random.random() < 0.93)
        loose = [*declared, *declared, *NAMES, *(named if ruled else ()), *random.choices(TEXTS, k=1)]
        names |= dict.fromkeys(random.choices(loose, k=random.choice((0, 0, 1, 1, 2, 3))))
        for _, part in parts:
            for keyword in ("dependencies", "dependentRequired"):
                for name, more in part.get(keyword, {}).items():
                    if name in names and isinstance(more, list) and random.random() < 0.7:
                        names |= dict.fromkeys(more)
        return {
            name: self._value(
                [each for side, part in parts for each in _of_property(side, part, name)], depth + 1
            )
            for name in names
        }


def _of_property(side: int, part: dict[str, Any], name: str) -> Iterator[tuple[int, Any]]:
    is_declared = name in part.get("properties", {})
    if is_declared:
        yield side, part["properties"][name]
    for pattern, schema in part.get("patternProperties", {}).items():
        if _finds(pattern, name):
            is_declared = True
            yield side, schema
    if not is_declared:
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            if keyword in part:
                yield side, part[keyword]


def _listed(part: dict[str, Any]) -> list[Any]:
    return [*part.get("enum", ()), *([part["const"]] if "const" in part else ())]


def _finds(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def _named(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield what identifiers and anchors of a document name."""
    if isinstance(schema, list):
        for each in schema:
            yield from _named(each)
    elif isinstance(schema, dict):
        for keyword in ("$id", "id", "$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(keyword), str):
                yield schema[keyword], schema
                yield schema[keyword].removeprefix("#"), schema
        for each in schema.values():
            yield from _named(each)
