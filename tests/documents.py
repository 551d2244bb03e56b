"""Contracts and plans for tests of one part of a contract."""

from __future__ import annotations

from typing import Any

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.fastpath.path import FastPath
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan


def contract_with(
    definition: Any, *, kind: str = "json-schema", formats: str | None = None, **parts: Any
) -> DataContract:
    """Build a contract from a schema; `parts` are its other top-level members, such as rules and columns."""
    schema = {"type": kind, "definition": definition} | ({} if formats is None else {"formats": formats})
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "a.b",
        "version": "1.0.0",
        "topic": "a.b",
        "schema": schema,
    }
    return DataContract.model_validate(document | parts)


def plan_with(
    definition: Any,
    *,
    kind: str = "json-schema",
    formats: str | None = None,
    fastpath: bool | None = None,
    **parts: Any,
) -> EnforcementPlan:
    """Build a contract as `contract_with` does, and compile it; `fastpath` is passed to `compile_plan`."""
    return compile_plan(contract_with(definition, kind=kind, formats=formats, **parts), fastpath=fastpath)


def strict(plan: EnforcementPlan) -> EnforcementPlan:
    """Return the same plan without its fast path."""
    return compile_plan(plan.contract, plan.masks.key, fastpath=False).with_writers(plan.writers)


def fast_path(plan: EnforcementPlan) -> Any:
    """Return the fast path of a plan."""
    path = plan._judge.path
    assert isinstance(path, FastPath)
    return path
