"""`tidegate import` of subjects that an unmodified Confluent client registered, from a registry in its own process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)

from tests.integration.registry_process import TIDEGATE, Server
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.lint.lint import lint

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "card", "type": "string", "confluent:tags": ["PII"]},
        {"name": "total", "type": "int"},
        {"name": "buyer", "type": "shop.Person"},
    ],
}
PERSON = {"type": "record", "name": "shop.Person", "fields": [{"name": "name", "type": "string"}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(f"sqlite:///{tmp_path_factory.mktemp('registry')}/registry.db") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": server.url}) as made:
        yield made


def import_(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TIDEGATE, "import", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def rule(name: str, expr: str, *, kind: RuleKind = RuleKind.CONDITION, type_: str = "CEL") -> Rule:
    return Rule(name, f"About {name}.", kind, RuleMode.WRITE, type_, None, None, expr, None, None, False)


def test_a_subject_with_rules_tags_and_references(
    server: Server, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    client.register_schema("person", Schema(json.dumps(PERSON), "AVRO"))
    metadata = Metadata(
        tags=MetadataTags({"shop.Order.id": ["INTERNAL"]}),
        properties=MetadataProperties({"owner": "Sales", "secret": "x"}),
        sensitive=["secret"],
    )
    rules = [
        rule("masked", "'x'", kind=RuleKind.TRANSFORM, type_="CEL_FIELD"),
        rule("total-is-known", "message.total != 999"),
    ]
    order = Schema(
        json.dumps(ORDER),
        "AVRO",
        [SchemaReference("shop.Person", "person", 1)],
        metadata,
        RuleSet([], rules),
    )
    client.register_schema("shop.orders-value", order)
    client.set_compatibility("shop.orders-value", "FULL")
    out = tmp_path / "contract.yaml"
    ran = import_(server.url, "--subject", "shop.orders-value", "--out", out)
    assert ran.returncode == 0, ran.stderr
    contract = lint(out).contract
    assert (contract.id, contract.topic, contract.framing) == (
        "shop.orders",
        "shop.orders",
        "confluent-prefix",
    )
    assert contract.compatibility == "FULL"
    first = contract.rules[0]
    assert isinstance(first, Cel)
    assert (first.id, first.description) == ("total-is-known", "About total-is-known.")
    assert contract.classification == {"/id": "INTERNAL", "/card": "PII"}
    orders = [{"id": "1", "card": "1234", "total": total, "buyer": {"name": "A"}} for total in (5, 999)]
    data = "\n".join(map(json.dumps, orders)).encode()
    judged = subprocess.run(
        [*TIDEGATE, "judge", out, "--format", "json"], input=data, capture_output=True, check=False
    )
    found = [json.loads(line) for line in judged.stdout.splitlines()]
    assert [[each["code"] for each in one["violations"]] for one in found] == [[], ["total-is-known"]]
    lines = ran.stderr.splitlines()
    for part in (
        "not judged /ruleSet/domainRules/0: the rule `masked` is a TRANSFORM of type CEL_FIELD",
        "not judged /metadata/properties/owner: a property is not part of a contract",
        "not judged /metadata/sensitive/0: that the property `secret` is sensitive is not part of a contract",
    ):
        assert any(line.startswith(part) for line in lines), ran.stderr
    assert "# Not judged: /metadata/properties/owner" in out.read_text()


def test_a_subject_of_a_contract_has_the_rules_of_the_contract(server: Server, tmp_path: Path) -> None:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "stays",
        "version": "1.0.0",
        "topic": "stays",
        "schema": {
            "type": "json-schema",
            "definition": {"type": "object", "properties": {"age": {"type": "integer"}}},
        },
        "rules": [{"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999]}],
    }
    server.publish(json.dumps(document)).raise_for_status()
    out = tmp_path / "contract.yaml"
    ran = import_(server.url, "--subject", "stays-value", "--id", "stays.again", "--out", out)
    assert ran.returncode == 0, ran.stderr
    contract = lint(out).contract
    assert ([each.id for each in contract.rules], contract.id) == (["age-is-known"], "stays.again")
    assert contract.framing == "auto"
    assert "not judged" not in ran.stderr


@pytest.mark.full
def test_what_is_not_there_is_told_apart(server: Server, tmp_path: Path) -> None:
    missing = import_(server.url, "--subject", "none-value")
    assert (missing.returncode, "has no version latest of the subject none-value" in missing.stderr) == (
        2,
        True,
    )
    silent = import_("http://127.0.0.1:1", "--subject", "none-value")
    assert (silent.returncode, "no registry answers" in silent.stderr) == (3, True)
    unnamed = import_(server.url)
    assert (unnamed.returncode, "name the subject" in unnamed.stderr) == (2, True)
    path = tmp_path / "a.json"
    path.write_text("{}")
    both = import_(path, "--subject", "a")
    assert (both.returncode, "is not the address of one" in both.stderr) == (2, True)
