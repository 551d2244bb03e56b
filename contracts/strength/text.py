"""Suggested rules as YAML, to paste into a contract."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tidegate.contracts.infer.text import rule_lines
from tidegate.contracts.strength.measure import Strength


def suggested_rules(strength: Strength) -> Iterator[str]:
    """Yield the lines of the suggested rules as items of the list `rules`, each with a comment on what it catches."""
    outcomes = defaultdict(list)
    for each in strength.outcomes:
        if each.rule is not None:
            outcomes[each.rule["id"]].append(each)
    for rule in strength.rules:
        found = outcomes[rule["id"]]
        names = ", ".join(each.mutation for each in found)
        caught, missed = sum(each.caught for each in found), sum(each.missed for each in found)
        yield f"  # Catches {caught:,} of {missed:,} missed: {names}."
        yield from rule_lines(rule)
