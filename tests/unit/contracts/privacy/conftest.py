"""Contracts about a few fields, and the explanations of their records."""

from __future__ import annotations

import json
from typing import Any

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.explain.account import Explainer, Explanation
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan


def contract(definition: Any, **more: Any) -> DataContract:
    """A contract with this JSON Schema."""
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "c",
        "version": "1.0.0",
        "topic": "c",
        "schema": {"type": "json-schema", "definition": definition},
        **more,
    }
    return DataContract.model_validate(document)


def plan(definition: Any, **more: Any) -> EnforcementPlan:
    """The same, compiled; the record's columns are no concern here."""
    return compile_plan(contract(definition, **{"columns": [], **more}))


def told(compiled: EnforcementPlan, record: Any, *revealed: str) -> list[Explanation]:
    """Return the explanation of a record, given as bytes or as a value to write as JSON."""
    value = record if isinstance(record, bytes) else json.dumps(record).encode()
    return list(
        Explainer.of(compiled, revealed).explain(value, compiled.explain(value, typed=True).violations)
    )
