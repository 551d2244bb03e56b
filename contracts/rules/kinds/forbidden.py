"""The rule kind `forbidden`: values that a field must not hold, such as sentinels for unknown values."""

from __future__ import annotations

from typing import Any

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.rule_model import Forbidden
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.rule_kind import FieldRuleKind, Listed, Scope, Values, check_of_field
from tidegate.contracts.rules.values import member_of, placed
from tidegate.contracts.words import listed, shown


class ForbiddenKind(FieldRuleKind[Forbidden]):
    """Rules by which a field must not hold any of several values."""

    def compile(self, rule: Forbidden, scope: Scope) -> FieldCheck | None:
        """Compile the test that a value is not one of the forbidden values."""
        found = scope.field_type(rule.field, "/field")
        if found is None:
            return None
        member, absent = member_of(placed("/values", rule.values), found, scope), rule.nulls == "violate"

        def breaks(value: Any) -> bool:
            return absent if value is None else member(value) is True

        return check_of_field(rule, breaks, "holds a value that the contract forbids")

    def refused(self, rule: Forbidden) -> Listed:
        """Return the refused set: the values."""
        return Listed(rule.field, rule.values, rule.nulls == "violate")

    def sentence_of_value(self, rule: Forbidden, values: Values) -> str:
        """Return a sentence with the value."""
        return f"{values.name(rule.field)} is {shown(values[rule.field])}, a placeholder value"

    def remedy(self, rule: Forbidden, fields: SchemaFields) -> str:  # noqa: ARG002 - part of the interface
        """Return the values that the field must not hold."""
        return f"any value but {listed(rule.values)}"
