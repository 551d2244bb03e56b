"""`Registry` of the public package against a registry that listens on a socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tests.unit.cli.conftest import CONTRACT, listening
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
NAME = "hospital.admissions"


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Present no credentials of the user who runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("TOKEN", "USER", "PASSWORD"):
        monkeypatch.delenv(f"TIDEGATE_REGISTRY_{name}", raising=False)


@pytest.fixture
def settings(settings: GatewaySettings, request: pytest.FixtureRequest) -> GatewaySettings:
    changed = {"access": "on", "key_cache_seconds": 0.0} if "who_asks" in request.fixturenames else {}
    return settings.model_copy(update=changed)


@pytest.fixture
def who_asks() -> None:
    """Let the registry of a test ask for credentials."""


@pytest.fixture
def address(factory: Factory) -> Iterator[str]:
    factory.registry().publish(CONTRACT.encode(), "contract.yaml")
    later = CONTRACT.replace("version: 1.2.0", "version: 1.3.0\nstatus: draft")
    factory.registry().publish(later.encode(), "contract.yaml")
    with listening(factory) as url:
        yield url


@ON_SQLITE
def test_a_version_and_the_highest_enforced_one_are_found(address: str) -> None:
    with tidegate.Registry(address) as registry:
        assert registry.contract(NAME).version == "1.2.0"
        assert registry.contract(NAME, "1.3.0").version == "1.3.0"
        contract = registry.contract(NAME, version="1.2.0")
    assert contract.fingerprint == tidegate.Contract.parse(CONTRACT).fingerprint
    assert [each.code for each in contract.judge({"age": 999}).violations] == ["age-is-known"]


@ON_SQLITE
@pytest.mark.parametrize(("name", "version"), [(NAME, "9.9.9"), ("hospital.stays", "latest")])
def test_what_is_not_there_is_not_found(address: str, name: str, version: str) -> None:
    with tidegate.Registry(address) as registry, pytest.raises(tidegate.NotFoundError, match=name):
        registry.contract(name, version)


def test_no_answer_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with (
        tidegate.Registry(f"http://127.0.0.1:{port}") as registry,
        pytest.raises(tidegate.Unavailable, match=str(port)),
    ):
        registry.contract(NAME)


@ON_SQLITE
@pytest.mark.usefixtures("who_asks")
def test_credentials_are_those_of_the_environment_and_wrong_ones_are_rejected(
    factory: Factory, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        tidegate.Registry(address) as registry,
        pytest.raises(tidegate.SettingsError, match="TIDEGATE_REGISTRY_TOKEN"),
    ):
        registry.contract(NAME)
    good = factory.keys().create("test", read_grants(["viewer:hospital."]), "cli:test").token
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", good)
    with tidegate.Registry(address) as registry:
        assert registry.contract(NAME).version == "1.2.0"
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", f"{good[:-4]}0000")
    with tidegate.Registry(address) as registry, pytest.raises(tidegate.SettingsError, match="reject"):
        registry.contract(NAME)
