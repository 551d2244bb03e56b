"""`tidegate backtest` on the records of a real topic."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from tidegate.gateway.embedded.broker import Broker

CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: stays
version: 1.0.0
topic: stays
framing: auto
tombstones: refuse
schema: {type: json-schema, definition: {type: object, properties: {n: {type: integer}, at: {type: string, format: date-time}}}}
rules:
  - {id: recent, kind: freshness, field: /at, max_age: 1 hour}
"""
RULE = "  - {id: few, kind: range, field: /n, maximum: 299}\n"
FIRST_MS = 1_700_000_000_000


def backtest(broker: Broker, topic: str, folder: Path, *options: str) -> dict[str, Any]:
    base, candidate = folder / "base.yaml", folder / "candidate.yaml"
    base.write_text(CONTRACT)
    candidate.write_text(CONTRACT.replace("1.0.0", "1.1.0") + RULE)
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "backtest", candidate, "--against", base]
    source = ("--data", f"kafka:{topic}", "--bootstrap-servers", broker.bootstrap, "--format", "json")
    ran = subprocess.run([*map(str, command), *source, *options], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    report: dict[str, Any] = json.loads(ran.stdout)
    return report


@pytest.mark.full
def test_a_topic_from_its_start_from_an_offset_from_a_time_and_sampled(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Records are judged with their frames, as of their own timestamps: an hour is counted from these, not from now."""
    topic = make_topic("stays", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(400):
        frame = b"\0\0\0\0\7" if number % 3 else b""
        record = frame + orjson.dumps({"n": number, "at": "2023-11-14T22:13:20Z"})
        producer.produce(topic, record, partition=number % 2, timestamp=FIRST_MS + number * 1_000)
    producer.produce(topic, None, key=b"gone", partition=0, timestamp=FIRST_MS + 400_000)
    assert producer.flush(30) == 0

    whole = backtest(broker, topic, tmp_path)
    assert (whole["records"], whole["newly_refused"], whole["refused_by_base"]) == (401, 100, 1)
    (cause,) = whole["newly_refused_by"]
    assert (cause["code"], cause["records"]) == ("few", 100)
    assert set(cause["first"].removeprefix("offsets ").split(", ")) <= {
        f"{partition}/{offset}" for partition in (0, 1) for offset in range(150, 155)
    }

    late = backtest(broker, topic, tmp_path, "--from", "180")
    assert (late["records"], late["newly_refused"]) == (41, 40)
    timed = backtest(broker, topic, tmp_path, "--from", "2023-11-14T22:18:20Z")  # 300 seconds after the first
    assert (timed["records"], timed["newly_refused"]) == (101, 100)
    future = backtest(broker, topic, tmp_path, "--from", "2099-01-01T00:00:00Z", "--allow-empty")
    assert (future["records"], future["newly_refused_share"]) == (0, 0.0)

    sample = backtest(broker, topic, tmp_path, "--sample", "100")
    assert 95 <= sample["records"] <= 100
    assert 15 <= sample["newly_refused"] <= 35
