"""Rules that name a reference set of their contract, with its values in its place."""

from __future__ import annotations

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import Rule


def with_reference_sets(contract: DataContract) -> DataContract:
    """Return the contract with the values of each set where a rule names it; the same one when no rule does."""
    rules = tuple(_with_values(rule, contract) for rule in contract.rules)
    is_same = all(new is old for new, old in zip(rules, contract.rules, strict=True))
    return contract if is_same else contract.model_copy(update={"rules": rules})


def _with_values(rule: Rule, contract: DataContract) -> Rule:
    name = getattr(rule, "set", None)
    if name is None or name not in contract.reference_sets:
        return rule
    return rule.model_copy(update={"values": contract.reference_sets[name].values, "set": None})
