"""Proposed rules and schema assertions, with their evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.infer.pairs import Path
from tidegate.contracts.infer.profile import EACH

LEAST: Final = "minLength"
MOST: Final = "maxLength"


@dataclass(slots=True)
class Proposal:
    """One proposed rule, or one proposed assertion of the schema (`rule` is None).

    `support` counts the values to which it applies, `exceptions` those that violate it; `first` has the positions of the
    first exceptions. `because` is the reason for it. `doubt` is the reason why it is only a comment in the contract; None
    if it is enforced. `held_back` counts the held-back records that violate it, and `unexpected` how many more these are
    than `exceptions` predict.
    """

    code: str
    """The id of the rule, or the keyword of the schema: the code of its violations."""
    path: Path
    because: str
    support: int
    exceptions: int = 0
    first: tuple[int, ...] = ()
    rule: dict[str, Any] | None = None
    doubt: str | None = None
    held_back: int = 0
    unexpected: float = 0.0

    @property
    def pointer(self) -> str:
        """Return the JSON Pointer of the field."""
        return join(self.path)

    @property
    def is_enforced(self) -> bool:
        """Return whether the contract has it as a rule, not as a comment."""
        return self.doubt is None

    @property
    def share(self) -> float:
        """Return the share of exceptions among the values."""
        return self.exceptions / max(self.support, 1)


_MOST_REFUSED: Final = 0.05
"""Share of exceptions above which a rule is not enforced: so many records are probably not mistakes."""


@dataclass(slots=True)
class RuleList:
    """Proposed rules with unique ids."""

    rules: list[Proposal] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)

    def add(
        self,
        name: str,
        rule: dict[str, Any],
        proposal: Proposal,
    ) -> None:
        """Add a proposal for a rule; its id is `name`, with a number if the name is already used."""
        unique, number = name, 1
        while unique in self._ids:
            number += 1
            unique = f"{name}-{number}"
        self._ids.add(unique)
        proposal.code = unique
        proposal.rule = {"id": unique, **rule}
        if proposal.doubt is None and proposal.share > _MOST_REFUSED:
            proposal.doubt = f"it refuses more than {_MOST_REFUSED:.0%} of the values"
        self.rules.append(proposal)


def words_of(path: Path) -> list[str]:
    """Return the words of a field's name in lower case; `dischargeDate` and `discharge_date` have the same words."""
    name = next((step for step in reversed(path) if step != EACH), "record")
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word for word in re.split(r"[^a-z0-9]+", split.lower()) if word] or ["field"]


def slug(path: Path) -> str:
    """Return a field's name as a prefix for ids of rules."""
    found = "-".join(words_of(path))[:60].strip("-")
    return found if found[:1].isalpha() else f"field-{found}"


def label(path: Path) -> str:
    """Return a field's dotted path for use in a sentence."""
    return ".".join(step for step in path if step != EACH)
