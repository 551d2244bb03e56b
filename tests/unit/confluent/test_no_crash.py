"""Unusual requests, generated from the OpenAPI document: the registry never fails."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from schemathesis import Case

from tests.documented import MODES, documented_operations
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.settings import GatewaySettings

EXAMPLES = 800


@pytest.mark.full
@pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.full)], indirect=True
)
def test_no_request_makes_the_registry_fail(database_url: str, broker: Broker) -> None:
    # Any host name: requests that are refused for theirs would ask nothing of the registry.
    factory = Factory(
        GatewaySettings(
            database_url=SecretStr(database_url),
            allowed_hosts=("*",),
            bootstrap_servers=broker.bootstrap,
            quarantine_index="off",
        )
    )
    operations = documented_operations(create_app(factory))
    asked: set[str] = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.generate],
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(operations))
        mode = data.draw(st.sampled_from(MODES))
        case: Case = data.draw(operation.as_strategy(generation_mode=mode))
        answer = case.call()
        assert answer.status_code < 500, (case.as_curl_command(), answer.content)
        asked.add(operation.label)

    try:
        ask()
    finally:
        factory.close()
    assert len(asked) > len(operations) * 0.8
