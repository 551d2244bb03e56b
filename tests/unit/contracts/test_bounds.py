"""Whatever a job or an audit posts is bounded: each text, list, mapping and number of each model, however deep it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tidegate.contracts.stream.control import Heartbeat, StreamEvent, Trip
from tidegate.contracts.stream.reconciliation import ReconciliationResult
from tidegate.contracts.stream.replay import ReplayReport
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.stream.table_audit import TableAudit
from tidegate.gateway.access.principal import Role
from tidegate.gateway.access.rules import NATIVE
from tidegate.gateway.http.models.examples import REPORT

POSTED: dict[str, type[BaseModel] | None] = {
    "batches": BatchReport,
    "trips": Trip,
    "events": StreamEvent,
    "heartbeat": Heartbeat,
    "result": ReconciliationResult,
    "progress": ReplayReport,
    "table-audits": TableAudit,
}
"""What each operation of a reporter takes, by the last part of its path."""
OF_ONE_SIZE = {"uuid", "date-time"}
VECTORS = {"begin", "start", "end", "closures/*", "again/*"}
"""Mappings by partition: their keys are numbers below 2^63, which no JSON Schema can say of a name."""


def test_each_operation_of_a_reporter_is_known_here() -> None:
    found = {
        path.rpartition("/")[2]
        for (method, path), rule in NATIVE.items()
        if method == "POST" and rule.role is Role.REPORTER
    }
    assert found == POSTED.keys()


def has_bound(schema: dict[str, Any]) -> bool:
    """Return whether a JSON Schema bounds the value itself, whatever stands in it."""
    match schema.get("type"):
        case "string":
            is_short = "pattern" in schema and not re.search(r"[*+]|,}", schema["pattern"])
            return "maxLength" in schema or schema.get("format") in OF_ONE_SIZE or is_short
        case "integer":
            return "minimum" in schema and bool(schema.keys() & {"maximum", "exclusiveMaximum"})
        case "array":
            return "maxItems" in schema
        case "object":
            # A model that ignores unknown fields (`versions.MESSAGE`) has properties and no additionalProperties.
            is_open = schema.get("additionalProperties", "properties" not in schema)
            return "maxProperties" in schema or is_open is False
        case kind:
            return kind in {"number", "boolean", "null"}


def unbounded(schema: dict[str, Any], place: str) -> Iterator[str]:
    """Yield the place of each part of a JSON Schema that lets a value grow without end."""
    if schema.keys() & {"enum", "const", "$ref"}:
        return
    if "anyOf" in schema:
        for way in schema["anyOf"]:
            yield from unbounded(way, place)
        return
    if not has_bound(schema):
        yield place
    for name, each in schema.get("properties", {}).items():
        yield from unbounded(each, f"{place}/{name}")
    values = schema.get("additionalProperties") or schema.get("items")
    if values:
        yield from unbounded(values, f"{place}/*")
    if schema.get("additionalProperties") and not place.endswith(tuple(f"/{name}" for name in VECTORS)):
        yield from unbounded({"type": "string"} | schema.get("propertyNames", {}), f"{place} names")


@pytest.mark.parametrize("name", [name for name, model in POSTED.items() if model is not None])
def test_every_field_has_a_bound(name: str) -> None:
    model = POSTED[name]
    assert model is not None
    schema = model.model_json_schema()
    parts = {name: schema, **schema.pop("$defs", {})}
    assert [place for part, each in parts.items() for place in unbounded(each, part)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"records": 2**62, "written": 2**62, "quarantined": 0, "dropped": 0},
        {"rules": [{"stage": "rule", "code": "a", "severity": "error", "records": 2**62}]},
        {
            "rules": [
                {"stage": "rule", "code": f"r{n}", "severity": "error", "records": 1} for n in range(2001)
            ]
        },
        {"rules": [{"stage": "rule", "code": "r" * 501, "severity": "error", "records": 1}]},
        {"shadow": {"version": "1.3.0", "compared": 2**62}},
        {"shadow": {"version": "1" * 1001}},
        {"timings_ms": {f"step{n}": 1 for n in range(41)}},
        {"timings_ms": {"judge": 2**62}},
        {"timings_ms": {"j" * 41: 1}},
        {"end": {str(n): 1 for n in range(50_001)}},
        {"end": {str(2**63): 1}},
        {"committed_at": "0001-01-01T00:00:00+14:00"},
        {"committed_at": "9999-12-31T23:59:59-14:00"},
        {"started_at": "0001-01-01T00:00:00+14:00"},
        {"sink": "s" * 1001},
        {"quarantine_topic": "t" * 261},
        {
            "expectations": [
                {"id": "a", "type": "t", "outcome": "met", "judged_by": "tidegate"},
                {"id": "a", "type": "t", "outcome": "met", "judged_by": "tidegate"},
            ]
        },
    ],
)
def test_a_report_beyond_its_bounds_is_refused(change: dict[str, Any]) -> None:
    BatchReport.model_validate(REPORT)
    with pytest.raises(ValidationError):
        BatchReport.model_validate(REPORT | change)
