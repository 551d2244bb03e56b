"""Tidegate: data contracts, enforced on every record between Kafka and its tables.

    plan = tidegate.compile_plan(tidegate.lint(Path("contract.yaml")).contract)
    verdicts = plan.judge(pyarrow.array([b'{"age": 63}']))

The folders beside this file are links to the top level of the repository; an installed Tidegate has them here.
So its parts share no name with the `contracts`, `schemas` or `gateway` packages of those who use it.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.contracts.document.load import LoadedContract, load_contract
    from tidegate.contracts.document.model import DataContract
    from tidegate.contracts.errors import ContractError, TidegateError
    from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
    from tidegate.contracts.lint.lint import lint

__all__ = [
    "ContractError",
    "DataContract",
    "EnforcementPlan",
    "LoadedContract",
    "TidegateError",
    "compile_plan",
    "lint",
    "load_contract",
]

# Loaded when asked for: the command line imports this module before it knows what a verb needs.
_HOMES = {
    "ContractError": "tidegate.contracts.errors",
    "DataContract": "tidegate.contracts.document.model",
    "EnforcementPlan": "tidegate.contracts.judge.plan",
    "LoadedContract": "tidegate.contracts.document.load",
    "TidegateError": "tidegate.contracts.errors",
    "compile_plan": "tidegate.contracts.judge.plan",
    "lint": "tidegate.contracts.lint.lint",
    "load_contract": "tidegate.contracts.document.load",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(f"{_HOMES[name]}:{name}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
