"""What rules refuse, as plain data, so that rules of any kind compare with each other and with schemas.

Each form says exactly which records break a rule, no more and no fewer: comparisons prove with it. `null` says that
an absent or null field breaks the rule, too. Values of another type than a form speaks of break no rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.contracts.document.rule_model import Cel, Now
from tidegate.contracts.document.terms import Scalar


@dataclass(frozen=True, slots=True)
class Listed:
    """A field that holds one of some values."""

    field: str
    values: tuple[Scalar, ...]
    null: bool


@dataclass(frozen=True, slots=True)
class Others:
    """A field that holds a value of the types of some values, and none of these."""

    field: str
    values: tuple[Scalar, ...]
    null: bool


@dataclass(frozen=True, slots=True)
class Outside:
    """A field outside of bounds: numbers, durations or moments by the names that `Range` gives them.

    Bounds of moments may count from `now`, as in `now + 5 minutes`.
    """

    field: str
    limits: Mapping[str, Any]
    null: bool
    now: Now = "record"


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A field whose text has no match of a pattern in RE2 syntax."""

    field: str
    pattern: str
    null: bool


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """Fields of which one is smaller than the one before it; with `strict` equal ones, too."""

    fields: tuple[str, ...]
    strict: bool
    null: bool
    compare_as: str | None = None


@dataclass(frozen=True, slots=True)
class AbsentWhen:
    """A field that is absent or null where another one holds one of `values`; None for any value but null."""

    field: str
    other: str
    values: tuple[Scalar, ...] | None


@dataclass(frozen=True, slots=True)
class BrokenExpression:
    """Records that break the expression of a rule of kind `cel`."""

    rule: Cel


OfField = Listed | Others | Outside | Unmatched
"""The forms that speak of the values of one field."""
RefusedSet = OfField | OutOfOrder | AbsentWhen | BrokenExpression
"""Every form; who reads them handles each, and mypy says where one is forgotten."""
