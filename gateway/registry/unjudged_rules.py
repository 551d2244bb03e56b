"""Rules that are stored for clients and not judged: their reasons, and the setting that refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import Problem
from tidegate.gateway.registry.schemas.entities import Config, RuleSet
from tidegate.gateway.registry.schemas.errors import invalid_rule_set
from tidegate.gateway.registry.schemas.imported_rules import carried_rules

if TYPE_CHECKING:  # the command line checks contracts without the extra [registry], which brings the database
    from tidegate.gateway.storage.sql import ContractVersion

_BEFORE, _AFTER = "the rule ", ": it is kept for clients and not judged here"
_IN_SCHEMA: Final = "in the schema"
"""Start of the reason for a rule that the schema carries, in place of the rule's name."""
_MAX_NAMED: Final = 5


def noted(reasons: Sequence[str]) -> list[str]:
    """Return the lines about rules that are not judged in the note of a contract version."""
    return [f"{_BEFORE}{reason}{_AFTER}" for reason in reasons]


def unjudged_rules(version: ContractVersion | None, rule_set: RuleSet | None) -> tuple[str, ...]:
    """Return a reason for each rule of a subject's version that is not judged.

    `version` is the contract version of the subject's version; None if it has no contract.
    """
    if version is None:
        rules = () if rule_set is None else rule_set.rules()
        return tuple(f"{rule.name} is of a subject without a contract" for rule in rules if not rule.disabled)
    return noted_in(version.note)


def noted_in(note: str | None) -> tuple[str, ...]:
    """Return the reasons that the note of a contract version has, as `noted` wrote them."""
    lines = (note or "").split("\n")
    return tuple(
        line.removeprefix(_BEFORE).removesuffix(_AFTER)
        for line in lines
        if line.startswith(_BEFORE) and line.endswith(_AFTER)
    )


def count_of(reasons: Sequence[str]) -> int:
    """Return the number of rules that the reasons are about; a rule about fields may have one for each field."""
    return len({reason if reason.startswith(_IN_SCHEMA) else reason.split(" ", 1)[0] for reason in reasons})


def check_judged(reasons: Sequence[str], rule_set: RuleSet | None, config: Config) -> None:
    """Refuse conditions that are not judged, if the setting `judgeRules` is on. Raises Refused (42210).

    Transformations and migrations only run in clients, and remain allowed.
    """
    if not config.judge_rules:
        return
    domain_rules = () if rule_set is None else rule_set.domain_rules
    conditions = {rule.name for rule in domain_rules if rule.kind == "CONDITION"}
    found = [
        reason for reason in reasons if reason.startswith(_IN_SCHEMA) or reason.split(" ", 1)[0] in conditions
    ]
    if found:
        more = f", and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
        raise invalid_rule_set(
            f"the setting judgeRules is on, and {_rules(count_of(found))} would not be judged: "
            f"{'; '.join(found[:_MAX_NAMED])}{more}. Change the conditions, or set judgeRules to false"
        )


def carried_problems(contract: DataContract) -> tuple[Problem, ...]:
    """Return a problem for each rule that a contract's schema carries for clients and nothing judges."""
    carried = carried_rules(contract)
    found = [
        f"the schema carries a rule for clients at {rule.field or 'its root'} ({rule.id}), which is judged only if the "
        "contract has it: add it to the rules as `tidegate lint` writes it, or remove it from the schema"
        for rule in carried.rules
    ]
    found += [
        f"of the rules that the schema carries for clients, one {reason}: it is not judged, so remove it from the schema"
        for reason in carried.left_out
    ]
    return tuple(Problem("/schema", message) for message in found)


def _rules(number: int) -> str:
    return f"{number:,} rule{'' if number == 1 else 's'}"
