from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway import health
from tidegate.gateway.health import BrokerProbe
from tidegate.gateway.settings import GatewaySettings


def test_without_a_broker_the_registry_is_ready(client: Any) -> None:
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "ready", "database": "reachable", "migrations": "current", "broker": "not configured"},
    )


class TestWithABrokerThatIsAway:
    @pytest.fixture
    def settings(self, settings: GatewaySettings) -> GatewaySettings:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            address = f"127.0.0.1:{unused.getsockname()[1]}"
        return settings.model_copy(update={"bootstrap_servers": address})

    def test_it_is_shown_and_the_registry_stays_ready(self, client: Any) -> None:
        answer = client.get("/health/ready")
        assert (answer.status_code, answer.json()["broker"]) == (200, "unreachable")


def test_only_one_request_at_a_time_waits_for_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone can ask for readiness. Waiting requests would take all threads while the broker is away."""
    asked, may_answer, now = threading.Semaphore(0), threading.Event(), [0.0]

    def list_topics(**_: float) -> None:
        asked.release()
        may_answer.wait(60)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(health, "AdminClient", lambda _: SimpleNamespace(list_topics=list_topics))
    monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: now[0]))
    probe = BrokerProbe(KafkaConnection("kafka:9092"))
    may_answer.set()
    assert not probe.answers()
    assert not probe.answers()  # the same answer, from memory
    assert asked.acquire(blocking=False)
    assert not asked.acquire(blocking=False)
    now[0] += 6
    may_answer.clear()
    waiting = threading.Thread(target=probe.answers)
    waiting.start()
    assert asked.acquire(timeout=60)
    assert not probe.answers()  # does not wait for the other
    assert not asked.acquire(blocking=False)
    may_answer.set()
    waiting.join(60)
