"""`tidegate send` to a real broker: what is in the topic is what the contract says, or nothing is."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient, dual_schema_id_deserializer
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.integration.registry_line import serve_registry
from tidegate.gateway.embedded.broker import Broker

# Confluent's client refuses records of less than six bytes, also where their schema is in a header.
NOTE = {"name": "note", "type": "string", "default": "no note"}
OLD = {"type": "record", "name": "shop.Order", "fields": [{"name": "n", "type": "int"}, NOTE]}
NEW = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "n", "type": "int", "doc": "Number."},
        NOTE,
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    ],
}
JSON = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "n": {"type": "integer"}, "shop": {"type": "string"}},
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_registry(tmp_path_factory.mktemp("registry")) as url:
        yield url


def send(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "send", *map(str, arguments)]
    ran = subprocess.run(command, input=stdin, capture_output=True, check=False)
    return subprocess.CompletedProcess(command, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def received(broker: Broker, topic: str) -> list[Message]:
    """Return all records of a topic of one partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = []
    while len(messages) < end:
        messages += consumer.consume(end - len(messages), timeout=30)
    consumer.close()
    return messages


def contract_of(folder: Path, topic: str, schema: Any, **parts: Any) -> Path:
    kind = "avro" if schema.get("type") == "record" else "json-schema"
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": topic,
        "version": "1.0.0",
        "topic": topic,
        "schema": {"type": kind, "definition": schema},
    }
    path = folder / "contract.json"
    path.write_text(json.dumps(document | parts))
    return path


def test_lines_of_json_are_sent_byte_for_byte_with_the_key_of_the_contract(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic("orders")
    contract = contract_of(tmp_path, topic, JSON, primary_key=["id"])
    lines = [b'{"id": "a",  "n": 1}', b'{"id": "\\u00e9", "n": "x"}', b'{"n": 2}', b"{broken", b""]
    (tmp_path / "orders.jsonl").write_bytes(b"\n".join([*lines, b""]))
    servers = ("--bootstrap-servers", broker.bootstrap)
    tried = send(contract, tmp_path / "orders.jsonl", "--dry-run")
    assert (tried.returncode, tried.stdout) == (0, f"{topic} 1.0.0: 5 records can be sent to topic {topic}\n")
    ran = send(contract, tmp_path / "orders.jsonl", *servers)
    assert ran.returncode == 0, ran.stderr
    assert f"5 records sent to topic {topic}, all acknowledged" in ran.stdout
    found = [(each.key(), each.value()) for each in received(broker, topic)]
    assert found == list(zip([b"a", "é".encode(), None, None, None], lines, strict=True))
    piped = send(contract, "-", "--max-records", "2", "--rate", "50", *servers, stdin=b"\n".join(lines))
    assert piped.returncode == 0, piped.stderr
    *_, first, second = received(broker, topic)
    assert [first.value(), second.value()] == lines[:2]
    assert second.timestamp()[1] - first.timestamp()[1] >= 15


def test_several_columns_are_a_key_as_a_json_object(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic("orders")
    contract = contract_of(tmp_path, topic, JSON, primary_key=["shop", "n"])
    (tmp_path / "orders.csv").write_text("id,n,shop\nx,7,north\n")
    ran = send(contract, tmp_path / "orders.csv", "--bootstrap-servers", broker.bootstrap)
    assert ran.returncode == 0, ran.stderr
    (message,) = received(broker, topic)
    assert json.loads(message.key() or b"") == {"shop": "north", "n": 7}
    assert json.loads(message.value() or b"") == {"id": "x", "n": 7, "shop": "north"}


@pytest.mark.parametrize(
    "framing", ["confluent-prefix", pytest.param("confluent-header", marks=pytest.mark.full)]
)
def test_avro_is_framed_with_the_ids_of_the_registry(
    broker: Broker, make_topic: Callable[..., str], registry: str, tmp_path: Path, framing: str
) -> None:
    """Confluent's own client reads what was sent, with the schemas that the frames name."""
    topic = make_topic("orders")
    options = ("--bootstrap-servers", broker.bootstrap, "--registry", registry)
    contract = contract_of(tmp_path, topic, NEW, framing=framing)
    (tmp_path / "hand.jsonl").write_text('{"n": 1, "day": "2026-01-31"}\n{"n": 2, "day": {"int": 3}}\n')
    early = send(contract, tmp_path / "hand.jsonl", *options)
    assert (early.returncode, early.stdout) == (2, "")
    assert f"the subject {topic}-value of the registry has no version with the schema" in early.stderr
    httpx.post(
        f"{registry}/subjects/{topic}-value/versions", json={"schema": json.dumps(OLD)}
    ).raise_for_status()
    retired = contract_of(tmp_path, topic, NEW, framing=framing, version="2.0.0", primary_key=["n"])
    headers = {"Content-Type": "application/yaml"}
    httpx.post(
        f"{registry}/api/v1/contracts", content=retired.read_bytes(), headers=headers
    ).raise_for_status()
    for name in (str(retired), topic):
        ran = send(name, tmp_path / "hand.jsonl", *options)
        assert ran.returncode == 0, ran.stderr
    with (tmp_path / "old.avro").open("wb") as file:
        fastavro.writer(file, OLD, [{"n": 3}])
    assert send(topic, tmp_path / "old.avro", *options).returncode == 0
    client = SchemaRegistryClient({"url": registry})
    read = AvroDeserializer(client, conf={"schema.id.deserializer": dual_schema_id_deserializer})
    found = []
    for message in received(broker, topic):
        context = SerializationContext(topic, MessageField.VALUE, message.headers())
        found.append((message.key(), read(message.value(), context)))
    assert [(key, record["n"], str(record.get("day"))) for key, record in found] == [
        (b"1", 1, "2026-01-31"),
        (b"2", 2, "1970-01-04"),
        (b"1", 1, "2026-01-31"),
        (b"2", 2, "1970-01-04"),
        (b"3", 3, "None"),
    ]


@pytest.mark.full
@pytest.mark.parametrize("framing", ["confluent-prefix", "confluent-header"])
def test_json_is_framed_with_the_id_of_the_registry(
    broker: Broker, make_topic: Callable[..., str], registry: str, tmp_path: Path, framing: str
) -> None:
    topic = make_topic("orders")
    contract = contract_of(tmp_path, topic, JSON, framing=framing)
    headers = {"Content-Type": "application/yaml"}
    httpx.post(
        f"{registry}/api/v1/contracts", content=contract.read_bytes(), headers=headers
    ).raise_for_status()
    (tmp_path / "orders.jsonl").write_text('{"id": "x", "n": 7, "shop": "north"}\n')
    options = ("--bootstrap-servers", broker.bootstrap, "--registry", registry)
    ran = send(contract, tmp_path / "orders.jsonl", *options)
    assert ran.returncode == 0, ran.stderr
    client = SchemaRegistryClient({"url": registry})
    conf = {"schema.id.deserializer": dual_schema_id_deserializer}
    read = JSONDeserializer(None, schema_registry_client=client, conf=conf)
    (message,) = received(broker, topic)
    context = SerializationContext(topic, MessageField.VALUE, message.headers())
    assert read(message.value(), context) == {"id": "x", "n": 7, "shop": "north"}
    assert (message.value() or b"")[:1] == (b"\0" if framing == "confluent-prefix" else b"{")


@pytest.mark.full
def test_bare_avro_has_no_place_to_name_another_schema(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, "orders", NEW)
    for schema, record, code in ((NEW, {"n": 1}, 0), (OLD, {"n": 1}, 2)):
        path = tmp_path / f"{code}.avro"
        with path.open("wb") as file:
            fastavro.writer(file, schema, [record])
        ran = send(contract, path, "--dry-run")
        assert ran.returncode == code, ran.stderr
    assert "written with another schema than that of orders 1.0.0" in ran.stderr


@pytest.mark.full
def test_nothing_is_sent_of_a_file_with_a_record_that_cannot_be_encoded(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic("orders")
    contract = contract_of(tmp_path, topic, OLD)
    servers = ("--bootstrap-servers", broker.bootstrap)
    lines = b'{"n": 1}\n{"n": "2"}\n{}\n{"n": 4}\n'
    (tmp_path / "orders.jsonl").write_bytes(lines)
    (tmp_path / "orders.csv").write_text("n\n1\n2,3\n")
    ran = send(contract, tmp_path / "orders.jsonl", *servers)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "line 2 /n: is text, and the schema has int here\nline 3 /n: is missing, and has no default\n"
        "2 records of orders.jsonl cannot be sent; nothing was sent\n"
    )
    rows = send(contract, tmp_path / "orders.csv", *servers)
    assert (rows.returncode, "row 2: has 2 cells, and the header has 1\n" in rows.stderr) == (1, True)
    assert received(broker, topic) == []
    assert send(contract, tmp_path / "orders.jsonl", "--max-records", "1", *servers).returncode == 0


def test_standard_input_is_sent_to_the_first_record_that_cannot_be_encoded(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic("orders")
    contract = contract_of(tmp_path, topic, OLD)
    lines = [b'{"n": "x"}' if n in (3, 7) else b'{"n": %d}' % n for n in range(1, 11)]
    ran = send(contract, "-", "--bootstrap-servers", broker.bootstrap, stdin=b"\n".join(lines))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "line 3 /n: is text, and the schema has int here\n"
        "standard input cannot be sent from line 3 on; 2 records before it were sent: correct line 3, and send the "
        "input from there\n"
    )
    assert [each.value()[:1] for each in received(broker, topic)] == [b"\x02", b"\x04"]


@pytest.mark.full
def test_a_broker_or_a_registry_that_does_not_answer_has_its_own_message(tmp_path: Path) -> None:
    contract, file = contract_of(tmp_path, "no-such-topic", JSON), tmp_path / "orders.jsonl"
    file.write_text("{}\n")
    silent = send(contract, file, "--bootstrap-servers", "127.0.0.1:1")
    assert (silent.returncode, "no broker answers" in silent.stderr) == (3, True)
    unnamed = send("unknown.stream", file, "--bootstrap-servers", "x:1", "--registry", "http://127.0.0.1:1")
    assert (unnamed.returncode, "no registry answers" in unnamed.stderr) == (3, True)
    without = send(contract, file)
    assert (without.returncode, "name the brokers" in without.stderr) == (2, True)


def test_what_is_not_there_and_what_the_brokers_refuse_is_told_apart(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "orders.jsonl").write_text("{}\n" + json.dumps({"id": secrets.token_hex(5_000)}) + "\n")
    contract = contract_of(tmp_path, "no-such-topic", JSON)
    file = tmp_path / "orders.jsonl"
    missing = send(contract, file, "--bootstrap-servers", broker.bootstrap)
    assert (missing.returncode, "no topic no-such-topic" in missing.stderr) == (2, True)
    small = contract_of(tmp_path, make_topic("orders", max_message_bytes="1000"), JSON)
    refused = send(small, file, "--bootstrap-servers", broker.bootstrap)
    assert refused.returncode == 2
    assert "the brokers refuse a record of topic" in refused.stderr
    assert "are acknowledged, of the others some may be in the topic" in refused.stderr
