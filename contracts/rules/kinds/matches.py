"""The rule kind `matches`: a pattern for text."""

from __future__ import annotations

from typing import Any, Final

import re2  # type: ignore[import-untyped] # it publishes no types

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.rule_model import Matches
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.rule_kind import FieldRuleKind, Scope, Unmatched, Values, check_of_field
from tidegate.contracts.words import shown

_TEXT: Final = frozenset({"string"})


class MatchesKind(FieldRuleKind[Matches]):
    """Rules by which the text of a field must contain a match of a pattern. Source: RE2 syntax."""

    def compile(self, rule: Matches, scope: Scope) -> FieldCheck | None:
        """Compile the pattern; values other than text break nothing."""
        found = scope.field_type(rule.field, "/field")
        if found is not None:
            scope.expect(found, _TEXT, "a string", "/field")
        # A set of one pattern only tests for a match, six times as fast as a search that also finds its position.
        patterns = re2.Set.SearchSet(_quiet())
        try:
            single = re2.compile(rule.pattern, _quiet())  # for its error message, which a set does not have
            patterns.Add(rule.pattern)
        except re2.error as error:
            scope.refuse("/pattern", f"not a pattern in RE2 syntax: {_reason(error)}")
            return None
        matching, absent = patterns.Match, rule.nulls == "violate"
        try:
            patterns.Compile()
        except re2.error:  # it has less memory than a single pattern
            matching = single.search

        def breaks(value: Any) -> bool:
            if value is None:
                return absent
            return type(value) is str and not matching(value)

        return check_of_field(rule, breaks, "does not match the pattern of the contract")

    def refused(self, rule: Matches) -> Unmatched:
        """Return the refused set: texts that do not match."""
        return Unmatched(rule.field, rule.pattern, rule.nulls == "violate")

    def sentence_of_value(self, rule: Matches, values: Values) -> str:
        """Return a sentence with the text."""
        return f"{values.name(rule.field)} is {shown(values[rule.field])}, not of the form {rule.pattern}"

    def remedy(self, rule: Matches, fields: SchemaFields) -> str:  # noqa: ARG002 - part of the interface
        """Return the pattern to match."""
        return f"text of the form {rule.pattern}"


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 would log to stderr what the problem already reports
    return options


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode() if isinstance(reason, bytes) else str(reason)
