"""Small values of a JSON Schema, guessed: no one relies on them before a judge has said that they fit."""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import tokens, value_at
from tidegate.contracts.inclusion.json_schema.regular import Question, answer
from tidegate.contracts.rules.places import EACH, Path

_MAX_DEPTH: Final = 24
_MAX_STEPS: Final = 20_000
_MAX_LISTED: Final = 50
_FORMATS: Final = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "a@example.org",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "uri": "urn:a",
    "ipv4": "192.0.2.1",
    "hostname": "example.org",
}
_EMPTY: Final[dict[str, Any]] = {"null": None, "boolean": False, "array": [], "object": {}}
_ORDER: Final = ("object", "string", "integer", "number", "boolean", "array", "null")


def sample(schema: Any, needed: tuple[Path, ...] = ()) -> Any:
    """Guess a small value of a schema, with the members at the paths in `needed`."""
    return _Guess(schema).value(schema, needed, 0)


def listed(schema: Any, path: Path) -> tuple[Any, ...]:
    """Return values that a schema names for the member at a path, and its bounds with a step beyond them."""
    guess = _Guess(schema)
    values: list[Any] = []
    for part in guess.at(schema, path):
        values += part.get("enum", [])[:_MAX_LISTED] if isinstance(part.get("enum"), list) else []
        values += [part["const"]] if "const" in part else []
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            bound = part.get(keyword)
            if isinstance(bound, int | float) and not isinstance(bound, bool):
                values += [bound, bound - 1, bound + 1]
    return tuple(values)


class _Guess:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = 0

    def value(self, schema: Any, needed: tuple[Path, ...], depth: int) -> Any:  # noqa: PLR0911 - one for each type
        merged = self._merged(schema, depth)
        if "const" in merged:
            return merged["const"]
        if isinstance(merged.get("enum"), list) and merged["enum"]:
            return merged["enum"][0]
        needed = tuple(path for path in needed if path)
        match _type(merged, is_object=bool(needed)):
            case "object" if depth < _MAX_DEPTH:
                return self._object(merged, needed, depth)
            case "array" if depth < _MAX_DEPTH:
                return self._array(merged, needed, depth)
            case "string":
                return _string(merged)
            case "integer" | "number" as kind:
                return _number(merged, is_whole=kind == "integer")
            case kind:
                return _EMPTY[kind]

    def at(self, schema: Any, path: Path) -> list[dict[str, Any]]:
        """Return what a schema asks of the member at a path, for each alternative."""
        parts = self._alternatives(schema, 0)
        if not path:
            return parts
        inner = [part.get("items" if path[0] == EACH else "properties") for part in parts]
        if path[0] != EACH:
            inner = [(properties or {}).get(path[0]) for properties in inner]
        return [found for each in inner if each is not None for found in self.at(each, path[1:])]

    def _alternatives(self, schema: Any, depth: int) -> list[dict[str, Any]]:
        merged = self._merged(schema, depth)
        branches = [each for keyword in ("anyOf", "oneOf") for each in merged.get(keyword, [])]
        found = [merged]
        if depth < _MAX_DEPTH and self._steps < _MAX_STEPS:
            found += [each for branch in branches for each in self._alternatives(branch, depth + 1)]
        return found

    def _object(self, schema: dict[str, Any], needed: tuple[Path, ...], depth: int) -> Any:
        properties = schema.get("properties", {})
        names = dict.fromkeys([*schema.get("required", []), *(path[0] for path in needed)])
        return {
            name: self.value(
                properties.get(name, {}), tuple(path[1:] for path in needed if path[0] == name), depth + 1
            )
            for name in names
        }

    def _array(self, schema: dict[str, Any], needed: tuple[Path, ...], depth: int) -> list[Any]:
        items = schema.get("items", {})
        leading = schema.get("prefixItems", items if isinstance(items, list) else [])
        rest = items if isinstance(items, dict) else {}
        within = tuple(path[1:] for path in needed if path[0] == EACH)
        count = max(min(int(schema.get("minItems", 0)), 10), bool(within))
        return [
            self.value(leading[index] if index < len(leading) else rest, within, depth + 1)
            for index in range(count)
        ]

    def _merged(self, schema: Any, depth: int) -> dict[str, Any]:
        """Put together what a schema and those beside it ask for; of alternatives the first."""
        self._steps += 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            return {}
        parts = [self._target(schema["$ref"])] if isinstance(schema.get("$ref"), str) else []
        parts += schema.get("allOf", [])
        parts += [schema[keyword][0] for keyword in ("anyOf", "oneOf") if schema.get(keyword)]
        merged = dict(schema)
        for part in parts:
            for keyword, value in self._merged(part, depth + 1).items():
                match merged.get(keyword), value:
                    case dict(ours), dict():
                        merged[keyword] = {**value, **ours}
                    case list(ours), list() if keyword == "required":
                        merged[keyword] = [*ours, *value]
                    case None, _:
                        merged[keyword] = value
        return merged

    def _target(self, reference: str) -> Any:
        return value_at(self._root, tokens(reference[1:])) if reference.startswith("#") else None


def _type(schema: dict[str, Any], *, is_object: bool) -> str:
    written = schema.get("type")
    types = [written] if isinstance(written, str) else written if isinstance(written, list) else list(_ORDER)
    if is_object and "object" in types:
        return "object"
    return next((kind for kind in _ORDER if kind in types), "null")


def _string(schema: dict[str, Any]) -> str:
    if isinstance(schema.get("pattern"), str) and (text := _matching(schema)) is not None:
        return text
    text = _FORMATS.get(str(schema.get("format")), "")
    return text.ljust(min(int(schema.get("minLength", 0)), 1_000), "a")


def _matching(schema: dict[str, Any]) -> str | None:
    """Return a shortest string of a pattern that is long enough, and not too long."""
    most = schema.get("maxLength")
    length = int(schema.get("minLength", 0)), None if most is None else int(most)
    return answer(Question((schema["pattern"],), (), *length))[0]


def _number(schema: dict[str, Any], *, is_whole: bool) -> Any:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    number: Any = 0
    if low is not None and number < low:
        number = low
    if isinstance(above, int | float) and not isinstance(above, bool) and number <= above:
        number = above + 1
    if high is not None and number > high:
        number = high
    if isinstance(below, int | float) and not isinstance(below, bool) and number >= below:
        number = below - 1
    step = schema.get("multipleOf")
    if step:
        number = step * -(-number // step)
    return int(number) if is_whole and number == int(number) else number
