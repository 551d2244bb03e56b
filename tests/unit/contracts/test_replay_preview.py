"""What a replay would do to some records, counted without a value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.documents import plan_with
from tidegate.contracts.fix.apply import CompiledFix
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.evidence import (
    SOURCE_HEADER,
    EventPointer,
    judged_at_header,
    read_original,
    timestamp_header,
)
from tidegate.contracts.stream.replay_preview import RefusedRecord, ReplayPreview


def records(*values: Any) -> list[RefusedRecord]:
    return [
        RefusedRecord(None, json.dumps(value).encode(), (), 1_000 + n, n) for n, value in enumerate(values)
    ]


def test_a_preview_counts_what_would_pass_and_why_the_others_would_fail() -> None:
    properties = {"age": {"type": ["integer", "null"]}, "ward": {"type": "string"}}
    rules = [{"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999, 998]}]
    plan = plan_with({"properties": properties, "type": "object"}, rules=rules)
    steps = [{"action": "map", "field": "/age", "values": [{"from": 999, "to": None}]}]
    fix = CompiledFix(parse_fix(json.dumps({"fix": "age", "steps": steps}), name="f.json"))
    found = ReplayPreview()
    found.add(records({"age": 999}, {"age": 998}, {"age": 999, "ward": 7}, {"age": 1}), plan, fix)
    assert (found.passing, found.failing, found.changed, found.judged) == (2, 2, 2, 4)
    assert {code: count for (_, code, _), count in found.reasons.items()} == {"age-is-known": 1, "type": 1}
    assert found.present is None  # only who looks into the table knows

    without = ReplayPreview()
    without.add(records({"age": 999}), plan, None)
    assert (without.passing, without.failing, without.changed) == (0, 1, 0)


def test_a_preview_judges_records_at_the_time_of_their_first_verdict() -> None:
    """A rule about the time of the batch says of the same value: fresh a minute later, and stale two hours later."""
    rule = {"id": "fresh", "kind": "freshness", "field": "/at", "max_age": "1 hour", "now": "batch"}
    schema = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    then = 1_735_689_600 * 10**9
    refused = [
        RefusedRecord(None, b'{"at":"2025-01-01T00:00:00Z"}', (), then // 10**6, then + seconds * 10**9)
        for seconds in (60, 7_200)
    ]
    found = ReplayPreview()
    passing = found.add(refused, plan_with(schema, rules=[rule]), None)
    assert (found.passing, found.failing) == (1, 1)
    assert [each.record.judged_at for each in passing] == [then + 60 * 10**9]


@pytest.mark.parametrize(
    ("headers", "at", "judged_at"),
    [
        ((timestamp_header(5_000), *judged_at_header(7_000_000_001)), 5_000, 7_000_000_001),
        ((timestamp_header(5_000),), 5_000, 5_000 * 10**6),
        ((*judged_at_header(7_000_000_001),), 9_000, 7_000_000_001),
        ((), 9_000, 9_000 * 10**6),
    ],
)
def test_older_records_were_judged_at_their_time(
    headers: tuple[tuple[str, bytes], ...], at: int, judged_at: int
) -> None:
    pointer = (SOURCE_HEADER, str(EventPointer("t", 0, 0)).encode())
    found = RefusedRecord.of(b"k", b"v", read_original([("own", b"1"), pointer, *headers]), 9_000)
    assert found == RefusedRecord(b"k", b"v", (("own", b"1"),), at, judged_at)
