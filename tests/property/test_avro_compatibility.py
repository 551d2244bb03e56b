"""What is proven of two Avro schemas, fastavro reads; what is refuted, it does not."""

from __future__ import annotations

import copy
import io
import json
from functools import partial
from typing import Any

import avro.schema
import fastavro
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.document.model import AvroSchema
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.avro_types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    parse,
)
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.inclusion.avro import includes
from tidegate.contracts.inclusion.avro.claims import logical_of, meaning
from tidegate.contracts.inclusion.avro.data import Datum, Sizes, UnionValue, encode, json_text
from tidegate.contracts.inclusion.avro.documents import schema_of

Schema = Any

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
]
LEAVES = [*PRIMITIVES, *LOGICAL]
# fastavro does not decode the default of bytes, and could not write again what it read.
DEFAULTS = {
    "null": None,
    "boolean": False,
    "int": 3,
    "long": 4,
    "float": 0.5,
    "double": 1.5,
    "string": "s",
}
SYMBOLS = ["A", "B", "C"]


class Names:
    """Gives names that are used once, and may be referred to afterwards."""

    def __init__(self) -> None:
        self.used = 0

    def new(self) -> str:
        self.used += 1
        return f"N{self.used}"


@st.composite
def schemas(draw: st.DrawFn, names: Names, depth: int = 0) -> Schema:  # noqa: PLR0911 - one for each kind
    kinds = ["leaf", "leaf", "enum", "fixed"] + (
        ["record", "record", "array", "map", "union"] if depth < 3 else []
    )
    match draw(st.sampled_from(kinds)):
        case "enum":
            symbols = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
            default = {"default": symbols[0]} if draw(st.booleans()) else {}
            return {"type": "enum", "name": names.new(), "symbols": symbols, **default}
        case "fixed":
            return {"type": "fixed", "name": names.new(), "size": draw(st.integers(0, 3))}
        case "array":
            return {"type": "array", "items": draw(schemas(names, depth + 1))}
        case "map":
            return {"type": "map", "values": draw(schemas(names, depth + 1))}
        case "union":
            kinds_of = {}
            for _ in range(draw(st.integers(1, 3))):
                branch = draw(schemas(names, 3))
                kinds_of[branch["name"] if "name" in branch else kind_of(branch)] = branch
            return list(kinds_of.values())
        case "record":
            return draw(records(names, depth))
    return draw(st.sampled_from(LEAVES))


@st.composite
def records(draw: st.DrawFn, names: Names, depth: int = 0) -> Schema:
    name = names.new()
    fields = [draw(fields_named(field, names, depth)) for field in draw(st.sampled_from(["a", "ab", "abc"]))]
    if draw(st.booleans()):
        fields.append(
            {
                "name": "self",
                "type": draw(st.sampled_from([["null", name], {"type": "array", "items": name}])),
            }
        )
    return {"type": "record", "name": name, "fields": fields}


@st.composite
def fields_named(draw: st.DrawFn, name: str, names: Names, depth: int) -> dict[str, Any]:
    schema = draw(schemas(names, depth + 1))
    with_default = isinstance(schema, str) and schema in DEFAULTS and draw(st.booleans())
    return {"name": name, "type": schema} | ({"default": DEFAULTS[schema]} if with_default else {})


def kind_of(schema: Schema) -> str:
    return schema if isinstance(schema, str) else schema["type"]


def places(schema: Schema) -> list[tuple[Any, Any]]:
    """Every subschema, as the container and key that hold it."""
    found: list[tuple[Any, Any]] = []
    match schema:
        case list():
            inner = [(schema, index) for index in range(len(schema))]
        case {"type": "record", "fields": fields}:
            inner = [(each, "type") for each in fields]
        case {"type": "array"}:
            inner = [(schema, "items")]
        case {"type": "map"}:
            inner = [(schema, "values")]
        case _:
            inner = []
    for container, key in inner:
        found += [(container, key), *places(container[key])]
    return found


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Schema, Schema]:
    """Two schemas that differ in a few places."""
    names = Names()
    one: Any = [draw(st.one_of(records(names), schemas(names)))]
    other: Any = copy.deepcopy(one)
    for _ in range(draw(st.integers(1, 3))):
        spots = [(other, 0), *places(other[0])]
        container, key = draw(st.sampled_from(spots))
        container[key] = draw(changed(container[key], names))
    pair = (one[0], other[0])
    return pair if draw(st.booleans()) else (pair[1], pair[0])


@st.composite
def changed(draw: st.DrawFn, schema: Schema, names: Names) -> Schema:  # noqa: PLR0911 - one for each kind
    if draw(st.integers(0, 5)) == 0:
        return draw(schemas(names, 2))
    match schema:
        case {"type": "enum", "symbols": symbols}:
            smaller = symbols[: draw(st.integers(1, len(symbols)))]
            return draw(
                st.sampled_from(
                    [
                        {**schema, "symbols": SYMBOLS},
                        {**schema, "symbols": smaller, "default": smaller[0]},
                        {"type": "enum", "name": schema["name"], "symbols": smaller},
                    ]
                )
            )
        case {"type": "fixed", "size": size}:
            return {**schema, "size": draw(st.sampled_from([size, size + 1]))}
        case {"type": "record", "fields": fields}:
            return {**schema, "fields": draw(changed_fields(fields, names))}
        case list():
            return draw(st.sampled_from([list(reversed(schema)), schema[:1], schema[-1]]))
        case {"type": "array" | "map"}:
            return schema
    promoted = draw(st.sampled_from(LEAVES))
    return draw(
        st.sampled_from([promoted, [promoted], ["null", schema] if kind_of(schema) != "null" else schema])
    )


@st.composite
def changed_fields(draw: st.DrawFn, fields: list[Any], names: Names) -> list[Any]:
    match draw(st.integers(0, 3)):
        case 0:
            return list(reversed(fields))
        case 1:
            return fields[1:] or fields
        case 2:
            return [*fields, draw(fields_named("d", names, 2))]
    first = fields[0]
    return [{**first, "name": "renamed", "aliases": [first["name"]]}, *fields[1:]]


def data(node: AvroType) -> st.SearchStrategy[Datum]:
    """Data of a type; none when it has no finite ones."""
    sizes = Sizes(node)
    return values(node, sizes, 0) if sizes.exists(node) else st.nothing()


def values(node: AvroType, sizes: Sizes, depth: int) -> st.SearchStrategy[Datum]:  # noqa: PLR0911 - one for each type
    if depth > 4:
        return st.just(sizes.smallest(node))
    depth += 1
    match node:
        case Primitive():
            return primitive_data(node)
        case Fixed():
            return st.binary(min_size=node.size, max_size=node.size)
        case Enum():
            return st.sampled_from(node.symbols)
        case Array():
            # A type without values, such as a record that holds itself, is in empty collections only.
            more = 2 if sizes.exists(node.items) else 0
            return st.lists(values(node.items, sizes, depth) if more else st.nothing(), max_size=more)
        case Map():
            more = 2 if sizes.exists(node.values) else 0
            inner = values(node.values, sizes, depth) if more else st.nothing()
            return st.dictionaries(st.text(max_size=2), inner, max_size=more)
        case Union():
            branches = [(index, values(node.branches[index], sizes, depth)) for index in sizes.order(node)]
            return st.one_of([each.map(partial(UnionValue, index)) for index, each in branches])
        case Record():
            return st.fixed_dictionaries({each.name: values(each.type, sizes, depth) for each in node.fields})


def primitive_data(node: Primitive) -> st.SearchStrategy[Any]:
    if node.logical is not None and node.logical.name == "uuid":
        return st.uuids().map(str)
    if node.logical is not None and node.logical.name == "decimal":
        limit = 10**node.logical.precision - 1
        return st.integers(-limit, limit).map(
            lambda n: n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True)
        )
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1) if node.logical is None else st.integers(0, 10_000),
        "long": st.integers(-(2**63), 2**63 - 1) if node.logical is None else st.integers(0, 10**12),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.binary(max_size=3),
        "string": st.text(max_size=3),
    }[node.kind]  # fmt: skip


def without_logical(schema: Schema) -> Schema:
    """Plain types, as fastavro reads them without a look at what they mean, and no defaults that are none."""
    return schema_of(parse(schema))


def is_valid(*both: Schema) -> bool:
    """Return whether Apache's library takes both schemas: random ones have unions that are none."""
    try:
        for schema in both:
            avro.schema.parse(json.dumps(schema))
            parse(schema)
    except Exception:  # noqa: BLE001 - of any kind
        return False
    return True


@settings(max_examples=examples(700), deadline=None)
@given(pairs(), st.data())
def test_all_data_of_a_proven_pair_can_be_read(pair: tuple[Schema, Schema], draw: st.DataObject) -> None:
    writer, reader = pair
    if not is_valid(writer, reader):
        return
    if includes(writer, reader).outcome is not Outcome.PROVEN:
        return
    root = parse(writer)
    assume(Sizes(root).exists(root))
    encoded = encode(root, draw.draw(data(root)))
    plain_writer, plain_reader = without_logical(writer), without_logical(reader)
    value = fastavro.schemaless_reader(io.BytesIO(encoded), plain_writer, plain_reader)
    again = io.BytesIO()
    fastavro.schemaless_writer(again, plain_reader, value)  # what was read is a value of the reader's schema


@settings(max_examples=examples(500), deadline=None)
@given(pairs())
def test_every_counterexample_is_written_by_the_writer_and_lost_on_the_reader(
    pair: tuple[Schema, Schema],
) -> None:
    writer, reader = pair
    if not is_valid(writer, reader):
        return
    inclusion = includes(writer, reader)
    assert inclusion == includes(writer, reader)
    for difference in inclusion.differences:
        assert (difference.counterexample is not None) == (difference.outcome is Outcome.REFUTED)
        if difference.counterexample is None:
            continue
        stream = io.BytesIO(difference.counterexample.encoded or b"")
        written = fastavro.schemaless_reader(stream, without_logical(writer))  # type: ignore[call-arg] # optional
        assert not stream.read(1)
        if any(word in difference.code for word in ("logical", "unit", "precision", "scale")):
            continue
        with pytest.raises(Exception):  # noqa: B017, PT011 - any error says that it cannot be read
            fastavro.schemaless_reader(
                io.BytesIO(difference.counterexample.encoded or b""),
                without_logical(writer),
                without_logical(reader),
            )
        assert written is not ...


@settings(max_examples=examples(300), deadline=None)
@given(st.builds(Names).flatmap(records))
def test_a_schema_includes_itself(schema: Schema) -> None:
    if is_valid(schema):
        assert includes(schema, copy.deepcopy(schema)).outcome is Outcome.PROVEN


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(LEAVES), st.sampled_from(LEAVES), st.data())
def test_a_value_of_a_proven_pair_of_leaves_keeps_its_meaning(
    one: Schema, other: Schema, draw: st.DataObject
) -> None:
    if includes(one, other).outcome is not Outcome.PROVEN:
        return
    writer, reader = parse(one), parse(other)
    if {kind_of(one), kind_of(other)} & {"float", "double"} or kind_of(one) != kind_of(other):
        return  # promotions change how a number is written
    value = draw.draw(data(writer))
    if logical_of(writer) is None and logical_of(reader) is not None:  # a long is read as a timestamp
        written = AvroFormat(AvroSchema(type="avro", definition=other)).written_with(json.dumps(one))
        assert written.record(encode(writer, value)) == value
        return
    assert meaning(value, logical_of(writer)) == meaning(value, logical_of(reader))


@settings(max_examples=examples(300), deadline=None)
@given(st.builds(Names).flatmap(records), st.data())
def test_the_encodings_are_those_that_fastavro_reads(schema: Schema, draw: st.DataObject) -> None:
    if not is_valid(schema) or "self" in json.dumps(schema):
        return  # fastavro does not end on the JSON of some recursive types
    plain = without_logical(schema)
    root = parse(plain)
    datum = draw.draw(data(root))
    value = fastavro.schemaless_reader(io.BytesIO(encode(root, datum)), plain)  # type: ignore[call-arg] # optional
    (from_json,) = fastavro.json_reader(io.StringIO(json_text(root, datum)), plain)
    assert value == from_json
