"""All rules of a contract in a few generated functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.fastpath.cel_rules import LoweredRule, lowered
from tidegate.contracts.fastpath.code_writer import DECODED, CodeWriter
from tidegate.contracts.fastpath.rule_tests import write_field_tests
from tidegate.contracts.rules.cel import holds
from tidegate.contracts.rules.compiled import CompiledRule, CompiledRules
from tidegate.contracts.rules.places import is_deep, is_starred

_Breaks = Callable[[Any, bool], bool]
"""Whether a record breaks a rule, given whether it fits its schema."""


class FastRules:
    """The rules of a contract as generated functions that check many rules together.

    `lowered` are the rules of kind `cel` that can be written into a program, by rule id; `field_rules` those about
    values of fields. All other rules are about whole records or objects at any depth, and are checked one by one.
    """

    def __init__(self, rules: CompiledRules, fields: SchemaFields) -> None:
        self.clock = rules.clock
        self._rules = rules.rules
        self._schema_fields = fields
        # A rule about objects at any depth is checked separately: generated code does not know where these objects are.
        placed = [rule for rule in rules.rules if not any(map(is_deep, rule.check.paths))]
        self.lowered: dict[str, LoweredRule] = {
            rule.id: found
            for rule in placed
            if isinstance(rule.rule, Cel) and (found := lowered(rule.rule)) is not None
        }
        self.field_rules = tuple(rule for rule in placed if rule.check.paths and not rule.check.asks_fit)
        self._of_fields = {rule.id for rule in self.field_rules}
        self._whole = [
            (rule, 1 << index)
            for index, rule in enumerate(rules.rules)
            if rule.id not in self._of_fields and rule.id not in self.lowered
        ]
        self._joined = _joined([rule for rule, _ in self._whole])
        self._compile()

    def _compile(self) -> None:
        program = CodeWriter()
        tests = self.write_tests(program)
        self._fields_hold = program.function([*DECODED], (), "True", "False")
        self._fields: list[tuple[CompiledRule, int]] = []
        self._elements: list[tuple[CompiledRule, int]] = []
        self._lowered: list[tuple[_Breaks, int]] = []
        statements: list[str] = []
        for index, rule in enumerate(self._rules):
            bit, check = 1 << index, rule.check
            if rule.id in self.lowered:
                self._lowered.append((_lowered_breaks(rule, self.lowered[rule.id]), bit))
            elif rule.id not in self._of_fields:
                continue
            elif any(is_starred(path) for path in check.paths):
                self._elements.append((rule, bit))
            else:
                self._fields.append((rule, bit))
                values = ", ".join(program.variable(path) for path in check.paths)
                # In a record that breaks its schema, a value may have any type, and the test of a rule may raise; then
                # the rule's own code decides. One function with an exception handler for each rule takes a third of
                # the time of calling the rules one by one.
                statements += [
                    f"try: holds = {tests[rule.id]}",
                    "except Exception: holds = False",
                    f"if not holds and {program.bind(check.breaks)}({values}): bits += {bit}",
                ]
        self._fields_broken = program.statements(["bits = 0", *statements, "return bits"], "None", DECODED)

    def write_tests(self, program: CodeWriter) -> dict[str, str]:
        """Write the tests of rules about fields, and of lowered rules, into a program.

        Return the former by rule id, as expressions of the program's variables.
        """
        tests = write_field_tests(self.field_rules, self._schema_fields, program)
        for rule in self.lowered.values():
            rule.write(program)
        return tests

    @property
    def reads(self) -> frozenset[str] | None:
        """Return the names of the members of a record that `write_tests` reads; None if rules may read any."""
        paths = [path for rule in self.field_rules for path in rule.check.paths]
        paths += [path for rule in self.lowered.values() for path in (*rule.reads, *rule.holders)]
        return None if self._whole or not all(paths) else frozenset(path[0] for path in paths)

    def exact_statements(self, program: CodeWriter, tests: Mapping[str, str]) -> list[str] | None:
        """Return statements that set `bits` to the broken rules, or return None where the result is uncertain.

        A rule's own check is called only if its test in `tests`, by rule id, does not prove that it holds. Return None
        if a rule cannot be written so, because it is about elements of arrays or about whole records.
        """
        statements: list[str] = []
        for index, rule in enumerate(self._rules):
            check = rule.check
            if any(is_starred(path) for path in check.paths):
                return None
            if rule.id in self.lowered:
                keeps, breaks = self.lowered[rule.id].decide(program)
                statements.append(f"if {breaks}: bits += {1 << index}")
                statements.append(f"elif not {keeps}: return None")
            elif rule.id in tests:
                values = ", ".join(program.decoded(path) for path in check.paths)
                known = f"not ({tests[rule.id]}) and {program.bind(check.breaks)}({values})"
                statements.append(f"if {known}: bits += {1 << index}")
            else:
                return None
        return statements

    @property
    def hold(self) -> Callable[[Any], bool]:
        """Return the test whether a record that fits its schema is known to break no rule; False means unknown."""
        return self._all_hold if self._whole else self._fields_hold

    @property
    def whole_hold(self) -> Callable[[Any], bool] | None:
        """Return the same test for the rules that need the decoded record; None if there are none."""
        return self._whole_hold if self._whole else None

    def _all_hold(self, record: Any) -> bool:
        return self._fields_hold(record) and self._whole_hold(record)

    def _whole_hold(self, record: Any) -> bool:
        if self._joined is not None and self._joined(record):
            return True
        return not any(rule.breaks(record, True) for rule, _ in self._whole)

    def broken(self, record: Any, fits: bool) -> int:  # noqa: FBT001 - called by position for every record
        """Return the bit set of the rules that a record breaks, as `CompiledRules.broken` does."""
        bits: int | None = self._fields_broken(record)
        if bits is None:  # the record is not an object
            bits = sum(bit for rule, bit in self._fields if rule.breaks(record, fits))
        for rule, bit in self._elements:
            if rule.breaks(record, fits):
                bits |= bit
        for breaks, bit in self._lowered:
            if breaks(record, fits):
                bits |= bit
        if self._whole and (self._joined is None or not self._joined(record)):
            for rule, bit in self._whole:
                if rule.breaks(record, fits):
                    bits |= bit
        return bits


def _lowered_breaks(rule: CompiledRule, found: LoweredRule) -> _Breaks:
    if rule.check.asks_fit:  # a rule about a field: the library evaluates it value by value
        return rule.breaks
    known, breaks = found.test(), rule.check.breaks

    def lowered_breaks(record: Any, fits: bool) -> bool:  # noqa: FBT001 - as of a rule
        answer = known(record)
        return breaks(record, fits) if answer is None else answer

    return lowered_breaks


def _joined(rules: list[CompiledRule]) -> Callable[[Any], bool] | None:
    """Compile the test that the expressions of several rules all hold; None if the rules cannot be joined so.

    Most records break no rule, and evaluating all expressions together takes hardly longer than evaluating one.
    """
    expressions = [rule.rule.expr for rule in rules if isinstance(rule.rule, Cel) and rule.rule.field is None]
    if len(expressions) < max(2, len(rules)):
        return None
    return holds(" && ".join(f"({expression}\n)" for expression in expressions))
