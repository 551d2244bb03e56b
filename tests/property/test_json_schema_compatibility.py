"""The comparison of JSON Schemas on random pairs: its proofs and its counterexamples against the judge."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tests.property.boundary_documents import Boundary
from tests.property.json_schema_containment import contained
from tests.property.json_schema_rewrites import pair
from tests.property.json_schema_worlds import DIALECTS, SchemaMaker, seeded, value
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.inclusion.answer import Counterexample, Inclusion, Outcome
from tidegate.contracts.inclusion.json_schema import SchemaPair, includes
from tidegate.contracts.inclusion.json_schema.dialect import FORMATS, SAME_EVERYWHERE, Dialect
from tidegate.contracts.inclusion.json_schema.evaluate import matches
from tidegate.contracts.inclusion.json_schema.pattern_syntax import without_assertions
from tidegate.contracts.inclusion.json_schema.regular import (
    Question,
    TooLargeError,
    automaton_of,
    first_string,
)
from tidegate.contracts.inclusion.json_schema.theories import FORMAT_LANGUAGES, WIDER_FORMATS
from tidegate.contracts.verdict import Violation

# A seed is the example: what it makes is too large to be shrunk by hypothesis in a few seconds.
SEEDS = st.integers(0, 2**63)
RUNS = settings(
    max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)


def judge(schema: Any, *, formats_asserted: bool = True) -> JsonSchemaFormat:
    formats = "assert" if formats_asserted else "annotate"
    return JsonSchemaFormat(
        JsonSchema.model_validate({"type": "json-schema", "definition": schema, "formats": formats})
    )


def compiled_pair(random: Random) -> tuple[Any, Any, JsonSchemaFormat, JsonSchemaFormat]:
    old, new, is_safe = parsed_pair(random)
    del is_safe
    try:
        return old, new, judge(old), judge(new)
    except ContractError:
        assume(False)
        raise


def parsed_pair(random: Random) -> tuple[Any, Any, bool]:
    """Make two schemas that share no objects, as parsed ones do not; and say whether the second surely takes more."""
    old, new, is_safe = pair(random)
    return json.loads(json.dumps(old)), json.loads(json.dumps(new)), is_safe


@given(SEEDS)
@RUNS
def test_no_document_contradicts_an_answer(seed: int) -> None:
    random = seeded(seed)
    old, new, accepts, judges = compiled_pair(random)
    answer = includes(old, new, formats_asserted=True)
    check_containment(answer, accepts, judges)
    if answer.outcome is Outcome.PROVEN:
        assert answer.differences == ()
        boundary = Boundary(random, old, new)
        for _ in range(40):
            for document in (boundary.document(), value(random, 3)):
                assert judges.is_valid(document) or not accepts.is_valid(document), (old, new, document)
        return
    check_refutations(answer, accepts, judges)


def check_refutations(answer: Inclusion, accepts: JsonSchemaFormat, judges: JsonSchemaFormat) -> None:
    refuted = [each for each in answer.differences if each.counterexample is not None]
    assert bool(refuted) is (answer.outcome is Outcome.REFUTED)
    for each in answer.differences:
        assert (each.outcome is Outcome.REFUTED) is (each.counterexample is not None)
        assert each.keyword or each.outcome is Outcome.REFUTED or each.code == "schema.closed"
    for each in refuted:
        assert each.counterexample is not None
        record = decode_exactly(each.counterexample.text.encode())
        assert not isinstance(record, Violation)
        assert accepts.is_valid(record), each
        assert not judges.is_valid(record), each


def check_containment(answer: Inclusion, accepts: JsonSchemaFormat, judges: JsonSchemaFormat) -> None:
    """Check that jsonschema-rs does not say the contrary: a `no` to a proof, a `yes` to a counterexample."""
    says = contained(accepts, judges)
    if says is False:
        assert answer.outcome is not Outcome.PROVEN
    if says is True:
        for each in answer.differences:
            assert each.counterexample is None or is_beyond_a_double(each.counterexample, accepts, judges), (
                each
            )


def is_beyond_a_double(shown: Counterexample, accepts: JsonSchemaFormat, judges: JsonSchemaFormat) -> bool:
    """Return whether a counterexample is none once its numbers are doubles: the containment knows exact numbers only."""
    document = json.loads(shown.text)
    return judges.is_valid(document) or not accepts.is_valid(document)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ({"maximum": 1}, {"maximum": 2}, True),
        ({"maximum": 2}, {"maximum": 1}, False),
        ({"type": "object", "required": ["a", "b"]}, {"required": ["a"]}, True),
        ({"properties": {"a": {"type": "string"}}}, {"additionalProperties": False}, False),
        ({"format": "date"}, {"type": "string"}, False),
        ({"const": "a"}, {"pattern": "^a$"}, True),
        ({"pattern": "^aa"}, {"pattern": "^a"}, None),
        ({"if": {"$ref": "#", "unevaluatedProperties": {}}}, True, None),
    ],
)
def test_the_containment_of_jsonschema_rs_is_asked_in_the_right_direction(
    old: Any, new: Any, says: bool | None
) -> None:
    assert contained(judge(old), judge(new)) is says


def test_the_containment_of_jsonschema_rs_agrees_about_numbers_that_no_double_holds() -> None:
    """It reads numbers exactly, as the judge does."""
    old, new = {"type": "number", "multipleOf": 1}, {"type": "integer"}
    assert includes(old, new, formats_asserted=True) == Inclusion(Outcome.PROVEN)
    assert contained(judge(old), judge(new)) is True


@given(SEEDS)
@RUNS
def test_what_allows_more_by_construction_is_proven(seed: int) -> None:
    old, new, is_safe = parsed_pair(seeded(seed))
    assume(is_safe)
    try:
        answer = includes(old, new, formats_asserted=True)
    except ContractError:
        assume(False)
        raise
    # A reference that leads back to itself says nothing that a proof could use.
    loops = "schema.reference-undecided" in {each.code for each in answer.differences}
    assert answer == Inclusion(Outcome.PROVEN) or (answer.outcome is Outcome.UNDETERMINED and loops), (
        old,
        new,
    )


@given(SEEDS)
@settings(RUNS, max_examples=examples(60))
def test_both_directions_of_a_pair_answer_as_each_does_alone(seed: int) -> None:
    old, new, accepts, judges = compiled_pair(seeded(seed))
    both = SchemaPair(old, new, formats_asserted=(True, True))
    assert both.forth() == includes(old, new, formats_asserted=True)
    check_containment(both.back(), judges, accepts)
    assert without_words(both.back()) == without_words(includes(new, old, formats_asserted=True))


def without_words(answer: Inclusion) -> Inclusion:
    """Leave out the sentences, which say what came first."""
    return replace(answer, differences=tuple(replace(each, sentence="") for each in answer.differences))


@given(SEEDS)
@RUNS
def test_every_schema_includes_itself_with_its_keywords_in_any_order(seed: int) -> None:
    random = seeded(seed)
    old, _, _, _ = compiled_pair(random)
    assert includes(old, shuffled(random, old), formats_asserted=True) == Inclusion(Outcome.PROVEN)


@given(SEEDS)
@RUNS
def test_every_schema_is_included_in_a_part_of_its_conjunction(seed: int) -> None:
    """What is true by construction is proven, but for references that say nothing."""
    random = seeded(seed)
    dialect = random.randrange(1, len(DIALECTS))
    maker = SchemaMaker(random, dialect)
    one, other = maker.document(), maker.schema(2)
    assume(isinstance(one, dict))
    around = {
        "$schema": DIALECTS[dialect],
        **{each: one[each] for each in ("$defs", "definitions") if each in one},
    }
    # A name that stands in two places of a document means neither.
    own = {keyword: each for keyword, each in one.items() if keyword not in around}
    old = {**around, "allOf": [own, other]}
    new = {**around, "allOf": [own]}
    try:
        judge(old)
        judge(new)
    except ContractError:
        assume(False)
    # A reference to the root means another schema here.
    assume("'#'" not in str(one) + str(other))
    answer = includes(old, new, formats_asserted=True)
    assert answer.outcome is not Outcome.REFUTED
    if "Ref" not in str(old) and "$ref" not in str(old):
        assert answer == Inclusion(Outcome.PROVEN)


def shuffled(random: Random, schema: Any) -> Any:
    if isinstance(schema, list):
        return [shuffled(random, each) for each in schema]
    if isinstance(schema, dict):
        return {name: shuffled(random, schema[name]) for name in random.sample(list(schema), len(schema))}
    return schema


PIECES = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\d", r"\w", r"\.", "[a-c0]", "-", " ", "^", "$"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "{0}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)
TEXTS = st.text("abc0-. \n\r\u2028\u00e9\u0661\ufeffZ", max_size=6)


@given(PIECES, st.lists(TEXTS, max_size=8))
@settings(max_examples=examples(300), deadline=None)
def test_an_automaton_accepts_what_the_judge_finds_the_pattern_in(pattern: str, texts: list[str]) -> None:
    automaton = automaton_of(pattern)
    assume(automaton is not None)
    assert automaton is not None
    for text in texts:
        expected = matches(pattern, text)
        assume(expected is not None)
        states = automaton.start
        for character in text:
            states = automaton.step(states, ord(character))
        assert automaton.accepts(states, is_empty=not text) is expected


ASSERTED = st.lists(
    st.one_of(
        PIECES,
        PIECES.map(lambda piece: f"(?={piece})"),
        PIECES.map(lambda piece: f"(?!{piece})"),
        st.sampled_from([r"\b", r"\B", "(?<=a)", "(?<!b)", "[(?=a)]", r"\(", r"\\\\", "(?=[)a])"]),
    ),
    min_size=1,
    max_size=5,
).map("".join)


@given(ASSERTED, st.lists(TEXTS, max_size=12))
@settings(max_examples=examples(300), deadline=None)
def test_a_pattern_without_its_assertions_matches_at_least_as_much(pattern: str, texts: list[str]) -> None:
    plain = without_assertions(pattern)
    assume(plain is not None)
    assert plain is not None
    for text in texts:
        if matches(pattern, text):
            assert matches(plain, text), (pattern, plain)


@given(PIECES, PIECES, st.integers(0, 3), st.none() | st.integers(0, 5), st.lists(TEXTS, max_size=8))
@settings(max_examples=examples(300), deadline=None)
def test_a_search_finds_a_string_or_there_is_none(
    inside: str, outside: str, least: int, most: int | None, texts: list[str]
) -> None:
    assume(automaton_of(inside) is not None and automaton_of(outside) is not None)
    assume(matches(inside, "") is not None and matches(outside, "") is not None)
    question = Question((inside,), (outside,), least, most, frozenset(texts[:2]))

    def answers(text: str) -> bool:
        fits = bool(matches(inside, text)) and not matches(outside, text)
        return fits and least <= len(text) and (most is None or len(text) <= most) and text not in texts[:2]

    try:
        found = first_string(question)
    except TooLargeError:
        return
    if found is not None:
        assert answers(found)
    shorter = [text for text in texts if answers(text) and (found is None or len(text) < len(found))]
    assert shorter == []


FORMATTED = {
    "date": ("2024-02-28", "0000-01-01"),
    "ipv4": ("127.0.0.1", "255.255.255.255"),
    "ipv6": ("::1", "2001:db8::8a2e:370:7334", "::ffff:1.2.3.4"),
    "uuid": ("2eb8aa08-aa98-11ea-b4aa-73b441d16380",),
    "email": ("a@b.cc", '"joe b"@example.org', "a@[127.0.0.1]"),
    "uri": ("http://a.bc/x?y#z", "urn:a:b"),
    "uri-reference": ("/a", "a:b", "#c"),
    "iri": ("http://a.bc/\u00e9",),
    "date-time": ("2000-01-01T00:00:00.5Z",),
    "json-pointer": ("/a/b~1c",),
}


def test_the_formats_of_the_tables_are_tried() -> None:
    assert FORMATTED.keys() >= FORMAT_LANGUAGES.keys() | WIDER_FORMATS.keys() | SAME_EVERYWHERE


@pytest.mark.parametrize("name", FORMATTED)
@given(seed=SEEDS)
@settings(max_examples=examples(100), deadline=None)
def test_what_the_tables_say_of_formats_is_what_the_judge_does(name: str, seed: int) -> None:
    random = seeded(seed)
    for _ in range(50):
        text = list(random.choice(FORMATTED[name]))
        for _ in range(random.randint(0, 4)):
            at = random.randrange(len(text) + 1)
            text[at : at + random.randrange(2)] = random.choice(("", *'019afZT.,:-+/@ %\u00e9\u0663[]"~\n'))
        check_format(name, "".join(text))


def check_format(name: str, text: str) -> None:
    verdicts = {
        dialect: {
            wide: judge({"$schema": dialect.uri, "format": wide}).is_valid(text)
            for wide in (name, *WIDER_FORMATS.get(name, ()))
            if wide in FORMATS[dialect]
        }
        for dialect in Dialect
        if name in FORMATS[dialect]
    }
    for verdict in verdicts.values():
        if verdict[name]:
            assert all(verdict.values())
            assert name not in FORMAT_LANGUAGES or matches(FORMAT_LANGUAGES[name], text)
    if name in SAME_EVERYWHERE:
        assert len({verdict[name] for verdict in verdicts.values()}) == 1


LIMITS = (
    0,
    1,
    1.0,
    -2,
    0.5,
    0.1,
    2.0,
    3,
    100,
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**64,
    1e16,
    1e22,
    10**20,
    1.5e300,
)
STEPS = (1, 2, 3, 6, 1.0, 2.0, 0.5, 0.1, 1.5, 2**31, 10**20, 1e16)


def numeric(random: Random) -> dict[str, Any]:
    made: dict[str, Any] = {"type": random.choice(("number", "integer"))}
    for _ in range(random.randint(1, 2)):
        keyword = random.choice(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
        made[keyword] = random.choice(STEPS if keyword == "multipleOf" else LIMITS)
    return made


def number_near(random: Random, schemas: tuple[dict[str, Any], ...]) -> str:
    """Write a number that may be beyond a double, near one that the schemas name."""
    named = [value for schema in schemas for value in schema.values() if not isinstance(value, str)]
    base = Fraction(Decimal(repr(random.choice(named)))) * random.choice((1, 1, 2, 3, -1))
    digits = random.choice((0, 1, 2, 15, 16, 17, 20, 30))
    nudged = base + Fraction(random.choice((-1, 0, 1)), 10**digits) * random.choice((1, abs(base) or 1))
    scaled, places = nudged, 0
    while scaled.denominator != 1:
        scaled, places = scaled * 10, places + 1
    return random.choice((f"{scaled.numerator}e-{places}", f"{Decimal(f'{scaled.numerator}e-{places}'):f}"))


@given(SEEDS)
@RUNS
def test_no_number_beyond_a_double_contradicts_a_proof(seed: int) -> None:
    random = seeded(seed)
    for _ in range(5):
        old, new = numeric(random), numeric(random)
        if includes(old, new, formats_asserted=True).outcome is Outcome.PROVEN:
            accepts, judges = judge(old), judge(new)
            for _ in range(40):
                record = decode_exactly(number_near(random, (old, new)).encode())
                assert judges.is_valid(record) or not accepts.is_valid(record), (old, new, record)
