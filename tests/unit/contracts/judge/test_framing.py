"""Frames: what names the schema of a record, and what becomes of a record that names another."""

from __future__ import annotations

import gc
import pickle
import random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer, prefix_schema_id_serializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext

from tidegate.contracts.errors import ContractError, Unavailable
from tidegate.contracts.formats.avro_reader import ResolvedReader
from tidegate.contracts.formats.framing import Frames, schema_header
from tidegate.contracts.formats.writers import SCHEMA_HEADER, WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.verdict import Disposition, Stage

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"}],
}
OLD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
NEW = '{"type":"record","name":"R","fields":[{"name":"b","type":"string"},{"name":"a","type":"long"},{"name":"c","type":"int"}]}'
OTHER = '{"type":"record","name":"Other","fields":[]}'
WRITERS = (
    WriterSchema(7, UUID(int=7), "avro", OLD),
    WriterSchema(8, UUID(int=8), "avro", NEW),
    WriterSchema(2**32 - 1, UUID(int=9), "avro", OTHER),
    WriterSchema(10, UUID(int=10), "json-schema", "true"),
    WriterSchema(11, UUID(int=11), None, 'syntax = "proto3";'),
)
A_IS_NOT_9 = {"kind": "forbidden", "field": "/a", "values": [9]}
COLUMNS = [{"name": "a", "from": "/a", "type": "long"}, {"name": "b", "from": "/b", "type": "string"}]


def prefix(number: int) -> bytes:
    return prefix_schema_id_serializer(b"", None, SchemaId("AVRO", schema_id=number))


def header(number: int) -> bytes:
    headers: list[tuple[str, bytes]] = []
    context = SerializationContext("t", MessageField.VALUE, headers)
    assert (
        header_schema_id_serializer(b"payload", context, SchemaId("AVRO", guid=str(UUID(int=number))))
        == b"payload"
    )
    ((name, value),) = headers
    assert name == SCHEMA_HEADER
    return value


@pytest.fixture(scope="module")
def avro(make_plan: Any) -> Any:
    def make(framing: str, *, is_current: bool = True) -> EnforcementPlan:
        plan = make_plan(AVRO, A_IS_NOT_9, kind="avro", framing=framing, columns=COLUMNS)
        return plan.with_writers(WriterSchemas(WRITERS, is_current))

    return make


CASES: list[tuple[int | bytes | None, bytes | None, str, dict[str, Any] | None]] = [
    (7, b"\x02", "", {"a": 1, "b": "none"}),
    (8, b"\x02x\x04\x06", "", {"a": 2, "b": "x"}),
    (7, b"\x12", "rule-0", None),
    (8, b"\x00\x12\x00", "rule-0", None),
    (7, b"", "avro.truncated", None),
    (7, b"\x02\x00", "avro.trailing-bytes", None),
    (2**32 - 1, b"", "avro.unreadable", None),
    (10, b"\x02", "frame.schema-type", None),
    (11, b"\x02", "frame.schema-type", None),
    (12, b"\x02", "frame.unknown-schema", None),
    (0, b"", "frame.unknown-schema", None),
]
PREFIXED = [
    *((prefix(id_) + payload, why, row) for id_, payload, why, row in CASES),  # type: ignore[operator, arg-type] # of this table none is null
    (b"", "frame.missing", None),
    (b"\x01\x00\x00\x00\x07\x02", "frame.missing", None),
    (b"\x00", "frame.truncated", None),
    (b"\x00\x00\x00\x07", "frame.truncated", None),
    (None, "value.null", None),
]


def judged(
    plan: EnforcementPlan, values: list[bytes | None], headers: list[bytes | None] | None
) -> list[Any]:
    """Judge in every way; all must agree. Returns the first code and the row of each."""
    given = None if headers is None else pa.array(headers, pa.binary())
    found = []
    for kind in (pa.binary(), pa.large_binary()):
        plain = plan.judge(pa.array(values, kind), headers=given).to_pylist()
        judged_typed = plan.judge_typed(pa.array(values, kind), headers=given)
        typed = judged_typed.to_pylist()
        found = []
        together = list(plan.explain_each(pa.array(values, kind), headers=given, typed=True))
        failed = judged_typed.field("failed")
        assert together == list(
            plan.explain_each(pa.array(values, kind), None, given, typed=True, failed=failed)
        )
        for index, (value, verdict) in enumerate(zip(values, together, strict=True)):
            assert verdict == plan.explain(value, headers[index] if headers else None, typed=True)
            assert plain[index]["disposition"] == typed[index]["disposition"] == verdict.disposition
            stages = {violation.stage for violation in verdict.violations}
            assert {slot.stage for slot in plan.failed_slots(plain[index]["failed"])} == stages
            code = verdict.violations[0].code if verdict.violations else ""
            found.append((code, typed[index]["columns"]))
    return found


def test_prefixed_avro(avro: Any) -> None:
    values = [value for value, _, _ in PREFIXED] * 30  # often enough for the quick way
    found = judged(avro("confluent-prefix"), values, None)
    assert found == [(why, row) for _, why, row in PREFIXED] * 30


def test_avro_with_headers(avro: Any) -> None:
    rows = [(header(id_ % 2**32), payload, why, row) for id_, payload, why, row in CASES if id_ != 2**32 - 1]  # type: ignore[operator] # the same
    rows += [
        (header(9), b"", "avro.unreadable", None),
        (None, b"\x02", "frame.missing", None),
        (b"", b"\x02", "frame.invalid", None),
        (b"\x00\x00\x00\x00\x07", b"\x02", "frame.invalid", None),
        (b"\x00" + UUID(int=7).bytes, b"\x02", "frame.invalid", None),
        (header(7) + b"\0", b"\x02", "frame.invalid", None),
        (None, None, "value.null", None),
        (header(7), None, "value.null", None),
        (header(99), None, "value.null", None),
    ]
    found = judged(avro("confluent-header"), [row[1] for row in rows], [row[0] for row in rows])
    assert found == [(why, row) for _, _, why, row in rows]


@pytest.mark.parametrize("framing", ["confluent-prefix", "auto"])
def test_prefixed_json(make_plan: Any, framing: str) -> None:
    plan = make_plan({"type": "object"}, framing=framing, columns=[])
    plan = plan.with_writers(WriterSchemas(WRITERS, is_current=True))
    rows = [
        (prefix(10) + b"{}", ""),
        (prefix(10) + b'{"longer":"than twelve bytes"}', ""),
        (prefix(10) + b"1", "type"),
        (prefix(10), "json.empty"),
        (prefix(7) + b"{}", "frame.schema-type"),
        (prefix(12) + b"{}", "frame.unknown-schema"),
        (b"{}", "" if framing == "auto" else "frame.missing"),
        (None, "value.null"),
    ]
    assert [code for code, _ in judged(plan, [value for value, _ in rows], None)] == [why for _, why in rows]


def test_a_list_of_schemas_that_is_older_than_the_records_refuses_nothing_that_it_does_not_know(
    avro: Any,
) -> None:
    plan = avro("confluent-prefix", is_current=False)
    known = [prefix(7) + b"\x02", b"x", None, prefix(10) + b""]
    assert [code for code, _ in judged(plan, known, None)] == [
        "",
        "frame.missing",
        "value.null",
        "frame.schema-type",
    ]
    unknown = prefix(12) + b"\x02"
    for judge in (plan.judge, plan.judge_typed):
        with pytest.raises(Unavailable, match="must answer before"):
            judge(pa.array([*known, unknown]))
    with pytest.raises(Unavailable):
        plan.explain(unknown)
    by_header = avro("confluent-header", is_current=False)
    with pytest.raises(Unavailable):
        by_header.judge(pa.array([b"\x02"]), headers=pa.array([header(12)]))


def test_without_a_registry_no_schema_is_looked_up(make_plan: Any) -> None:
    plan = make_plan(AVRO, kind="avro", framing="confluent-prefix", columns=COLUMNS)
    assert plan.explain(prefix(99) + b"\x02\x02x").disposition is Disposition.ACCEPTED
    plan = make_plan(AVRO, kind="avro", framing="confluent-header", columns=COLUMNS)
    assert plan.explain(b"\x02\x02x").disposition is Disposition.ACCEPTED
    assert [each.stage for each in plan.explain(b"\x02\x02x", b"?").violations] == [Stage.FRAME]


def test_a_plan_travels_with_the_schemas_that_its_records_may_name(avro: Any) -> None:
    plan = avro("confluent-prefix")
    sent = pickle.loads(pickle.dumps(plan))  # noqa: S301 - our own
    values = [value for value, _, _ in PREFIXED]
    assert judged(sent, values, None) == judged(plan, values, None)
    assert sent.fingerprint == plan.fingerprint


def test_frames_are_cut_as_one_would_cut_them_by_hand() -> None:
    chance = random.Random(7)  # noqa: S311 - the same values each time
    for _ in range(500):
        values = [
            chance.choice([None, b"", b"\0", b"\0" * 4, prefix(7) + chance.randbytes(size), b"{}", b"x" * 20])
            for size in chance.choices([0, 1, 4, 11, 12, 13, 40], k=chance.randrange(8))
        ]
        start = chance.randrange(len(values) + 1)
        for kind in (pa.binary(), pa.large_binary()):
            part = pa.array(values, kind).slice(start)
            cut = Frames("confluent-prefix", "avro").open(part).payloads
            either = Frames("auto", "json-schema").open(part).payloads
            cut.validate(full=True)
            assert (cut.type, either.type) == (kind, kind)
            whole = [v[5:] if v and v[0] == 0 and len(v) >= 5 else None for v in values[start:]]
            bare = [
                v if v is None or v[:1] != b"\0" else w for v, w in zip(values[start:], whole, strict=True)
            ]
            assert (cut.to_pylist(), either.to_pylist()) == (whole, bare)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (None, None),
        ((), None),
        ((("other", b"x"),), None),
        ((("other", b"x"), (SCHEMA_HEADER, b"y")), b"y"),
        (((SCHEMA_HEADER, b"y"), (SCHEMA_HEADER, b"y")), b"y"),
        (((SCHEMA_HEADER, b"y"), (SCHEMA_HEADER, b"z")), b"yz"),
        (((SCHEMA_HEADER, None),), b""),
    ],
)
def test_the_header_of_a_record(
    headers: tuple[tuple[str, bytes | None], ...] | None, found: bytes | None
) -> None:
    assert schema_header(headers) == found


def test_many_unknown_schemas_cost_no_more_than_one(avro: Any) -> None:
    plan = avro("confluent-header")
    headers = [header(number) for number in range(1_000, 11_000)]
    verdicts = plan.judge(pa.array([b"\x02"] * len(headers)), headers=pa.array(headers))
    assert set(verdicts.field("disposition").to_pylist()) == {Disposition.QUARANTINED}


def test_the_readers_of_old_writers_are_let_go(avro: Any) -> None:
    before = len(readers())
    writers = tuple(
        WriterSchema(number, UUID(int=number), "avro", f'{OLD[:-1]},"doc":"{number}"}}')
        for number in range(1, 1_201)
    )
    plan = avro("confluent-prefix").with_writers(WriterSchemas(writers, is_current=True))
    for start in range(0, len(writers), 300):
        batch = [prefix(writer.id) + b"\x02" for writer in writers[start : start + 300]]
        verdicts = plan.judge(pa.array(batch, pa.large_binary()))
        assert set(verdicts.field("disposition").to_pylist()) == {Disposition.ACCEPTED}
    assert 1_000 < len(readers()) - before <= 1_030
    assert judged(plan, [prefix(1) + b"\x02", prefix(1_200) + b"\x12"], None)[0] == (
        "",
        {"a": 1, "b": "none"},
    )


def readers() -> list[ResolvedReader]:
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is ResolvedReader]


def test_bare_avro_cannot_be_told_from_prefixed(make_plan: Any) -> None:
    with pytest.raises(ContractError, match="`auto` is for JSON"):
        make_plan(AVRO, kind="avro", framing="auto")
