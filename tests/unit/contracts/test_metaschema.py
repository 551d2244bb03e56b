"""The published meta-schema and the model accept the same documents."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from jsonschema import Draft202012Validator

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.metaschema import metaschema
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.errors import ContractError

PUBLISHED = json.loads((files("tidegate.schemas") / "meta" / "tidegate-v1.schema.json").read_text())
EXAMPLES = sorted(Path("schemas/examples").glob("*/contract.yaml"))

SOUND: dict[str, Any] = {
    "apiVersion": "tidegate/v1",
    "kind": "DataContract",
    "id": "hospital.admissions",
    "version": "1.2.0",
    "status": "active",
    "description": None,
    "topic": "hospital.admissions",
    "domain": "hospital",
    "team": {"name": "Patient flow", "contact": "patient-flow@example.org"},
    "schema": {"type": "json-schema", "definition": {"type": "object"}, "formats": "assert"},
    "framing": "auto",
    "tombstones": "pass",
    "columns": [
        {"name": "length_of_stay", "from": "/length_of_stay", "type": "int"},
        {"name": "charge", "from": "/a~1b/0", "type": "decimal(12,2)"},
    ],
    "rules": [
        {"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999, None, "x", True, 0.5]},
        {"id": "not-the-epoch", "kind": "range", "field": "/discharged", "after": "1900-01-01"},
        {"id": "adult", "kind": "range", "field": "/age", "minimum": 18, "exclusive_maximum": 150.5},
        {"id": "order", "kind": "ordered", "fields": ["/a", "/b"], "strict": True, "nulls": "violate"},
        {"id": "code", "kind": "matches", "field": "/code", "pattern": "^[A-Z]+$", "description": "Why."},
        {"id": "ward", "kind": "one_of", "field": "/ward", "values": ["icu"], "on_violation": "alert"},
        {"id": "w1", "kind": "required_when", "field": "/x", "when": {"field": "/y", "equals": None}},
        {"id": "w2", "kind": "required_when", "field": "/x", "when": {"field": "/y", "one_of": [1, 2]}},
        {"id": "w3", "kind": "required_when", "field": "/x", "when": {"field": "/y", "present": True}},
        {"id": "icu", "kind": "cel", "expr": "true", "severity": "warning"},
    ],
    "expectations": [{"id": "mean", "type": "expect_column_mean_to_be_between", "kwargs": {"column": "charge"}}],
    "on_violation": "quarantine",
    "error_budget": {"ratio": 0.2, "min_records": 500, "action": "pause"},
    "retention": {"quarantine_days": None, "accepted_days": 30},
    "primary_key": ["charge"],
    "classification": {"/patient_id": "pii"},
    "consumers": [{"id": "los-report", "team": "National statistics", "reads": ["/a"]}],
    "compatibility": "FULL_TRANSITIVE",
}  # fmt: skip

BROKEN: list[tuple[str, Any]] = [
    ("/apiVersion", "tidegate/v2"), ("/kind", "Contract"), ("/id", "a b"), ("/id", "-a"), ("/version", "1.2"),
    ("/version", 1.2), ("/version", "1.2.0\n"), ("/status", "gone"), ("/description", 3), ("/topic", ""),
    ("/topic", "a/b"), ("/domain", []), ("/team", "Flow"), ("/team", {}), ("/team/lead", "x"),
    ("/schema", {"type": "json-schema"}), ("/schema", {"definition": {}}), ("/schema/type", "protobuf"),
    ("/schema/definition", None), ("/schema/definition", 3), ("/schema/file", "a.json"), ("/schema/formats", "maybe"),
    ("/framing", "confluent"), ("/tombstones", None), ("/columns", {}), ("/columns/0/name", "1a"),
    ("/columns/0/from", "age"), ("/columns/0/type", None), ("/columns/0/nullable", True), ("/rules", None),
    ("/rules/0", "forbidden"), ("/rules/0/kind", "forbid"), ("/rules/0/id", "Age"), ("/rules/0/values", []),
    ("/rules/0/values", [[]]), ("/rules/0/severity", "fatal"), ("/rules/0/on_violation", "ignore"),
    ("/rules/0/minimum", 0), ("/rules/1/after", 1900), ("/rules/2/minimum", "18"), ("/rules/3/fields", ["/a"]),
    ("/rules/3/strict", "yes"), ("/rules/3/nulls", "refuse"), ("/rules/4/pattern", None), ("/rules/5/values", 3),
    ("/rules/6/when", {"field": "/y"}), ("/rules/6/when", {"field": "/y", "equals": 1, "present": True}),
    ("/rules/7/when/one_of", []), ("/rules/8/when/present", False), ("/rules/8/when/field", ""),
    ("/rules/9/expr", True), ("/expectations/0/kwargs", []), ("/expectations/0/severity", "x"),
    ("/retention/quarantine_days", 0), ("/retention/accepted_days", 36_501), ("/retention/days", 1),
    ("/on_violation", "reject"), ("/error_budget/ratio", 1.5), ("/error_budget/ratio", -0.1),
    ("/error_budget/min_records", 0), ("/error_budget/action", "stop"), ("/error_budget/min_records", "5"),
    ("/primary_key", "charge"), ("/classification", {"patient_id": "pii"}), ("/classification", {"/a": 3}),
    ("/consumers/0/id", ""), ("/consumers/0/reads", ["a"]), ("/compatibility", "backward"), ("/$schema", 3),
    ("/topics", "x"),
]  # fmt: skip


def _edited(pointer: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(SOUND)
    *parents, last = pointer.split("/")[1:]
    part: Any = document
    for token in parents:
        part = part[int(token) if isinstance(part, list) else token]
    part[int(last) if isinstance(part, list) else last] = value
    return document


def _is_contract(document: Any) -> bool:
    try:
        parse_contract(json.dumps(document), name="c.json", read_schema=lambda _: b"{}")
    except ContractError:
        return False
    return True


def test_the_published_meta_schema_is_the_generated_one() -> None:
    assert metaschema() == PUBLISHED


def test_the_meta_schema_is_a_schema_of_draft_2020_12() -> None:
    Draft202012Validator.check_schema(PUBLISHED)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_conform(path: Path) -> None:
    jsonschema_rs.validate(PUBLISHED, read_yaml(str(path), path.read_text()).value)


def test_both_accept_a_document_with_everything() -> None:
    assert jsonschema_rs.is_valid(PUBLISHED, SOUND)
    assert _is_contract(SOUND)


@pytest.mark.parametrize(("pointer", "value"), BROKEN, ids=lambda part: str(part)[:40])
def test_both_refuse_a_broken_document(pointer: str, value: Any) -> None:
    document = _edited(pointer, value)
    assert not jsonschema_rs.is_valid(PUBLISHED, document)
    assert not _is_contract(document)


@pytest.mark.parametrize("key", SOUND)
def test_both_agree_on_what_may_be_left_out(key: str) -> None:
    document = {name: part for name, part in SOUND.items() if name != key}
    assert jsonschema_rs.is_valid(PUBLISHED, document) == _is_contract(document)


def test_every_field_tells_an_editor_what_it_means() -> None:
    assert [place for place, part in _properties(PUBLISHED) if not part.get("description")] == []


def _properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, part in {"": schema, **schema["$defs"]}.items():
        for key, value in part.get("properties", {}).items():
            yield f"{name}/{key}", value
