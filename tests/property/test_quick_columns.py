"""Columns made of the texts of whole batches are those that the exact way makes of each record."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.fastpath.columns import texts_as_days, texts_as_instants, texts_as_local_times
from tidegate.contracts.formats.column_values import day, instant, local_time
from tidegate.contracts.judge.plan import EnforcementPlan

TEXTS = st.sampled_from(
    ("", "a", "ab", "A1", 'q"', "b\\", "é", "😀", "\x1f", "\x1e", "\x1d", "a\x1db", "\n", "\x00", "\x7f", "null", "a,b", '","')
)  # fmt: skip
DAYS = st.sampled_from(
    (
        "2024-02-29",
        "1899-12-31",
        "0001-01-01",
        "9999-12-31",
        "0000-01-01",
        "2023-02-29",
        "2024-1-1",
        "2024-02-29 ",
    )
)
INSTANTS = st.sampled_from(
    ("2024-02-29T00:00:00Z", "2024-02-29T23:59:60Z", "2024-02-29t00:00:00.123456+01:00", "2024-02-29T00:00:00.1234567Z",
     "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999Z", "2024-02-29T00:00:00-00:00", "2024-02-30T00:00:00Z")
)  # fmt: skip
LOCAL = st.sampled_from(
    (
        "2024-02-29T00:00:00",
        "2024-02-29t00:00:00",
        "2024-02-29 00:00:00.5",
        "2024-02-29",
        "2024-02-29T24:00:00",
        "x",
    )
)
WORDS = {"type": ["string", "null"]}
DEFINITION = {
    "type": "object",
    "required": ["id", "sort"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-zA-Z0-9]*$"},
        "sort": {"enum": ["x", "y", None]},
        "word": WORDS,
        "day": {"type": "string", "format": "date"},
        "said_day": {"type": "string"},
        "instant": {"type": ["string", "null"], "format": "date-time"},
        "local": {"type": "string"},
        "codes": {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z]?[0-9]*$"}},
        "tags": {"type": ["array", "null"], "items": {"type": "string"}},
        "mixed": {"type": "array", "items": {"type": ["string", "null"]}},
        "n": {"type": ["integer", "null"], "minimum": -(2**40)},
        "x": {"type": "number"},
        "within": {
            "type": ["object", "null"],
            "properties": {"word": WORDS, "codes": {"type": "array", "items": {"type": "string"}}},
        },
    },
}
COLUMNS = [
    {"name": "id", "from": "/id", "type": "string"},
    {"name": "sort", "from": "/sort", "type": "string"},
    {"name": "word", "from": "/word", "type": "string"},
    {"name": "word_again", "from": "/word", "type": "json"},
    {"name": "day", "from": "/day", "type": "date"},
    {"name": "day_text", "from": "/day", "type": "string"},
    {"name": "said_day", "from": "/said_day", "type": "date"},
    {"name": "instant", "from": "/instant", "type": "timestamp"},
    {"name": "local", "from": "/local", "type": "timestamp_ntz"},
    {"name": "codes", "from": "/codes", "type": "json"},
    {"name": "tags", "from": "/tags", "type": "json"},
    {"name": "mixed", "from": "/mixed", "type": "json"},
    {"name": "n", "from": "/n", "type": "int"},
    {"name": "x", "from": "/x", "type": "decimal(12,2)"},
    {"name": "double", "from": "/x", "type": "double"},
    {"name": "inner_word", "from": "/within/word", "type": "string"},
    {"name": "inner_codes", "from": "/within/codes", "type": "json"},
]
RULES = [
    {"id": "warned", "kind": "forbidden", "field": "/n", "values": [1], "severity": "warning"},
    {"id": "refused", "kind": "forbidden", "field": "/n", "values": [2], "on_violation": "quarantine"},
]


def plan_of(definition: dict[str, Any], columns: list[dict[str, Any]], on_violation: str) -> EnforcementPlan:
    return documents.plan_with(definition, columns=columns, rules=RULES, on_violation=on_violation)


PLANS = [plan_of(DEFINITION, COLUMNS, policy) for policy in ("quarantine", "alert")]
STRICT = [documents.strict(plan) for plan in PLANS]
OPTIONAL = {
    "word": TEXTS | st.none(),
    "day": DAYS,
    "said_day": DAYS,
    "instant": INSTANTS | st.none(),
    "local": LOCAL,
    "codes": st.lists(st.sampled_from(("A1", "", "7", "a", "é")), max_size=3),
    "tags": st.none() | st.lists(TEXTS, max_size=3),
    "mixed": st.lists(TEXTS | st.none(), max_size=2),
    "n": st.sampled_from((None, 0, 1, 2, 3, -(2**31), 2**31, 2**70, "1")),
    "x": st.sampled_from((0, 0.25, 1.5, 2, 12345678901.5, 0.1234, 1e300, 123456789012345678)),
    "within": st.none() | st.fixed_dictionaries({}, optional={"word": TEXTS | st.none(), "codes": st.lists(TEXTS, max_size=2)}),
    "more": TEXTS,
}  # fmt: skip
RECORDS = st.fixed_dictionaries(
    {"id": st.sampled_from(("", "a", "B2", "é", "\x1f")), "sort": st.sampled_from(("x", "y", None, "z"))},
    optional=OPTIONAL,
)
VALUES = st.lists(
    st.none() | st.just(b'{"id": ') | st.builds(lambda r, a: json.dumps(r, ensure_ascii=a).encode(), RECORDS, st.booleans()),
    max_size=12,
)  # fmt: skip


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_columns_are_those_of_the_exact_way(values: list[bytes | None]) -> None:
    array = pa.array(values, pa.binary())
    for plan, strict in zip(PLANS, STRICT, strict=True):
        assert documents.fast_path(plan).typed_acceptance is not None
        quick, slow = plan.judge_typed(array), strict.judge_typed(array)
        assert quick.to_pylist() == slow.to_pylist()
        assert quick.type == slow.type
        quick.validate(full=True)


def test_most_columns_come_from_texts() -> None:
    quick = documents.fast_path(PLANS[0]).typed_acceptance
    assert quick is not None
    kept = {column.name: source for column, source in zip(quick.columns, quick.sources, strict=True)}
    assert sorted(name for name, source in kept.items() if source.also is not None) == [
        "double", "mixed", "n", "word_again", "x"
    ]  # fmt: skip
    assert sorted(name for name, source in kept.items() if source.list is not None) == [
        "codes",
        "inner_codes",
        "tags",
    ]


def test_records_that_are_not_accepted_stand_at_their_places_in_batches_of_many_blocks() -> None:
    good = {"id": "a", "sort": "x", "codes": ["A1", "7"], "day": "2024-02-29", "x": 1.5}
    others: list[bytes | None] = [
        json.dumps(good | {"x": 0.30000000000000001, "n": 2**40}).encode(),  # no int
        json.dumps(good | {"n": 2}).encode(),
        json.dumps(good | {"n": 1, "codes": []}).encode(),
        b"{",
        None,
        json.dumps(good | {"word": "\x1f", "codes": []}).encode(),
    ]
    values = [
        others[index // 7 % len(others)] if index % 7 == 0 else json.dumps(good | {"n": 10 + index}).encode()
        for index in range(2_500)
    ]
    for plans in zip(PLANS, STRICT, strict=True):
        quick, slow = (each.judge_typed(pa.array(values, pa.large_binary())) for each in plans)
        assert quick.to_pylist() == slow.to_pylist()
        assert quick.slice(1_002, 1).field(2).to_pylist()[0]["n"] == 1_012


def test_columns_of_records_without_any_string() -> None:
    definition = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    plan = plan_of(definition, [{"name": "n", "from": "/n", "type": "long"}], "quarantine")
    assert documents.fast_path(plan).typed_acceptance is not None
    values = pa.array([b'{"n": 5}', b"", b'{"n": 2}', b'{"n": 1}'], pa.binary())
    assert plan.judge_typed(values).field(2).to_pylist() == [{"n": 5}, None, None, {"n": 1}]
    assert plan.judge_typed(values.slice(0, 0)).to_pylist() == []


@settings(max_examples=examples(1000), deadline=None)
@given(
    st.lists(
        st.one_of(DAYS, INSTANTS, LOCAL, st.text("0123-T:.Z+ ", max_size=25), st.dates().map(str)), max_size=3
    )
)
def test_times_of_texts_are_those_of_each_text(texts: list[str]) -> None:
    kinds = (
        (texts_as_days, pa.date32(), pa.int32(), day),
        (texts_as_instants, pa.timestamp("us", "UTC"), pa.int64(), instant(1)),
        (texts_as_local_times, pa.timestamp("us"), pa.int64(), local_time(1)),
    )
    for of_texts, arrow_type, integer, convert in kinds:
        try:
            found = of_texts(pa.array(texts, pa.string()), arrow_type)
        except pa.ArrowException:
            continue
        if found is not None:
            assert found.cast(integer).to_pylist() == [convert(text) for text in texts]
