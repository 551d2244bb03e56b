"""Rules, compiled against the schema of their contract. What compiles is total."""

from __future__ import annotations

from typing import Final

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import (
    Cel,
    Forbidden,
    Freshness,
    Matches,
    OneOf,
    Ordered,
    Range,
    RequiredWhen,
    Rule,
)
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.errors import ContractError
from tidegate.contracts.rules.cel import build_cel
from tidegate.contracts.rules.clock import Clock
from tidegate.contracts.rules.compiled import Built, CompiledRule, RuleSet
from tidegate.contracts.rules.kinds import build_forbidden, build_matches, build_one_of, build_required_when
from tidegate.contracts.rules.orders import build_ordered
from tidegate.contracts.rules.ranges import build_freshness, build_range
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
        check = _build(rule, scope)
        if check is not None:
            compiled.append(CompiledRule(rule, _disposition(rule, contract), check))
    problems = tuple(problem for scope in scopes for problem in scope.problems)
    if problems:
        raise ContractError(problems)
    return RuleSet(tuple(compiled), clock if any(scope.asks_now for scope in scopes) else None)


def _build(rule: Rule, scope: Scope) -> Built | None:  # noqa: PLR0911 - one for each kind
    match rule:
        case Forbidden():
            return build_forbidden(rule, scope)
        case Range():
            return build_range(rule, scope)
        case Freshness():
            return build_freshness(rule, scope)
        case Ordered():
            return build_ordered(rule, scope)
        case Matches():
            return build_matches(rule, scope)
        case OneOf():
            return build_one_of(rule, scope)
        case RequiredWhen():
            return build_required_when(rule, scope)
        case Cel():
            return build_cel(rule, scope)


def _disposition(rule: Rule, contract: DataContract) -> Disposition:
    if rule.severity is Severity.WARNING:
        return Disposition.WARNED
    return DISPOSITIONS[rule.on_violation or contract.on_violation]
