"""The rule kind `freshness`: how old a date or timestamp may be. It is a range whose bounds are relative to now."""

from __future__ import annotations

from typing import Final

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.rule_model import Freshness
from tidegate.contracts.rules.clock import span_of
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.kinds.range import outside_times, require_moments
from tidegate.contracts.rules.rule_kind import FieldRuleKind, Outside, Scope, Values, check_of_field
from tidegate.contracts.words import shown, time_of

_SPAN: Final = "a span, such as `15 minutes` or `PT15M`"


class FreshnessKind(FieldRuleKind[Freshness]):
    """Rules by which the moment in a field must be recent."""

    def compile(self, rule: Freshness, scope: Scope) -> FieldCheck | None:
        """Compile the comparison with now."""
        found = scope.field_type(rule.field, "/field")
        spans = {"max_age": rule.max_age} | ({} if rule.max_ahead is None else {"max_ahead": rule.max_ahead})
        unread = {name: span for name, span in spans.items() if span_of(span) is None}
        for name, span in unread.items():
            scope.refuse(f"/{name}", f"`{span}` is not a span of time; write {_SPAN}")
        order = None if found is None else require_moments(found, scope)
        if order is None or unread:
            return None
        absent = rule.nulls == "violate"
        breaks = outside_times(_limits(rule), order, rule.now, scope, absent=absent, place="/field")
        ahead = f" or more than {rule.max_ahead} ahead" if rule.max_ahead is not None else ""
        return (
            None if breaks is None else check_of_field(rule, breaks, f"is older than {rule.max_age}{ahead}")
        )

    def refused(self, rule: Freshness) -> Outside:
        """Return the refused set: times outside of the bounds relative to now."""
        return Outside(rule.field, _limits(rule), rule.nulls == "violate", rule.now)

    def sentence_of_value(self, rule: Freshness, values: Values) -> str:
        """Return a sentence with the moment. `now` is no longer known, so with two bounds either may be broken."""
        found = values.fields.find(rule.field)
        value = values[rule.field]
        text = shown(value) if found is None or len(found.times) != 1 else time_of(value, *found.times)
        ahead = f", or more than {rule.max_ahead} ahead" if rule.max_ahead else ""
        return f"{values.name(rule.field)} {text} was more than {rule.max_age} old{ahead}"

    def remedy(self, rule: Freshness, fields: SchemaFields) -> str:  # noqa: ARG002 - part of the interface
        """Return the bounds."""
        ahead = f" and at most {rule.max_ahead} ahead" if rule.max_ahead else ""
        return f"a moment at most {rule.max_age} old{ahead}"


def _limits(rule: Freshness) -> dict[str, str]:
    """Return the spans as bounds of a range."""
    ahead = {} if rule.max_ahead is None else {"not_after": f"now + {rule.max_ahead}"}
    return {"not_before": f"now - {rule.max_age}", **ahead}
