"""Proofs may take seconds: other writers do not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tidegate.contracts.document.model import Consumer, Status
from tidegate.gateway.access.principal import ANONYMOUS
from tidegate.gateway.factory import Factory
from tidegate.gateway.registry import approvals, changes, consumers, proofs, subject_contracts
from tidegate.gateway.registry.proofs import proven, write
from tidegate.gateway.storage.sql import Stores

MakeContract = Callable[..., bytes]
CONTRACT, SUBJECT = "hospital.admissions", "hospital.admissions-value"
_WATCHED = ((changes, "compare_for"), (approvals, "weakenings"), (subject_contracts, "compile_plan"))


def _read_in_turn(stores: Stores) -> None:
    stores.contracts.topics()  # a transaction takes its turn with its first statement


@pytest.fixture(autouse=True)
def _no_proof_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "_kept", type(proofs._kept)())


@pytest.fixture
def made(factory: Factory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the proofs that were made; during each of them another writer has its turn."""
    found: list[str] = []

    def watch(module: Any, name: str) -> None:
        prove = getattr(module, name)

        def proving(*arguments: Any, **named: Any) -> Any:
            found.append(name)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(factory.database.write, _read_in_turn).result(timeout=5)
            return prove(*arguments, **named)

        monkeypatch.setattr(module, name, proving)

    for module, name in (*_WATCHED, (consumers, "Judge")):
        watch(module, name)
    return found


def test_no_writer_waits_for_a_proof(factory: Factory, make_contract: MakeContract, made: list[str]) -> None:
    lifecycle = factory.lifecycle()

    def proofs_of(action: Callable[[], Any]) -> set[str]:
        made.clear()
        proofs._kept.clear()
        action()
        return set(made)

    def publish(version: str, status: str = "active") -> Any:
        document = make_contract(version=version, status=status, domain=f"hospital-{version[2]}")
        return factory.registry().publish(document, "contract.json")

    everything = {"compare_for", "weakenings"}
    assert proofs_of(lambda: publish("1.0.0")) == set()
    assert proofs_of(lambda: publish("1.1.0", "draft")) == {"weakenings"}
    consumer = Consumer(id="ward-report", reads=("/age",))
    assert proofs_of(lambda: factory.consumers().register(CONTRACT, consumer)) == {"Judge"}
    assert proofs_of(lambda: factory.shadows().declare(CONTRACT, "1.1.0")) == {"compile_plan"}
    promoted = proofs_of(lambda: lifecycle.change_status(CONTRACT, "1.1.0", Status.ACTIVE))
    assert promoted == {*everything, "compile_plan"}
    assert proofs_of(lambda: lifecycle.delete(CONTRACT, "1.1.0")) == {"weakenings"}
    assert proofs_of(lambda: lifecycle.undelete(CONTRACT, "1.1.0")) == {"weakenings"}
    lifecycle.change_status(CONTRACT, "1.1.0", Status.DEPRECATED)
    assert proofs_of(lambda: lifecycle.change_status(CONTRACT, "1.1.0", Status.RETIRED)) == {"weakenings"}
    assert proofs_of(lambda: publish("1.2.0")) == everything
    deletion = factory.deletion()
    deleted = proofs_of(lambda: deletion.delete_version(SUBJECT, -1, permanent=False, by=ANONYMOUS))
    assert deleted == {"weakenings"}


def test_a_missing_proof_is_made_between_two_attempts(factory: Factory) -> None:
    attempts, computed = [], []

    def double(number: int) -> int:
        computed.append(number)
        return 2 * number

    def work(_stores: Stores) -> list[int]:
        attempts.append(None)
        return [proven(double, number) for number in range(3)]

    assert write(factory.database, work) == [0, 2, 4]
    assert (len(attempts), computed) == (4, [0, 1, 2])
    assert write(factory.database, work) == [0, 2, 4]
    assert (len(attempts), computed) == (5, [0, 1, 2])


def test_a_proof_that_others_displace_stays_until_the_write_ends(
    factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "_KEPT", 1)
    computed: list[int] = []

    def noted(number: int) -> int:
        computed.append(number)
        return number

    assert write(factory.database, lambda _: [proven(noted, number) for number in range(5)]) == [*range(5)]
    assert computed == [*range(5)]


def test_a_write_that_needs_ever_more_proofs_ends(factory: Factory) -> None:
    attempts: list[int] = []

    def work(_stores: Stores) -> int:
        attempts.append(len(attempts))
        return proven(abs, attempts[-1] - 1_000)

    assert write(factory.database, work) == 1_000 - 100
    assert len(attempts) == 101


def test_an_error_of_a_proof_is_that_of_the_write(factory: Factory) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        write(factory.database, lambda _: proven(int, "x"))
    assert write(factory.database, lambda _: proven(int, "7")) == 7
