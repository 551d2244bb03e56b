"""The index of refused records from a real broker: committed records only, once, and what it names is fetched and masked."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pydantic import SecretStr
from sqlalchemy import text

from tests.unit.cli.conftest import listening
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.models.examples import CONTRACT
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.streams.quarantine_index.ingestion import QuarantineIngestion

AGE = Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "is one of the forbidden values")
NOTE = Violation(Stage.SCHEMA, "type", "/note", Severity.ERROR, "must be of type string")
MakeIngestion = Callable[[], QuarantineIngestion]


@pytest.fixture
def stream(broker: Broker) -> str:
    """Make the quarantine topic of a stream, whose name is returned; its source topic need not exist."""
    name = f"adm-{uuid.uuid4().hex[:8]}"
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = f"{name}.quarantine"
    settings = {"message.timestamp.type": "LogAppendTime"}
    client.create_topics([NewTopic(topic, 2, 1, config=settings)])[topic].result(30)
    while topic not in client.list_topics(timeout=30).topics:  # made is not yet known
        pass
    return name


@pytest.fixture
def factory(broker: Broker, tmp_path: Path, stream: str) -> Iterator[Factory]:
    settings = GatewaySettings(
        database_url=SecretStr(f"sqlite:///{tmp_path}/registry.db"),
        bootstrap_servers=broker.bootstrap,
        quarantine_index="off",
    )
    made = Factory(settings)
    made.database.migrate()
    definition = {
        "type": "object",
        "properties": {"age": {"type": "integer"}, "note": {"type": "string"}},
    }
    document = {
        **CONTRACT,
        "id": stream,
        "topic": stream,
        "schema": {"type": "json-schema", "definition": definition},
        "rules": [CONTRACT["rules"][0]],
        "classification": {"/note": "pii"},
        "producer_headers": [{"name": "app", "public": True}],
    }
    made.registry().publish(json.dumps(document).encode(), "adm.json")
    yield made
    made.close()


@pytest.fixture
def make_ingestion(broker: Broker, factory: Factory) -> Iterator[MakeIngestion]:
    made: list[QuarantineIngestion] = []

    def make() -> QuarantineIngestion:
        found = QuarantineIngestion(
            factory.database, KafkaConnection(broker.bootstrap), lambda: datetime.now(UTC)
        )
        made.append(found)
        return found

    yield make
    for each in made:
        each.close()


def produce(broker: Broker, stream: str, numbers: range, *, commits: bool = True) -> None:
    """Write one transaction; every third record has a note that is no text."""
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"index/{stream}"}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in numbers:
        violations = (AGE, NOTE) if number % 3 == 0 else (AGE,)
        note: Any = number + 1 if number % 3 == 0 else "Zaphod"
        verdict = Verdict(Disposition.QUARANTINED, violations)
        own = quarantine_headers(
            EventPointer(stream, number % 2, number), "ledger", f"{stream}@1.2.0", verdict
        )
        producer.produce(
            f"{stream}.quarantine",
            key=f"k{number}",
            value=json.dumps({"age": 999, "note": note}),
            partition=number % 2,
            headers=[("app", b"form"), *own],
        )
    producer.flush(30)
    if commits:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
    # The answer comes before the markers are in every partition; this one waits for them.
    Producer(settings).init_transactions(30)


def send(factory: Factory, method: str, path: str, **options: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(factory))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            return await client.request(method, f"/api/v1/streams{path}", **options)

    answer = asyncio.run(ask())
    assert answer.is_success, answer.text
    return answer


def get(factory: Factory, path: str, **parameters: Any) -> Any:
    return send(factory, "GET", path, params=parameters).json()


def test_the_index_follows_the_topic(
    broker: Broker, stream: str, factory: Factory, make_ingestion: MakeIngestion
) -> None:
    ingestion = make_ingestion()
    for start in range(0, 30, 6):  # transaction markers stand between the records
        produce(broker, stream, range(start, start + 6))
    produce(broker, stream, range(100, 110), commits=False)
    ingestion.catch_up()
    status = factory.quarantine_index().status(stream)
    assert (status.records, status.problems, status.lag) == (30, 2, 0)

    # Another process finds the leases held, and takes over when they are given back.
    other = make_ingestion()
    produce(broker, stream, range(30, 36))
    assert other.catch_up() == 0
    ingestion.close()
    other.catch_up()
    assert factory.quarantine_index().status(stream).records == 36

    # What retention removes leaves the index; the rest is what a new index has.
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in client.delete_records([TopicPartition(f"{stream}.quarantine", 0, 9)]).values():
        future.result()
    other.close()
    third = make_ingestion()
    third.catch_up()
    kept = factory.quarantine_index().status(stream)
    factory.quarantine_index().rebuild(stream)
    third.close()
    fourth = make_ingestion()
    fourth.catch_up()
    rebuilt = factory.quarantine_index().status(stream)
    assert rebuilt.records == kept.records < 36
    assert [(each.low, each.next_offset) for each in rebuilt.partitions] == [
        (each.low, each.next_offset) for each in kept.partitions
    ]


def test_records_of_a_problem_are_paged_and_masked(
    broker: Broker, stream: str, factory: Factory, make_ingestion: MakeIngestion
) -> None:
    produce(broker, stream, range(60))
    make_ingestion().catch_up()
    problems = get(factory, f"/{stream}/problems")["problems"]
    assert [(each["code"], each["shape"], each["records"]) for each in problems] == [
        ("age-is-known", "999", 60),
        ("type", "positive integer, below 1,000", 20),
    ]
    seen: list[str] = []
    older = None
    while True:
        more = {} if older is None else {"older_than": older}
        page = get(factory, f"/{stream}/quarantine/records", rule="type", limit=7, **more)
        seen += [each["source"] for each in page["records"]]
        if (older := page["older"]) is None:
            break
    assert sorted(seen) == sorted(f"{stream}/{number % 2}/{number}" for number in range(0, 60, 3))
    record = page["records"][-1]
    assert record["value"] == {"age": 999, "note": "▇▇▇▇"}
    assert (record["key"], record["headers"], record["hidden"]) == (
        "▇▇▇▇", [["app", "▇▇▇▇"]], ["/note", "headers", "key"],
    )  # fmt: skip
    assert "Zaphod" not in json.dumps(page)
    partition, offset = seen and record["position"].split("/")
    one = get(factory, f"/{stream}/quarantine/records/{partition}/{offset}", rule="type")
    assert one["older"] is None
    assert one["record"]["violations"][0]["sentence"]
    producers = get(factory, f"/{stream}/quarantine/breakdown", by="producer")["groups"]
    assert [(each["shown"], each["records"]) for each in producers] == [("form", 60)]


def test_downloads_are_masked_and_audited(
    broker: Broker, stream: str, factory: Factory, make_ingestion: MakeIngestion
) -> None:
    produce(broker, stream, range(300))
    make_ingestion().catch_up()
    path = f"/{stream}/quarantine/export"
    parts = {
        form: send(factory, "GET", path, params={"format": form, "limit": 250}).content
        for form in ("csv", "jsonl", "parquet")
    }
    assert not any(b"Zaphod" in part for part in parts.values())
    lines = [json.loads(line) for line in parts["jsonl"].splitlines()]
    assert len(lines) == len({line["position"] for line in lines}) == 250
    assert json.loads(lines[0]["value"]) == {"age": 999, "note": "▇▇▇▇"}
    rows = list(csv.DictReader(io.StringIO(parts["csv"].decode())))
    assert [row["position"] for row in rows] == [line["position"] for line in lines]
    table = pq.read_table(io.BytesIO(parts["parquet"]))
    assert table["value"].to_pylist() == [line["value"] for line in lines]
    audited = [each for each in factory.audit().page(0, 100).entries if each.action == "quarantine.exported"]
    assert [each.subject for each in audited] == [f"{stream}-value#{form}" for form in parts]


def test_a_value_is_searched_in_the_background(
    broker: Broker, stream: str, factory: Factory, make_ingestion: MakeIngestion
) -> None:
    produce(broker, stream, range(30))
    make_ingestion().catch_up()
    path = f"/{stream}/quarantine/searches"
    begun = send(factory, "POST", path, json={"value": "Zaphod", "partition": 1}).json()
    while (found := get(factory, f"{path}/{begun['id']}"))["state"] == "running":
        pass
    numbers = [number for number in range(1, 30, 2) if number % 3]
    assert (found["state"], found["looked_at"], len(found["positions"])) == ("done", 15, len(numbers))
    assert {each.split("/")[0] for each in found["positions"]} == {"1"}
    with factory.quarantine_reader()._lock:  # while a page is read: neither waits for the other
        by_key = send(factory, "POST", f"/{stream}/quarantine/find", json={"key": "k7"}).json()
    by_source = send(factory, "POST", f"/{stream}/quarantine/find", json={"source": "1/7"}).json()
    assert by_key["positions"] == by_source["positions"] != []
    with factory.database.reading() as stores:
        tables = (text("SELECT * FROM audit"), text("SELECT * FROM quarantine_searches"))
        kept = [tuple(each) for table in tables for each in stores._session.execute(table)]
    assert "Zaphod" not in repr(kept)
    assert send(factory, "DELETE", f"{path}/{begun['id']}").json()["state"] == "done"
    actions = [each.action for each in factory.audit().page(0, 100).entries]
    assert [each for each in actions if "search" in each] == [
        "quarantine.searched"
    ]  # it had ended: nothing changed


@pytest.mark.full
def test_the_command_line_lists_shows_and_exports_what_the_reader_may_see(
    broker: Broker, stream: str, factory: Factory, make_ingestion: MakeIngestion, tmp_path: Path
) -> None:
    produce(broker, stream, range(250))
    make_ingestion().catch_up()
    with listening(factory) as url:
        said = []

        def run(*arguments: str, code: int = 0) -> str:
            command = [sys.executable, "-m", "tidegate.gateway.cli.main", *arguments, "--registry", url]
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            assert ran.returncode == code, ran.stderr
            said.append(ran.stderr)
            return ran.stdout

        listed = run("quarantine", "list", stream, "--limit", "230").splitlines()
        assert len({line.split()[0] for line in listed}) == 230
        notes = run(
            "quarantine", "list", stream, "--rule", "type", "--format", "json", "--limit", "7"
        ).splitlines()
        assert len(notes) == 7
        position = json.loads(notes[0])["position"]
        shown = run("quarantine", "show", stream, position)
        assert f"record {position} of the quarantine topic" in shown
        assert "age-is-known /age: " in shown
        assert "hidden    " in shown
        json_lines = run("quarantine", "export", stream).splitlines()
        assert len([json.loads(line) for line in json_lines]) == 250
        assert "only the first" not in said[-1]
        assert "Zaphod" not in "".join(json_lines)
        target = tmp_path / "refused.csv"
        run("quarantine", "export", stream, "--format", "csv", "--limit", "10", "--output", str(target))
        assert len(list(csv.reader(target.read_text("utf-8").splitlines()))) == 11
        assert "only the first 10 of 250 records were written" in said[-1]
        make_ingestion().start()  # as a registry does
        built = run("quarantine", "rebuild", stream)
        assert built.startswith(f"{stream}.quarantine: 250 records in ")
        run("quarantine", "show", stream, "0/999999", code=2)
        run("quarantine", "export", stream, "--output", f"{tmp_path}/no/such/file", code=2)
