"""Validation of rule sets, and the merging of defaults, a schema's own rules and overrides.

Source: Confluent Schema Registry, `RuleSet.validate`, `RuleSet.mergeRuleSets`, `Metadata.mergeMetadata`.
"""

from __future__ import annotations

import re

from tidegate.gateway.registry.schemas.entities import Metadata, Rule, RuleSet
from tidegate.gateway.registry.schemas.errors import invalid_rule_set

RULE_TYPES = ("CEL", "CEL_FIELD", "ENCRYPT", "ENCRYPT_PAYLOAD", "JSONATA")
"""The rule types that unmodified clients can run."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,255}")
_MIGRATION = {"UPGRADE", "DOWNGRADE", "UPDOWN"}
_TWO_WAYS = {"WRITEREAD", "UPDOWN"}


def check_rule_set(rule_set: RuleSet | None) -> None:
    """Refuse a rule set that no client could run. Raises Refused (42210)."""
    names: set[str] = set()
    for rule in () if rule_set is None else rule_set.rules():
        _check(rule)
        if rule.name in names:
            raise invalid_rule_set(f"two rules have the name '{rule.name}'")
        names.add(rule.name)
    if rule_set is not None:
        _check_modes(rule_set)


def _check(rule: Rule) -> None:
    if not _NAME.fullmatch(rule.name):
        raise invalid_rule_set(
            f"'{rule.name[:300]}' is not a rule name; it begins with a letter or _, goes on with letters, digits, _ and "
            "-, and has at most 256 characters"
        )
    if rule.type not in RULE_TYPES:
        raise invalid_rule_set(
            f"the rule '{rule.name}' has the type '{rule.type}', which no client runs; the types are "
            f"{', '.join(RULE_TYPES)}"
        )
    for member, action in (("onSuccess", rule.on_success), ("onFailure", rule.on_failure)):
        if action and "," in action and (rule.mode not in _TWO_WAYS or action.count(",") > 1):
            raise invalid_rule_set(
                f"{member} of the rule '{rule.name}' names two actions, which only a rule of mode WRITEREAD or "
                "UPDOWN has"
            )


def _check_modes(rule_set: RuleSet) -> None:
    for rule in rule_set.migration_rules:
        if rule.mode not in _MIGRATION:
            raise invalid_rule_set(
                f"the migration rule '{rule.name}' has the mode {rule.mode}; it can only be UPGRADE, DOWNGRADE, UPDOWN"
            )
    for rule in (*rule_set.domain_rules, *rule_set.encoding_rules):
        if rule.mode in _MIGRATION:
            raise invalid_rule_set(
                f"the rule '{rule.name}' has the mode {rule.mode}; domain and encoding rules can only be WRITE, READ, "
                "WRITEREAD"
            )


def merge_metadata(older: Metadata | None, newer: Metadata | None) -> Metadata | None:
    """Merge newer metadata over older: maps by key, sensitive names as a union."""
    if older is None or newer is None:
        return newer if older is None else older
    return Metadata(
        tags={**older.tags, **newer.tags},
        properties={**older.properties, **newer.properties},
        sensitive=(*older.sensitive, *newer.sensitive),
    )


def merge_rule_sets(older: RuleSet | None, newer: RuleSet | None) -> RuleSet | None:
    """Merge a newer rule set over an older one: a rule replaces the older one with its name, and moves to the end."""
    if older is None or newer is None:
        return newer if older is None else older
    return RuleSet(
        migration_rules=_merge(older.migration_rules, newer.migration_rules),
        domain_rules=_merge(older.domain_rules, newer.domain_rules),
        encoding_rules=_merge(older.encoding_rules, newer.encoding_rules),
        enable_at=newer.enable_at or older.enable_at,
    )


def _merge(older: tuple[Rule, ...], newer: tuple[Rule, ...]) -> tuple[Rule, ...]:
    names = {rule.name for rule in newer}
    return (*(rule for rule in older if rule.name not in names), *newer)
