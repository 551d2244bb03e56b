"""The verbs that ask a registry, against one that listens on a socket and wants to know who asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run, listening
from tidegate.contracts.document.model import Consumer
from tidegate.gateway.access.keys import Credentials
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def settings(settings: GatewaySettings) -> GatewaySettings:
    return settings.model_copy(update={"access": "on", "key_cache_seconds": 0.0})


@pytest.fixture
def registry(factory: Factory) -> Iterator[str]:
    """The address of a registry."""
    with listening(factory) as address:
        yield address


@pytest.fixture
def key(factory: Factory) -> Callable[[str], Credentials]:
    return lambda grant: factory.keys().create("test", read_grants([grant]), "cli:test")


def test_without_a_key_the_message_says_how_to_present_one(
    tidegate: Run, contract: Path, registry: str
) -> None:
    for verb in ("publish", "check"):
        ran = tidegate(verb, contract, "--registry", registry)
        assert ran.returncode == 7
        assert b"TIDEGATE_REGISTRY_TOKEN" in ran.stderr


@pytest.mark.parametrize("presented", ["token", "user"])
def test_a_producer_publishes_and_a_viewer_checks(
    tidegate: Run,
    contract: Path,
    registry: str,
    key: Callable[[str], Credentials],
    monkeypatch: pytest.MonkeyPatch,
    presented: str,
) -> None:
    def present(made: Credentials) -> None:
        if presented == "token":
            monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", made.token)
        else:
            monkeypatch.setenv("TIDEGATE_REGISTRY_USER", made.key_id)
            monkeypatch.setenv("TIDEGATE_REGISTRY_PASSWORD", made.secret)

    present(key("viewer:hospital."))
    refused = tidegate("publish", contract, "--registry", registry)
    assert refused.returncode == 7
    assert b"needs the role producer" in refused.stderr.replace(b"\n", b" ")
    present(key("producer:hospital."))
    assert tidegate("publish", contract, "--registry", registry).returncode == 0
    present(key("viewer:hospital."))
    assert tidegate("check", contract, "--registry", registry).returncode == 0


def test_check_names_the_consumers_that_only_the_registry_knows(
    tidegate: Run,
    contract: Path,
    registry: str,
    factory: Factory,
    key: Callable[[str], Credentials],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", key("producer:hospital.").token)
    tidegate("publish", contract, "--registry", registry)
    for name, field in (("aged", "/age"), ("warded", "/ward")):
        factory.consumers().register("hospital.admissions", Consumer(id=name, reads=(field,)))
    text = contract.read_text().replace("1.2.0", "1.3.0")
    contract.write_text(text.replace("age: {type: integer}", "age: {type: integer, minimum: 0}"))

    checked = tidegate("check", contract, "--registry", registry, "--format", "json")
    assert checked.returncode == 1
    assert b'"affected": [\n        "aged"\n      ]' in checked.stdout
    assert b'"unaffected": [\n        "warded"\n      ]' in checked.stdout
    assert b"consumer.removed" not in checked.stdout
    published = tidegate("publish", contract, "--registry", registry)
    assert published.returncode == 1
    assert b"have aged acknowledge the candidate" in b" ".join(published.stderr.split())


def test_a_weaker_contract_is_published_when_another_person_approved_it(
    tidegate: Run,
    contract: Path,
    registry: str,
    key: Callable[[str], Credentials],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer, approver = key("producer:hospital."), key("approver:hospital.")
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", producer.token)
    assert tidegate("publish", contract, "--registry", registry).returncode == 0
    text = contract.read_text()
    weaker = text.replace("version: 1.2.0", "version: 2.0.0").replace("[999]", "[998]")
    assert weaker.count("998") == 1
    contract.write_text(weaker)
    refused = tidegate("publish", contract, "--registry", registry)
    assert refused.returncode == 1
    told = b" ".join(refused.stderr.split())
    assert b"would be less strict than what is enforced: the rule `age-is-known` lets records pass" in told
    assert b"with the role approver" in told
    listed = tidegate("approve", "hospital.admissions", "--registry", registry)
    assert listed.returncode == 0
    candidate = listed.stdout.split(b"candidate ")[1].split(b",")[0].decode()
    approve = ("approve", "hospital.admissions", candidate, "--registry", registry)
    assert tidegate(*approve).returncode == 7
    assert tidegate(*approve, "--reject").returncode == 7
    assert tidegate("approve", "hospital.admissions", "--reject").returncode == 2
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", approver.token)
    rejected = tidegate(*approve, "--reject")
    assert (rejected.returncode, rejected.stdout.endswith(b" is rejected\n")) == (0, True)
    assert tidegate(*approve).returncode == 2
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", producer.token)
    assert tidegate("publish", contract, "--registry", registry).returncode == 1
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", approver.token)
    assert b"approved by key:" in tidegate(*approve).stdout
    monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", producer.token)
    published = tidegate("publish", contract, "--registry", registry)
    assert published.returncode == 0
    assert b"hospital.admissions 2.0.0 published" in published.stdout
    nothing = tidegate("approve", "hospital.admissions", "--registry", registry)
    assert nothing.stdout == b"no change of hospital.admissions waits for an approver\n"
