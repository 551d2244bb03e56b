"""Avro: the quick test of a payload accepts only what the rules accept when they are asked one by one."""

from __future__ import annotations

import io
import json
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan

STAMP = {"type": "long", "logicalType": "timestamp-millis"}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
DAY = {"type": "int", "logicalType": "date"}
TEXT_OR_STAMP = ["null", "string", "bytes", STAMP]
PART = {
    "type": "record",
    "name": "Part",
    "fields": [{"name": "n", "type": "int"}, {"name": "s", "type": ["null", "string"]}],
}
FIELDS: list[dict[str, Any]] = [
    {"name": "s", "type": "string"},
    {"name": "n", "type": "long"},
    {"name": "m", "type": ["null", "int"]},
    {"name": "x", "type": ["double", "null"]},
    {"name": "d", "type": DAY},
    {"name": "e", "type": ["null", DAY], "default": None},
    {"name": "t", "type": STAMP},
    {"name": "u", "type": [NANOS, "null"]},
    {"name": "l", "type": LOCAL},
    {"name": "k", "type": ["null", LOCAL]},
    {"name": "v", "type": TEXT_OR_STAMP},
    {"name": "w", "type": TEXT_OR_STAMP},
    {"name": "p", "type": PART},
    {"name": "q", "type": ["null", "Part"]},
    {"name": "a", "type": {"type": "array", "items": "Part"}},
    {"name": "c", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
]
SCHEMA = {"type": "record", "name": "R", "fields": FIELDS}
# Of another order, with a field that the contract lacks, and without one that has a default there.
WRITER = {
    **SCHEMA,
    "fields": [
        *(each for each in FIELDS if each["name"] in "pqadn"),
        {"name": "more", "type": "string"},
        *(each for each in FIELDS if each["name"] not in "pqadne"),
    ],
}

small = st.integers(-2, 2)
days = st.sampled_from(["1900-01-01", "1969-12-31", "1970-01-01", "1970-01-02", "2024-02-29", "0000-01-01"])
moments = st.sampled_from(
    ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.001Z", "1969-12-31T23:59:59.999999999Z"]
)
locals_ = st.sampled_from(["1970-01-01T00:00:00", "1970-01-01T00:00:00.000001", "1969-12-31T23:59:59.999999"])
LIMITS = st.sampled_from(["after", "before", "not_after", "not_before"])
NULLS = st.fixed_dictionaries({}, optional={"nulls": st.sampled_from(["pass", "violate"])})


def listed(fields: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["forbidden", "one_of"]),
            "field": st.sampled_from(fields),
            "values": st.lists(values, min_size=1, max_size=5, unique=True),
        }
    )


def bounded(
    fields: list[str], names: st.SearchStrategy[str], bounds: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda field, name, bound: {"kind": "range", "field": field, name: bound},
        st.sampled_from(fields),
        names,
        bounds,
    )


bodies = st.one_of(
    listed(["/d", "/e"], days),
    listed(["/t", "/u", "/v"], moments),
    listed(["/l", "/k"], locals_),
    listed(["/n", "/m", "/x", "/p/n", "/q/n", "/a/*/n"], small),
    listed(["/s", "/p/s", "/a/*/s"], st.sampled_from(["", "a", "b", "é"])),
    bounded(["/d", "/e"], LIMITS, days),
    bounded(["/t", "/u", "/v"], LIMITS, moments),
    bounded(["/l", "/k"], LIMITS, locals_),
    bounded(["/n", "/m", "/x", "/c", "/p/n", "/a/*/n"], st.sampled_from(["minimum", "exclusive_maximum"]), small),
    st.fixed_dictionaries(
        {
            "kind": st.just("ordered"),
            "fields": st.sampled_from(
                [["/d", "/e"], ["/e", "/d"], ["/t", "/u"], ["/l", "/k"], ["/n", "/m"], ["/n", "/x"], ["/v", "/w"], ["/d", "/e", "/d"]]
            ),
            "strict": st.booleans(),
        }
    ),
    st.just({"kind": "required_when", "field": "/e", "when": {"field": "/m", "present": True}}),
    st.just({"kind": "matches", "field": "/s", "pattern": "^a*$"}),
)  # fmt: skip
expressions = st.sampled_from(
    [
        "this.n >= 0",
        "has(this.m) && this.m > 0",
        "!has(this.m)",
        "this.m == null",
        "this.m != 1",
        "this.p.s == null",
        "this.s in ['a', 'b']",
        "has(this.q) && this.q.n > 0",
        "size(this.s) < 2",
    ]
).map(lambda expression: {"kind": "cel", "expr": expression})
rules = st.lists(
    st.one_of(expressions, st.builds(lambda body, nulls: {**nulls, **body}, bodies, NULLS)),
    min_size=1,
    max_size=4,
)
part = st.fixed_dictionaries({"n": small, "s": st.sampled_from([None, "", "a", "é"])})
counts = st.sampled_from([-25_567, -1, 0, 1, 2, 19_782])
ticks = st.sampled_from([-1, 0, 1, 10**6])
records = st.fixed_dictionaries(
    {
        "s": st.sampled_from(["", "a", "aa", "é", "x" * 70]),
        "n": st.one_of(small, st.just(2**40)),
        "m": st.one_of(st.none(), small),
        "x": st.one_of(st.none(), small.map(float), st.just(0.5), st.just(float("nan"))),
        "d": counts,
        "e": st.one_of(st.none(), counts),
        "t": ticks,
        "u": st.one_of(st.none(), ticks),
        "l": ticks,
        "k": st.one_of(st.none(), ticks),
        "v": st.one_of(st.none(), ticks, st.sampled_from(["", "a", b"", b"a"])),
        "w": st.one_of(st.none(), ticks, st.sampled_from(["", "a", b"", b"a"])),
        "p": part,
        "q": st.one_of(st.none(), part),
        "a": st.lists(part, max_size=3),
        "c": st.sampled_from([b"\x00", b"\xff", b"\x64", b"\x0f\x42\x40"]),  # the last has too many digits
        "more": st.just("ü"),
    }
)
PARSED = {"own": fastavro.parse_schema(SCHEMA), "other": fastavro.parse_schema(WRITER)}


def encoded(kind: str, record: dict[str, Any]) -> bytes:
    """Write a record as numbers and bytes, without what the library makes of logical types."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, _bare(PARSED[kind]), record)
    return file.getvalue()


def _bare(schema: Any) -> Any:
    match schema:
        case dict():
            return {name: _bare(each) for name, each in schema.items() if name != "logicalType"}
        case list():
            return [_bare(each) for each in schema]
        case _:
            return schema


def plan_of(found: list[dict[str, Any]], kind: str) -> EnforcementPlan:
    given_rules = [{"id": f"r{index}", **body} for index, body in enumerate(found)]
    if kind == "own":
        return documents.plan_with(SCHEMA, kind="avro", rules=given_rules)
    plan = documents.plan_with(SCHEMA, kind="avro", rules=given_rules, framing="confluent-prefix")
    writer = WriterSchema(1, UUID(int=1), "avro", json.dumps(WRITER))
    return plan.with_writers(WriterSchemas((writer,), is_current=True))


@settings(max_examples=examples(400), deadline=None)
@given(rules, st.lists(records, min_size=1, max_size=4), st.sampled_from(["own", "other"]), st.data())
def test_quickly_and_one_by_one_a_record_gets_one_verdict(
    found: list[dict[str, Any]], some: list[dict[str, Any]], kind: str, choose: st.DataObject
) -> None:
    try:
        plan = plan_of(found, kind)
    except ContractError:  # rules that cannot both hold, or a date that Avro has not
        assume(condition=False)
    payloads = [encoded(kind, record) for record in some]
    broken = bytearray(payloads[0])
    broken[choose.draw(st.integers(0, len(broken) - 1))] ^= choose.draw(st.sampled_from([1, 2, 0x80, 0xFF]))
    payloads.append(bytes(broken))
    prefix = b"" if kind == "own" else b"\0\0\0\0\1"
    values = [prefix + payload for payload in payloads] * 20  # so many that the quick way is gone
    array = pa.array(values, pa.binary())
    judged = plan.judge(array)
    assert documents.strict(plan).judge(array).equals(judged)
    by_slots = plan.explain_each(array, failed=judged.field("failed"))
    for value, verdict, explained, known in zip(
        values, judged.to_pylist(), plan.explain_each(array), by_slots, strict=True
    ):
        assert known == explained == plan.explain(value)
        codes = {slot.code for slot in plan.failed_slots(verdict["failed"])}
        assert verdict["disposition"] == explained.disposition
        assert codes == {
            each.code if each.stage == "rule" else str(each.stage.value) for each in explained.violations
        }
        event("accepted" if not codes else "refused")


def test_of_good_records_the_rules_are_not_asked_one_by_one() -> None:
    dates = [
        {"kind": "ordered", "fields": ["/d", "/e"]},
        {"kind": "forbidden", "field": "/d", "values": ["1900-01-01"]},
    ]
    limits = [
        {"kind": "range", "field": "/t", "not_before": "1970-01-01T00:00:00Z"},
        {"kind": "range", "field": "/p/n", "minimum": 0},
    ]
    plan = plan_of([*dates, *limits, {"kind": "cel", "expr": "has(this.m) && this.m > 0"}], "own")
    whole = {
        "s": "é",
        "n": 1,
        "m": 1,
        "x": 0.5,
        "d": 0,
        "e": 1,
        "t": 1,
        "u": None,
        "l": 0,
        "k": 0,
        "p": {"n": 1, "s": None},
        "q": None,
        "a": [],
        "c": b"\x00",
    }
    values = pa.array([encoded("own", whole)] * 30, pa.binary())
    path, frames = documents.fast_path(plan), plan._judge.frames
    assert list(path.suspects(frames.open(values, None), None)) == []
    bad = pa.array([encoded("own", {**whole, "d": 2})] * 30, pa.binary())
    assert len(list(path.suspects(frames.open(bad, None), None))) == 30
