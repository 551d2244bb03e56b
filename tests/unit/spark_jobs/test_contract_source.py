"""The registry as a stream sees it: unchanged, changed, away, without the contract. The transport is a fake."""

from __future__ import annotations

import json
import time
from threading import Event

import httpx
import pytest
from structlog.testing import capture_logs

from tidegate.contracts.errors import NotFoundError, SettingsError, StreamStopped, Unavailable
from tidegate.contracts.privacy.tokens import MaskKey
from tidegate.spark_jobs.contract_source import RegistryContract, RegistryGone, registry_auth
from tidegate.spark_jobs.settings import JobSettings

DOCUMENT = {
    "apiVersion": "tidegate/v1",
    "kind": "DataContract",
    "id": "s",
    "version": "1.0.0",
    "topic": "t",
    "schema": {
        "type": "json-schema",
        "definition": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}


class FakeRegistry(httpx.MockTransport):
    """Answers what a test puts into it, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.version = "1.0.0"
        self.status = httpx.codes.OK
        self.problem: dict[str, str] = {}
        self.body: bytes | None = None
        self.of_2 = httpx.codes.NOT_FOUND
        self.asked: list[tuple[str, str | None]] = []

    def _answer(self, request: httpx.Request) -> httpx.Response:
        known = request.headers.get("If-None-Match")
        self.asked.append((request.url.path, known))
        if request.url.path.endswith("/versions/2.0.0"):
            return httpx.Response(self.of_2, json={"type": "urn:tidegate:problem:not-found"})
        if self.status != httpx.codes.OK:
            return httpx.Response(self.status, json=self.problem)
        if self.body is not None:
            return httpx.Response(httpx.codes.OK, content=self.body)
        etag = f'"{self.version}"'
        if known == etag:
            return httpx.Response(httpx.codes.NOT_MODIFIED)
        return httpx.Response(
            httpx.codes.OK, content=json.dumps({**DOCUMENT, "version": self.version}), headers={"ETag": etag}
        )


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


def contract_from(
    registry: FakeRegistry, grace_seconds: float | None, stopping: Event | None = None
) -> RegistryContract:
    client = httpx.Client(transport=registry, base_url="http://registry")
    return RegistryContract(client, "s", grace_seconds, stopping or Event())


def test_an_unchanged_contract_is_compiled_once(registry: FakeRegistry) -> None:
    source = contract_from(registry, 60)
    first = source.current()
    assert source.current() is first
    path = "/api/v1/contracts/s/versions/latest"
    assert registry.asked == [(path, None), (path, '"1.0.0"')]


def test_a_registry_that_lost_the_version_of_the_ledger_stops_the_stream(registry: FakeRegistry) -> None:
    source = contract_from(registry, 60)
    source.current()
    with pytest.raises(
        StreamStopped, match=r"has no s@2.0.0, by which the last batch .* publish 2.0.0 again"
    ):
        source.require_published("s@2.0.0")
    registry.version = "2.0.0"
    source.current()
    source.require_published("s@2.0.0")


@pytest.mark.parametrize("judged_by", [None, "s@0.9.0", "s@1.0.0", "", "s@", "s@later"])
def test_a_version_that_is_not_ahead_of_the_enforced_one_is_not_asked_for(
    registry: FakeRegistry, judged_by: str | None
) -> None:
    source = contract_from(registry, 60)
    source.current()
    source.require_published(judged_by)
    assert len(registry.asked) == 1


@pytest.mark.parametrize("status", [httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE])
def test_a_version_that_was_retired_or_is_not_answered_for_stops_nothing(
    registry: FakeRegistry, status: httpx.codes
) -> None:
    source = contract_from(registry, 60)
    source.current()
    registry.of_2 = status
    source.require_published("s@2.0.0")


def test_a_new_version_is_taken_up(registry: FakeRegistry) -> None:
    source = contract_from(registry, 60)
    source.current()
    registry.version = "1.1.0"
    assert source.current().contract.version == "1.1.0"


def test_the_last_good_contract_serves_while_the_registry_does_not_answer(registry: FakeRegistry) -> None:
    source = contract_from(registry, 60)
    first = source.current()
    registry.status = httpx.codes.SERVICE_UNAVAILABLE
    assert source.current() is first


def test_it_serves_without_end_unless_the_settings_bound_it(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage of hours, warned about every five minutes."""
    source = contract_from(registry, None)
    first = source.current()
    registry.status = httpx.codes.SERVICE_UNAVAILABLE
    clock = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    with capture_logs() as logs:
        for _ in range(60):
            clock += 200
            assert source.current() is first
    assert source.is_away
    assert [event["event"] for event in logs] == ["registry_away"] * 30
    assert logs[-1]["seconds"] > 3 * 3600 - 400
    registry.status = httpx.codes.OK
    assert source.current() is first
    assert not source.is_away


def test_it_serves_for_no_longer_than_it_may(registry: FakeRegistry) -> None:
    source = contract_from(registry, 0)
    source.current()
    registry.status = httpx.codes.INTERNAL_SERVER_ERROR
    with pytest.raises(RegistryGone, match="has not answered for 0 s"):
        source.current()


def test_a_stream_without_a_contract_waits_as_long(registry: FakeRegistry) -> None:
    registry.status = httpx.codes.BAD_GATEWAY
    with pytest.raises(RegistryGone):
        contract_from(registry, 0.1).current()
    assert len(registry.asked) > 1


def test_a_stop_ends_the_wait(registry: FakeRegistry) -> None:
    registry.status = httpx.codes.BAD_GATEWAY
    stopping = Event()
    stopping.set()
    with pytest.raises(Unavailable, match="stopped while waiting"):
        contract_from(registry, 60, stopping).current()


def test_a_contract_that_is_not_there_is_no_outage(registry: FakeRegistry) -> None:
    source = contract_from(registry, 60)
    source.current()
    registry.status = httpx.codes.NOT_FOUND
    registry.problem = {"type": "urn:tidegate:problem:not-found"}
    with pytest.raises(NotFoundError, match="no active version of contract s; publish one"):
        source.current()


def test_a_proxy_that_answers_404_for_a_registry_that_does_not_answer_is_an_outage(
    registry: FakeRegistry,
) -> None:
    """Of a stream that has a contract; at the start a wrong address is named at once."""
    registry.status = httpx.codes.NOT_FOUND
    with pytest.raises(NotFoundError, match="no active version of contract s; publish one"):
        contract_from(registry, 60).current()
    registry.status = httpx.codes.OK
    source = contract_from(registry, 60)
    first = source.current()
    registry.status = httpx.codes.NOT_FOUND
    assert source.current() is first
    assert source.is_away


@pytest.mark.parametrize("body", [b"<html>maintenance</html>", b"", b'{"status": "ok"}', b"[]"])
def test_an_answer_that_is_no_contract_is_an_outage(registry: FakeRegistry, body: bytes) -> None:
    """A proxy may answer 200 with a page of its own."""
    source = contract_from(registry, 60)
    first = source.current()
    registry.body = body
    assert source.current() is first
    assert source.is_away
    registry.body = None
    assert source.current() is first
    assert not source.is_away


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_taken_is_a_wrong_setting_at_the_start_and_an_outage_later(
    registry: FakeRegistry, status: int
) -> None:
    registry.status = httpx.codes(status)
    with pytest.raises(SettingsError, match=f"answers {status} to this job: set TIDEGATE_REGISTRY_TOKEN"):
        contract_from(registry, 60).current()
    registry.status = httpx.codes.OK
    source = contract_from(registry, 60)
    first = source.current()
    registry.status = httpx.codes(status)
    assert source.current() is first


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({}, None),
        ({"registry_user": "id", "registry_password": "secret"}, "Basic aWQ6c2VjcmV0"),
        ({"registry_token": "tgk_x"}, "Bearer tgk_x"),
    ],
)
def test_the_job_presents_its_key(given: dict[str, str], header: str | None) -> None:
    auth = registry_auth(job_settings(**given))
    request = httpx.Request("GET", "http://registry")
    sent = auth(request) if auth else request
    assert sent.headers.get("Authorization") == header


@pytest.mark.parametrize(
    "given",
    [
        {"registry_user": "id"},
        {"registry_password": "s"},
        {"registry_user": "i", "registry_password": "s", "registry_token": "t"},
    ],
)
def test_half_a_key_is_a_wrong_setting(given: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="takes a user and a password, or a token"):
        registry_auth(job_settings(**given))


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", "")
    assert registry_auth(job_settings()) is None


def job_settings(**given: str) -> JobSettings:
    needed = {
        "bootstrap_servers": "b:1",
        "registry_url": "http://registry",
        "warehouse": "w",
        "checkpoints": "c",
    }
    return JobSettings.model_validate({**needed, **given})


def test_a_contract_of_a_later_release_stops_the_stream_until_a_version_fits(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry of a later release accepts keys that this job cannot obey."""
    source = contract_from(registry, 60)
    source.current()
    registry.version = "2.0.0"
    with monkeypatch.context() as later:
        later.setitem(DOCUMENT, "drain", "true")
        with pytest.raises(
            StreamStopped,
            match=r"the contract of the registry cannot be read by this version: registry:s:\d+:\d+: unknown key `drain`; .*\. "
            r"Upgrade the job, or .*: tidegate publish FILE",
        ):
            source.current()
    registry.version = "2.0.1"
    assert source.current().contract.version == "2.0.1"


def test_a_contract_that_hashes_wants_its_key(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DOCUMENT, "mask", {"/a": "hash"})
    with pytest.raises(SettingsError, match="hashes /a, and there is no key for it: set TIDEGATE_MASK_KEY"):
        contract_from(registry, 60).current()
    key = MaskKey.of("0123456789abcdef0123456789abcdef")
    client = httpx.Client(transport=registry, base_url="http://registry")
    assert RegistryContract(client, "s", 60, Event(), key).current().masks.key == key
