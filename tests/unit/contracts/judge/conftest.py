"""Contracts and plans, made in one line."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan


class MakePlan(Protocol):
    """Compiles a contract: a JSON Schema unless `kind` says avro, rules that get ids, and any other key."""

    def __call__(
        self, schema: Any, *rules: dict[str, Any], kind: str = ..., **others: Any
    ) -> EnforcementPlan: ...


def contract_of(
    schema: Any, rules: tuple[dict[str, Any], ...], kind: str, others: dict[str, Any]
) -> DataContract:
    numbered = [{"id": f"rule-{index}"} | rule for index, rule in enumerate(rules)]
    formats = {"formats": others.pop("formats")} if "formats" in others else {}
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "hospital.admissions",
            "version": "1.0.0",
            "topic": "hospital.admissions",
            "schema": {"type": kind, "definition": schema, **formats},
            "rules": numbered,
            **others,
        }
    )


@pytest.fixture(scope="session")
def make_plan() -> MakePlan:
    def make(
        schema: Any, *rules: dict[str, Any], kind: str = "json-schema", **others: Any
    ) -> EnforcementPlan:
        return compile_plan(contract_of(schema, rules, kind, others))

    return make


@pytest.fixture(scope="session")
def fits() -> Callable[[Callable[[], object], int], bool]:
    """Return a function that tells whether a call needs less memory than a number of bytes, in one of five tries.

    One try would not do: `tracemalloc` also counts what other threads of the process allocate.
    """

    def peak(call: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return lambda call, most_bytes: any(peak(call) < most_bytes for _ in range(5))
