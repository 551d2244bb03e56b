"""Write one combined test for all rules about fields, which most records pass.

Most records break no rule, and most of the cost of rules is calling each of them. So the tests of all rules are compiled
into one function. It only accepts: if it returns false or raises, the rules themselves decide. Each test is simpler than
the rule's own, and true only if the rule holds; property tests check this.

The simple forms ignore types. A value of a type that a rule does not check breaks no rule, so accepting it is correct.
If Python cannot compare the value, the test raises. Only a Decimal needs care, because it does not compare exactly with
a double.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final

from tidegate.contracts.document.fields import FieldType, SchemaFields, tokens
from tidegate.contracts.document.rule_model import AMOUNT_BOUNDS, Forbidden, OneOf, Ordered, Range, Rule
from tidegate.contracts.document.terms import Scalar
from tidegate.contracts.document.times import instant_text
from tidegate.contracts.fastpath.code_writer import DATE, CodeWriter
from tidegate.contracts.rules.clock import offset_of_now
from tidegate.contracts.rules.compiled import CompiledRule, FieldCheck
from tidegate.contracts.rules.places import Path
from tidegate.contracts.rules.values import (
    DATES,
    INSTANTS,
    NUMBERS,
    Order,
    is_large,
    number_of,
    order_of,
    order_of_durations,
    order_of_times,
)

_COMPARISONS: Final = {
    "minimum": ">=",
    "exclusive_minimum": ">",
    "maximum": "<=",
    "exclusive_maximum": "<",
    "not_before": ">=",
    "after": ">",
    "not_after": "<=",
    "before": "<",
}


_FEW_VALUES: Final = 3
_INT_OR_DOUBLE: Final = frozenset({int, float})
_COUNTED: Final = frozenset({"integer", "null"})


def write_field_tests(
    rules: Sequence[CompiledRule], fields: SchemaFields, program: CodeWriter
) -> dict[str, str]:
    """Write the tests of rules about values of fields into a program.

    Return them by rule id, as expressions of the program's variables. A test that is true proves that its rule is not
    broken; a test that is false proves nothing.
    """
    source = _Source(program)
    tests = {}
    for each in rules:
        rule, check = each.rule, each.check
        # Without the array, a value to compare is missing. Leave that to the rule, unless it passes for a missing value.
        passes = len(check.paths) == 1 and rule.nulls == "pass"
        tests[each.id] = source.test(rule, check, fields)
        program.require(tests[each.id], check.paths, without_array=passes)
    return tests


class _Source:
    """Writes tests for one program."""

    def __init__(self, program: CodeWriter) -> None:
        self._variable = program.variable
        self._decoded = program.decoded
        self._bind = program.bind
        self._is_certain = program.is_certain
        self._types = program.types

    def test(self, rule: Rule, check: FieldCheck, fields: SchemaFields) -> str:
        """Return the test of one rule: its plain form, or a call of the rule's own check."""
        variables = [self._variable(path) for path in check.paths]
        plain = self._plain(rule, variables, fields)
        if plain is None:
            values = ", ".join(self._decoded(path) for path in check.paths)
            return f"not {self._bind(check.breaks)}({values})"
        doubtful = [variable for variable in variables if not self._is_certain(variable)]
        if rule.nulls == "violate":
            return " and ".join([f"{variable} is not None" for variable in doubtful] + [plain])
        return " or ".join([f"{variable} is None" for variable in doubtful] + [plain])

    def _plain(self, rule: Rule, variables: list[str], fields: SchemaFields) -> str | None:
        """Return the plain form for values that are not null; None if there is none."""
        match rule:
            case Forbidden():
                return self._membership(rule.values, rule.field, variables[0], "not in", fields)
            case OneOf():
                return self._membership(rule.values, rule.field, variables[0], "in", fields)
            case Range():
                return self._range(rule, variables[0], fields)
            case Ordered():
                return self._ordered(rule, variables, fields)
            case _:
                return None

    def _membership(
        self, values: tuple[Scalar, ...], field: str, variable: str, word: str, fields: SchemaFields
    ) -> str | None:
        found = fields.find(field)
        if found is None or order_of_durations(found) or self._types(tokens(field)) == DATE:
            return None
        kinds, order = {type(value) for value in values}, order_of_times(found)
        if kinds not in ({str}, {int}):
            return None
        if order is not None and order.scale is not None:
            if kinds != {str} or not _is_counted(found):
                return None
            variable, values = _count(variable, order), tuple(order.parse(value) for value in values)
        elif order not in {None, DATES}:
            return None
        # Equality with a large double is not exact, so that only integers are compared here.
        has_large = kinds == {int} and any(isinstance(value, int) and is_large(value) for value in values)
        only_ints = f"type({variable}) is int and " if has_large else ""
        if len(values) <= _FEW_VALUES:  # comparing is faster than hashing
            comparison, and_or = ("!=", " and ") if word == "not in" else ("==", " or ")
            return f"{only_ints}({and_or.join(f'{variable} {comparison} {self._bind(value)}' for value in values)})"
        return f"{only_ints}{variable} {word} {self._bind(frozenset(values))}"

    def _range(self, rule: Range, variable: str, fields: SchemaFields) -> str | None:
        limits = rule.limits
        found, path = fields.find(rule.field), tokens(rule.field)
        if found is None:
            return None
        if not limits.keys() & set(AMOUNT_BOUNDS):
            return self._times(found, limits, variable, path)
        limits = {name: number_of(limit) for name, limit in limits.items()}
        if found.times or any(isinstance(limit, Decimal) for limit in limits.values()):
            return None
        types = self._types(path)
        if any(map(is_large, limits.values())):  # comparing with a large double is not exact
            return f"type({variable}) is int and {self._compared(variable, limits)}"
        if (
            types == _INT_OR_DOUBLE
        ):  # usually a double, which Python compares faster with a double than with an int
            limits = {name: _as_double(limit) for name, limit in limits.items()}
        test = self._compared(variable, limits)
        if types is None and any(isinstance(limit, float) for limit in limits.values()):
            return f"type({variable}) is not Decimal and {test}"
        return test

    def _times(self, found: FieldType, limits: Mapping[str, Any], variable: str, path: Path) -> str | None:
        """Return the test of dates, or of moments as text, with limits that do not depend on now; else None."""
        order = order_of_times(found)
        if order is INSTANTS:
            return self._instants(limits, variable)
        if order is None or any(offset_of_now(limit) is not None for limit in limits.values()):
            return None
        if order.scale is not None:
            limits = {name: order.parse(limit) for name, limit in limits.items()}
            return self._compared(_count(variable, order), limits) if _is_counted(found) else None
        if order is not DATES:
            return None
        if self._types(path) == DATE:
            limits = {name: _as_date(limit) for name, limit in limits.items()}
        return None if None in limits.values() else self._compared(variable, limits)

    def _compared(self, variable: str, limits: Mapping[str, Any]) -> str:
        tests = (f"{variable} {_COMPARISONS[name]} {self._bind(limit)}" for name, limit in limits.items())
        return " and ".join(tests)

    def _instants(self, limits: Mapping[str, Any], variable: str) -> str | None:
        """Return the comparison as text of moments in UTC without a fraction; None if a bound is not of that form.

        Leap seconds are left out: one equals the next second, but its text sorts before it.
        """
        texts = {name: instant_text(limit) for name, limit in limits.items()}
        if None in texts.values():
            return None
        form = f'len({variable}) == 20 and {variable}[10] == "T" and {variable}[17] < "6" and {variable}[19] == "Z"'
        return f"{form} and {self._compared(variable, texts)}"

    def _ordered(self, rule: Ordered, variables: list[str], fields: SchemaFields) -> str | None:
        types = [field for each in rule.fields if (field := fields.find(each))]
        found = [order for field in types if (order := order_of(field))]
        orders, comparison = set(found), " < " if rule.strict else " <= "
        kinds: list[str] = []
        if rule.compare_as is not None or len(found) < len(rule.fields):
            return None
        if all(order.scale is not None for order in found):
            if not all(map(_is_counted, types)):
                return None
            variables = [_count(*each) for each in zip(variables, found, strict=True)]
        elif orders == {DATES}:
            if len({self._types(tokens(pointer)) == DATE for pointer in rule.fields}) > 1:
                return None
        elif orders == {NUMBERS}:
            kinds = [f"type({each}) is int" for each in variables]
        else:
            return None
        if len(variables) > 2 and rule.nulls == "pass":
            return None  # if one of three values is missing, the order of the others still counts
        return " and ".join((*kinds, comparison.join(variables)))


def _is_counted(found: FieldType) -> bool:
    """Return whether a field holds only integers (or null); Python would repeat a text or list times a number."""
    return found.types <= _COUNTED


def _count(variable: str, order: Order) -> str:
    """Return the expression for an integer that counts from 1970, scaled to the key of its order."""
    return variable if order.scale == 1 else f"{variable} * {order.scale}"


def _as_date(limit: str) -> date | None:
    """Return the date; None for a date of the year 0, which Python lacks."""
    try:
        return date.fromisoformat(limit)
    except ValueError:
        return None


def _as_double(limit: Any) -> Any:
    """Return the double that equals an integer limit exactly; the limit itself if there is none."""
    try:
        double = float(limit)
    except (OverflowError, TypeError, ValueError):
        return limit
    return double if type(limit) is int and double == limit else limit
