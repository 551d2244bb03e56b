"""What breaking a rule does to a record."""

from __future__ import annotations

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.verdict import Severity


def effect(rule: Rule, contract: DataContract) -> OnViolation | None:
    """Return what breaking a rule does to a record; None when it is a warning."""
    if rule.severity is Severity.WARNING:
        return None
    return rule.on_violation or contract.on_violation


def refuses(rule: Rule, contract: DataContract) -> bool:
    """Return whether breaking a rule keeps a record from being written."""
    return effect(rule, contract) not in {None, OnViolation.ALERT}
