"""The rule kind `one_of`: a list of allowed values."""

from __future__ import annotations

from typing import Any

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.rule_model import OneOf
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.rule_kind import FieldRuleKind, Others, Scope, Values, check_of_field
from tidegate.contracts.rules.values import member_of, placed
from tidegate.contracts.words import listed, shown


class OneOfKind(FieldRuleKind[OneOf]):
    """Rules by which a field must hold one of several values."""

    def compile(self, rule: OneOf, scope: Scope) -> FieldCheck | None:
        """Compile the test that a value is listed; values of a type that does not occur in the list break nothing."""
        found = scope.field_type(rule.field, "/field")
        if found is None:
            return None
        member, absent = member_of(placed("/values", rule.values), found, scope), rule.nulls == "violate"

        def breaks(value: Any) -> bool:
            return absent if value is None else member(value) is False

        return check_of_field(rule, breaks, "holds none of the values that the contract allows")

    def refused(self, rule: OneOf) -> Others:
        """Return the refused set: all other values."""
        return Others(rule.field, rule.values, rule.nulls == "violate")

    def sentence_of_value(self, rule: OneOf, values: Values) -> str:
        """Return a sentence with the value."""
        allowed = "none of the values allowed" if rule.set is None else f"not in the set {rule.set}"
        return f"{values.name(rule.field)} is {shown(values[rule.field])}, {allowed}"

    def remedy(self, rule: OneOf, fields: SchemaFields) -> str:  # noqa: ARG002 - part of the interface
        """Return the values that the field may hold."""
        return f"one of: {listed(rule.values)}" if rule.set is None else f"a value of the set {rule.set}"
