"""What is lowered of an expression in CEL says what the library says, in every way of judging."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
from cel_expr_python import cel
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.document.fields import join
from tidegate.contracts.fastpath.cel_lowered import NotLoweredError
from tidegate.contracts.fastpath.cel_lowering import lower
from tidegate.contracts.fastpath.code_writer import DECODED, CodeWriter
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.cel import ExpressionResult, evaluate, evaluate_with
from tidegate.contracts.rules.cel_syntax import syntax_of
from tidegate.contracts.rules.places import located, places
from tidegate.contracts.verdict import Stage

EXAMPLES = int(os.environ.get("TIDEGATE_CEL_EXAMPLES", examples(400)))

NUMBERS: dict[str, Any] = {
    "n": {"type": "number"},
    "m": {"type": ["number", "null"]},
    "i": {"type": "integer"},
}
TEXTS: dict[str, Any] = {"s": {"type": "string"}, "z": {"type": ["string", "null"]}}
OTHERS: dict[str, Any] = {
    "b": {"type": "boolean"},
    "t": {"type": "string", "format": "date-time"},
    "l": {"type": "array", "items": {"type": ["string", "number", "null"]}},
    "any": {},
}
INNER = {
    **NUMBERS,
    **TEXTS,
    "b": {"type": ["boolean", "null"]},
    "deep": {"type": "object", "properties": NUMBERS},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["i", "z"],
    "properties": {
        **NUMBERS,
        **TEXTS,
        **OTHERS,
        "o": {"type": "object", "properties": INNER},
        "p": {"type": ["object", "null"], "properties": INNER, "required": ["n"]},
    },
}

names = st.sampled_from(
    [
        *(f"this.{name}" for name in [*NUMBERS, *TEXTS, *OTHERS]),
        *(f"this.{parent}.{name}" for parent in "op" for name in ["n", "m", "i", "s", "z", "b", "deep.n"]),
        "this['n']",
        r"this['n\u0000']",
        "this.o",
        "this.p",
    ]
)
integers = st.sampled_from(["0", "1", "-1", "2", "5", "100", "9007199254740993", "9223372036854775807"])
doubles = st.sampled_from(["0.0", "0.5", "-1.5", "1.0", "2.0", "1e300", "9007199254740992.0"])
strings = st.sampled_from(
    ["''", "'a'", "'ab'", "'é'", "'😀'", "'2024-01-01T00:00:00Z'", r"'a\u0000'", r"'\u0000'", r"'a\u0000b'"]
)
constants = st.one_of(integers, doubles, strings, st.sampled_from(["true", "false", "null"]))
instants = st.sampled_from(
    [
        "2024-01-01T00:00:00Z",
        "2024-01-01T01:00:00+01:00",
        "2023-12-31T23:59:60Z",
        "2024-01-01T00:00:00.000000001Z",
        "2024-01-01t00:00:00z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2024-02-30T00:00:00Z",
        "2024-01-01T00:00:00+23:59",
        "2024-01-01",
        "1969-12-31T23:59:59.5Z",
    ]
)
moments = st.one_of(
    st.just("timestamp(this.t)"),
    instants.map(lambda text: f"timestamp('{text}')"),
    names.map("timestamp({})".format),
)
spans = st.one_of(
    st.sampled_from(
        ["duration('1h')", "duration('90m30s')", "duration('0s')", "duration('1.5h')", "duration('-1h')"]
    ),
    st.builds("{} - {}".format, moments, moments),
)
orders = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
sums = st.recursive(
    st.one_of(names, integers, doubles, st.just("size(this.s)")),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
    max_leaves=3,
)
leaves = st.one_of(
    st.builds("{} {} {}".format, names, orders, constants),
    st.builds("{} {} {}".format, constants, orders, names),
    st.builds("{} {} {}".format, names, orders, names),
    st.builds("{} {} {}".format, sums, orders, sums),
    st.builds("has({})".format, names.filter(lambda name: "[" not in name)),
    st.builds("size({}) {} {}".format, names, orders, integers),
    st.builds("{}.size() {} {}".format, names, orders, integers),
    st.builds("{} in [{}]".format, names, st.lists(st.one_of(strings, constants), max_size=3).map(", ".join)),
    st.builds("{} in {}".format, constants, names),
    st.builds("{} {} {}".format, moments, orders, moments),
    st.builds("{} + {} {} {}".format, moments, spans, orders, moments),
    st.builds("({}) {} ({})".format, spans, orders, spans),
    st.builds(
        "{}.{}({})".format, names, st.sampled_from(["startsWith", "endsWith", "contains", "matches"]), strings
    ),
    st.builds(
        "{}.{}() == {}".format,
        names,
        st.sampled_from(["lowerAscii", "upperAscii", "trim"]),
        st.one_of(strings, names),
    ),
    st.builds("{}.{}()".format, names, st.sampled_from(["isEmail", "isHostname", "isUri", "isUuid"])),
    st.builds("{}.split({}).join({}) == {}".format, names, strings, strings, names),
    st.sampled_from(["true", "false", "this.b && true", "this.o.b || false"]),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        inner.map("!({})".format),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=5,
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, 1, -1, 2, 5, 1.0, 0.5, 2.0, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 1e300]
    ),
    st.sampled_from(["", "a", "ab", "é", "😀", "b", "a\0", "\0", "a\0b", "2024-01-01T00:00:00Z\0"]),
    instants,
)
fit = {
    "n": st.sampled_from([0, 1, 1.0, 0.5, 2**53 + 1, -1]),
    "m": st.sampled_from([None, 0, 2.0, 2**62]),
    "i": st.sampled_from([0, 1, 5, 2**63 - 1, 1.0]),
    "s": st.sampled_from(["", "a", "ab", "😀", "a\0", "a\0b"]),
    "z": st.sampled_from([None, "a", "é", "\0"]),
    "b": st.booleans(),
    "t": instants,
    "l": st.lists(st.one_of(st.none(), st.sampled_from(["a", 1, 1.0, "é", "a\0"])), max_size=3),
    "any": st.one_of(scalars, st.lists(scalars, max_size=2)),
}
inner_records = st.fixed_dictionaries(
    {},
    optional={
        **{name: fit[name] for name in "nmisz"},
        "b": st.one_of(st.none(), st.booleans()),
        "deep": st.fixed_dictionaries({}, optional={name: fit[name] for name in "nmi"}),
    },
)
fitting = st.fixed_dictionaries(
    {"i": fit["i"], "z": fit["z"]},
    optional={
        **{name: values for name, values in fit.items() if name not in "iz"},
        "o": inner_records,
        "p": st.one_of(
            st.none(), inner_records.flatmap(lambda record: fit["n"].map(lambda n: record | {"n": n}))
        ),
    },
)
members = st.one_of(
    scalars,
    st.lists(scalars, max_size=2),
    st.dictionaries(st.sampled_from([*"nsb", "a\0"]), scalars, max_size=2),
)
others = st.dictionaries(st.sampled_from([*"nmiszbtlop", "any", "n\0", "s\0x"]), members, max_size=6)
records = st.one_of(fitting, fitting, others, st.builds(lambda one, two: one | two, fitting, others))

ENVIRONMENT = cel.NewEnv(variables={"this": cel.Type.DYN})
WAYS = {
    "holds": {ExpressionResult.HOLDS},
    "fails": {ExpressionResult.BROKEN},
    "passes": {ExpressionResult.HOLDS, ExpressionResult.UNKNOWN},
    "misses": {ExpressionResult.BROKEN, ExpressionResult.UNKNOWN},
}


def compiled(expression: str) -> Any:
    """Compile an expression; None for one that compares what does not compare."""
    try:
        return ENVIRONMENT.compile(expression)
    except RuntimeError:
        return None


@lru_cache(maxsize=1_000)
def lowered(expression: str) -> dict[str, Any] | None:
    node = syntax_of(compiled(expression))
    found = {}
    for way in WAYS:
        program = CodeWriter()
        try:
            test = getattr(lower(node, program), way)
        except NotLoweredError:
            return None
        found[way] = program.function([*DECODED], [test], "True", "False")
    return found


@settings(max_examples=EXAMPLES, deadline=None)
@given(expressions, st.lists(records, min_size=1, max_size=6))
def test_what_is_lowered_says_what_the_library_says(expression: str, some: list[Any]) -> None:
    library = compiled(expression)
    if library is None or library.return_type() != cel.Type.BOOL:
        return
    tests = lowered(expression)
    if tests is None:
        return
    for record in some:
        for each in (record, decode_exactly(json.dumps(record).encode())):
            outcome = evaluate(library.eval, each)
            for way, outcomes in WAYS.items():
                assert not tests[way](each) or outcome in outcomes, (way, expression, each, outcome)


def plan_with(rule: dict[str, Any], *, fastpath: bool | None = None) -> EnforcementPlan:
    columns = [{"name": "s", "from": "/s", "type": "json"}]
    return documents.plan_with(SCHEMA, formats="annotate", columns=columns, rules=[rule], fastpath=fastpath)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    expressions,
    st.lists(records, min_size=1, max_size=6),
    st.sampled_from(["pass", "violate"]),
    st.booleans(),
)
def test_every_way_of_judging_says_what_the_library_says(
    expression: str,
    some: list[Any],
    nulls: str,
    fastpath: bool,
) -> None:
    library = compiled(expression)
    if library is None or library.return_type() != cel.Type.BOOL:
        return
    plan = plan_with({"id": "r", "kind": "cel", "expr": expression, "nulls": nulls}, fastpath=fastpath)
    values = pa.array([json.dumps(record).encode() for record in some])
    for judged in (plan.judge(values), plan.judge_typed(values)):
        for value, verdict in zip(values.to_pylist(), judged.to_pylist(), strict=True):
            record = decode_exactly(value)
            fits = plan.payload_format.is_valid(record)
            outcome = evaluate(library.eval, record)
            is_broken = {
                ExpressionResult.HOLDS: False,
                ExpressionResult.BROKEN: True,
                ExpressionResult.UNKNOWN: nulls == "violate",
                ExpressionResult.ERROR: fits,
            }[outcome]
            slots = plan.failed_slots(verdict["failed"])
            assert is_broken == any(slot.stage is Stage.RULE for slot in slots), (expression, value, outcome)
            explained = plan.explain(value).violations
            assert is_broken == any(violation.stage is Stage.RULE for violation in explained)


def test_records_with_numbers_beyond_a_double_are_left_to_the_library() -> None:
    tests = lowered("this.n > 1 && this.n == this.m")
    assert tests is not None
    record = {"n": Decimal("0.30000000000000001"), "m": Decimal(1)}
    assert not any(test(record) for test in tests.values())


FIELDS = ["/n", "/m", "/z", "/any", "/o/n", "/o/deep/n", "/p/z", "/l/*", "/p/deep"]
value_leaves = st.one_of(
    st.builds("value {} {}".format, orders, constants),
    st.builds("{} {} {}".format, st.sampled_from(["value", "parent.n", "this.i", "value.n"]), orders, names),
    st.builds("size({}) {} {}".format, st.sampled_from(["value", "parent"]), orders, integers),
    st.builds("value in [{}]".format, st.lists(constants, min_size=1, max_size=3).map(", ".join)),
    st.sampled_from(["has(parent.m)", "has(value.n)", "value", "value.startsWith('a')", "parent.z == value"]),
)
value_expressions = st.recursive(
    value_leaves,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner), st.builds("({} || {})".format, inner, inner)
    ),
    max_leaves=3,
)
WITH_FIELD = cel.NewEnv(variables=dict.fromkeys(("value", "parent", "this"), cel.Type.DYN))


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    value_expressions,
    st.sampled_from(FIELDS),
    st.lists(records, min_size=1, max_size=5),
    st.sampled_from(["pass", "violate"]),
    st.booleans(),
    st.booleans(),
)
def test_an_expression_about_a_field_is_asked_of_each_of_its_values(
    expression: str,
    field: str,
    some: list[Any],
    nulls: str,
    strict: bool,
    fastpath: bool,
) -> None:
    try:
        library = WITH_FIELD.compile(expression)
    except RuntimeError:
        return
    if library.return_type() != cel.Type.BOOL:
        return
    rule = {"id": "r", "kind": "cel", "expr": expression, "field": field, "nulls": nulls, "strict": strict}
    plan = plan_with(rule, fastpath=fastpath)
    path = tuple(field.split("/")[1:])
    holder = path[:-2] if path[-1] == "*" else path[:-1]
    values = pa.array([json.dumps(record).encode() for record in some])
    for judged in (plan.judge(values), plan.judge_typed(values)):
        for value, verdict in zip(values.to_pylist(), judged.to_pylist(), strict=True):
            record = decode_exactly(value)
            wrong = set()
            for elements, (found, parent, _) in places(record, (path, holder, ())):
                if found is None:
                    is_broken = nulls == "violate"
                else:
                    outcome = evaluate_with(library.eval, {"value": found, "parent": parent, "this": record})
                    is_broken = {
                        ExpressionResult.HOLDS: False,
                        ExpressionResult.BROKEN: True,
                        ExpressionResult.UNKNOWN: strict,
                        ExpressionResult.ERROR: plan.payload_format.is_valid(record),
                    }[outcome]
                wrong |= {join(located(path, elements))} if is_broken else set()
            slots = plan.failed_slots(verdict["failed"])
            assert bool(wrong) == any(slot.stage is Stage.RULE for slot in slots), (expression, value)
            explained = plan.explain(value).violations
            assert wrong == {each.pointer for each in explained if each.stage is Stage.RULE}
