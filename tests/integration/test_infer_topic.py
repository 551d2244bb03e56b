"""`tidegate infer kafka:TOPIC` on a real broker."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from tidegate.contracts.lint.lint import lint
from tidegate.gateway.embedded.broker import Broker

CHANCE = random.Random(3)  # noqa: S311 - repeatable records


def infer(source: str, *options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "infer", source, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\0\7"])
def test_a_topic_is_read_to_its_end(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path, frame: bytes
) -> None:
    topic = make_topic("stays", partitions=3)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for index in range(3_000):
        age = 999 if index % 300 == 5 else CHANCE.randrange(99)
        producer.produce(
            topic, frame + orjson.dumps({"id": f"A{index:05d}", "age": age}), partition=index % 3
        )
    producer.produce(topic, None, key=b"gone", partition=0)
    producer.produce(topic, frame + b"{broken", partition=2)
    assert producer.flush(30) == 0
    contract = tmp_path / "contract.yaml"
    ran = infer(f"kafka:{topic}", "--bootstrap-servers", broker.bootstrap, "-o", contract)
    assert ran.returncode == 0, ran.stderr
    assert "3,000 records" in ran.stdout
    assert "1 unreadable (offsets 2/1000)" in ran.stdout
    loaded = lint(contract).contract
    assert loaded.topic == topic
    assert loaded.framing == ("auto" if frame else "none")
    assert "age-is-known" in {rule.id for rule in loaded.rules}


def test_each_missing_thing_has_its_own_message(broker: Broker, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "c.yaml")
    missing = infer("kafka:no-such-topic", "--bootstrap-servers", broker.bootstrap, *out)
    assert (missing.returncode, "no topic no-such-topic" in missing.stderr) == (2, True)
    silent = infer("kafka:no-such-topic", "--bootstrap-servers", "127.0.0.1:1", *out)
    assert (silent.returncode, "no broker answers" in silent.stderr) == (3, True)
