"""The registry of rule kinds, by the model of the rule."""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.rule_model import (
    BaseRule,
    Cel,
    Forbidden,
    Freshness,
    Matches,
    OneOf,
    Ordered,
    Range,
    RequiredWhen,
)
from tidegate.contracts.rules.kinds.cel import CelKind
from tidegate.contracts.rules.kinds.forbidden import ForbiddenKind
from tidegate.contracts.rules.kinds.freshness import FreshnessKind
from tidegate.contracts.rules.kinds.matches import MatchesKind
from tidegate.contracts.rules.kinds.one_of import OneOfKind
from tidegate.contracts.rules.kinds.ordered import OrderedKind
from tidegate.contracts.rules.kinds.range import RangeKind
from tidegate.contracts.rules.kinds.required_when import RequiredWhenKind
from tidegate.contracts.rules.places import is_deep
from tidegate.contracts.rules.rule_kind import RefusedSet, RuleKind

KINDS: Final[dict[type[BaseRule], RuleKind[Any]]] = {
    Forbidden: ForbiddenKind(),
    Range: RangeKind(),
    Freshness: FreshnessKind(),
    Ordered: OrderedKind(),
    Matches: MatchesKind(),
    OneOf: OneOfKind(),
    RequiredWhen: RequiredWhenKind(),
    Cel: CelKind(),
}
"""Every rule kind, by the model of its rules."""


def kind_of(rule: BaseRule) -> RuleKind[Any]:
    """Return the kind of a rule. Raises KeyError for one that is not registered."""
    return KINDS[type(rule)]


def refused_set(rule: BaseRule) -> RefusedSet | None:
    """Return exactly what a rule refuses, for comparisons; None if no refused set can describe it.

    None of them describes objects at any depth, so comparisons cannot reason about such rules.
    """
    kind = kind_of(rule)
    return None if any(is_deep(tokens(pointer)) for pointer in kind.fields(rule)) else kind.refused(rule)
