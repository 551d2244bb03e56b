"""Masks in what sinks write, and nothing of a record in what a job says: through Spark and a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.enforce.line import KNOWN, Line, Sent
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.contracts.stream.evidence import read_evidence

KEY = MaskKey.of("0123456789abcdef0123456789abcdef")
SECRET = "S3CR3T"  # noqa: S105 - it opens nothing
PROPERTIES: dict[str, Any] = {
    "id": {"type": "string"},
    "amount": {"type": "integer"},
    "patient": {"type": "string"},
    "note": {"type": "string"},
    "address": {"type": "object", "properties": {"city": {"type": "string"}, "street": {"type": "string"}}},
}
SCHEMA = {"type": "object", "required": ["id"], "properties": PROPERTIES, "additionalProperties": False}
MASK = {"/patient": "hash", "/note": "drop", "/address/street": "redact"}


def sent(number: int, amount: int = 1, **more: object) -> Sent:
    record = {
        "id": f"r{number}",
        "amount": amount,
        "patient": f"{SECRET}-{number % 2}",
        "note": SECRET,
        "address": {"city": "Leeds", "street": SECRET},
        **more,
    }
    key, headers = f"{SECRET}-key".encode(), (("origin", f"{SECRET}-header".encode()),)
    return Sent(json.dumps(record).encode(), key, number % 2, headers)


def masked(line: Line, **changes: object) -> Line:
    schema = {"type": "json-schema", "definition": SCHEMA}
    contract = line.plan(schema=schema, mask=MASK, key_mask="hash", rules=[KNOWN], **changes).contract
    line.contracts.plan = compile_plan(contract, KEY)
    return line


RECORDS = [sent(0), sent(1), sent(2), sent(3, 999), sent(4, extra=SECRET), Sent(b'{"id": S3CR3T', None, 1)]


def require_silence(line: Line, said: str) -> None:
    """Require that evidence, reports and logs hold nothing of any record, and that what was refused is whole."""
    refused = line.quarantined()
    assert sorted(record.value or b"" for record in refused) == sorted(
        record.value or b"" for record in RECORDS[3:]
    )
    for record in refused:
        assert read_evidence(record.headers) is not None
        ours = [(name, value) for name, value in record.headers if name != "origin"]
        assert SECRET not in repr(ours)
    assert SECRET not in repr([report.model_dump() for report in line.reports])
    assert "batch_published" in said
    assert SECRET not in said
    assert line.reconcile().holds


def test_a_table_holds_tokens_and_nulls(line: Line, capfd: pytest.CaptureFixture[str]) -> None:
    masked(line).produce(*RECORDS)
    line.enforce()
    said = capfd.readouterr()
    rows = {row["id"]: row for row in line.rows()}
    assert list(rows) == ["r0", "r2", "r1"]
    for number in range(3):
        row = rows[f"r{number}"]
        assert set(row) == {"id", "amount", "patient", "address", "_source", "_contract"}
        assert row["patient"] == KEY.token(f"{SECRET}-{number % 2}")
        assert json.loads(row["address"]) == {"city": "Leeds", "street": None}
    require_silence(line, said.out + said.err)


def test_an_accepted_topic_holds_tokens_and_nulls(
    make_line: Callable[..., Line], capfd: pytest.CaptureFixture[str]
) -> None:
    line = masked(make_line(sink="kafka"))
    line.produce(*RECORDS)
    line.enforce()
    said = capfd.readouterr()
    found = line.accepted()
    assert [json.loads(record.value or b"") for record in found] == [
        {
            "id": f"r{number}",
            "amount": 1,
            "patient": KEY.token(f"{SECRET}-{number % 2}"),
            "address": {"city": "Leeds", "street": None},
        }
        for number in (0, 2, 1)
    ]
    assert {record.key for record in found} == {KEY.token(f"{SECRET}-key").encode()}
    require_silence(line, said.out + said.err)
