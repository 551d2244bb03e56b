"""One test for all rules about fields, which most records pass.

Most records do not, and asking each rule in turn is most of what rules cost. So the tests of all rules are written as
one function and compiled. It only ever accepts: when it says no, or cannot tell, the rules themselves are asked. Each
test is a plainer one than the rule's own, true only where the rule holds, and property tests hold it to that.

The plain forms look at no type. A value of a type that a rule is not about breaks no rule, so that to accept it is
right, and where Python cannot compare it, the answer is no. Only a Decimal needs care: it does not compare exactly
with a double.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from contracts.fields import SchemaFields
from contracts.model import Forbidden, OneOf, Ordered, Range, Rule, Scalar
from contracts.rules.compiled import Built, Path, read
from contracts.rules.values import DATES, NUMBERS, native, order_of, order_of_times

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


class Program:
    """The text of a function of one `record`. Names and values of a contract are bound, never written into it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._bound: dict[str, Any] = {"read": read, "Decimal": Decimal}
        self._variables: dict[Path, str] = {}

    def bind(self, value: Any) -> str:
        """Name a value."""
        name = f"k{len(self._bound)}"
        self._bound[name] = value
        return name

    def variable(self, path: Path) -> str:
        """Name the variable that holds the value at a path, None where there is none."""
        if path not in self._variables:
            self._variables[path] = name = f"v{len(self._variables)}"
            self.lines.append(f"{name} = {self.reading(path)}")
        return self._variables[path]

    def reading(self, path: Path) -> str:
        """Write the expression that reads a path of a decoded record."""
        return f"get({self.bind(path[0])})" if len(path) == 1 else f"read(record, {self.bind(path)})"

    def function(
        self, before: list[str], tests: list[str], result: str, refusal: str
    ) -> Callable[[Any], Any]:
        """Make the function: `result` if all tests hold, else, or where Python cannot compare, `refusal`."""
        test = " and ".join(f"({test})" for test in tests) or "True"
        body = [*before, *self.lines, "try:", f"    if {test}: return {result}"]
        body += ["except TypeError: pass", f"return {refusal}"]
        text = "\n    ".join(["def function(record):", *body])
        exec(compile(text, "<contract>", "exec"), self._bound)  # noqa: S102 - our own text, nothing of a contract in it
        function: Callable[[Any], Any] = self._bound["function"]
        return function


def sound_test(rules: Sequence[tuple[Rule, Built]], fields: SchemaFields) -> Callable[[Any], bool]:
    """Compile the test of rules about fields.

    The function takes any decoded record. True means that it breaks none of the rules; False says nothing.
    """
    program = Program()
    tests = sound_tests(rules, fields, program)
    before = ["if type(record) is not dict: return False", "get = record.get"]
    return program.function(before, tests, "True", "False")


def sound_tests(rules: Sequence[tuple[Rule, Built]], fields: SchemaFields, program: Program) -> list[str]:
    """Write the tests of the rules about fields as expressions of a program's variables."""
    source = _Source(program)
    return [source.test(rule, check, fields) for rule, check in rules]


class _Source:
    """Writes tests for one program."""

    def __init__(self, program: Program) -> None:
        self._variable = program.variable
        self._bind = program.bind

    def test(self, rule: Rule, check: Built, fields: SchemaFields) -> str:
        """Write the test of one rule: its plain form, or the rule itself."""
        variables = [self._variable(path) for path in check.paths]
        plain = self._plain(rule, variables, fields)
        if plain is None:
            return f"not {self._bind(check.breaks)}({', '.join(variables)})"
        if rule.nulls == "violate":
            return " and ".join([f"{variable} is not None" for variable in variables] + [plain])
        return " or ".join([f"{variable} is None" for variable in variables] + [plain])

    def _plain(self, rule: Rule, variables: list[str], fields: SchemaFields) -> str | None:
        """Write the plain form over values that are not null; None when there is none."""
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
        if found is None or order_of_times(found) not in {None, DATES}:
            return None
        if {type(value) for value in values} not in ({str}, {int}):
            return None
        return f"{variable} {word} {self._bind(frozenset(values))}"

    def _range(self, rule: Range, variable: str, fields: SchemaFields) -> str | None:
        limits = {name: limit for name in _COMPARISONS if (limit := getattr(rule, name)) is not None}
        found = fields.find(rule.field)
        if found is None:
            return None
        if all(isinstance(limit, str) for limit in limits.values()):
            if order_of_times(found) is not DATES:
                return None
        else:
            limits = {name: native(limit) for name, limit in limits.items()}
        tests = [f"{variable} {_COMPARISONS[name]} {self._bind(limit)}" for name, limit in limits.items()]
        if any(isinstance(limit, float) for limit in limits.values()):
            tests.insert(0, f"type({variable}) is not Decimal")
        return " and ".join(tests)

    def _ordered(self, rule: Ordered, variables: list[str], fields: SchemaFields) -> str | None:
        orders = {order_of(found) for pointer in rule.fields if (found := fields.find(pointer)) is not None}
        comparison = " < " if rule.strict else " <= "
        if orders == {DATES}:
            kinds = []
        elif orders == {NUMBERS}:
            kinds = [f"type({each}) is int" for each in variables]
        else:
            return None
        if len(variables) > 2 and rule.nulls == "pass":
            return None  # with one of three missing, the two others still have an order
        return " and ".join((*kinds, comparison.join(variables)))
