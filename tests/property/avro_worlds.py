"""Random Avro schemas, data of them, and the schemas that readers may have instead."""

from __future__ import annotations

import io
from copy import deepcopy
from typing import Any

import fastavro
from hypothesis import strategies as st

_NUMBERS = ("int", "long", "float", "double")
_WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_PRIMITIVES = ("null", "boolean", *_NUMBERS, "bytes", "string")
_DEFAULTS: dict[str, Any] = {
    "null": None, "boolean": True, "int": -5, "long": 2**40, "float": 0.5, "double": -2.25, "bytes": "\u0001A", "string": "é"
}  # fmt: skip
_SYMBOLS = ("A", "B", "C", "D")


class Names:
    """Names that no other type of a schema has."""

    def __init__(self) -> None:
        self._taken = 0

    def new(self) -> str:
        self._taken += 1
        return f"N{self._taken}"


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """A schema whose unions hold no two types that a reader could take for each other."""
    return draw(_types(Names(), 3))


def _types(names: Names, depth: int) -> st.SearchStrategy[Any]:
    plain: st.SearchStrategy[Any] = st.sampled_from(_PRIMITIVES)
    if depth == 0:
        return plain
    return st.one_of(
        plain, st.deferred(lambda: _records(names, depth)), _containers(names, depth), _named(names), _unions(names, depth)
    )  # fmt: skip


@st.composite
def _records(draw: st.DrawFn, names: Names, depth: int) -> Any:
    name = names.new()
    kinds = draw(st.lists(_types(names, depth - 1), max_size=4))
    fields = [{"name": f"f{index}", "type": kind} for index, kind in enumerate(kinds)]
    if draw(st.booleans()):
        fields.append({"name": "next", "type": ["null", name]})
    return {"type": "record", "name": name, "fields": fields}


@st.composite
def _containers(draw: st.DrawFn, names: Names, depth: int) -> Any:
    inner = draw(_types(names, depth - 1))
    return {"type": "array", "items": inner} if draw(st.booleans()) else {"type": "map", "values": inner}


@st.composite
def _named(draw: st.DrawFn, names: Names) -> Any:
    if draw(st.booleans()):
        return {"type": "fixed", "name": names.new(), "size": draw(st.integers(0, 4))}
    symbols = list(_SYMBOLS[: draw(st.integers(1, 4))])
    return {"type": "enum", "name": names.new(), "symbols": symbols}


@st.composite
def _unions(draw: st.DrawFn, names: Names, depth: int) -> Any:
    branches: list[Any] = draw(
        st.sampled_from([["null"], ["null", "string"], ["boolean", "null"], ["long", "null"], ["bytes"]])
    )
    branches = list(branches)
    if draw(st.booleans()):
        branches.append(draw(_records(names, depth)))
    return branches


@st.composite
def data(draw: st.DrawFn, schema: Any, named: dict[str, Any], depth: int = 6) -> Any:  # noqa: PLR0911 - a table
    """A datum of a schema that fastavro parsed, as fastavro writes it; branches of unions are named by tuples."""
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    if isinstance(schema, list):
        branches = [each for each in schema if each == "null"] if depth <= 0 else schema
        branch = draw(st.sampled_from(branches or schema))
        return draw(data(branch, named, depth - 1))
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "record":
            return {field["name"]: draw(data(field["type"], named, depth - 1)) for field in schema["fields"]}
        case "array":
            return draw(st.lists(data(schema["items"], named, depth - 1), max_size=3 if depth > 0 else 0))
        case "map":
            values = data(schema["values"], named, depth - 1)
            return draw(st.dictionaries(st.text(max_size=3), values, max_size=3 if depth > 0 else 0))
        case "fixed":
            return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
        case "enum":
            return draw(st.sampled_from(schema["symbols"]))
        case _:
            return draw(_VALUES[kind])


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.one_of(st.integers(-70, 70), st.integers(-(2**31), 2**31 - 1)),
    "long": st.one_of(st.integers(-9000, 9000), st.integers(-(2**63), 2**63 - 1), st.integers(2**40, 2**52)),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=4),
    "string": st.one_of(st.text(max_size=4), st.just("x" * 70)),
}


def encoded(schema: Any, datum: Any) -> bytes:
    """Encode as fastavro does."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, datum)
    return file.getvalue()


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """Another schema, made of one by changes that resolution knows: some of them lose the data."""
    return draw(_changed(deepcopy(schema)))


@st.composite
def _changed(draw: st.DrawFn, schema: Any) -> Any:
    change = draw(st.integers(0, 9))
    if isinstance(schema, list):
        return [draw(_changed(each)) if isinstance(each, dict) else each for each in schema]
    if isinstance(schema, str):
        if change < 3 and schema in _WIDER:
            schema = draw(st.sampled_from(_WIDER[schema]))
        return schema if change != 9 or schema == "null" or schema not in _PRIMITIVES else ["null", schema]
    match schema["type"]:
        case "record":
            _change_record(draw, schema)
        case "array":
            schema["items"] = draw(_changed(schema["items"]))
        case "map":
            schema["values"] = draw(_changed(schema["values"]))
        case "enum" if change < 4:
            schema["symbols"] = draw(st.permutations(_SYMBOLS))[: draw(st.integers(1, 4))]
            if change < 2:
                schema["default"] = schema["symbols"][0]
        case "fixed" if change == 0:
            schema["size"] += 1
    return schema


def _change_record(draw: st.DrawFn, schema: Any) -> None:
    fields = [{**field, "type": draw(_changed(field["type"]))} for field in schema["fields"]]
    fields = draw(st.permutations(fields))
    if fields and draw(st.booleans()):
        fields.pop()
    for field in fields:
        if draw(st.integers(0, 4)) == 0:
            field["aliases"] = [field["name"]]
            field["name"] = f"new_{field['name']}"
    if draw(st.booleans()):
        kind = draw(st.sampled_from(_PRIMITIVES))
        added = {"name": "added", "type": kind}
        fields.append(added | {"default": _DEFAULTS[kind]} if draw(st.integers(0, 3)) else added)
    schema["fields"] = fields
