"""The fast path, the exact path and `explain` say the same, and the same as other implementations."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import orjson
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.fastpath.json_values import decode_values
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.formats.json_records import decode_exactly, decode_json
from tidegate.contracts.formats.reference import ReferenceValidator
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.compile import compile_rules
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.places import places
from tidegate.contracts.verdict import Disposition, Stage, Violation

RULES = [
    {"id": "sentinel", "kind": "forbidden", "field": "/n", "values": [999, 0.5], "severity": "warning"},
    {"id": "listed", "kind": "one_of", "field": "/s", "values": ["a", "b"], "on_violation": "drop"},
    {"id": "limits", "kind": "range", "field": "/n", "minimum": -5, "exclusive_maximum": 1000.5},
    {"id": "late", "kind": "range", "field": "/d", "after": "1900-01-01", "on_violation": "alert"},
    {"id": "stay", "kind": "ordered", "fields": ["/d", "/e"], "nulls": "violate"},
    {"id": "letters", "kind": "matches", "field": "/o/s", "pattern": "^[a-z]*$"},
    {"id": "needed", "kind": "required_when", "field": "/e", "when": {"field": "/s", "equals": "a"}},
    {"id": "sum", "kind": "cel", "expr": "this.n + 1.0 > 0.0 || this.s == 'a'", "on_violation": "fail"},
    {"id": "last", "kind": "cel", "expr": "size(this.o.s) < 3"},
]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": ["number", "null"], "maximum": 10**20, "multipleOf": 0.25},
        "s": {"type": "string", "maxLength": 3},
        "d": {"type": "string", "format": "date"},
        "e": {"type": ["string", "null"], "format": "date"},
        "o": {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]},
        "l": {"type": "array", "uniqueItems": True},
    },
    "required": ["n"],
}
COLUMNS = [
    {"name": "n", "from": "/n", "type": "decimal(6,2)"},
    {"name": "s", "from": "/s", "type": "string"},
    {"name": "d", "from": "/d", "type": "date"},
    {"name": "l", "from": "/l", "type": "json"},
    {"name": "os", "from": "/o/s", "type": "string"},
]


PLAN = documents.plan_with(SCHEMA, rules=RULES, columns=COLUMNS)
STRICT = documents.strict(PLAN)
RULE_SET = compile_rules(PLAN.contract, PLAN.payload_format.fields)
FAST_RULES = FastRules(RULE_SET, PLAN.payload_format.fields)

digits = st.text("0123456789", min_size=1, max_size=22)
number_texts = st.builds(
    lambda sign, whole, fraction, exponent: sign + (whole.lstrip("0") or "0") + fraction + exponent,
    st.sampled_from(["", "-"]),
    st.one_of(digits, st.sampled_from(["999", "0", "9007199254740993", "18446744073709551616"])),
    st.one_of(st.just(""), digits.map(lambda text: "." + text), st.sampled_from([".0", ".5", ".25"])),
    st.one_of(st.just(""), st.builds(lambda e, n: f"{e}{n}", st.sampled_from("eE"), st.integers(-400, 400))),
)
date_texts = st.one_of(
    st.dates().map(str), st.sampled_from(["1900-01-01", "2024-02-30", "0000-01-01", "2024-1-1", ""])
).map(json.dumps)
string_texts = st.one_of(
    st.sampled_from(
        ['"a"', '"b"', '"z"', '"\\ud800"', '"\\ud83d\\ude00"', '"abcd"', '"12345678901234567890"']
    ),
    st.text(max_size=5).map(json.dumps),
)
scalar_texts = st.one_of(
    number_texts, date_texts, string_texts, st.sampled_from(["null", "true", "[]", "{}", "NaN"])
)
member_texts = st.one_of(
    st.tuples(st.just("n"), st.one_of(number_texts, scalar_texts)),
    st.tuples(st.just("s"), st.one_of(string_texts, scalar_texts)),
    st.tuples(st.sampled_from("de"), st.one_of(date_texts, scalar_texts)),
    st.tuples(st.just("o"), string_texts.map(lambda text: f'{{"s":{text}}}')),
    st.tuples(st.just("l"), st.lists(scalar_texts, max_size=3).map(lambda items: f"[{', '.join(items)}]")),
    st.tuples(st.sampled_from("nsdeolx"), scalar_texts),
)
record_texts = st.lists(member_texts, max_size=8).map(
    lambda members: "{" + ",".join(f'"{name}":{text}' for name, text in members) + "}"
)
values = st.one_of(
    record_texts.map(str.encode),
    scalar_texts.map(str.encode),
    st.binary(max_size=20),
    st.none(),
    st.builds(lambda text, cut: text.encode()[:cut], record_texts, st.integers(0, 60)),
)


def stages_and_rules(plan: EnforcementPlan, failed: bytes | None) -> set[str]:
    return {slot.code for slot in plan.failed_slots(failed)}


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(values, max_size=6))
def test_judge_and_explain_agree(batch: list[bytes | None]) -> None:
    array = pa.array(batch, pa.binary())
    for typed, judged in ((False, PLAN.judge(array)), (True, PLAN.judge_typed(array))):
        strictly = STRICT.judge_typed(array) if typed else STRICT.judge(array)
        assert strictly.equals(judged)
        assert len(judged) == len(batch)
        assert judged.null_count == 0
        together = PLAN.explain_each(array, typed=typed)
        by_slots = PLAN.explain_each(array, typed=typed, failed=judged.field("failed"))
        for value, verdict, explained, known in zip(
            batch, judged.to_pylist(), together, by_slots, strict=True
        ):
            assert explained == PLAN.explain(value, typed=typed) == STRICT.explain(value, typed=typed)
            assert known == explained
            assert verdict["disposition"] == explained.disposition
            assert (explained.disposition is Disposition.ACCEPTED) == (not explained.violations)
            codes = {each.code if each.stage is Stage.RULE else each.stage for each in explained.violations}
            assert stages_and_rules(PLAN, verdict["failed"]) == codes
            if typed:
                assert (verdict["columns"] is not None) == explained.disposition.is_written


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(values, min_size=1, max_size=6))
def test_all_rules_at_once_say_what_each_says_alone(batch: list[bytes | None]) -> None:
    """Of records that break the schema too, and of what is no object."""
    rules = RULE_SET.rules
    for record in decode_json(pa.array(batch, pa.binary())):
        if type(record) is Violation:
            continue
        for fits in (False, True):
            broken = {
                rule.id for index, rule in enumerate(rules) if FAST_RULES.broken(record, fits) >> index & 1
            }
            assert FAST_RULES.broken(record, fits) == RULE_SET.broken(record, fits)
            assert broken == {rule.id for rule in rules if breaks(rule.check, record, fits=fits)}


def breaks(check: FieldCheck, record: Any, *, fits: bool) -> bool:
    if not check.paths:
        return check.breaks(record, fits)
    last = (fits,) if check.asks_fit else ()
    return any(check.breaks(*found, *last) for _, found in places(record, check.paths))


@settings(max_examples=examples(600), deadline=None)
@given(values)
def test_no_evidence_holds_a_value(value: bytes | None) -> None:
    for violation in PLAN.explain(value, typed=True).violations:
        assert set(violation.pointer.split("/")) <= {"", "*", *"nsdeol", *map(str, range(10))}


@settings(max_examples=examples(800), deadline=None)
@given(record_texts)
def test_what_the_fast_path_takes_is_what_the_exact_path_takes(text: str) -> None:
    value = text.encode()
    (decoded,) = decode_values(pa.array([value]))
    exact = decode_exactly(value)
    assert type(decoded) is type(exact)
    if isinstance(decoded, Violation):
        assert decoded == exact
        return
    assert typed_form(decoded) == typed_form(exact)
    assert PLAN.payload_format.is_valid(decoded) == PLAN.payload_format.is_valid(exact)


def typed_form(value: Any) -> Any:
    """Tell apart what Python finds equal: numbers as the decimals that they stand for."""
    match value:
        case dict():
            return {name: typed_form(member) for name, member in value.items()}
        case list():
            return [typed_form(item) for item in value]
        case float():
            return ("number", Decimal(repr(value)))
        case int() | Decimal() if not isinstance(value, bool):
            return ("number", Decimal(value))
        case _:
            return (type(value).__name__, value)


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-5, 5),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from([0.1, 0.3, 1.0, 2.5]),
        st.text(max_size=4),
        st.sampled_from(["a", "2024-02-29", "2023-02-29"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
keywords = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"]),
        "minimum": st.sampled_from([-3, 0, 0.3, 2]),
        "maximum": st.sampled_from([1.5, 3.0, 4]),
        "exclusiveMaximum": st.sampled_from([0, 0.3, 2.5, 10]),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "[0-9]+$"]),
        "format": st.just("date"),
        "enum": st.lists(json_values, min_size=1, max_size=3, unique_by=orjson.dumps),
        "const": json_values,
        "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.just(True),
        "additionalProperties": st.booleans(),
    },
)
schemas = st.recursive(
    keywords,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer"]),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
        },
    ),
    max_leaves=6,
)


@settings(max_examples=examples(500), deadline=None)
@given(schemas, st.lists(json_values, min_size=1, max_size=5), st.booleans())
@example({"multipleOf": 1}, [1e28, 1.7e308, 5e-324], False)
@example({"multipleOf": 0.5}, [1e300, 2.25], True)
def test_the_schema_means_what_python_jsonschema_says(
    schema: dict[str, Any],
    records: list[Any],
    fastpath: bool,
) -> None:
    whole = {"properties": {"id": {"type": "string"}, "record": schema}}
    columns = [{"name": "id", "from": "/id", "type": "string"}]
    plan = documents.plan_with(whole, columns=columns, fastpath=fastpath)
    reference = ReferenceValidator(JsonSchema(type="json-schema", definition=schema, formats="assert"))
    judged = plan.judge(
        pa.array([json.dumps({"record": record}).encode() for record in records], pa.binary())
    )
    expected = [reference.accepts(json.dumps(record).encode()) for record in records]
    assert expected == [verdict["disposition"] == Disposition.ACCEPTED for verdict in judged.to_pylist()]


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", "long"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "b", "type": "bytes"},
        {"name": "s", "type": ["string", "boolean"]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 3}},
        {"name": "a", "type": {"type": "array", "items": ["null", "R"]}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
    ],
}
PARSED = fastavro.parse_schema(AVRO)
avro_leaf = st.fixed_dictionaries(
    {
        "i": st.integers(-(2**31), 2**31 - 1),
        "l": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "f": st.floats(width=32, allow_nan=False),
        "d": st.floats(allow_nan=False),
        "b": st.binary(max_size=5),
        "s": st.one_of(st.text(max_size=5), st.booleans()),
        "e": st.sampled_from("AB"),
        "x": st.binary(min_size=3, max_size=3),
        "a": st.just([]),
        "m": st.dictionaries(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), max_size=3),
    }
)
avro_records = st.builds(
    lambda leaf, inner: leaf | {"a": inner}, avro_leaf, st.lists(st.one_of(st.none(), avro_leaf), max_size=3)
)
AVRO_PLAN = documents.plan_with(AVRO, kind="avro", columns=[{"name": "i", "from": "/i", "type": "int"}])
STRICT_AVRO_PLAN = documents.strict(AVRO_PLAN)


def encoded(record: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, PARSED, record)
    return file.getvalue()


@settings(max_examples=examples(300), deadline=None)
@given(avro_records)
def test_what_fastavro_writes_is_read_back(record: Any) -> None:
    (decoded,) = AVRO_PLAN.payload_format.decode(Framed(pa.array([encoded(record)])))
    assert decoded == record


@settings(max_examples=examples(300), deadline=None)
@given(avro_records, st.randoms(use_true_random=False))
def test_no_avro_bytes_raise(record: Any, chance: random.Random) -> None:
    value = bytearray(encoded(record))
    for _ in range(chance.randrange(1, 4)):
        value[chance.randrange(len(value))] = chance.randrange(256)
    array = pa.array([bytes(value), bytes(value[: chance.randrange(len(value))])])
    assert STRICT_AVRO_PLAN.judge_typed(array).equals(AVRO_PLAN.judge_typed(array))
    for verdict, each in zip(AVRO_PLAN.judge(array).to_pylist(), array.to_pylist(), strict=True):
        assert verdict["disposition"] == AVRO_PLAN.explain(each).disposition
