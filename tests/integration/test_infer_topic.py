"""`tidegate infer kafka:TOPIC` on a real broker."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import httpx
import orjson
import pytest
from confluent_kafka import Producer

from tests.integration.registry_line import serve_registry
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


OLD = {"type": "record", "name": "Stay", "fields": [{"name": "age", "type": "int"}]}
WARD = {"name": "ward", "type": "string", "default": "unknown"}
NEW = {"type": "record", "name": "Stay", "fields": [WARD, {"name": "age", "type": "int"}]}


@pytest.mark.full
def test_avro_of_several_schemas_is_read_with_the_registry(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic("stays")
    contract = tmp_path / "contract.yaml"
    out = ("--bootstrap-servers", broker.bootstrap, "-o", contract)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    with serve_registry(tmp_path) as registry:
        ids = [register(registry, topic, schema) for schema in (OLD, NEW)]
        for index in range(1_000):
            age = 999 if index % 100 == 5 else CHANCE.randrange(99)
            schema, record = (OLD, {"age": age}) if index % 2 else (NEW, {"age": age, "ward": "icu"})
            producer.produce(topic, b"\0" + ids[1 - index % 2].to_bytes(4, "big") + encoded(schema, record))
        producer.produce(topic, b"\0\0\0\x7f\xff" + encoded(OLD, {"age": 1}))
        assert producer.flush(30) == 0
        ran = infer(f"kafka:{topic}", *out, "--registry", registry)
    assert ran.returncode == 0, ran.stderr
    assert "1,000 records" in ran.stdout
    assert "1 unreadable (offsets 0/1000)" in ran.stdout
    loaded = lint(contract).contract
    assert (loaded.framing, loaded.schema_.definition) == ("confluent-prefix", NEW)
    assert "age-is-known" in {rule.id for rule in loaded.rules}
    refused = infer(f"kafka:{topic}", *out, "--force")
    assert (refused.returncode, "name the registry that has it with --registry" in refused.stderr) == (
        2,
        True,
    )


@pytest.mark.full
def test_bare_avro_is_read_with_a_schema_that_is_given(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, schema, contract = make_topic("stays"), tmp_path / "stay.avsc", tmp_path / "contract.yaml"
    schema.write_bytes(orjson.dumps(NEW))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for index in range(500):
        record = {"age": 999 if index % 100 == 5 else CHANCE.randrange(99), "ward": "icu"}
        producer.produce(topic, encoded(NEW, record))
    assert producer.flush(30) == 0
    options = ("--bootstrap-servers", broker.bootstrap, "-o", contract, "--schema", schema)
    ran = infer(f"kafka:{topic}", *options)
    assert ran.returncode == 0, ran.stderr
    loaded = lint(contract).contract
    assert (loaded.framing, loaded.schema_.definition) == ("none", NEW)
    schema.write_text("{}")
    wrong = infer(f"kafka:{topic}", *options, "--force")
    assert (wrong.returncode, "neither a contract nor an Avro schema" in wrong.stderr) == (2, True)


def register(registry: str, topic: str, schema: Any) -> int:
    body = {"schema": orjson.dumps(schema).decode()}
    answer = httpx.post(f"{registry}/subjects/{topic}-value/versions", json=body).raise_for_status()
    number: int = answer.json()["id"]
    return number


def encoded(schema: Any, record: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, record)
    return file.getvalue()


def test_a_missing_topic_has_its_own_message(broker: Broker, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "c.yaml")
    missing = infer("kafka:no-such-topic", "--bootstrap-servers", broker.bootstrap, *out)
    assert (missing.returncode, "no topic no-such-topic" in missing.stderr) == (2, True)


@pytest.mark.full
def test_no_broker_has_its_own_message(tmp_path: Path) -> None:
    out = ("-o", tmp_path / "c.yaml")
    silent = infer("kafka:no-such-topic", "--bootstrap-servers", "127.0.0.1:1", *out)
    assert (silent.returncode, "no broker answers" in silent.stderr) == (3, True)
