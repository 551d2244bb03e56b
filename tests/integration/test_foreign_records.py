"""A stream's pages show what its own job refused, whatever reports name and whatever stands in the topic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pydantic import SecretStr

from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.access.keys import Credentials
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.models.examples import REPORT
from tidegate.gateway.settings import GatewaySettings

MakeTopic = Callable[..., str]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
REFUSED = Verdict(
    Disposition.QUARANTINED, (Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "is refused"),)
)


@dataclass(frozen=True)
class Desk:
    """A gateway that wants to know who asks, as one person with a key meets it."""

    factory: Factory
    credentials: Credentials

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(create_app(self.factory))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                who = (self.credentials.key_id, self.credentials.secret)
                return await client.request(method, path, auth=who, **options)

        return asyncio.run(send())

    def reveal(self, topic: str, partition: int, offset: int, part: str = "body") -> httpx.Response:
        path = f"/desk/records/{topic}/{partition}/{offset}/reveal"
        return self.ask("POST", path, content=f"part={part}", headers=FORM)


@pytest.fixture
def factory(broker: Broker, tmp_path: Path) -> Iterator[Factory]:
    url = SecretStr(f"sqlite:///{tmp_path / 'registry.db'}")
    settings = GatewaySettings(database_url=url, bootstrap_servers=broker.bootstrap, access="on")
    made = Factory(settings)
    made.database.migrate()
    yield made
    made.close()


@dataclass(frozen=True)
class Teams:
    """Two teams: the topics of `theirs`, and a desk as an approver of `ours` alone meets it."""

    ours: str
    theirs: str
    desk: Desk


@pytest.fixture
def teams(factory: Factory, make_topic: MakeTopic, broker: Broker) -> Teams:
    ours, theirs = make_topic("nyc.flights"), make_topic("hospital.admissions")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for topic in (ours, theirs):
        name = quarantine_topic(topic)
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        document = {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": topic,
            "version": "1.0.0",
            "topic": topic,
            "schema": {"type": "json-schema", "definition": {"properties": {"age": {}, "name": {}}}},
            "classification": {"/name": "pii"},
        }
        factory.registry().publish(json.dumps(document).encode(), "contract.json")
    produce(broker, theirs, b"SECRET source", [])
    headers = quarantine_headers(EventPointer(theirs, 0, 0), theirs, f"{theirs}@1.0.0", REFUSED)
    produce(broker, f"{theirs}.quarantine", b"SECRET patient", headers)
    credentials = factory.keys().create("flights", read_grants([f"approver:{ours}"]), "cli:test")
    return Teams(ours, theirs, Desk(factory, credentials))


def produce(broker: Broker, topic: str, value: bytes, headers: list[tuple[str, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    failed: list[object] = []
    producer.produce(
        topic,
        value,
        headers=headers,
        partition=0,
        on_delivery=lambda error, _: error and failed.append(error),
    )
    assert (producer.flush(60), failed) == (0, [])


def report_of(teams: Teams, named: str, **changes: Any) -> BatchReport:
    now = datetime.now(UTC)
    return BatchReport.model_validate(
        REPORT
        | {"stream": teams.ours, "topic": teams.ours, "quarantine_topic": named}
        | {"contract": f"{teams.ours}@1.0.0", "started_at": now, "committed_at": now}
        | changes
    )


def foreign_topics(teams: Teams) -> tuple[str, ...]:
    return (
        f"{teams.theirs}.quarantine",
        teams.theirs,
        teams.ours,
        "__consumer_offsets",
        "tidegate.ledger",
    )


def test_a_stored_report_that_names_a_foreign_topic_reveals_nothing_of_it(
    teams: Teams, factory: Factory
) -> None:
    for n, topic in enumerate(foreign_topics(teams), 1):
        # As an earlier version has stored it, which took whatever a report says.
        report = report_of(teams, topic, n=n)
        factory.database.write(lambda stores, report=report: stores.reports.add_report(report))
        latest = teams.desk.ask("GET", f"/desk/streams/{teams.ours}/latest")
        assert latest.status_code == 200
        assert "SECRET" not in latest.text
        assert f"/desk/records/{topic}/" not in latest.text
        for answer in (
            teams.desk.ask("GET", f"/desk/records/{topic}/0/0"),
            teams.desk.ask("GET", f"/desk/records/{topic}/0/0?view=hex"),
            teams.desk.reveal(topic, 0, 0),
        ):
            assert answer.status_code == 404, (topic, answer.text)
            assert "SECRET" not in answer.text
    assert all(entry.action != "record.revealed" for entry in factory.audit().page(0, 1000).entries)


def test_a_quarantine_topic_shows_only_what_its_own_stream_refused(teams: Teams, broker: Broker) -> None:
    ours, theirs = teams.ours, teams.theirs
    topic = f"{ours}.quarantine"
    forged = quarantine_headers(EventPointer(ours, 0, 9), ours, f"{ours}@1.0.0", REFUSED)
    own = quarantine_headers(EventPointer(ours, 0, 1), ours, f"{ours}@1.0.0", REFUSED)
    foreign = [
        [],
        quarantine_headers(EventPointer(theirs, 0, 1), theirs, f"{theirs}@1.0.0", REFUSED),
        quarantine_headers(EventPointer(ours, 0, 1), ours, f"{theirs}@1.0.0", REFUSED),
        quarantine_headers(EventPointer(theirs, 0, 1), theirs, f"{ours}@1.0.0", REFUSED),
        # The last header of a name counts, which is ours if we have written the record.
        [*forged, *quarantine_headers(EventPointer(theirs, 0, 1), theirs, f"{theirs}@1.0.0", REFUSED)],
    ]
    for headers in foreign:
        produce(broker, topic, b"SECRET patient", headers)
    produce(broker, topic, b'{"age": 999, "name": "Jane"}', own)
    factory = teams.desk.factory
    factory.database.write(lambda stores: stores.reports.add_report(report_of(teams, topic)))

    listed = teams.desk.ask("GET", f"/desk/streams/{ours}/latest").text
    assert f"/desk/records/{topic}/0/{len(foreign)}" in listed
    for offset in range(len(foreign)):
        assert f'"/desk/records/{topic}/0/{offset}"' not in listed
        for answer in (
            teams.desk.ask("GET", f"/desk/records/{topic}/0/{offset}"),
            teams.desk.reveal(topic, 0, offset),
        ):
            assert answer.status_code == 404
            assert "SECRET" not in answer.text
    revealed = teams.desk.reveal(topic, 0, len(foreign), part="%2Fname")
    assert revealed.status_code == 200
    assert "Jane" in revealed.text
