"""Rules, compiled against the schema of their contract. What compiles is total."""

from __future__ import annotations

from functools import partial
from typing import Final

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import Cel, Rule
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.errors import ContractError
from tidegate.contracts.rules.cel import all_hold
from tidegate.contracts.rules.clock import Clock
from tidegate.contracts.rules.compiled import Built, CompiledRule, RuleSet
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.rules.reference_sets import with_reference_sets
from tidegate.contracts.rules.scope import Scope
from tidegate.contracts.rules.sound import write_sound_tests
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
    checks: list[tuple[Rule, Built]] = []
    scopes = [Scope(f"/rules/{index}", fields, clock) for index in range(len(contract.rules))]
    for rule, scope in zip(contract.rules, scopes, strict=True):
        check = kind_of(rule).compile(rule, scope)
        if check is not None:
            checks.append((rule, check))
            compiled.append(CompiledRule(rule.id, rule.severity, _disposition(rule, contract), check))
    problems = tuple(problem for scope in scopes for problem in scope.problems)
    if problems:
        raise ContractError(problems)
    lowered = [check.lowered for _, check in checks if check.lowered is not None]
    left = [rule for rule, check in checks if check.lowered is None and (check.asks_fit or not check.paths)]
    # Of rules about fields the library is asked value by value, and of other kinds it knows nothing.
    whole = [rule.expr for rule in left if isinstance(rule, Cel) and rule.field is None]
    whole_holds = all_hold(whole) if len(whole) == len(left) else None
    asked = clock if any(scope.asks_now for scope in scopes) else None
    field_checks = tuple((rule, check) for rule, check in checks if check.paths and not check.asks_fit)
    return RuleSet(
        tuple(compiled),
        field_checks,
        partial(write_sound_tests, field_checks, lowered, fields),
        whole_holds,
        asked,
    )


def _disposition(rule: Rule, contract: DataContract) -> Disposition:
    if rule.severity is Severity.WARNING:
        return Disposition.WARNED
    return DISPOSITIONS[rule.on_violation or contract.on_violation]
