"""Which fields are classified: by the contract, and by the tags of its schema."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.privacy.classes import Classes, classes_of

from .conftest import contract

TAGGED = {"type": "string", "confluent:tags": ["PII"]}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((), None),
        (("patient",), "pii"),
        (("patient", "name"), "pii"),
        (("patient", "names", 0, "first"), "pii"),
        (("patient_id",), None),
        (("lines",), None),
        (("lines", 0), None),
        (("lines", 17, "note"), "secret"),
        (("lines", "extra", "note"), "secret"),
        (("lines", 17, "notes"), None),
        (("a/b", "c~d"), "odd"),
    ],
)
def test_a_field_is_classified_with_all_that_stands_below_it(path: tuple[Any, ...], name: str | None) -> None:
    classes = Classes({"/patient": "pii", "/lines/*/note": "secret", "/a~1b/c~0d": "odd"})
    assert classes.of(path) == name


@pytest.mark.parametrize(
    ("path", "touches"),
    [
        ((), True),
        (("patient",), True),
        (("lines",), True),
        (("lines", 3), True),
        (("lines", 3, "n"), False),
        (("lines", 3, "note", "x"), True),
        (("address",), True),
        (("address", "city"), False),
        (("address", 0), True),
        (("address", 0, "city"), True),
        (("age",), False),
        (("age", 0), False),
    ],
)
def test_what_stands_on_the_way_to_a_classified_field_may_hold_it(
    path: tuple[Any, ...], *, touches: bool
) -> None:
    classes = Classes({"/patient": "pii", "/lines/*/note": "pii", "/address/postcode": "pii"})
    assert classes.touches(path) is touches
    assert not classes.touches(path, classes.by_pointer)


def test_pointers_can_be_left_out() -> None:
    classes = Classes({"/patient": "pii", "/patient/name": "secret"})
    assert classes.touches(("patient", "name"), ["/patient"])
    assert not classes.touches(("patient", "age"), ["/patient"])
    assert not classes.touches(("patient", "name"), ["/patient", "/patient/name"])


def test_every_class_but_public_counts_and_so_does_a_mask() -> None:
    found = contract(
        {"properties": {name: {} for name in "abcd"}},
        classification={"/a": "PII", "/b": "Public", "/c": "house-word"},
        mask={"/d": "drop", "/a": "hash"},
    )
    assert classes_of(found).by_pointer == {"/a": "PII", "/c": "house-word", "/d": "masked"}
    assert not classes_of(contract({}))


@pytest.mark.parametrize(
    ("definition", "pointers"),
    [
        ({"properties": {"a": TAGGED, "b": {}}}, {"/a"}),
        ({"properties": {"a": {"properties": {"b": TAGGED}}}}, {"/a/b"}),
        ({"properties": {"a": {"confluent:tags": ["PII"], "properties": {"b": TAGGED}}}}, {"/a"}),
        ({"properties": {"a": {"items": {"properties": {"b": TAGGED}}}}}, {"/a/*/b"}),
        ({"properties": {"a": {"prefixItems": [{}, TAGGED]}}}, {"/a/*"}),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": TAGGED}}, {"/a"}),
        ({"properties": {"a": {"$ref": "#here"}}, "$defs": {"x": {**TAGGED, "$anchor": "here"}}}, {"/a"}),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, TAGGED]}}}, {"/a"}),
        ({"if": {"required": ["a"]}, "then": {"properties": {"a": TAGGED}}}, {"/a"}),
        ({"dependentSchemas": {"x": {"properties": {"a": TAGGED}}}}, {"/a"}),
        ({"patternProperties": {"^x_": TAGGED}}, {"/*"}),
        ({"additionalProperties": {"properties": {"a": TAGGED}}}, {"/*/a"}),
        ({"properties": {"a": {"confluent:tags": ["PUBLIC"]}, "b": {"confluent:tags": "PII"}}}, {"/b"}),
        ({"properties": {"a": {"confluent:tags": ["public", "PHI"]}}}, {"/a"}),
        # It leads back into itself: whatever stands there may hold a name.
        (
            {"properties": {"name": TAGGED, "children": {"items": {"$ref": "#"}}}},
            {"/name", "/children/*"},
        ),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/a"}},
                "$defs": {
                    "a": {"properties": {"b": {"$ref": "#/$defs/b"}}},
                    "b": {"properties": {"name": TAGGED, "a": {"$ref": "#/$defs/a"}}},
                },
            },
            {"/a/b/name", "/a/b/a"},
        ),
    ],
)
def test_tags_of_a_json_schema_classify(definition: Any, pointers: set[str]) -> None:
    assert set(classes_of(contract(definition)).by_pointer) == pointers


def test_the_contract_says_more_than_a_tag() -> None:
    found = classes_of(contract({"properties": {"a": TAGGED}}, classification={"/a": "public"}))
    assert not found
    assert classes_of(contract({"properties": {"a": TAGGED}})).by_pointer == {"/a": "PII"}


def test_a_schema_of_too_many_places_is_classified_as_a_whole() -> None:
    definitions: dict[str, Any] = {"n0": TAGGED}
    for n in range(1, 20):
        definitions[f"n{n}"] = {"properties": {side: {"$ref": f"#/$defs/n{n - 1}"} for side in "lr"}}
    found = classes_of(contract({"$ref": "#/$defs/n19", "$defs": definitions}))
    assert found.of(("anything",)) == "PII"


def test_tags_of_an_avro_schema_classify() -> None:
    definition = {
        "type": "record",
        "name": "Admission",
        "namespace": "hospital",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "patient", "type": ["null", "string"], "confluent:tags": ["PII"]},
            {
                "name": "address",
                "type": {
                    "type": "record",
                    "name": "Address",
                    "fields": [{"name": "street", "type": "string", "confluent:tags": ["PRIVATE"]}],
                },
            },
            {"name": "former", "type": {"type": "array", "items": "Address"}},
            {"name": "by_name", "type": {"type": "map", "values": ["null", "Address"]}},
            {"name": "next", "type": ["null", "Admission"]},
            {"name": "code", "type": {"type": "string", "confluent:tags": ["PUBLIC"]}},
            {
                "name": "blood",
                "type": {"type": "enum", "name": "B", "symbols": ["A"], "confluent:tags": ["PHI"]},
            },
        ],
    }
    found = DataContract.model_validate(
        {**contract({}).model_dump(by_alias=True), "schema": {"type": "avro", "definition": definition}}
    )
    assert set(classes_of(found).by_pointer) == {
        "/patient",
        "/address/street",
        "/former/*/street",
        "/by_name/*/street",
        "/next",
        "/blood",
    }


def test_a_class_next_to_the_type_of_a_field_counts_as_in_open_data_contracts() -> None:
    definition = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "classification": "confidential"},
            "age": {"type": "integer", "classification": "public"},
            "classification": {"type": "string"},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"note": {"classification": "restricted"}}},
            },
        },
    }
    assert classes_of(contract(definition)).by_pointer == {
        "/name": "confidential",
        "/lines/*/note": "restricted",
    }
