"""The embedded broker: what survives a restart, and the messages when it cannot run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import Jars
from tidegate.gateway.embedded.java import Java
from tidegate.gateway.embedded.processes import RunDirectory

QUICK_JAVA = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

MakeBroker = Callable[..., Broker]


@pytest.fixture
def make_broker(tmp_path: Path, jars: Jars, java: Java) -> Iterator[MakeBroker]:
    """Yield a function that makes a broker, not started, on one data folder; it is stopped at the end."""
    made = []

    def make(folder: Path = tmp_path, **options: Any) -> Broker:
        run = RunDirectory(folder / "run", folder / "logs")
        broker = Broker(folder / "broker", run, jars, java, BrokerOptions(java_options=QUICK_JAVA, **options))
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.stop()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


LEASES = """
import sys
from pathlib import Path
from threading import Event
from tidegate.spark_jobs.job.lease import Lease
from tidegate.spark_jobs.settings import JobSettings

folder = Path(sys.argv[2])
settings = JobSettings(bootstrap_servers=sys.argv[1], registry_url="http://localhost", warehouse=folder, checkpoints=folder)
for number in range(3):
    lease = Lease(settings, f"a.b{number}")
    assert lease.acquire(sys.argv[3], Event(), Event().set)
    lease.release()
"""


def create_topic(broker: Broker, name: str) -> None:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([NewTopic(name, 1, 1)])[name].result(30)


def process_of(folder: Path) -> psutil.Process:
    """The broker whose settings lie in `folder`."""
    marker = str(folder / "broker" / "server.properties")
    processes = psutil.process_iter(attrs=["cmdline"])
    return next(process for process in processes if (process.info["cmdline"] or [])[-1:] == [marker])


def post_mortem(broker: Broker) -> str:
    """Wait until the broker is found dead; return the message."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            broker.check()
        except Unavailable as error:
            return str(error)
        time.sleep(0.02)
    raise AssertionError("the broker still runs")


@pytest.mark.full
def test_records_and_cluster_survive_a_restart_on_another_port(make_broker: MakeBroker) -> None:
    with make_broker() as first:
        create_topic(first, "kept")
        producer = Producer({"bootstrap.servers": first.bootstrap})
        producer.produce("kept", b"value", key=b"key", headers=[("h", b"\xff")], timestamp=1)
        assert producer.flush(30) == 0
    taken = int(first.bootstrap.rpartition(":")[2])
    with socket.create_server((ports.HOST, taken)), make_broker() as second:
        assert second.bootstrap != first.bootstrap
        consumer = Consumer({"bootstrap.servers": second.bootstrap, "group.id": "test"})
        consumer.assign([TopicPartition("kept", 0, 0)])
        (message,) = consumer.consume(1, timeout=30)
        consumer.close()
    found = (message.key(), message.value(), message.headers(), message.timestamp()[1])
    assert found == (b"key", b"value", [("h", b"\xff")], 1)


def test_it_listens_on_loopback_only(make_broker: MakeBroker, tmp_path: Path) -> None:
    with make_broker():
        connections = process_of(tmp_path).net_connections(kind="tcp")
        listening = [one.laddr for one in connections if one.status == psutil.CONN_LISTEN]
    # A socket of Java shows 127.0.0.1 as an IPv4 address mapped into IPv6.
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert len(listening) == 2


def test_a_port_asked_for_and_in_use_is_an_error(make_broker: MakeBroker) -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"^port {port} is in use by .* \(pid {os.getpid()}\)"):
            make_broker(port=port).start()


@pytest.mark.full
def test_a_killed_broker_is_reported_with_its_log(make_broker: MakeBroker, tmp_path: Path) -> None:
    with make_broker() as broker:
        broker.check()
        process_of(tmp_path).send_signal(signal.SIGKILL)
        message = post_mortem(broker)
    assert message.startswith(f"the broker ended (exit -9)\nEnd of {tmp_path}/logs/broker.log:\n")
    assert "Kafka Server started" in message


def test_without_free_space_it_does_not_start(make_broker: MakeBroker, small_disk: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        make_broker(small_disk).start()
    expected = f"the disk of {small_disk}/broker is full: 64 MiB free, the broker needs 512 MiB"
    assert str(caught.value) == expected


@pytest.mark.full
def test_a_disk_that_fills_up_is_named_as_the_reason(make_broker: MakeBroker, small_disk: Path) -> None:
    with make_broker(small_disk, minimum_free_bytes=0) as broker:
        create_topic(broker, "big")
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 5000, "log_level": 0}
        )
        for _ in range(100):
            producer.produce("big", os.urandom(900_000))
        assert producer.flush(60) == 0  # delivered or given up
        message = post_mortem(broker)
    expected = f"the broker ended (exit 1): the disk of {small_disk}/broker is full: free some space\n"
    assert message.startswith(expected)


@pytest.mark.full
def test_a_lease_is_had_from_a_broker_that_never_had_a_consumer_group(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    """The broker creates `__consumer_offsets` meanwhile, and answers NOT_COORDINATOR. A process of its own may crash."""
    broker = make_broker()
    broker.start()
    create_topic(broker, "t")
    command = [sys.executable, "-c", LEASES, broker.bootstrap, str(tmp_path), "t"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
