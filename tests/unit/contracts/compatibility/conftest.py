"""Contracts, made in one line, and comparisons of them."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Comparison, Direction, Finding
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.judge.plan import compile_plan

Rule = dict[str, Any]

CEL: Rule = {"kind": "cel", "expr": "this.age < 100"}
QUOTIENT: Rule = {"kind": "cel", "expr": "1 / this.a > -5", "on_violation": "quarantine"}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{4}$"},
        "age": {"type": ["integer", "null"], "minimum": 0},
        "weight": {"type": "number"},
        "ward": {"type": "string", "enum": ["icu", "surgery", "maternity"]},
        "code": {"type": "string"},
        "admitted": {"type": "string", "format": "date"},
        "discharged": {"type": ["string", "null"], "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "consultant": {"type": "string"},
        "address": {
            "type": "object",
            "properties": {"postcode": {"type": "string"}},
            "required": ["postcode"],
        },
    },
    "required": ["id", "admitted"],
    "additionalProperties": False,
}


class MakeContract(Protocol):
    """Makes a contract: rules that get ids, a JSON Schema unless `kind` says avro, and any other key."""

    def __call__(
        self, *rules: dict[str, Any], schema: Any = ..., kind: str = ..., **others: Any
    ) -> DataContract: ...


def contract_of(
    *rules: dict[str, Any], schema: Any = None, kind: str = "json-schema", **others: Any
) -> DataContract:
    formats = {"formats": others.pop("formats")} if "formats" in others else {}
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "hospital.admissions",
            "version": "1.0.0",
            "topic": "hospital.admissions",
            "schema": {"type": kind, "definition": SCHEMA if schema is None else schema, **formats},
            "rules": [{"id": f"rule-{index}"} | rule for index, rule in enumerate(rules)],
            **others,
        }
    )


@pytest.fixture(scope="session")
def make_contract() -> MakeContract:
    return contract_of


def compared(make_contract: Any, before: list[Rule], after: list[Rule], **others: Any) -> Comparison:
    return compare(
        make_contract(*before, **others), make_contract(*after, **others), level=Compatibility.FULL
    )


def separates(old: DataContract, new: DataContract, finding: Finding) -> bool:
    """Return whether the counterexample is written by one contract and refused by the other, by their plans."""
    assert finding.counterexample is not None
    if finding.direction is Direction.FORWARD:
        old, new = new, old
    value = finding.counterexample.text.encode()
    accepted, refused = (compile_plan(each).explain(value).disposition for each in (old, new))
    return accepted.is_written and not refused.is_written
