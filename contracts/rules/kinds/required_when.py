"""The rule kind `required_when`: a field is required if another field has certain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.contracts.document.fields import SchemaFields, tokens
from tidegate.contracts.document.rule_model import Condition, RequiredWhen
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.rule_kind import AbsentWhen, RuleKind, Scope, Values
from tidegate.contracts.rules.values import member_of, placed
from tidegate.contracts.words import listed, name_of, shown


class RequiredWhenKind(RuleKind[RequiredWhen]):
    """Rules by which a field must be present and not null if a condition holds; `nulls` has no effect."""

    def compile(self, rule: RequiredWhen, scope: Scope) -> FieldCheck | None:
        """Compile the test that the condition holds and the field is missing or null."""
        scope.field_type(rule.field, "/field")
        holds = _condition(rule.when, scope)
        scope.together({"/field": rule.field, "/when/field": rule.when.field})
        if holds is None or scope.problems:
            return None

        def breaks(value: Any, condition: Any) -> bool:
            return value is None and holds(condition)

        paths = (tokens(rule.field), tokens(rule.when.field))
        reason = f"is missing although {rule.when.field.removeprefix('/')} calls for it"
        return FieldCheck(paths, breaks, rule.field, f"{rule.field.removeprefix('/')} {reason}")

    def fields(self, rule: RequiredWhen) -> tuple[str, ...]:
        """Return the field, and the field of the condition."""
        return (rule.field, rule.when.field)

    def cited(self, rule: RequiredWhen) -> tuple[str, ...]:
        """Return the field of the condition; the required field is missing, so it has no value."""
        return (rule.when.field,)

    def refused(self, rule: RequiredWhen) -> AbsentWhen | None:
        """Return the refused set: records without the field when required; None for a negated condition."""
        if rule.when.is_negated:
            return None
        return AbsentWhen(rule.field, rule.when.field, rule.when.values)

    def sentence(self, rule: RequiredWhen, values: Values) -> str:
        """Return a sentence with the value that requires the field."""
        condition = f"{values.name(rule.when.field)} is {shown(values[rule.when.field])}"
        return f"{values.name(rule.field)} is missing although {condition}"

    def remedy(self, rule: RequiredWhen, fields: SchemaFields) -> str:  # noqa: ARG002 - part of the interface
        """Return both remedies: the field, or another value in the field of the condition."""
        other = name_of(rule.when.field)
        values = rule.when.values
        if rule.when.is_negated:
            return f"a value in {name_of(rule.field)}, or {listed(values or ())} in {other}"
        without = f"no {other}" if values is None else f"{other} other than {listed(values)}"
        return f"a value in {name_of(rule.field)}, or {without}"


def _condition(when: Condition, scope: Scope) -> Callable[[Any], bool] | None:
    found = scope.field_type(when.field, "/when/field")
    if found is None:
        return None
    if when.present:
        return lambda value: value is not None
    if when.is_negated:
        member = member_of({"/when/not_equals": when.not_equals}, found, scope)
        return lambda value: value is not None and member(value) is not True
    values = {"/when/equals": when.equals} if when.one_of is None else placed("/when/one_of", when.one_of)
    member = member_of(values, found, scope)
    return lambda value: member(value) is True
