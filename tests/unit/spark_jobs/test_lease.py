"""Which instances share a lease: those that write one stream to one place."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException
from pydantic import SecretStr
from structlog.testing import capture_logs

from tidegate.spark_jobs.job import lease as job_lease
from tidegate.spark_jobs.job.lease import Lease, _Entry, _has_died, _machine, lease_group
from tidegate.spark_jobs.kafka.consumer_group import group_of
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.delta.table import table_location
from tidegate.spark_jobs.sinks.iceberg.table import table_name

REST = "http://catalog:8181"


SETTINGS = JobSettings(
    bootstrap_servers="kafka:9092",
    registry_url="http://registry:8081",
    warehouse=Path("/lake"),
    checkpoints=Path("/checkpoints"),
)


def group(stream: str = "a.b", **changes: object) -> str:
    return lease_group(SETTINGS.model_copy(update=changes), stream)


def postgresql(password: str = "p", database: str = "d") -> dict[str, object]:  # noqa: S107 - no real password
    return {
        "sink": "postgresql",
        "postgresql_url": SecretStr(f"postgresql://u:{password}@host/{database}"),
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"checkpoints": Path("/elsewhere"), "registry_url": "http://other"}),
        ({"sink": "kafka"}, {"sink": "kafka", "warehouse": Path("/elsewhere")}),
        (postgresql("old"), postgresql("new")),
        (
            {"catalog_properties": {"uri": REST, "warehouse": "w", "credential": "old"}},
            {"catalog_properties": {"uri": REST, "warehouse": "w", "credential": "new"}},
        ),
    ],
)
def test_one_place_has_one_lease(one: dict[str, object], other: dict[str, object]) -> None:
    """Secrets, which rotate, and what differs from one machine to the next are no part of it."""
    assert group(**one) == group(**other)


def test_two_places_have_two_leases_and_two_folders() -> None:
    """Each start deletes the folder's files of earlier starts: those of a job that runs must not be among them."""
    places: list[dict[str, object]] = [
        {},
        {"warehouse": Path("/other")},
        {"sink": "delta"},
        {"sink": "delta", "warehouse": Path("/other")},
        {"sink": "kafka"},
        postgresql(),
        postgresql(database="e"),
        {"catalog_properties": {"uri": REST, "warehouse": "w"}},
        {"catalog_properties": {"uri": REST, "warehouse": "v"}},
    ]
    groups = {group(stream, **place) for place in places for stream in ("a.b", "a.c")}
    assert len(groups) == 2 * len(places)
    assert all(each.startswith(("tidegate.a.b.lease-", "tidegate.a.c.lease-")) for each in groups)
    folders = {SETTINGS.model_copy(update=place).scratch("a.b") for place in places}
    assert len(folders) == len(places)
    assert all(each.parent == Path("/checkpoints/a.b") for each in folders)


def test_table_and_groups_have_the_name_of_the_contract() -> None:
    """So whoever may publish an id may write what is named by it, and nothing else."""
    assert table_name("nyc.taxi.trips") == "lake.nyc_taxi.trips"
    assert table_location(Path("/lake"), "nyc.taxi.trips") == "file:///lake/delta/nyc_taxi/trips"
    assert group_of("nyc.taxi.trips") == "tidegate.nyc.taxi.trips"


def test_a_process_of_this_machine_that_is_gone_has_died() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = socket.gethostname()
    assert _has_died(f"{host}/{_machine()}/{ended.pid}/abc")
    assert _has_died(f"{host}/{_machine()}/{os.getpid()}/abc"), "it had this id before a restart"
    assert not _has_died(f"{host}/{_machine()}/{os.getppid()}/abc")


@pytest.mark.parametrize("machine", ["another-4026531836", ""])
def test_a_container_of_the_same_host_name_is_not_taken_for_dead(machine: str) -> None:
    """It has process ids of its own, so two replicas with one name would take the lease from each other in turn."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for pid in (os.getpid(), ended.pid):
        assert not _has_died(f"{socket.gethostname()}/{machine}/{pid}/abc")
    assert not _has_died(f"{socket.gethostname()}/{ended.pid}/abc"), "as an earlier release wrote it"


def test_a_write_that_failed_is_made_with_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client keeps the coordinator that it knows, and would fail for ever once the coordinator has moved."""
    monkeypatch.setattr(job_lease, "_TIMEOUT_SECONDS", 0.2)
    lease = Lease(SETTINGS.model_copy(update={"bootstrap_servers": "127.0.0.1:1"}), "s")
    lease._topic = "topic"
    clients = []
    for _ in range(2):
        clients.append(lease._client())
        with pytest.raises(KafkaException):
            lease._write("me")
    assert clients[0] is not clients[1]


def test_a_standby_waits_for_a_topic_that_a_new_broker_does_not_know_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the lease, it would run beside an instance that takes the lease later and fences it."""
    lease = Lease(SETTINGS.model_copy(update={"lease_seconds": 0.1}), "s")
    entries: list[_Entry | None] = [_Entry("another", 1), _Entry("another", 2)]
    missing = iter([KafkaError.UNKNOWN_TOPIC_OR_PART] * 2)
    written: list[str] = []

    def read(_lease: Lease) -> _Entry | None:
        return _Entry(written[-1], 1) if written else entries[0] if len(entries) == 1 else entries.pop(0)

    def write(_lease: Lease, owner: str) -> None:
        if (code := next(missing, None)) is not None:
            raise KafkaException(KafkaError(code))
        written.append(owner)

    monkeypatch.setattr(Lease, "_read", read)
    monkeypatch.setattr(Lease, "_write", write)
    monkeypatch.setattr(Lease, "_begin_renewal", lambda _: begun.append("lease"))
    begun: list[str] = []
    with capture_logs() as told:
        assert lease.acquire("topic", Event(), lambda: begun.append("standby"))
    assert begun == ["standby", "lease"]
    assert [each["event"] for each in told] == [
        "stream_standing_by",
        "lease_not_taken",
    ]  # once for two failures
    assert "UNKNOWN_TOPIC_OR_PART" in told[1]["error"]
