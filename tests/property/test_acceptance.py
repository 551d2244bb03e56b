"""The quick way past the judge accepts only what the exact way accepts, whatever the schema and the bytes."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pyarrow as pa
import pytest
import re2
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.errors import ContractError
from tidegate.contracts.fastpath.patterns import FORMATS, searched_strings
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.verdict import Disposition

DATES = ("2024-02-29", "2023-02-29", "1900-02-29", "0000-01-01")
INSTANTS = ("2024-02-29T00:00:00Z", "2024-02-29T23:59:60Z", "2024-02-29T00:00:00+01:00")
CONTROLS = ("\x1f", "\x1e", "\x1d", "\n", "a\x1fa", "\\u001f")
UUID = "2eb8aa08-aa98-11ea-b4aa-73b441d16380"
STRINGS = st.sampled_from(("", "a", "ab", "A1", "a.b", "é", "😀", UUID, *CONTROLS, *DATES, *INSTANTS))
NUMBERS = st.sampled_from([0, 1, 2, -1, 1.0, 0.5, 2.5, 1e3, 10**15, 2**53 + 1, 2**63, 2**64, 0.1, 9999999.99])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, STRINGS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["p", "q", "r", "$ref", "é"]), inner, max_size=3)
    ),
    max_leaves=5,
)
PATTERNS = st.sampled_from(
    [
        "^a",
        "b$",
        "^[ab]+$",
        "a|b",
        "^a|b$",
        "^(?:a|b)*$",
        "^.$",
        "[^a]",
        "\\d",
        "^\\w+$",
        "^a{1,2}$",
        "^\\.$",
        "",
        "\\s",
    ]
)


def typed(name: str | list[str], **keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(name)}, optional=keywords)


BOUNDS = {
    name: st.sampled_from([0, 1, 0.5, 2, 2.5, -1, 9999999.99, 2**53 + 1])
    for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
}
TEXTS = {
    "pattern": PATTERNS,
    "format": st.sampled_from(["date", "date-time", "uuid", "email"]),
    "minLength": st.integers(0, 2),
    "maxLength": st.integers(0, 30),
}
LEAVES = st.one_of(
    st.booleans(),
    st.just({}),
    typed("integer", **BOUNDS),
    typed("number", **BOUNDS),
    typed("string", **TEXTS),
    typed(["string", "null"], **TEXTS),
    typed(["null", "integer"], **BOUNDS),
    typed("boolean"),
    typed("null"),
    typed(["integer", "string"]),
    typed("integer", multipleOf=st.sampled_from([2, 0.5])),
    st.fixed_dictionaries({"enum": st.lists(st.one_of(STRINGS, st.none()), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"enum": st.lists(NUMBERS, min_size=1, max_size=3), "type": st.just("integer")}),
    st.fixed_dictionaries({"const": st.one_of(STRINGS, NUMBERS)}),
    st.just({"$ref": "#/$defs/text"}),
    st.just({"$ref": "#/$defs/text", "maxLength": 1}),
    st.just({"not": {"type": "string"}}),
    st.just({"not": {"$ref": "#/$defs/text", "maxLength": 1}}),
)


def inner(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = typed(
        "array",
        items=children,
        minItems=st.integers(0, 2),
        maxItems=st.integers(0, 3),
        uniqueItems=st.booleans(),
    )
    return arrays | objects(children) | objects(children, ["object", "null"])


def objects(
    children: st.SearchStrategy[Any], name: str | list[str] = "object"
) -> st.SearchStrategy[dict[str, Any]]:
    return typed(
        name,
        properties=st.dictionaries(st.sampled_from(["p", "q", "r", "é"]), children, max_size=4),
        required=st.lists(st.sampled_from(["p", "q", "x"]), unique=True, max_size=2),
        additionalProperties=st.sampled_from([True, False, {"type": "integer"}]),
    )


SCHEMAS = objects(st.recursive(LEAVES, inner, max_leaves=6))
DIALECTS = st.sampled_from(
    [
        None,
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
    ]
)
RULES = [
    {"id": "p-low", "kind": "range", "field": "/p", "maximum": 2},
    {"id": "p-not-one", "kind": "forbidden", "field": "/p", "values": [1]},
]


def plan_of(schema: dict[str, Any], rules: list[dict[str, Any]]) -> EnforcementPlan:
    return documents.plan_with(schema, columns=[{"name": "whole", "from": "/p", "type": "json"}], rules=rules)


@st.composite
def texts_near(draw: st.DrawFn, record: Any) -> bytes:  # noqa: PLR0911 - one for each way
    """Write a record in one of the many ways in which JSON can be written, broken ones included."""
    text = json.dumps(record, ensure_ascii=draw(st.booleans()))
    match draw(st.integers(0, 6)):
        case 0:
            return text.replace('"p"', '"q"').encode("utf-8", "surrogatepass")
        case 1:
            return text[: draw(st.integers(0, len(text)))].encode()
        case 2:
            return (text[:-1] + ', "p": 1}').encode() if text.endswith("}") else b" " + text.encode()
        case 3:
            return text.replace('"a', '"\\ud800').encode()
        case 4:
            return text.encode().replace(b"a", b"\xff")
        case 5:
            return (text[:-1] + ', "z": ' + "[" * 300 + "]" * 300 + "}").encode()
    return text.encode()


@st.composite
def records_of(draw: st.DrawFn, schema: Any) -> Any:  # noqa: PLR0911 - one for each type
    """Draw a value that has a chance to fit the schema."""
    if not isinstance(schema, dict) or draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    types = schema.get("type", "string")
    match draw(st.sampled_from([types] if isinstance(types, str) else types)):
        case "object":
            names = [*schema.get("properties", {}), *schema.get("required", [])]
            chosen = {name for name in names if name in schema.get("required", []) or draw(st.booleans())}
            extra = {"z"} if draw(st.integers(0, 3)) == 0 else set()
            return {
                name: draw(records_of(schema.get("properties", {}).get(name, True)))
                for name in sorted(chosen | extra)
            }
        case "array":
            return draw(st.lists(records_of(schema.get("items", True)), max_size=3))
        case "integer":
            return draw(st.sampled_from([0, 1, 2, 3, -1, 1.0, 2**53 + 1]))
        case "number":
            return draw(NUMBERS)
        case "string":
            return draw(STRINGS)
        case "boolean":
            return draw(st.booleans())
    return None


@settings(
    max_examples=examples(500),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(st.data())
def test_what_the_quick_way_accepts_the_exact_way_accepts(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    schema = {**schema, "$defs": {"text": {"type": "string", "pattern": "^[ab]*$"}}}
    schema.setdefault("properties", {}).setdefault("p", {"type": ["integer", "null"]})
    dialect = data.draw(DIALECTS)
    if dialect is not None:
        schema["$schema"] = dialect
    is_number = schema["properties"]["p"] in ({"type": "integer"}, {"type": ["integer", "null"]})
    try:
        plan = plan_of(schema, RULES if is_number else [])
    except ContractError:  # keywords of another draft
        assume(False)
    acceptance = documents.fast_path(plan).acceptance
    assume(acceptance is not None)
    values = [
        data.draw(texts_near(data.draw(records_of(schema)))) for _ in range(data.draw(st.integers(1, 6)))
    ]
    strict = documents.strict(plan)
    exact = [strict.explain(value).disposition is Disposition.ACCEPTED for value in values]
    (block,) = acceptance.blocks(pa.array(values, pa.binary()))
    refused = {position for position, _, _ in block.others} | {position for position, _ in block.broken}
    for position, bits in block.broken:
        rules = {violation.code for violation in strict.explain(values[position]).violations}
        assert rules == {rule["id"] for index, rule in enumerate(RULES) if bits >> index & 1}
    accepted = [position not in refused for position in range(len(values))]
    assert [
        one
        for one, two in zip(values, zip(accepted, exact, strict=True), strict=True)
        if two == (True, False)
    ] == []
    judged = plan.judge_typed(pa.array(values, pa.binary()))
    assert strict.judge_typed(pa.array(values, pa.binary())).equals(judged)
    assert [plan.explain(value, typed=True).disposition for value in values] == judged.field(0).to_pylist()
    decoded = [json.loads(value) if fine else None for value, fine in zip(values, accepted, strict=True)]
    wholes = judged.field(2).field(0).to_pylist()
    for record, whole, fine in zip(decoded, wholes, accepted, strict=True):
        if fine:
            assert (None if whole is None else json.loads(whole)) == record.get("p")


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TEXT = {"type": "string"}
SHORT_TEXT = {"$ref": "#/definitions/text", "maxLength": 1}
EMBEDDED = {"$id": "http://e/a", "properties": {"p": {"$ref": "#/$defs/text"}}, "$defs": {"text": TEXT}}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        # Up to draft 7, keywords beside `$ref` mean nothing.
        ({"$schema": DRAFT_7, "properties": {"p": {"not": SHORT_TEXT}}}, ["ab", "a", 1]),
        ({"$schema": DRAFT_7, "properties": {"p": {"oneOf": [SHORT_TEXT, {"type": "string"}]}}}, ["ab", "a"]),
        (
            {"$schema": DRAFT_7, "properties": {"p": {"$ref": "#/definitions/text", "type": "integer"}}},
            ["a", 1],
        ),
        # A schema below the root has a draft of its own.
        ({"properties": {"p": {"not": {"$schema": DRAFT_7, **SHORT_TEXT}}}}, ["ab", "a", 1]),
        # A pointer leads into a schema with an identifier, below which `#` is that schema.
        (
            {
                "properties": {"p": {"$ref": "#/$defs/a/properties/p"}},
                "$defs": {"a": EMBEDDED, "text": {"type": "integer"}},
            },
            ["ab", 1],
        ),
    ],
)
def test_references_mean_what_their_draft_says(schema: dict[str, Any], values: list[Any]) -> None:
    plan = documents.plan_with({"type": "object", "definitions": {"text": TEXT}, **schema}, fastpath=True)
    array = pa.array([json.dumps({"p": value}).encode() for value in values], pa.binary())
    assert plan.judge(array).equals(documents.strict(plan).judge(array))


def test_a_reference_to_a_property_named_id_leaves_records_rows() -> None:
    schema = {"properties": {"id": TEXT, "p": {"$ref": "#/properties/id"}}}
    plan = documents.plan_with({"type": "object", **schema}, fastpath=True)
    assert documents.fast_path(plan).acceptance is not None


DAYS = st.sampled_from(["1900-01-01", "1999-12-31", "2000-02-29", "2024-03-01", "9999-12-31"])
ODD_DAYS = st.sampled_from(
    [
        "0000-01-01",
        "1900-02-29",
        "2024-3-01",
        "2024-03-01 ",
        "20240301",
        "2024-W10-5",
        "",
        "2024-03-01T00:00:00Z",
    ]
)
NULLS = st.sampled_from(["pass", "violate"])
DATE_FIELDS = st.sampled_from(["/d", "/e", "/in/f"])


@st.composite
def rules_about_dates(draw: st.DrawFn) -> dict[str, Any]:  # noqa: PLR0911 - one for each kind
    field, nulls = draw(DATE_FIELDS), draw(NULLS)
    limit = draw(DAYS | st.just("0000-01-01"))
    match draw(st.integers(0, 7)):
        case 0:
            return {"kind": "range", "field": field, "after": limit, "nulls": nulls}
        case 1:
            return {
                "kind": "range",
                "field": field,
                "not_before": "0000-12-31",
                "before": draw(DAYS),
                "nulls": nulls,
            }
        case 2:
            fields = draw(st.permutations(["/d", "/e", "/in/f"]))[: draw(st.integers(2, 3))]
            return {"kind": "ordered", "fields": fields, "strict": draw(st.booleans()), "nulls": nulls}
        case 3:
            return {"kind": "forbidden", "field": field, "values": [limit]}
        case 4:
            return {
                "kind": "one_of",
                "field": field,
                "values": draw(st.lists(DAYS, min_size=1, max_size=4, unique=True)),
            }
        case 5:
            return {"kind": "matches", "field": field, "pattern": "^(19|20)"}
        case 6:
            return {"kind": "cel", "expr": f"!has(this.d) || this.d < '{limit}'"}
    return {"kind": "required_when", "field": "/e", "when": {"field": "/d", "equals": limit}}


@settings(max_examples=examples(400), deadline=None)
@given(st.data())
def test_dates_are_judged_as_their_texts_are(data: st.DataObject) -> None:
    """The decoder reads as dates what rules compare as dates, and leaves texts to every other rule."""
    day = {"type": "string", "format": "date"}
    schema = {
        "type": "object",
        "required": ["d"],
        "properties": {
            "d": day,
            "e": {"type": ["string", "null"], "format": "date"},
            "in": {"type": "object", "properties": {"f": day}},
        },
    }
    drawn = data.draw(st.lists(rules_about_dates(), max_size=3))
    rules = [{"id": f"rule-{index}", **rule} for index, rule in enumerate(drawn)]
    plan = plan_of({**schema, "properties": {**schema["properties"], "p": {}}}, rules)
    days = DAYS | DAYS | ODD_DAYS
    records = st.fixed_dictionaries(
        {"d": days},
        optional={"e": days | st.none(), "in": st.fixed_dictionaries({}, optional={"f": days})},
    )
    values = [json.dumps(each).encode() for each in data.draw(st.lists(records, min_size=1, max_size=5))]
    values.append(values[0].replace(b"-0", b"\\u002d0"))
    strict = documents.strict(plan)
    verdicts = [strict.explain(value) for value in values]
    array = pa.array(values, pa.binary())
    for judged in (plan.judge(array), plan.judge_typed(array)):
        assert judged.field(0).to_pylist() == [verdict.disposition for verdict in verdicts]
        failed = [{slot.code for slot in plan.failed_slots(bits)} for bits in judged.field(1).to_pylist()]
        ids = {rule["id"] for rule in rules}
        assert [codes & ids for codes in failed] == [
            {violation.code for violation in verdict.violations} & ids for verdict in verdicts
        ]


def test_good_dates_are_accepted_at_once_and_never_matched() -> None:
    schema = {"type": "object", "properties": {"d": {"type": "string", "format": "date"}}}
    acceptance = documents.fast_path(
        plan_of({**schema, "properties": {**schema["properties"], "p": {}}}, [])
    ).acceptance
    assert acceptance.reading.expression == ""
    days = ["2000-02-29", "1900-02-29", "0000-01-01", "9999-12-31", "0001-01-01", "2023-04-31", "2023-4-30"]
    (block,) = acceptance.blocks(pa.array([f'{{"d":"{each}"}}'.encode() for each in days], pa.binary()))
    assert [position for position, _, _ in block.others] == [1, 2, 5, 6]


def test_it_does_accept_good_records_of_an_ordinary_schema() -> None:
    schema = {
        "type": "object",
        "required": ["p"],
        "properties": {"p": {"type": "integer"}, "q": {"type": "string", "pattern": "^[ab]+$"}},
    }
    acceptance = documents.fast_path(plan_of(schema, RULES)).acceptance
    values = [
        b'{"p": 0}',
        b'{"p": 2, "q": "ab"}',
        b'{"p": 2, "q": "c"}',
        b'{"p": 1}',
        None,
        b'{"p": 0, "q": "b"}',
    ]
    (block,) = acceptance.blocks(pa.array(values, pa.binary()))
    assert [position for position, _, _ in block.others] == [2, 4]
    assert block.broken == [(3, 2)]


@settings(max_examples=examples(300), deadline=None)
@given(
    st.integers(250, 258),
    st.lists(st.text('[]{}"\\\\:,a\x00', max_size=6), max_size=4),
    st.sampled_from(["[", '{"a":']),
    st.booleans(),
)
def test_depth_is_counted_outside_strings(
    depth: int, strings: list[str], opener: str, ascii_only: object
) -> None:
    closer = "]" if opener == "[" else "}"
    strings_text = json.dumps([*strings, "]" * 20, "[" * 300], ensure_ascii=bool(ascii_only))
    deep = opener * (depth - 1) + "1" + closer * (depth - 1)
    value = f'{{"s": {strings_text}, "d": {deep}, "t": {strings_text}}}'.encode()
    plan = plan_of({"type": "object"} | {"properties": {"p": {"type": "integer"}}}, [])
    codes = [violation.code for violation in plan.explain(value).violations]
    assert codes == (["json.too-deep"] if depth > 254 else [])
    assert plan.judge(pa.array([value], pa.binary())).field(0).to_pylist() == [
        plan.explain(value).disposition
    ]
    assert documents.fast_path(plan).acceptance is not None
    (block,) = documents.fast_path(plan).acceptance.blocks(pa.array([value], pa.binary()))
    assert len(block.others) == (depth > 254)


@settings(max_examples=examples(1500), deadline=None)
@given(
    st.one_of(
        PATTERNS,
        st.text("ab1.-^$[](){}|?*+\\,0dwsn:", max_size=8),
    ),
    st.one_of(STRINGS, st.text("ab1.-\n\x1f 0d", max_size=6)),
)
def test_a_pattern_is_found_where_its_expression_matches_the_whole(pattern: str, text: str) -> None:
    expression = searched_strings(pattern)
    if expression is None:
        return
    matches = re2.compile(expression.encode()).fullmatch(text.encode()) is not None
    assert not (matches and re.search("[\x1d-\x1f]", text))
    if matches:
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": pattern}
        assert jsonschema_rs.is_valid(schema, text)


@pytest.mark.parametrize("name", sorted(FORMATS))
@settings(max_examples=examples(1000), deadline=None)
@given(data=st.data())
def test_a_string_of_a_formats_expression_has_the_format(name: str, data: st.DataObject) -> None:
    text = data.draw(st.one_of(st.from_regex(FORMATS[name], fullmatch=True), STRINGS, st.dates().map(str)))
    if re2.compile(FORMATS[name].encode()).fullmatch(text.encode()) is not None:
        assert jsonschema_rs.Draft202012Validator({"format": name}, validate_formats=True).is_valid(text)
