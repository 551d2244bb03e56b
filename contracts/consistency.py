"""What a contract must hold together by itself, before anybody looks at its schema."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.errors import Problem
from contracts.model import DataContract


def inconsistencies(contract: DataContract) -> Iterator[Problem]:
    """Find the contradictions inside a contract; pointers are into the contract document."""
    ids: dict[str, int] = {}
    for index, rule in enumerate(contract.rules):
        if rule.id in ids:
            yield Problem(f"/rules/{index}/id", f"rule id `{rule.id}` is used twice; ids are unique")
        ids[rule.id] = index
