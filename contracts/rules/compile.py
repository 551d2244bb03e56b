"""Rules, compiled against the schema of their contract. What compiles is total."""

from __future__ import annotations

from typing import Final

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.errors import ContractError
from tidegate.contracts.rules.clock import Clock
from tidegate.contracts.rules.compiled import CompiledRule, RuleSet
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.rules.reference_sets import with_reference_sets
from tidegate.contracts.rules.scope import Scope
from tidegate.contracts.verdict import Disposition, Severity

DISPOSITIONS: Final = {
    OnViolation.ALERT: Disposition.ALERTED,
    OnViolation.DROP: Disposition.DROPPED,
    OnViolation.QUARANTINE: Disposition.QUARANTINED,
    OnViolation.FAIL: Disposition.FAILED,
}
"""What a violation of severity `error` does to a record."""


def compile_rules(contract: DataContract, fields: SchemaFields) -> RuleSet:
    """Compile every rule of a contract. Raises ContractError with every problem found."""
    contract = with_reference_sets(contract)
    clock = Clock()
    compiled: list[CompiledRule] = []
    scopes = [Scope(f"/rules/{index}", fields, clock) for index in range(len(contract.rules))]
    for rule, scope in zip(contract.rules, scopes, strict=True):
        check = kind_of(rule).compile(rule, scope)
        if check is not None:
            compiled.append(CompiledRule(rule, _disposition(rule, contract), check))
    problems = tuple(problem for scope in scopes for problem in scope.problems)
    if problems:
        raise ContractError(problems)
    return RuleSet(tuple(compiled), clock if any(scope.asks_now for scope in scopes) else None)


def _disposition(rule: Rule, contract: DataContract) -> Disposition:
    if rule.severity is Severity.WARNING:
        return Disposition.WARNED
    return DISPOSITIONS[rule.on_violation or contract.on_violation]
