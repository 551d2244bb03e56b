"""From judged rows to Kafka records, without a broker."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

from tests.ledgers import NEW
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.model import Column, JsonSchema, Mask
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.judge.groups import GroupPlan, group_plans
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.stream.evidence import EventPointer, Provenance, read_evidence, read_provenance
from tidegate.contracts.verdict import Severity, Stage
from tidegate.spark_jobs.kafka.outputs import Headers
from tidegate.spark_jobs.kafka.topics import TopicDescription
from tidegate.spark_jobs.worker.records import Decided, Destination, accepted_records, refused_records

CONTRACT = b"""
{"apiVersion": "tidegate/v1", "kind": "DataContract", "id": "s", "version": "1.0.0", "topic": "t",
 "schema": {"type": "json-schema", "definition": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
"""
PLAN = compile_plan(parse_contract(CONTRACT, name="t.json", read_schema=None).contract)
LEDGER = NEW.model_copy(update={"name": "s@kafka"})
TO = Destination(TopicDescription("out", "i", 2, 1_000_000), LEDGER, PLAN)
A = Column.model_validate({"name": "a", "from": "/a", "type": "long"})
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Made(NamedTuple):
    """An output record with names for its fields."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp_ms: int
    headers: Headers


def accepted(table: pa.Table, to: Destination = TO) -> list[Made]:
    return [Made(*record) for record in accepted_records(table.to_batches(), to)]


def rows(**columns: list[object]) -> pa.Table:
    size = len(next(iter(columns.values())))
    types = {
        "partition": (pa.int32(), [0] * size),
        "offset": (pa.int64(), list(range(size))),
        "key": (pa.binary(), [None] * size),
        "value": (pa.binary(), [b"{}"] * size),
        "headers": (HEADERS, [None] * size),
        "timestamp_ms": (pa.int64(), [5] * size),
        "failed": (pa.binary(), [None] * size),
    }
    return pa.table(
        {name: pa.array(columns.get(name, default), kind) for name, (kind, default) in types.items()}
    )


def test_a_record_keeps_what_it_came_with_and_ours_comes_last() -> None:
    headers = [{"key": "tidegate.source", "value": b"forged/0/1"}, {"key": "trace", "value": None}]
    (record,) = accepted(rows(key=[b""], value=[b"{}"], headers=[headers], offset=[9]))
    assert record[:5] == ("out", b"{}", b"", 0, 5)
    assert record.headers[:2] == [("tidegate.source", b"forged/0/1"), ("trace", None)]
    assert read_provenance(record.headers) == Provenance(EventPointer("t", 0, 9), "s@kafka", "s@1.0.0")


def test_records_of_a_source_partition_stay_together() -> None:
    found = accepted(rows(partition=[0, 1, 2, 3, 2]))
    assert [record.partition for record in found] == [0, 1, 0, 1, 0]


def test_the_first_millisecond_of_1970_travels_in_a_header() -> None:
    """The client stamps a record of time 0 with its own clock."""
    zero, one = accepted(rows(timestamp_ms=[0, 1]))
    assert dict(zero.headers)["tidegate.timestamp"] == b"0"
    assert "tidegate.timestamp" not in dict(one.headers)


def test_a_refused_record_says_why_and_is_counted() -> None:
    evidence: Counter[tuple[Stage, str, Severity]] = Counter()
    values = [b'{"a": "1"}', None, b'{"a": "2"}']
    failed = PLAN.judge(pa.array(values, pa.binary())).field("failed").to_pylist()
    judged = rows(value=values, failed=failed)
    found = [Made(*record) for record in refused_records(judged.to_batches(), TO, evidence)]
    assert [record.value for record in found] == values
    rules = [read.rules for read in map(read_evidence, (record.headers for record in found)) if read]
    assert rules[0] == rules[2] == ("type",)
    assert evidence[Stage.SCHEMA, "type", Severity.ERROR] == 2
    assert sum(evidence.values()) == 3


def test_records_with_unknown_failed_slots_are_judged_again() -> None:
    values = [b'{"a": "1"}', b"{", None]
    failed = PLAN.judge(pa.array(values, pa.binary())).field("failed").to_pylist()
    known = rows(value=values, failed=failed)
    told: tuple[Counter[tuple[Stage, str, Severity]], ...] = (Counter(), Counter())
    unknown = known.drop_columns("failed")
    found = [
        list(refused_records(each.to_batches(), TO, counts))
        for each, counts in zip((known, unknown), told, strict=True)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 3
    assert told[0] == told[1]


def set_aside(table: pa.Table, *positions: tuple[int, int], most_bytes: int = 1_000_000) -> list[Made]:
    to = Destination(TopicDescription("out", "i", 2, most_bytes), LEDGER, PLAN)
    decided = Decided(set_aside=frozenset(positions))
    return [Made(*each) for each in refused_records(table.to_batches(), to, Counter(), decided)]


def test_a_record_that_is_set_aside_keeps_its_bytes_and_is_not_judged() -> None:
    headers = [{"key": "trace", "value": b"7"}]
    values = [b'{"a": 1}', b'{"a": "1"}']
    failed = PLAN.judge(pa.array(values, pa.binary())).field("failed").to_pylist()
    table = rows(key=[b"k", b"k"], value=values, headers=[headers, None], failed=failed)
    aside, judged = set_aside(table, (0, 0))
    assert (aside.value, judged.value) == (b'{"a": 1}', b'{"a": "1"}')
    found = [read_evidence(each.headers) for each in (aside, judged)]
    assert [each.rules for each in found if each] == [("record.set-aside",), ("type",)]
    assert aside.headers[0] == ("trace", b"7")


def test_a_record_that_is_set_aside_and_too_large_is_described_by_sizes_and_digest() -> None:
    value = b"x" * 10_000
    table = rows(key=[b"key"], value=[value], headers=[[{"key": "trace", "value": b"7"}]])
    (whole,) = set_aside(table, (0, 0), most_bytes=11_000)
    assert whole.value == value
    (told,) = set_aside(table, (0, 0), most_bytes=10_000)
    assert (told.value, told.key, told.timestamp_ms) == (None, None, 5)
    evidence = read_evidence(told.headers)
    assert evidence is not None
    assert (evidence.source, evidence.rules) == (EventPointer("t", 0, 0), ("record.set-aside",))
    assert json.loads(dict(told.headers)["tidegate.omitted"] or b"") == {
        "key_bytes": 3,
        "value_bytes": 10_000,
        "headers_bytes": 6,
        "value_sha256": hashlib.sha256(value).hexdigest(),
    }


def test_a_contract_that_masks_changes_accepted_records_and_no_refused_ones() -> None:
    contract = PLAN.contract.model_copy(update={"mask": {"/a": Mask.HASH}, "key_mask": Mask.HASH})
    key = MaskKey.of("0123456789abcdef0123456789abcdef")
    to = Destination(TO.topic, LEDGER, compile_plan(contract, key))
    value = b'{ "a": 7 }'
    (masked,) = accepted(rows(key=[b"P-1"], value=[value]), to)
    assert masked.value == b'{"a":"%s"}' % key.token(7).encode()
    assert masked.key == key.token("P-1").encode()
    broken = b'{ "a": "P-1" }'
    failed = to.plan.judge(pa.array([broken], pa.binary())).field("failed").to_pylist()
    judged = rows(key=[b"P-1"], value=[broken], failed=failed)
    ((_, kept, key_kept, *_),) = refused_records(judged.to_batches(), to, Counter())
    assert (key_kept, kept) == (b"P-1", broken)


def test_records_of_two_compatibility_groups_have_the_version_and_the_masks_of_their_group() -> None:
    mask_key = MaskKey.of("0123456789abcdef0123456789abcdef")
    fields = {"a": {"type": "integer"}, "b": {"type": "string"}}
    schema = JsonSchema(type="json-schema", definition={"type": "object", "properties": fields})
    base = PLAN.contract.model_copy(update={"framing": "auto", "schema_": schema})
    masking = base.model_copy(update={"mask": {"/b": Mask.REDACT}})
    # Both versions may not write the column of a field that one of them masks.
    groups = (
        GroupPlan("1", frozenset({1}), compile_plan(masking, mask_key)),
        GroupPlan(
            "2", frozenset({2}), compile_plan(base.model_copy(update={"version": "2.0.0", "columns": (A,)}))
        ),
        GroupPlan("3", frozenset({3}), None),
    )
    schemas = (WriterSchema(number, UUID(int=number), "json-schema", "true") for number in (1, 2, 3))
    plan = group_plans(groups, "2").with_writers(WriterSchemas(tuple(schemas), is_current=True))
    to = Destination(TO.topic, LEDGER, plan)
    secret = [b"\0\0\0\0" + bytes((number,)) + b'{"a":1,"b":"x"}' for number in (1, 2, 3)]
    made = accepted(rows(value=[*secret]), to)
    assert [record.value for record in made] == [b'\0\0\0\0\1{"a":1,"b":null}', secret[1], b"null"]
    versions = [read_provenance(record.headers) for record in made]
    assert [each.contract for each in versions if each] == ["s@1.0.0", "s@2.0.0", "s@2.0.0"]
    broken = [b"\0\0\0\0" + bytes((number,)) + b'{"a":"x"}' for number in (1, 2, 3)]
    failed = plan.judge(pa.array(broken, pa.binary())).field("failed").to_pylist()
    refused = refused_records(rows(value=[*broken], failed=failed).to_batches(), to, Counter())
    evidence = [read_evidence(headers) for *_, headers in refused]
    assert [(each.contract, each.rules) for each in evidence if each] == [
        ("s@1.0.0", ("type",)),
        ("s@2.0.0", ("type",)),
        ("s@2.0.0", ("frame.group-not-enforced",)),
    ]
