"""What the comparison says of the case table, and that its evidence is real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.contracts.compatibility.json_schema.aparts import APARTS, Apart
from tests.unit.contracts.compatibility.json_schema.container_widenings import CONTAINER_WIDENINGS
from tests.unit.contracts.compatibility.json_schema.sames import SAMES, Same
from tests.unit.contracts.compatibility.json_schema.schemas import D7, S, obj
from tests.unit.contracts.compatibility.json_schema.unsures import UNSURES, Unsure
from tests.unit.contracts.compatibility.json_schema.widenings import OTHER_WIDENINGS, Widening
from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.inclusion.answer import Difference, Inclusion, Outcome
from tidegate.contracts.inclusion.json_schema import includes
from tidegate.contracts.inclusion.json_schema.codes import CODES
from tidegate.contracts.verdict import Violation

WIDENINGS = (*OTHER_WIDENINGS, *CONTAINER_WIDENINGS)

SAFE = [
    *((each.name, each.narrow, each.wide) for each in WIDENINGS),
    *((each.name, each.one, each.other) for each in SAMES),
    *((f"{each.name}, back", each.other, each.one) for each in SAMES),
]
BREAKING = [
    *((f"{each.name}, back", each.wide, each.narrow, each.code) for each in WIDENINGS),
    *((each.name, each.one, each.other, each.there) for each in APARTS),
    *((f"{each.name}, back", each.other, each.one, each.back) for each in APARTS),
]
NOT_IN_THE_TABLE = {
    "schema.condition-added": "conditions are told by what is under them, unless the steps run out",
    "schema.condition-changed": "conditions are told by what is under them, unless the steps run out",
    "schema.undecided": "in test_hostile.py",
}


def compare(old: Any, new: Any) -> Inclusion:
    # Parsed schemas share no objects.
    return includes(json.loads(json.dumps(old)), json.loads(json.dumps(new)), formats_asserted=True)


def judge(schema: Any) -> JsonSchemaFormat:
    return JsonSchemaFormat(JsonSchema(type="json-schema", definition=schema, formats="assert"))


def check_evidence(difference: Difference, old: Any, new: Any) -> None:
    assert difference.code in CODES
    assert difference.sentence
    for pointer, schema in ((difference.old_pointer, old), (difference.new_pointer, new)):
        place = schema
        for token in tokens(pointer):
            place = place[int(token)] if isinstance(place, list) else place[token]
    if difference.outcome is Outcome.REFUTED:
        assert difference.counterexample is not None
        record = decode_exactly(difference.counterexample.text.encode())
        assert not isinstance(record, Violation)
        assert judge(old).is_valid(record)
        assert not judge(new).is_valid(record)
    else:
        assert difference.outcome is Outcome.UNDETERMINED
        assert difference.counterexample is None


def test_the_table_is_large() -> None:
    assert len(SAFE) + len(BREAKING) + len(UNSURES) >= 250
    assert len({each.name for group in (WIDENINGS, SAMES, APARTS, UNSURES) for each in group}) == sum(
        map(len, (WIDENINGS, SAMES, APARTS, UNSURES))
    )


@pytest.mark.parametrize(("old", "new"), [case[1:] for case in SAFE], ids=[case[0] for case in SAFE])
def test_what_is_plainly_safe_is_proven(old: Any, new: Any) -> None:
    assert compare(old, new) == Inclusion(Outcome.PROVEN)


@pytest.mark.parametrize(
    ("old", "new", "code"), [case[1:] for case in BREAKING], ids=[case[0] for case in BREAKING]
)
def test_what_breaks_is_refuted_with_a_document_that_both_have_judged(old: Any, new: Any, code: str) -> None:
    answer = compare(old, new)
    assert answer.outcome is Outcome.REFUTED
    assert code in {each.code for each in answer.differences if each.outcome is Outcome.REFUTED}
    for each in answer.differences:
        check_evidence(each, old, new)


@pytest.mark.parametrize("case", UNSURES, ids=lambda case: case.name)
def test_what_cannot_be_decided_is_undetermined_and_names_the_keyword(case: Unsure) -> None:
    answer = compare(case.old, case.new)
    assert answer.outcome is Outcome.UNDETERMINED
    assert case.keyword in {each.keyword for each in answer.differences}
    for each in answer.differences:
        check_evidence(each, case.old, case.new)


@pytest.mark.parametrize("case", [*WIDENINGS, *SAMES, *APARTS, *UNSURES], ids=lambda case: case.name)
def test_every_schema_includes_itself(case: Widening | Same | Apart | Unsure) -> None:
    schemas = {
        Widening: lambda: (case.narrow, case.wide),
        Same: lambda: (case.one, case.other),
        Apart: lambda: (case.one, case.other),
        Unsure: lambda: (case.old, case.new),
    }
    for schema in schemas[type(case)]():
        assert compare(schema, schema) == Inclusion(Outcome.PROVEN)


def test_every_code_of_the_table_of_codes_is_one_that_is_given() -> None:
    given = {each.code for _, old, new, _ in BREAKING for each in compare(old, new).differences}
    given |= {each.code for case in UNSURES for each in compare(case.old, case.new).differences}
    assert given | NOT_IN_THE_TABLE.keys() == CODES.keys()


def with_less(value: Any) -> Iterator[Any]:
    """Yield a document with a member, an item or a character less, anywhere in it."""
    if isinstance(value, dict):
        for name in value:
            yield {other: part for other, part in value.items() if other != name}
            yield from ({**value, name: part} for part in with_less(value[name]))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield [*value[:index], *value[index + 1 :]]
            yield from ([*value[:index], part, *value[index + 1 :]] for part in with_less(item))
    elif isinstance(value, str):
        yield from (value[:index] + value[index + 1 :] for index in range(len(value)))


def test_nothing_can_be_left_out_of_a_counterexample() -> None:
    tried = 0
    for name, old, new, _ in BREAKING:
        texts = [each.counterexample.text for each in compare(old, new).differences if each.counterexample]
        accepts, refuses = judge(old), judge(new)
        smallest = decode_exactly(min(texts, key=len).encode())
        for document in with_less(smallest):
            tried += 1
            assert not accepts.is_valid(document) or refuses.is_valid(document), (name, texts, document)
    assert tried > 100


def test_all_differences_are_reported_each_with_its_own_smallest_document() -> None:
    old = obj(
        age={"type": "integer", "minimum": 0, "maximum": 150},
        name={"type": "string", "maxLength": 50},
        ward={"enum": ["icu", "er", "lab"]},
        home=obj(zip=S),
        tags={"type": "array", "items": S},
    )
    new = obj(
        ["name"],
        age={"type": "integer", "minimum": 0, "maximum": 120},
        name={"type": "string", "maxLength": 3},
        ward={"enum": ["icu", "er"]},
        home=obj(zip={"type": "string", "pattern": "^[0-9]{5}$"}),
        tags={"type": "array", "items": S, "uniqueItems": True},
    )
    answer = compare(old, new)
    assert {
        (each.code, each.field): each.counterexample and each.counterexample.text
        for each in answer.differences
    } == {
        ("schema.required-added", ""): "{}",
        ("schema.maximum-lowered", "/age"): '{"age":121}',
        ("schema.max-length-lowered", "/name"): '{"name":"aaaa"}',
        ("schema.enum-value-removed", "/ward"): '{"ward":"lab"}',
        ("schema.pattern-added", "/home/zip"): '{"home":{"zip":""}}',
        ("schema.unique-items-added", "/tags"): '{"tags":["",""]}',
    }


def test_a_sentence_gives_the_declared_values_before_and_after() -> None:
    (difference,) = compare(obj(age={"maximum": 150}), obj(age={"maximum": 120})).differences
    assert difference == Difference(
        outcome=Outcome.REFUTED,
        code="schema.maximum-lowered",
        keyword="maximum",
        old_pointer="/properties/age/maximum",
        new_pointer="/properties/age/maximum",
        field="/age",
        sentence="`maximum` of `/age` went from 150 to 120; a record that the old schema accepts breaks it",
        counterexample=difference.counterexample,
    )


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (obj(a=obj(b=S)), obj(a=obj(b={"type": "null"})), "/a/b"),
        ({"items": {"items": S}}, {"items": {"items": {"type": "null"}}}, "/*/*"),
        ({"prefixItems": [S, S]}, {"prefixItems": [S, {"type": "null"}]}, "/1"),
        ({"patternProperties": {"^x": S}}, {"patternProperties": {"^x": {"type": "null"}}}, "/*"),
        ({"additionalProperties": S}, {"additionalProperties": {"type": "null"}}, "/*"),
        (obj(**{"a/b~c": S}), obj(**{"a/b~c": {"type": "null"}}), "/a~1b~0c"),
    ],
)
def test_a_difference_says_where_in_a_record_it_is(old: Any, new: Any, field: str) -> None:
    assert field in {each.field for each in compare(old, new).differences}


def test_a_definition_used_twice_breaks_both_fields() -> None:
    old = obj(home={"$ref": "#/$defs/a"}, work={"$ref": "#/$defs/a"}) | {"$defs": {"a": obj(zip=S)}}
    new = obj(home={"$ref": "#/$defs/a"}, work={"$ref": "#/$defs/a"}) | {"$defs": {"a": obj(["zip"], zip=S)}}
    found = [(each.field, each.old_pointer, each.new_pointer) for each in compare(old, new).differences]
    assert found == [("/home", "/$defs/a", "/$defs/a/required"), ("/work", "/$defs/a", "/$defs/a/required")]


def test_formats_count_only_when_they_are_asserted() -> None:
    plain, dated = {"type": "string"}, {"type": "string", "format": "date"}
    assert includes(plain, dated, formats_asserted=True).outcome is Outcome.REFUTED
    assert includes(plain, dated, formats_asserted=False).outcome is Outcome.PROVEN


def test_a_counterexample_is_exact_where_a_double_is_not() -> None:
    (difference,) = compare({"maximum": 9007199254740993}, {"maximum": 9007199254740992}).differences
    assert difference.counterexample is not None
    assert difference.counterexample.text == "9007199254740993"


def test_an_integer_of_draft_4_differs_from_a_fraction_that_is_whole() -> None:
    (difference, *_) = compare(
        {"$schema": D7, "type": "integer"},
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"},
    ).differences
    assert difference.counterexample is not None
    assert difference.counterexample.text == "0.0"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "number", "multipleOf": 1}, {"type": "integer"}),
        (
            {"type": "number", "multipleOf": 2, "maximum": 3},
            {"type": "number", "multipleOf": 2, "maximum": 2},
        ),
    ],
)
def test_multiples_are_exact(old: Any, new: Any) -> None:
    """Also of numbers that no double holds, because the judge is."""
    assert compare(old, new) == Inclusion(Outcome.PROVEN)
    whole = {"type": "integer"}
    assert compare({"allOf": [old, whole]}, {"allOf": [new, whole]}) == Inclusion(Outcome.PROVEN)


def test_a_fraction_next_to_a_multiple_is_none() -> None:
    """Its nearest double may be one."""
    old = {"type": "number", "minimum": 2, "exclusiveMaximum": 2.0000000000000004}
    (difference,) = compare(old, {**old, "multipleOf": 2}).differences
    assert difference.outcome is Outcome.REFUTED


def test_large_bounds_are_not_compared_by_the_nearest_double() -> None:
    """99999999999999993.5 is below 1e17, and above the double before it."""
    old, new = {"exclusiveMaximum": 1e17}, {"maximum": 99999999999999984.0}
    assert compare(old, new).outcome is not Outcome.PROVEN
