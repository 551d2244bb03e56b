"""The mistakes of an invalid Avro schema, each with its place in the schema document."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from tidegate.contracts.errors import Problem
from tidegate.contracts.formats.avro_types import unqualified
from tidegate.contracts.suggestions import closest

_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_OTHER_TYPE_NAMES: Final = {
    "integer": "long",
    "bigint": "long",
    "number": "double",
    "bool": "boolean",
    "str": "string",
    "text": "string",
    "binary": "bytes",
}
"""Type names of other languages that edit distance would match with a wrong type."""
_KEYS: Final = {
    "record": ("name", "fields"),
    "error": ("name", "fields"),
    "enum": ("name", "symbols"),
    "fixed": ("name", "size"),
    "array": ("items",),
    "map": ("values",),
}
"""The keys that a complex type must have. Source: specification, "Complex Types"."""


def mistakes(definition: Any, pointer: str) -> Iterator[Problem]:
    """Yield the mistakes of a schema that can be located: unknown types, missing keys and duplicate fields.

    For a schema that `avro_types.parse` refuses. Its other mistakes have no known place.
    """
    yield from _mistakes(definition, pointer, "", set())


def _mistakes(schema: Any, pointer: str, namespace: str, names: set[str]) -> Iterator[Problem]:
    """Walk a schema in document order; `names` collects the declared names, because types are declared before use."""
    match schema:
        case str(name):
            full = name if "." in name or not namespace else f"{namespace}.{name}"
            if name not in _PRIMITIVES and full not in names:
                yield Problem(pointer, f"no type is named {name:.80}{_near(name, names)}")
        case list():
            for index, branch in enumerate(schema):
                yield from _mistakes(branch, f"{pointer}/{index}", namespace, names)
        case {"type": str(kind)} if kind in _KEYS:
            yield from _mistakes_of_parts(schema, pointer, namespace, names)
        case {"type": inner}:
            yield from _mistakes(inner, f"{pointer}/type", namespace, names)
        case dict():
            yield Problem(pointer, "`type` is missing")
        case _:
            yield Problem(pointer, "a type is a name, a mapping or a list")


def _mistakes_of_parts(
    schema: dict[str, Any], pointer: str, namespace: str, names: set[str]
) -> Iterator[Problem]:
    yield from (Problem(pointer, f"`{key}` is missing") for key in _KEYS[schema["type"]] if key not in schema)
    for key in ("items", "values"):
        if key in _KEYS[schema["type"]] and key in schema:
            yield from _mistakes(schema[key], f"{pointer}/{key}", namespace, names)
    if isinstance(name := schema.get("name"), str):
        own = schema.get("namespace", namespace)
        full = name if "." in name or not own else f"{own}.{name}"
        namespace = full.rpartition(".")[0]
        names.add(full)
    seen: set[str] = set()
    fields = schema.get("fields") if schema["type"] in {"record", "error"} else None
    for index, each in enumerate(fields if isinstance(fields, list) else ()):
        place = f"{pointer}/fields/{index}"
        if not isinstance(each, dict):
            yield Problem(place, "a field is a mapping")
            continue
        yield from (Problem(place, f"`{key}` is missing") for key in ("name", "type") if key not in each)
        if isinstance(name := each.get("name"), str):
            if name in seen:
                yield Problem(f"{place}/name", f"the record has two fields named {name:.80}")
            seen.add(name)
        if "type" in each:
            yield from _mistakes(each["type"], f"{place}/type", namespace, names)


def _near(name: str, names: set[str]) -> str:
    known = chain(_PRIMITIVES, names, map(unqualified, names))
    right = _OTHER_TYPE_NAMES.get(name.casefold()) or closest(name, known)
    return f"; did you mean `{right}`?" if right else ""
