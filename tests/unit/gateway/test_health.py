from __future__ import annotations

import socket
from typing import Any

import pytest

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
