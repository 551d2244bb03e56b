"""Rules, compiled against the schema of their contract. What compiles is total."""

from __future__ import annotations

from contracts.errors import Problem
from contracts.fields import SchemaFields
from contracts.model import DataContract, OnViolation, Rule
from contracts.rules import kinds
from contracts.rules.cel import compile_cel
from contracts.rules.compiled import CompiledRule
from contracts.verdict import Disposition, Severity

ACTIONS = {
    OnViolation.ALERT: Disposition.ALERTED,
    OnViolation.DROP: Disposition.DROPPED,
    OnViolation.QUARANTINE: Disposition.QUARANTINED,
    OnViolation.FAIL: Disposition.FAILED,
}


def compile_rules(contract: DataContract, fields: SchemaFields) -> tuple[list[CompiledRule], list[Problem]]:
    """Compile every rule of a contract; give what compiled, and every problem found."""
    compiled: list[CompiledRule] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, rule in enumerate(contract.rules):
        scope = kinds.Scope(f"/rules/{index}", fields, [])
        if rule.id in seen:
            scope.refuse("/id", f"the rule id `{rule.id}` is used twice")
        seen.add(rule.id)
        built = kinds.build(rule, scope) if rule.kind != "cel" else compile_cel(rule, scope)
        problems += scope.problems
        if built is not None:
            compiled.append(
                CompiledRule(
                    rule.id,
                    rule.severity,
                    disposition_of(rule, contract),
                    built.pointer,
                    built.message,
                    built.violates,
                )
            )
    return compiled, problems


def disposition_of(rule: Rule, contract: DataContract) -> Disposition:
    """What a violation of the rule does to a record."""
    if rule.severity is Severity.WARNING:
        return Disposition.WARNED
    return ACTIONS[rule.on_violation or contract.on_violation]
