"""Compile rules against the schema of their contract. Compiled rules never raise on a record."""

from __future__ import annotations

from typing import Final

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.errors import ContractError
from tidegate.contracts.rules.clock import Clock
from tidegate.contracts.rules.compiled import CompiledRule, CompiledRules
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.rules.places import is_deep
from tidegate.contracts.rules.rule_kind import Scope
from tidegate.contracts.verdict import Disposition, Severity


def with_reference_sets(contract: DataContract) -> DataContract:
    """Return the contract with reference sets inlined into the rules that name them; the same object if none does."""
    rules = tuple(_with_values(rule, contract) for rule in contract.rules)
    is_same = all(new is old for new, old in zip(rules, contract.rules, strict=True))
    return contract if is_same else contract.model_copy(update={"rules": rules})


def _with_values(rule: Rule, contract: DataContract) -> Rule:
    name = getattr(rule, "set", None)
    if name is None or name not in contract.reference_sets:
        return rule
    return rule.model_copy(update={"values": contract.reference_sets[name].values, "set": None})


def effect(rule: Rule, contract: DataContract) -> OnViolation | None:
    """Return the action for a record that breaks a rule; None if the rule is only a warning."""
    if rule.severity is Severity.WARNING:
        return None
    return rule.on_violation or contract.on_violation


def refuses(rule: Rule, contract: DataContract) -> bool:
    """Return whether breaking a rule keeps a record from being written."""
    return effect(rule, contract) not in {None, OnViolation.ALERT}


DISPOSITIONS: Final = {
    None: Disposition.WARNED,
    OnViolation.ALERT: Disposition.ALERTED,
    OnViolation.DROP: Disposition.DROPPED,
    OnViolation.QUARANTINE: Disposition.QUARANTINED,
    OnViolation.FAIL: Disposition.FAILED,
}
"""The disposition of a record that breaks a rule, by the rule's effect."""


def compile_rules(contract: DataContract, fields: SchemaFields) -> CompiledRules:
    """Compile every rule of a contract. Raises ContractError with every problem found."""
    contract = with_reference_sets(contract)
    clock = Clock()
    compiled: list[CompiledRule] = []
    scopes = [Scope(f"/rules/{index}", fields, clock) for index in range(len(contract.rules))]
    for rule, scope in zip(contract.rules, scopes, strict=True):
        check = kind_of(rule).compile(rule, scope)
        if check is not None:
            is_deep_rule = any(map(is_deep, check.paths))
            names = fields.names() if is_deep_rule else frozenset[str]()
            compiled.append(CompiledRule(rule, DISPOSITIONS[effect(rule, contract)], check, names))
    problems = tuple(problem for scope in scopes for problem in scope.problems)
    if problems:
        raise ContractError(problems)
    return CompiledRules(tuple(compiled), clock if any(scope.uses_now for scope in scopes) else None)
