"""No value of a record reaches a metric, a log line, a header of ours, a report or the audit log.

Each value of each record is one that nothing else could print. They are looked for in all that the gateway and the job
have said, in processes of their own, after records have failed in every stage and been looked at and revealed.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import Line, Sent
from tests.integration.registry_process import Server
from tidegate.contracts.stream.evidence import read_evidence
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.gateway.embedded.broker import Broker

TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": TEXT,
        "amount": {"type": "integer"},
        "small": {"type": "integer"},
        "from": {"type": "string", "format": "date"},
        "until": {"type": "string", "format": "date"},
        "ward": {"enum": ["icu", "er"]},
        "code": {"type": "string", "pattern": "^C"},
        "note": TEXT,
        "number": TEXT,
        "unit": TEXT,
        "patient": {"type": "object", "properties": {"name": TEXT}},
    },
}
RULES: list[dict[str, Any]] = [
    {"id": "amount-is-small", "kind": "range", "field": "/amount", "maximum": 1000},
    {"id": "in-order", "kind": "ordered", "fields": ["/from", "/until"]},
    {
        "id": "note-is-plain",
        "kind": "matches",
        "field": "/note",
        "pattern": "^plain",
        "on_violation": "alert",
    },
    {"id": "unit-is-known", "kind": "one_of", "field": "/unit", "values": ["mg"], "severity": "warning"},
    {"id": "unit-is-short", "kind": "cel", "expr": "size(this.unit) < 30", "on_violation": "drop"},
    {"id": "number-is-one", "kind": "cel", "expr": "int(this.number) > 0"},  # its error quotes the value
    {"id": "name-is-short", "kind": "cel", "field": "/patient/name", "expr": "value.matches('^.{1,9}$')"},
]
COLUMNS = [
    {"name": "id", "from": "/id", "type": "string"},
    {"name": "small", "from": "/small", "type": "int"},
    {"name": "amount", "from": "/amount", "type": "long"},
    {"name": "name", "from": "/patient/name", "type": "string"},
]
EXPECTATIONS = [
    {"id": "smallest", "type": "expect_column_min_to_be_between", "kwargs": {"column": "amount", "min_value": 0}},
    {"id": "unique", "type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}},
    {"id": "named", "type": "expect_column_values_to_be_in_set", "kwargs": {"column": "name", "value_set": ["x"]}},
    {"id": "median", "type": "expect_column_median_to_be_between", "kwargs": {"column": "amount", "min_value": 0}},
]  # fmt: skip


@dataclass
class Values:
    """Gives values that stand nowhere else, and remembers them."""

    random: random.Random
    given: list[str] = field(default_factory=list)

    def text(self, prefix: str = "") -> str:
        return self._kept(f"{prefix}zq{self.random.getrandbits(60):015x}qz")

    def number(self) -> int:
        return int(self._kept(str(self.random.randrange(4 * 10**15, 8 * 10**15))))

    def _kept(self, value: str) -> str:
        self.given.append(value)
        return value

    def found_in(self, text: str) -> list[str]:
        return [value for value in self.given if value in text]


@pytest.fixture
def gateway(broker: Broker, tmp_path: Path) -> Iterator[Server]:
    with Server(
        f"sqlite:///{tmp_path}/gateway.db", {"TIDEGATE_BOOTSTRAP_SERVERS": broker.bootstrap}
    ) as server:
        yield server


def records_of(values: Values) -> list[bytes]:
    """Values that pass, that fail in each stage and by each rule, and that no parser reads."""
    text, number = values.text, values.number
    wrong: list[dict[str, Any]] = [
        {"amount": number()},
        {"from": "2024-02-01", "until": "2024-01-01", "note": text("plain ")},
        {"note": text()},
        {"unit": text()},
        {"unit": text() + text()},
        {"number": text()},
        {"patient": {"name": text()}},
        {"small": number()},
        {"amount": text()},
        {"ward": text()},
        {"code": text()},
        {"from": text()},
        {text(): text()},
        {"patient": {"name": {text(): number()}}},
        {"amount": -number()},  # kept, and below what the batch may hold
        {"number": "1", "note": text("plain ")},
    ]
    broken = [
        f'{{"id": "{text()}", "note": {text()}}}',
        f'{{"id": "{text()}"',
        f'{{"id": "{text()}", "amount": {number()}e99999999999999999999}}',
        f'{{"id": "{text()}", "note": "\\ud800{text()}"}}',
        text(),
    ]
    return [
        *(json.dumps({"id": text()} | each).encode() for each in wrong),
        *(each.encode() for each in broken),
        f'"{text()}'.encode() + b'\xff"',
    ]


@pytest.mark.full
def test_no_value_reaches_a_metric_a_log_or_a_header(
    line: Line, gateway: Server, start: Callable[..., RunningJob]
) -> None:
    values = Values(random.Random(20))  # noqa: S311 - the same values each time, and no secrets
    document = line.document(
        schema={"type": "json-schema", "definition": SCHEMA},
        rules=RULES,
        columns=COLUMNS,
        expectations=[each | {"on_violation": "alert"} for each in EXPECTATIONS],
        classification={"/patient": "pii", "/note": "pii"},
        tombstones="refuse",
    )
    gateway.publish(json.dumps(document)).raise_for_status()
    records = [*records_of(values), None]
    line.produce(
        *(
            Sent(each, values.text().encode(), headers=(("trace", values.text().encode()),))
            for each in records
        )
    )
    job = start(gateway.url, [line])
    job.await_event("batch_published")
    refused = line.quarantined()
    said = {"headers": "", "answers": ""}
    for record in refused:
        evidence = read_evidence(record.headers)
        assert evidence is not None
        own = [(name, value) for name, value in record.headers if name != "trace"]
        said["headers"] += repr(own)
    assert {code for each in refused if (e := read_evidence(each.headers)) for code in e.rules} >= {
        *("amount-is-small", "in-order", "number-is-one", "name-is-short", "small"),
        *("type", "enum", "pattern", "format", "additionalProperties", "value.null"),
        *("json.invalid", "json.number-range", "json.lone-surrogate", "json.invalid-utf8"),
    }
    topic, stream = quarantine_topic(line.topic), line.contract_id
    for offset in range(3):
        gateway.http.get(f"/desk/records/{topic}/0/{offset}").raise_for_status()
        gateway.http.get(f"/desk/records/{topic}/0/{offset}?view=hex").raise_for_status()
        shown = gateway.http.post(
            f"/desk/records/{topic}/0/{offset}/reveal",
            content="part=key",
            headers={"Content-Type": "application/x-www-form-urlencoded", "Origin": gateway.url},
        )
        assert values.found_in(shown.raise_for_status().text)  # what is revealed is there to be found
    posted = [each for each in records if each is not None]
    judged = f"/api/v1/contracts/{stream}/versions/latest/judge"
    lines = b"\n".join(each.replace(b"\n", b"") for each in posted)
    assert gateway.http.post(
        judged, content=lines, headers={"Content-Type": "application/x-ndjson"}
    ).is_success
    for body in (
        posted[-2],
        b'{"records": [{"value": ' + posted[-1] + b"}]}",
        b'{"records": ' + posted[0] + b"}",
    ):
        answer = gateway.http.post(judged, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in {400, 422}
        said["answers"] += answer.text
    metrics = gateway.http.get("/metrics").raise_for_status().text
    assert f'stream="{stream}"' in metrics
    said["metrics"] = metrics
    for path in ("batches", "expectations", ""):
        found = gateway.http.get(f"/api/v1/streams/{stream}/{path}".rstrip("/")).raise_for_status().text
        said[f"stream {path}"] = found
    said["changes"] = gateway.http.get("/api/v1/audit").raise_for_status().text
    assert "record.revealed" in said["changes"]
    assert job.stop(signal.SIGTERM) == 0
    said["log of the job"] = "".join(job.lines)
    _, logged = gateway.stop()
    said["log of the gateway"] = json.dumps([*gateway.log, *logged])
    assert {where: values.found_in(text) for where, text in said.items()} == {where: [] for where in said}
    kept = b"".join((each.value or b"") + (each.key or b"") for each in refused).decode(errors="replace")
    assert len(values.found_in(kept)) > 30  # the values were there
