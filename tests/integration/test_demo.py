"""The demo against a real broker: its parts one by one, and the command from end to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import httpx
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyiceberg.catalog.sql import SqlCatalog

from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.embedded.demo.admissions import admissions_stream
from tidegate.gateway.embedded.demo.feed import send
from tidegate.gateway.embedded.demo.flights import findings, read_flights
from tidegate.gateway.embedded.demo.outcome import count_records, read_outcome, read_quarantine
from tidegate.gateway.embedded.demo.stream import PARTITIONS

MakeTopic = Callable[..., str]

NOT_JSON = Violation(Stage.DECODE, "json.invalid", "", Severity.ERROR, "is not JSON")


def test_every_record_lies_where_its_stream_says(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic("admissions", partitions=PARTITIONS)
    stream = replace(admissions_stream(20_000), name=topic)
    send(stream, broker.bootstrap, Event())
    assert count_records(broker.bootstrap, topic) == 20_000
    found = {
        EventPointer(topic, message.partition(), message.offset()): (message.key(), message.value())
        for message in _read(broker, topic, 20_000)
    }
    sent = {
        stream.pointer(index): (record["key"], record["value"])
        for index, record in enumerate(stream.records.to_pylist())
    }
    assert found == sent


def test_sending_ends_early_on_request(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic("admissions", partitions=PARTITIONS)
    stopping = Event()
    stopping.set()
    send(replace(admissions_stream(1_000), name=topic), broker.bootstrap, stopping)
    assert count_records(broker.bootstrap, topic) == 0


def test_an_aborted_quarantine_record_does_not_count(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic("refused.quarantine", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for offset, is_committed in enumerate([True, False, True]):
        headers = quarantine_headers(
            EventPointer("refused", 1, offset),
            "ledger",
            "refused@1.0.0",
            Verdict(Disposition.QUARANTINED, (NOT_JSON,)),
        )
        producer.begin_transaction()
        producer.produce(topic, key=b"k", value=f"{offset}".encode(), headers=headers, partition=offset % 2)
        if is_committed:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    records = sorted(read_quarantine(broker.bootstrap, topic), key=lambda record: record.evidence.source)
    assert [(record.key, record.value, str(record.evidence.source)) for record in records] == [
        (b"k", b"0", "refused/1/0"),
        (b"k", b"2", "refused/1/2"),
    ]
    assert {record.evidence.violations for record in records} == {(NOT_JSON,)}


def test_the_outcome_is_read_from_topics_and_table(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    stream = make_topic("test.outcome", partitions=PARTITIONS)
    namespace, name = stream.split(".")
    ledger = Ledger(
        name="ledger",
        stream=stream,
        topic=stream,
        topic_id="id",
        epoch=1,
        n=1,
        begin={},
        end={},
        scan_from={},
        slots=1,
    )
    source = pa.struct([pa.field("partition", pa.int32()), pa.field("offset", pa.int64())])
    rows = pa.table({"age": pa.array([42]), "_source": pa.array([{"partition": 3, "offset": 0}], source)})
    with SqlCatalog("lake", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=str(tmp_path)) as catalog:
        catalog.create_namespace(namespace)
        table = catalog.create_table(
            (namespace, name), rows.schema, properties={"tidegate.ledger": ledger.text}
        )
        table.append(rows)
    outcome = read_outcome(broker.bootstrap, tmp_path, stream, ["age"])
    assert outcome.received == 0
    assert outcome.refused == ()
    assert outcome.ledger == ledger
    assert outcome.table.to_pylist() == [{"age": 42, "_source": {"partition": 3, "offset": 0}}]


@pytest.mark.full
def test_the_demo_ends_by_itself_and_its_sums_hold(tmp_path: Path) -> None:
    report = tmp_path / "figures.json"
    ended = _demo(tmp_path, "--exit", "--report", str(report), "--records", "10000")
    output, _ = ended.communicate(timeout=300)
    assert ended.returncode == 0, output
    figures = json.loads(report.read_text())
    admissions, flights = (figures["streams"][name] for name in ("hospital.admissions", "nyc.flights"))
    rules = {rule: pc.sum(broken).as_py() for rule, broken in findings(read_flights(10_000)).items()}
    assert {rule: count for rule, count in rules.items() if count} == flights["refused_by_rule"]
    assert _sums(flights) == (10_000, 10_000 - sum(rules.values()), sum(rules.values()), 0, {}, 0)
    planted = Counter(mark.kind for mark in admissions_stream(10_000).marks.values())
    caught = {kind: {"planted": count, "caught": count} for kind, count in planted.items()}
    assert _sums(admissions) == (10_000, 9_701, 299, 0, caught, 0)
    assert figures["seconds_to_first_verdict"] < figures["seconds"]
    assert "every offset accounted for: 20,000 in = " in output
    assert not _running(tmp_path)


def test_a_report_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    ended = _demo(tmp_path, "--report", str(tmp_path / "nowhere" / "figures.json"))
    output, _ = ended.communicate(timeout=60)
    assert ended.returncode == 2
    assert "nowhere is not a writable folder" in output
    assert not (tmp_path / "state").exists()


@pytest.mark.full
def test_the_whole_demo_serves_its_page_until_it_is_interrupted(tmp_path: Path) -> None:
    report = tmp_path / "figures.json"
    demo = _demo(tmp_path, "--report", str(report))
    lines = []
    for line in demo.stdout or ():
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    output = "".join(lines)
    desk = next(line.removeprefix("open ").strip() for line in lines if line.startswith("open "))
    (shown,) = [line for line in lines if line.rstrip().endswith("--dry-run")]
    assert "1,500 of 1,500 records would be written" in run_in_shell(shown, tmp_path)
    page = httpx.get(desk, trust_env=False)
    assert page.status_code == 200
    assert "hospital.admissions" in page.text
    assert "nyc.flights" in page.text
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=120)
    assert demo.returncode == 0, output
    figures = json.loads(report.read_text())["streams"]
    assert _sums(figures["nyc.flights"])[:4] == (336_776, 335_413, 1_363, 0)
    assert _sums(figures["hospital.admissions"])[:4] == (200_000, 194_000, 6_000, 0)
    assert "1.7 days" in output
    assert "8.5 days" in output
    assert not _running(tmp_path)


def run_in_shell(line: str, folder: Path) -> str:
    """Run a line as a reader would, require that it succeeds, and return its output."""
    paths = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": paths}
    ended = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def _read(broker: Broker, topic: str, count: int) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "test", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        messages: list[Message] = []
        while len(messages) < count:
            fetched = consumer.consume(5_000, timeout=30)
            assert fetched, f"{len(messages)} of {count} records after 30 s of silence"
            messages += fetched
        return messages
    finally:
        consumer.close()


def _demo(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tidegate.gateway.cli.main",
        "demo",
        "--state",
        str(folder / "state"),
        *options,
    ]
    environment = {**os.environ, "COLUMNS": "160", "TIDEGATE_TEST_FOLDER": str(folder)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=environment
    )


def _sums(figures: dict[str, object]) -> tuple[object, ...]:
    names = ("in", "accepted", "quarantined", "dropped", "corruptions", "wrongly_refused")
    return tuple(figures[name] for name in names)


def _running(folder: Path) -> list[str]:
    """Return the processes that a demo in `folder` left, known by their inherited environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TIDEGATE_TEST_FOLDER") == str(folder):
                found.append(process.name())
        except psutil.Error:
            continue
    return found
