"""Rule kinds about fields: each becomes a total check of their values, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import re2  # type: ignore[import-untyped] # it publishes no types

from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.rule_model import Condition, Forbidden, Matches, OneOf, RequiredWhen
from tidegate.contracts.document.terms import Scalar
from tidegate.contracts.rules.compiled import Built, when_missing
from tidegate.contracts.rules.membership import member_of
from tidegate.contracts.rules.scope import Scope

_TEXT: Final = frozenset({"string"})


def build_forbidden(rule: Forbidden, scope: Scope) -> Built | None:
    """Compile a rule of kind `forbidden`."""
    found = scope.field_type(rule.field, "/field")
    if found is None:
        return None
    member, absent = member_of(_placed("/values", rule.values), found, scope), rule.nulls == "violate"

    def breaks(value: Any) -> bool:
        return absent if value is None else member(value) is True

    return _about(rule, breaks, "holds a value that the contract forbids")


def build_one_of(rule: OneOf, scope: Scope) -> Built | None:
    """Compile a rule of kind `one_of`."""
    found = scope.field_type(rule.field, "/field")
    if found is None:
        return None
    member, absent = member_of(_placed("/values", rule.values), found, scope), rule.nulls == "violate"

    def breaks(value: Any) -> bool:
        return absent if value is None else member(value) is False

    return _about(rule, breaks, "holds none of the values that the contract allows")


def build_matches(rule: Matches, scope: Scope) -> Built | None:
    """Compile a rule of kind `matches`. Source: RE2 syntax."""
    found = scope.field_type(rule.field, "/field")
    if found is not None:
        scope.expect(found, _TEXT, "a string", "/field")
    # A set of one pattern answers yes or no six times as fast as a search that also says where.
    patterns = re2.Set.SearchSet(_quiet())
    try:
        re2.compile(rule.pattern, _quiet())  # which says what is wrong; a set does not
        patterns.Add(rule.pattern)
    except re2.error as error:
        scope.refuse("/pattern", f"not a pattern in RE2 syntax: {_reason(error)}")
        return None
    patterns.Compile()
    matching, absent = patterns.Match, rule.nulls == "violate"

    def breaks(value: Any) -> bool:
        if value is None:
            return absent
        return type(value) is str and not matching(value)

    return _about(rule, breaks, "does not match the pattern of the contract")


def build_required_when(rule: RequiredWhen, scope: Scope) -> Built | None:
    """Compile a rule of kind `required_when`; `nulls` makes no difference to it."""
    scope.field_type(rule.field, "/field")
    holds = _condition(rule.when, scope)
    scope.together({"/field": rule.field, "/when/field": rule.when.field})
    if holds is None or scope.problems:
        return None

    def breaks(value: Any, condition: Any) -> bool:
        return value is None and holds(condition)

    paths = (tokens(rule.field), tokens(rule.when.field))
    reason = f"is missing although {rule.when.field.removeprefix('/')} calls for it"
    return Built(paths, breaks, rule.field, f"{rule.field.removeprefix('/')} {reason}")


def _condition(when: Condition, scope: Scope) -> Callable[[Any], bool] | None:
    found = scope.field_type(when.field, "/when/field")
    if found is None:
        return None
    if when.present:
        return lambda value: value is not None
    values = {"/when/equals": when.equals} if when.one_of is None else _placed("/when/one_of", when.one_of)
    member = member_of(values, found, scope)
    return lambda value: member(value) is True


def _placed(place: str, values: tuple[Scalar, ...]) -> dict[str, Scalar]:
    return {f"{place}/{index}": value for index, value in enumerate(values)}


def _about(rule: Forbidden | Matches | OneOf, breaks: Callable[[Any], bool], what: str) -> Built:
    message = f"{rule.field.removeprefix('/')} {what}"
    detail = when_missing((rule.field,), rule.nulls)
    return Built((tokens(rule.field),), breaks, rule.field, message, detail)


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False  # they would go to stderr; the problem says it
    return options


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode() if isinstance(reason, bytes) else str(reason)
