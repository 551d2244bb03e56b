"""What `tidegate publish` says about enforcement, against a registry that listens on a socket."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.unit.cli.conftest import CONTRACT, Ran, Run
from tidegate.gateway.factory import Factory

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

STREAM = "hospital.admissions"


def lines(ran: Ran) -> list[str]:
    """What the command said: the registry, in this process too, logs before it."""
    assert ran.returncode == 0
    return [line for line in ran.stdout.decode().splitlines() if STREAM in line or "enforces" in line][-2:]


@pytest.mark.usefixtures("registry")
def test_it_says_whether_a_job_enforces_the_contract(tidegate: Run, contract: Path, factory: Factory) -> None:
    hint = (
        f"  no job enforces it (no heartbeat yet): run `tidegate enforce {STREAM}`; a job with --all, or with a "
        "--prefix or --domain that fits, starts its stream by itself"
    )
    assert lines(tidegate("publish", contract)) == [f"{STREAM} 1.2.0 unchanged", hint]
    factory.stream_controls().beat(STREAM)
    heard = factory.database.read(lambda stores: stores.controls.heartbeat(STREAM))
    assert heard is not None
    assert lines(tidegate("publish", contract)) == [
        f"{STREAM} 1.2.0 unchanged",
        f"  a job enforces it (last heartbeat {heard.at:%Y-%m-%d %H:%M:%S} UTC)",
    ]


@pytest.mark.usefixtures("registry")
def test_it_says_that_no_job_judges_by_a_draft_and_how_to_enforce_it(tidegate: Run, contract: Path) -> None:
    contract.write_text(contract.read_text().replace("version: 1.2.0", "version: 1.3.0\nstatus: draft"))
    published, hint = lines(tidegate("publish", contract))
    assert published.startswith(f"{STREAM} 1.3.0 published")
    assert hint == (
        f"  it is a draft: no job judges by it; `tidegate promote {STREAM} 1.3.0` shows what it would change, and with "
        "--yes enforces it"
    )


@pytest.mark.usefixtures("registry")
def test_rules_that_only_the_schema_carries_are_refused_with_their_places(
    tidegate: Run, contract: Path
) -> None:
    carried = '"confluent:rules": [{name: grown, expr: "this > 17"}, {name: odd}]'
    contract.write_text(CONTRACT.replace("age: {type: integer}", f"age: {{type: integer, {carried}}}"))
    ran = tidegate("publish", contract)
    assert ran.returncode == 1
    assert b"a rule for clients at /age (confluent.grown.age), which is judged only if" in ran.stderr
    assert b"one in the schema at /age is without an expression: it is not judged" in ran.stderr


def test_rules_of_the_subject_that_are_not_judged_are_counted_with_the_reason(
    tidegate: Run, registry: str, tmp_path: Path
) -> None:
    mask = {"name": "mask", "kind": "TRANSFORM", "mode": "WRITE", "type": "CEL_FIELD", "expr": "'x'"}
    path = {"name": "path", "kind": "CONDITION", "mode": "WRITE", "type": "JSONATA", "expr": "a > 0"}
    schema = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}})
    body = {"schemaType": "JSON", "schema": schema, "ruleSet": {"domainRules": [mask, path]}}
    httpx.post(f"{registry}/subjects/stays-value/versions", json=body).raise_for_status()
    kept = httpx.get(f"{registry}/api/v1/contracts/stays/versions/latest").raise_for_status()
    document = tmp_path / "stays.yaml"
    document.write_bytes(kept.content)
    ran = tidegate("publish", document)
    assert ran.returncode == 0
    shown = ran.stdout.decode().splitlines()
    first = shown.index("stays 1.0.0 unchanged · 2 rules of the subject not judged")
    assert shown[first + 1 : first + 3] == [
        "  note: the rule mask is a TRANSFORM of type CEL_FIELD, which clients run: it is kept for clients and not judged here",
        "  note: the rule path is a condition of type JSONATA: it is kept for clients and not judged here",
    ]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("pattern", ["^[/a-z]+$", "[a-z]+"])
def test_a_conflict_is_shown_in_the_words_of_the_registry(
    tidegate: Run, tmp_path: Path, pattern: str
) -> None:
    ward = f'ward: {{type: string, pattern: "{pattern}"}}'
    document = tmp_path / "[red]stays.yaml"
    document.write_text(CONTRACT.replace("1.2.0", "1.3.0").replace("ward: {type: string}", ward))
    ran = tidegate("publish", document)
    assert ran.returncode == 1, ran.stderr
    shown = ran.stderr.decode()
    assert f"{document}: " in shown
    assert pattern in shown
