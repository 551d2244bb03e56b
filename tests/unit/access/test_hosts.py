"""Which host names the registry answers to, and which pages may ask it for changes."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from uuid import UUID

import pytest

from tidegate.gateway.access.hosts import is_allowed, is_same_origin
from tidegate.gateway.access.limits import MOST_ADDRESSES, RateLimit
from tidegate.gateway.access.principal import TooManyRequests
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings

from .conftest import AVRO, CONFLUENT

SUBJECT = "/subjects/a-value/versions"
BY_ID = ("/schemas/ids/1", "/schemas/ids/1/schema", f"/schemas/guids/{UUID(int=1)}")
REPORTS = [
    f"/api/v1/streams/s/{name}"
    for name in (
        "batches",
        "trips",
        "events",
        "heartbeat",
        f"reconciliations/{UUID(int=1)}/result",
        f"replays/{UUID(int=1)}/progress",
    )
]


@pytest.fixture
def settings(settings: GatewaySettings) -> GatewaySettings:
    return settings.model_copy(update={"access": None})


@pytest.mark.parametrize(("host", "allowed", "expected"), [
    ("localhost:8081", (), True),
    ("LOCALHOST.", (), True),
    ("127.0.0.1:8081", (), True),
    ("[::1]:8081", (), True),
    ("10.0.0.7", (), True),
    ("attacker.example", (), False),
    ("localhost.attacker.example", (), False),
    ("127.0.0.1.attacker.example", (), False),
    ("gateway:8081", (), False),
    ("gateway:8081", ("gateway",), True),
    ("attacker.example", ("*",), True),
    ("[", (), False),
    ("", (), False),
    ("a" * 60_000 + ".localhost", (), False),  # longer than any name: it is not remembered
])  # fmt: skip
def test_a_host_is_a_loopback_name_an_address_or_a_set_name(
    host: str, allowed: tuple[str, ...], expected: bool
) -> None:
    assert is_allowed(host, allowed) is expected


@pytest.mark.parametrize(("origin", "host", "expected"), [
    ("http://registry:8081", "registry:8081", True),
    ("http://registry", "registry", True),
    ("https://registry", "registry:443", True),
    ("https://named.example", "upstream:8081", True),
    ("http://registry:8082", "registry:8081", False),
    ("http://attacker.example", "registry", False),
    ("null", "registry", False),
    ("http://[", "registry", False),
])  # fmt: skip
def test_an_origin_is_the_server_that_was_asked(origin: str, host: str, expected: bool) -> None:
    assert is_same_origin(origin, host, ("named.example",)) is expected


@pytest.mark.parametrize("path", ["/api/v1/contracts", "/subjects", "/desk", "/"])
def test_another_host_name_is_refused_and_the_setting_named(client: Any, path: str) -> None:
    answer = client.get(path, headers={"Host": "attacker.example"})
    assert answer.status_code == 421
    assert "the host name attacker.example" in answer.text
    assert "TIDEGATE_ALLOWED_HOSTS" in answer.text


def test_a_probe_of_health_may_use_any_name(client: Any) -> None:
    assert client.get("/health/live", headers={"Host": "pod.internal"}).status_code == 200


@pytest.mark.parametrize("origin", ["http://attacker.example", "null"])
def test_a_page_of_another_site_changes_nothing_without_fetch_metadata(client: Any, origin: str) -> None:
    headers = {"Origin": origin, "Content-Type": CONFLUENT}
    answer = client.request("POST", SUBJECT, json={"schema": AVRO}, headers=headers)
    assert answer.status_code == 403
    own = client.request(
        "POST", SUBJECT, json={"schema": AVRO}, headers={**headers, "Origin": "http://localhost"}
    )
    assert own.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "part"),
    [
        ("POST", SUBJECT, "message"),
        ("PUT", "/config", "message"),
        ("POST", "/api/v1/contracts", "detail"),
        ("POST", "/api/v1/streams/s/pause", "detail"),
    ],
)
def test_a_body_without_a_content_type_is_not_json(client: Any, method: str, path: str, part: str) -> None:
    answer = client.request(method, path, content=b'{"schema": "\\"int\\""}')
    assert answer.status_code == 415
    assert "the content type is missing" in answer.json()[part]


def test_a_limit_holds_by_default_with_access_control_only() -> None:
    assert GatewaySettings().effective_rate_limit is None
    assert GatewaySettings(access="on").effective_rate_limit == "500/second;15000/minute"
    assert GatewaySettings(access="on", rate_limit="off").effective_rate_limit is None
    assert GatewaySettings(rate_limit="7/minute").effective_rate_limit == "7/minute"


def count_often(limit: RateLimit) -> None:
    for _ in range(15_001):
        limit.count("key:a")


def test_a_registry_with_access_control_limits_a_principal_by_default(settings: GatewaySettings) -> None:
    with (
        closing(Factory(settings)) as open_to_all,
        closing(Factory(settings.model_copy(update={"access": "on"}))) as guarded,
    ):
        assert open_to_all.rate_limit is None
        assert guarded.rate_limit is not None
        with pytest.raises(TooManyRequests, match=r"^more than (500|15000) requests in "):
            count_often(guarded.rate_limit)


def test_addresses_beyond_a_bound_count_together() -> None:
    limit = RateLimit("1/hour")
    for number in range(MOST_ADDRESSES):
        limit.count(f"address:{number}")
    limit.count("address:one more")
    with pytest.raises(TooManyRequests):
        limit.count("address:and another")
    limit.count("key:of a principal")


class TestExempt:
    @pytest.fixture
    def settings(self, settings: GatewaySettings) -> GatewaySettings:
        return settings.model_copy(update={"rate_limit": "1/hour"})

    def test_schemas_by_id_and_reports_of_jobs_are_never_told_to_wait(self, client: Any) -> None:
        asked = [client.get(path).status_code for path in (*BY_ID, *BY_ID)]
        asked += [client.get(f"/contexts/.c{path}").status_code for path in BY_ID]
        asked += [client.post(path, b"{}").status_code for path in REPORTS for _ in range(2)]
        assert 429 not in asked
        assert [client.get("/subjects").status_code for _ in range(2)] == [200, 429]

    @pytest.mark.parametrize("path", ["/schemas/ids/1/versions", "/schemas/ids/1/subjects"])
    def test_lists_of_who_uses_a_schema_are_limited(self, client: Any, path: str) -> None:
        assert [client.get(path).status_code for _ in range(2)] == [404, 429]
