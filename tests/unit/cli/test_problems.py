"""`tidegate problems`, against a registry that listens on a socket; the records' verbs need a broker and stand elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.unit.cli.conftest import Run, listening
from tests.unit.gateway.quarantine_records import BROKEN, NOW, Process, refused
from tidegate.gateway.factory import Factory

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def registry(factory: Factory, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[str]:
    """A registry with an index of four refused records."""
    factory.database.write(lambda stores: stores.contracts.add_contract("adm", "adm", NOW))
    records = [refused(0), refused(1), refused(2), refused(3, (BROKEN,), value=b'{"age": 1,}')]
    Process(factory, "one").ingest(records)
    with listening(factory) as url:
        capfdbinary.readouterr()  # the log of its start
        yield url


def test_problems_are_listed_with_most_records_first(tidegate: Run, registry: str) -> None:
    ran = tidegate("problems", "adm", "--registry", registry)
    assert ran.returncode == 0
    first, second = ran.stdout.decode().splitlines()
    assert first.split()[:2] == ["3", "75.0%"]
    assert first.endswith("age-is-known at /age: 999")
    assert second.split()[:2] == ["1", "25.0%"]
    shown = [
        json.loads(line)
        for line in tidegate("problems", "adm", "--registry", registry, "--format=json").stdout.splitlines()
    ]
    assert [each["records"] for each in shown] == [3, 1]
    assert shown[0]["id"] in first


def test_problems_are_chosen_by_state_text_and_number(tidegate: Run, registry: str) -> None:
    assert (
        tidegate("problems", "adm", "--state", "muted", "--registry", registry).stdout
        == b"adm has no such problems\n"
    )
    found = tidegate("problems", "adm", "--search", "json", "--state", "open", "--registry", registry).stdout
    assert len(found.splitlines()) == 1
    limited = tidegate("problems", "adm", "--limit", "1", "--registry", registry)
    assert (len(limited.stdout.splitlines()), limited.stderr) == (
        1,
        b"and 1 more; --limit N shows more of them\n",
    )


def test_the_index_is_forgotten_and_nobody_waits(tidegate: Run, registry: str, factory: Factory) -> None:
    """Waiting for the end needs a topic: tests/integration/test_quarantine_index.py."""
    ran = tidegate("quarantine", "rebuild", "adm", "--no-wait", "--registry", registry)
    assert ran.returncode == 0
    assert ran.stdout.endswith(
        b"adm.quarantine: the registry reads it again\n"
    )  # the log of the registry before it
    assert factory.quarantine_index().status("adm").records == 0
    assert tidegate("quarantine", "rebuild", "no.such", "--registry", registry).returncode == 2


def test_an_unknown_stream_a_wrong_state_and_a_wrong_position(tidegate: Run, registry: str) -> None:
    assert tidegate("problems", "no.such", "--registry", registry).returncode == 2
    assert tidegate("problems", "adm", "--state", "closed", "--registry", registry).returncode == 2
    assert tidegate("quarantine", "show", "adm", "4711", "--registry", registry).returncode == 2
    assert (
        tidegate("quarantine", "list", "adm", "--since", "yesterday", "--registry", registry).returncode == 2
    )
    away = tidegate("quarantine", "list", "adm", "--registry", registry)
    assert away.returncode == 2
    known = "the registry knows no Kafka broker: start it with TIDEGATE_BOOTSTRAP_SERVERS set"
    assert away.stderr.decode().endswith(f"error: {registry}: {known}\n")
