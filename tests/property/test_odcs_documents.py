"""Documents of the Open Data Contract Standard come back whole, whatever of its official schema they use."""

from __future__ import annotations

import copy
import json
import re
from importlib.resources import files
from typing import Any

from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from jsonschema import Draft201909Validator

from tests.marks import examples
from tidegate.contracts.document.source import SourceDocument
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.odcs import write_odcs
from tidegate.contracts.exchange.read import fitting, read_foreign

SCHEMA: dict[str, Any] = json.loads(files("open_data_contract_standard").joinpath("schema.json").read_text())
VERSIONS = ("v3.0.2", "v3.1.0", "v3.2.0")
OF_ANY_TYPE = SCHEMA["$defs"]["SchemaBaseProperty"]["properties"]["logicalTypeOptions"]
DEPTH = 9
"""Levels of a document below which only keys that it must have are generated."""
NAMES = ("id", "age", "ward", "a/b~c", "Größe", "hospital.admissions", "x-odcs", "")
TEXTS = (
    *NAMES,
    "warning",
    "2026-13-01",
    "true",
    "null",
    "1",
    "2026-01-31",
    "^A[0-9]+$",
    "[",
    "yyyy-MM-dd",
    "i32",
    "email",
    "s/1/p/2",
)
NUMBERS = st.one_of(st.integers(-3, 1000), st.sampled_from((0.5, 1e300, 2**63, -1e-7)))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.sampled_from(TEXTS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(TEXTS), inner, max_size=2)
    ),
    max_leaves=4,
)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(TEXTS),
    "boolean": st.booleans(),
    "integer": st.integers(-3, 1000),
    "number": NUMBERS,
    "null": st.none(),
}  # fmt: skip


ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "validValues": st.lists(VALUES, max_size=3),
        "missingValues": st.lists(VALUES, max_size=3),
        "pattern": st.sampled_from(TEXTS),
        "x-other": VALUES,
    },
)


@st.composite
def parts(draw: st.DrawFn, schema: dict[str, Any], depth: int) -> Any:  # noqa: PLR0911 - one for each form of a schema
    """Draw a value by a part of the official schema."""
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "pattern" in schema:
        fitting = [each for each in TEXTS if re.search(schema["pattern"], each)]
        return draw(st.sampled_from(fitting) if fitting else st.from_regex(schema["pattern"], fullmatch=True))
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = draw(st.sampled_from(kind))
    if kind in SCALARS:
        return draw(SCALARS[kind])
    if kind == "array":
        least = schema.get("minItems", 0)
        items = parts(schema["items"], depth + 1) if "items" in schema else VALUES
        return draw(st.lists(items, min_size=least, max_size=2 if depth < DEPTH else least, unique_by=repr))
    if {"properties", "allOf", "$ref"} & schema.keys():
        return draw(objects(schema, depth))
    for word in {"oneOf", "anyOf"} & schema.keys():
        return draw(parts(draw(st.sampled_from(schema[word])), depth))
    return draw(st.dictionaries(st.sampled_from(TEXTS), VALUES, max_size=2) if kind == "object" else VALUES)


@st.composite
def objects(draw: st.DrawFn, schema: dict[str, Any], depth: int) -> Any:
    """Draw an object: keys that it must have, some of those that it may have, and what the drawn ones ask for."""
    if set(schema) - {"description"} == {"$ref"} and "properties" not in of(schema["$ref"]):
        return draw(parts(of(schema["$ref"]), depth))
    found: dict[str, Any] = {}
    waiting, conditions = [schema], []
    members: dict[str, Any] = {}
    required, excluded = set[str](), set[str]()
    while waiting:
        while waiting:
            level = waiting.pop(0)
            refined = {name for name, each in members.items() if each == OF_ANY_TYPE}
            members |= {
                name: each
                for name, each in level.get("properties", {}).items()
                if name not in members or name in refined
            }
            required |= {*level.get("required", ())}
            excluded |= {*level.get("not", {}).get("required", ())}
            waiting += [of(level["$ref"])] if "$ref" in level else []
            waiting += [draw(st.sampled_from(level["oneOf"]))] if "oneOf" in level else []
            waiting += [each for each in level.get("allOf", ()) if "if" not in each]
            conditions += [each for each in level.get("allOf", ()) if "if" in each]
        # A type decides which options there are; they are drawn after it.
        may = sorted(
            name for name in members.keys() - found.keys() - excluded if members[name] != OF_ANY_TYPE
        )
        chosen = (
            draw(st.lists(st.sampled_from(may), max_size=4, unique=True)) if may and depth < DEPTH else []
        )
        for name in sorted({*chosen, *required, "logicalType"} & {*may}):
            found[name] = draw(ARGUMENTS if name == "arguments" else parts(members[name], depth + 1))
        holding = [each for each in conditions if Draft201909Validator(each["if"]).is_valid(found)]
        conditions = [each for each in conditions if each not in holding]
        waiting = [each["then"] for each in holding]
    return found


def of(reference: str) -> dict[str, Any]:
    found: Any = SCHEMA
    for token in reference.removeprefix("#/").split("/"):
        found = found[token]
    return dict(found)


def add_unknown_keys(draw: st.DrawFn, node: Any) -> None:
    """Add keys that the standard does not define to the parts where version 3.0 lets them be."""
    for name in ("servers", "roles", "support", "slaProperties", "customProperties", "quality"):
        for part in node.get(name) or ():
            part.update(draw(st.dictionaries(st.sampled_from(("x-owner", "extension")), VALUES, max_size=2)))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a document of the standard; its first object is described at some length."""
    document: dict[str, Any] = draw(objects(SCHEMA, 0))
    parts_of_schema = draw(st.lists(objects(of("#/$defs/SchemaObject"), 1), min_size=1, max_size=2))
    members = st.lists(objects(of("#/$defs/SchemaProperty"), 3), min_size=1, max_size=4)
    checks = st.lists(objects(of("#/$defs/DataQuality"), 4), max_size=3)
    parts_of_schema[0] |= draw(st.fixed_dictionaries({}, optional={"properties": members}))
    for index, each in enumerate((document, *parts_of_schema, *parts_of_schema[0].get("properties", ()))):
        # No two are named alike, and each name has a letter that may stand in an id.
        each.update({name: f"n{index}{each[name]}" for name in {"id", "name", "physicalName"} & each.keys()})
        each.update(draw(st.fixed_dictionaries({}, optional={"quality": checks})) if index else {})
    document |= {"apiVersion": draw(st.sampled_from(VERSIONS)), "schema": parts_of_schema}
    if document["apiVersion"].startswith("v3.0"):
        for node in (document, *parts_of_schema, *parts_of_schema[0].get("properties", ())):
            add_unknown_keys(draw, node)
    return document


@given(documents())
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow])
def test_a_document_comes_back_as_it_was(document: dict[str, Any]) -> None:
    source = SourceDocument("document.yaml", document, {}, {}, frozenset())
    before = copy.deepcopy(document)
    try:
        _, loaded = fitting(read_foreign(source, document["schema"][0]["name"]), "contract.json", json.dumps)
    except ContractError:
        reject()
    assert write_odcs(loaded.contract) == before
    assert document == before
