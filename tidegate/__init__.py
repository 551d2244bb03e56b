"""Tidegate: data contracts, enforced on every record between Kafka and its tables.

    contract = tidegate.Contract.load("contract.yaml")
    contract.judge(b'{"age": 63}').is_accepted
    accepted, refused = contract.split(spark.table("admissions"))

The public interface is `Contract`, `Registry`, the values that they return and the errors that they raise. It follows
semantic versioning. Everything else may change with any release.

In the repository, the folders beside this file are links to its top level; an installed Tidegate has them here. So they
do not conflict with packages of users that are named `contracts`, `schemas` or `gateway`.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.contract import Contract, InferredContract, Registry
    from tidegate.contracts.errors import (
        ContractError,
        NotFoundError,
        SettingsError,
        TidegateError,
        Unavailable,
    )
    from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation

# Loaded on demand, because the command line imports this module before it knows what a verb needs.
_HOMES = {
    "Contract": "tidegate.contract",
    "ContractError": "tidegate.contracts.errors",
    "Disposition": "tidegate.contracts.verdict",
    "InferredContract": "tidegate.contract",
    "NotFoundError": "tidegate.contracts.errors",
    "Registry": "tidegate.contract",
    "SettingsError": "tidegate.contracts.errors",
    "Severity": "tidegate.contracts.verdict",
    "Stage": "tidegate.contracts.verdict",
    "TidegateError": "tidegate.contracts.errors",
    "Unavailable": "tidegate.contracts.errors",
    "Verdict": "tidegate.contracts.verdict",
    "Violation": "tidegate.contracts.verdict",
}
__all__ = [
    "Contract",
    "ContractError",
    "Disposition",
    "InferredContract",
    "NotFoundError",
    "Registry",
    "SettingsError",
    "Severity",
    "Stage",
    "TidegateError",
    "Unavailable",
    "Verdict",
    "Violation",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(f"{_HOMES[name]}:{name}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
