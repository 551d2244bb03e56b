"""The quick ways past the judge let through only what the exact ways accept."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.fastpath.json_values import _INEXACT
from tidegate.contracts.fastpath.number_scan import suspect_rows
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.rules.compiled import CompiledRules

FIELDS = {
    "n": {"type": ["number", "null"]},
    "m": {"type": "integer"},
    "k": {"type": "integer"},
    "s": {"type": ["string", "null"]},
    "d": {"type": "string", "format": "date"},
    "e": {"type": "string", "format": "date"},
    "t": {"type": "string", "format": "date-time"},
    "o": {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "number"}}},
}
INTEGERS, DATES = st.integers(-3, 3), st.dates().map(str)
RULE_BODIES = st.one_of(
    st.builds(
        lambda field, values: {"kind": "forbidden", "field": field, "values": values},
        st.sampled_from(["/n", "/m", "/o/n"]),
        st.lists(st.one_of(INTEGERS), min_size=1, max_size=3),
    ),
    st.builds(
        lambda kind, field, values: {"kind": kind, "field": field, "values": values},
        st.sampled_from(["forbidden", "one_of"]),
        st.sampled_from(["/d", "/e"]),
        st.lists(st.sampled_from(["1900-01-01", "2020-02-29", "2024-01-01"]), min_size=1, max_size=2),
    ),
    st.builds(
        lambda kind, values: {"kind": kind, "field": "/s", "values": values},
        st.sampled_from(["forbidden", "one_of"]),
        st.lists(st.sampled_from(["", "a", "b", "1"]), min_size=1, max_size=3),
    ),
    st.builds(
        lambda values: {"kind": "one_of", "field": "/m", "values": values},
        st.lists(INTEGERS, min_size=1, max_size=4),
    ),
    st.builds(
        lambda field, name, limit: {"kind": "range", "field": field, name: limit},
        st.sampled_from(["/n", "/m", "/o/n"]),
        st.sampled_from(["minimum", "exclusive_minimum", "maximum", "exclusive_maximum"]),
        st.one_of(INTEGERS, st.sampled_from([0.5, 0.3, -1.5, 9007199254740993])),
    ),
    st.builds(
        lambda name, limit: {"kind": "range", "field": "/d", name: limit},
        st.sampled_from(["after", "before", "not_after", "not_before"]),
        DATES,
    ),
    st.builds(
        lambda fields, strict: {"kind": "ordered", "fields": fields, "strict": strict},
        st.sampled_from([["/d", "/e"], ["/m", "/k"], ["/n", "/m"], ["/m", "/n", "/o/n"]]),
        st.booleans(),
    ),
    st.just({"kind": "matches", "field": "/o/s", "pattern": "^[ab]*$"}),
    st.builds(
        lambda equals: {"kind": "required_when", "field": "/s", "when": {"field": "/m", "equals": equals}},
        INTEGERS,
    ),
    st.just({"kind": "cel", "expr": "this.m < 2"}),
)
RULES = st.lists(st.tuples(RULE_BODIES, st.sampled_from(["pass", "violate"])), min_size=1, max_size=6)

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    INTEGERS,
    st.sampled_from([0.5, 0.3, 1.0, -1.5, 2.0**53, 1e300, 9007199254740993, 2**64]),
    st.sampled_from([Decimal("0.3"), Decimal("0.30000000000000001"), Decimal(1), Decimal("1E+400")]),
    st.sampled_from(
        [
            "",
            "a",
            "b",
            "1",
            "1900-01-01",
            "2024-13-01",
            "2020-02-29",
            "\u0662\u0660\u0662\u0664-\u0660\u0661-\u0660\u0661",
            "2020-02-29T00:00:00Z",
        ]
    ),
    DATES,
    st.lists(st.integers(0, 1), max_size=2),
    st.fixed_dictionaries(
        {}, optional={"s": st.sampled_from(["a", "c", 1, None]), "n": st.sampled_from([0, 0.5, "x"])}
    ),
)
RECORDS = st.one_of(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, ANYTHING)), ANYTHING)


def rule_sets(bodies: list[tuple[dict[str, Any], str]]) -> tuple[FastRules, CompiledRules]:
    """Compile the rules with generated code, and without."""
    rules = [
        {"id": f"r{index}", **body, **({} if body["kind"] == "cel" else {"nulls": nulls})}
        for index, (body, nulls) in enumerate(bodies)
    ]
    plan = documents.plan_with({"type": "object", "properties": FIELDS}, rules=rules)
    strict = plan._judge.rules
    return FastRules(strict, plan.payload_format.fields), strict


@settings(max_examples=examples(400), deadline=None)
@given(RULES, st.lists(RECORDS, min_size=1, max_size=20))
def test_a_record_that_the_quick_test_passes_breaks_no_rule(
    bodies: list[tuple[dict[str, Any], str]], records: list[Any]
) -> None:
    fast, strict = rule_sets(bodies)
    for record in records:
        assert not (fast.hold(record) and strict.broken(record, fits=True))
        for fits in (False, True):
            assert fast.broken(record, fits) == strict.broken(record, fits)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "forbidden", "field": "/m", "values": [999]},
        {"kind": "one_of", "field": "/s", "values": ["a"]},
        {"kind": "range", "field": "/n", "minimum": 0, "maximum": 10},
        {"kind": "range", "field": "/d", "after": "1900-01-01"},
        {"kind": "ordered", "fields": ["/d", "/e"]},
        {"kind": "ordered", "fields": ["/m", "/k"]},
    ],
)
def test_an_ordinary_record_passes_the_quick_test(body: dict[str, Any]) -> None:
    # A test that never accepts would be correct too, and useless.
    record = {"m": 1, "k": 2, "n": 0.5, "s": "a", "d": "2024-01-01", "e": "2024-01-02"}
    assert rule_sets([(body, "violate")])[0].hold(record)


FRAGMENTS = st.sampled_from(
    [
        b"",
        b"x",
        b"1",
        b"12345678",
        b"1234567890123456",
        b".",
        b"1e5",
        b"0.3E-7",
        b'{"a":',
        b", ",
        b"\xff",
        b"abcdef01e2",
        b"-",
    ]
)
VALUES = st.one_of(st.none(), st.lists(FRAGMENTS, max_size=8).map(b"".join))


@settings(max_examples=examples(500), deadline=None)
@given(
    st.lists(VALUES, max_size=12),
    st.integers(0, 3),
    st.sampled_from([pa.binary(), pa.large_binary()]),
    st.integers(0, 1),
)
def test_the_sieve_keeps_every_value_that_the_pattern_finds(
    values: list[bytes | None], cut: int, width: pa.DataType, fillers: int
) -> None:
    filler = [b"no number here " * 10_000] * fillers  # so that a value may lie across two chunks
    array = pa.array([*filler, *values], width).slice(cut)
    found = {
        row for row, is_match in enumerate(pc.match_substring_regex(array, _INEXACT).to_pylist()) if is_match
    }
    assert found - set(suspect_rows(array)) == set()


def test_the_sieve_lets_ordinary_values_go() -> None:
    assert suspect_rows(pa.array([b'{"id": "A000000123", "age": 42, "charge": 1234.56}'] * 100)) == []


@pytest.mark.parametrize("shift", range(131_040, 131_090))
def test_the_sieve_sees_a_number_wherever_it_lies(shift: int) -> None:
    values = [b"x" * shift, b":1234567890.123456", b":1e5"]
    assert suspect_rows(pa.array(values)) == [1, 2]
