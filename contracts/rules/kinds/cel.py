"""The rule kind `cel`: an expression over a record (`this`), or over a field of it (`value`).

`contracts/rules/cel.py` evaluates it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidegate.contracts.document.fields import SchemaFields, join
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.rules.cel import build_cel, named_paths
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.rule_kind import BrokenExpression, RuleKind, Scope, Values
from tidegate.contracts.words import shown

_CITED = re.compile(r"\bthis((?:\.[A-Za-z_][A-Za-z0-9_]*+)++)(?!\s*\()")
"""A chain of members, such as `this.a.b`. Possessive, so that `this.a.size(` does not match as `this.a.siz`."""
_KEYED = re.compile(r"""\bthis\[\s*(?:'([^'\\]+)'|"([^"\\]+)")\s*\]""")
"""A member by its quoted name, such as `this["a b"]`."""
_BARE = re.compile(r"\bthis\b(?!\s*[.\[])")
"""`this` as a value, without a member."""


class CelKind(RuleKind[Cel]):
    """Rules with a CEL expression, which a record breaks if it is false. Missing values: see `contracts/rules/cel.py`."""

    def compile(self, rule: Cel, scope: Scope) -> FieldCheck | None:
        """Compile the expression."""
        return build_cel(rule, scope)

    def fields(self, rule: Cel) -> tuple[str, ...]:
        """Return the field of the rule, and those that its expression names."""
        return tuple(dict.fromkeys([*_own(rule), *_named(rule.expr)]))

    def place(self, rule: Cel) -> str:
        """Return the field of the rule; "" (the record) without one."""
        return rule.field or ""

    def cited(self, rule: Cel) -> tuple[str, ...]:
        """Return the field of the rule, and those that its expression reads.

        Chains that end with a method call are left out, because their last name is no field.
        """
        paths = (path.replace(".", "/") for path in _CITED.findall(rule.expr))
        return tuple(dict.fromkeys([*_own(rule), *paths]))

    def places(self, rule: Cel) -> tuple[str, ...]:
        """Return the fields, and "" for the whole record if the expression uses it as a value."""
        fields = self.fields(rule)
        return (*fields, "") if not fields or _BARE.search(rule.expr) else fields

    def refused(self, rule: Cel) -> BrokenExpression:
        """Return the refused set: records that violate the expression."""
        return BrokenExpression(rule)

    def sentence(self, rule: Cel, values: Values) -> str | None:
        """Return a sentence with the values that the expression reads."""
        said = ", ".join(
            f"no {values.name(pointer)}"
            if values[pointer] is None
            else f"{values.name(pointer)} {shown(values[pointer])}"
            for pointer in self.cited(rule)
        )
        return f"the expression of the rule does not hold with {said}" if said else None

    def remedy(self, rule: Cel, fields: SchemaFields) -> str:  # noqa: ARG002 - part of the interface
        """Return the words `values for which this is true:` and the expression, on one line."""
        return f"values for which this is true: {' '.join(rule.expr.split())}"


def _own(rule: Cel) -> tuple[str, ...]:
    return () if rule.field is None else (rule.field,)


def _named(expression: str) -> Iterator[str]:
    yield from (join(path) for path in named_paths(expression))
    for match in _KEYED.finditer(expression):
        yield join((match[1] or match[2],))
