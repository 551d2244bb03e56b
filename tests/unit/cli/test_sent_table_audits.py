"""`tidegate audit-table --registry`: the result is on the desk of a registry that wants to know who sends it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import write_deltalake

from tests.unit.cli.conftest import Ran, Run, listening
from tests.unit.cli.test_audit_table import CONTRACT, rows
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
ID = "hospital.stays"

Audit = Callable[..., Ran]


@pytest.fixture
def settings(settings: GatewaySettings) -> GatewaySettings:
    return settings.model_copy(update={"access": "on", "key_cache_seconds": 0.0})


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "stays.yaml"
    path.write_text(CONTRACT)
    return path


@pytest.fixture
def url(factory: Factory) -> Iterator[str]:
    factory.registry().publish(CONTRACT.encode(), "stays.yaml")
    with listening(factory) as address:
        yield address


@pytest.fixture
def audit(
    tidegate: Run, factory: Factory, url: str, contract: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Audit:
    """Audit a table of 20 rows, of which two are refused, with a state and the key of a role."""
    write_deltalake(tmp_path / "stays", rows(0, 20))

    def run(grant: str, *options: str) -> Ran:
        key = factory.keys().create("test", read_grants([grant]), "cli:test")
        monkeypatch.setenv("TIDEGATE_REGISTRY_TOKEN", key.token)
        state = tmp_path / "state.json"
        return tidegate(
            "audit-table", tmp_path / "stays", contract, "--state", state, "--registry", url, *options
        )

    return run


def test_an_audit_is_on_the_desk_without_a_value(audit: Audit, factory: Factory, url: str) -> None:
    ran = audit("reporter:hospital.")
    assert ran.returncode == 1, ran.stderr
    (summary,) = factory.table_audits().all(ID)
    assert f"on the desk: {url}/desk/contracts/{ID}/table-audits/{summary.id}" in ran.stdout.decode()
    assert summary.by.startswith("key:")
    kept = factory.database.read(lambda stores: stores.table_audits.find(ID, summary.id))
    assert kept is not None
    assert (kept.audit.rows, kept.audit.refused, kept.audit.version) == (20, 2, "0")
    assert [(each.code, each.severity, each.records) for each in kept.audit.violations] == [
        ("age-is-known", "error", 2)
    ]
    assert [(each.id, each.outcome) for each in kept.audit.expectations] == [
        ("plausible-age", "met"),
        ("many", "skipped"),
    ]
    assert (
        re.search("A1[0-9]?|999", kept.audit.model_dump_json(exclude={"id", "fingerprint", "table"})) is None
    )


def test_the_printed_document_is_what_was_sent(audit: Audit, factory: Factory) -> None:
    text = audit("producer:hospital.", "--format", "json").stdout.decode()
    # The registry runs in this process, and logs to the same output.
    printed = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert [printed.pop(name) is not None for name in ("format", "examples", "unreadable_examples")] == [
        True
    ] * 3
    kept = factory.database.read(lambda stores: stores.table_audits.find(ID, printed["id"]))
    assert kept is not None
    assert kept.audit.model_dump(mode="json") == printed


def test_what_could_not_be_sent_is_judged_again(audit: Audit, factory: Factory) -> None:
    refused = audit("viewer:hospital.")
    assert refused.returncode == 7
    assert b"needs the role reporter" in refused.stderr.replace(b"\n", b" ")
    assert b"age-is-known" in refused.stdout, "the result is not lost"
    assert factory.table_audits().all(ID) == ()
    assert audit("reporter:hospital.").returncode == 1
    assert audit("reporter:hospital.").returncode == 0
    assert [(each.rows, each.is_whole) for each in factory.table_audits().all(ID)] == [(0, False), (20, True)]


def test_a_contract_that_is_not_published_is_named_before_a_row_is_judged(
    audit: Audit, factory: Factory, contract: Path
) -> None:
    contract.write_text(CONTRACT.replace("[999]", "[998]"))
    other = audit("reporter:hospital.")
    assert (other.returncode, b"with other content" in other.stderr, b"rows" in other.stdout) == (
        2,
        True,
        False,
    )
    contract.write_text(CONTRACT.replace("1.0.0", "1.0.1"))
    unknown = audit("reporter:hospital.")
    assert (unknown.returncode, b"publish it, or leave out --registry" in unknown.stderr) == (2, True)
    hidden = audit("reporter:nyc.")
    assert (hidden.returncode, b"is not published at" in hidden.stderr) == (2, True)
    assert factory.table_audits().all(ID) == ()


def test_a_registry_that_does_not_answer_is_no_finding(
    tidegate: Run, contract: Path, tmp_path: Path, database_url: str
) -> None:
    assert database_url
    write_deltalake(tmp_path / "stays", rows(0, 20))
    ran = tidegate("audit-table", tmp_path / "stays", contract, "--registry", "http://127.0.0.1:9")
    assert (ran.returncode, b"no registry answers" in ran.stderr, ran.stdout) == (3, True, b"")
