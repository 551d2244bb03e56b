"""Rules of kind `cel` as tests of a generated function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.fastpath.cel_lowered import NotLoweredError
from tidegate.contracts.fastpath.cel_lowering import lower
from tidegate.contracts.fastpath.code_writer import DECODED, CodeWriter, all_of, any_of
from tidegate.contracts.rules.cel import breaks_unknown, roots_of, tree_of
from tidegate.contracts.rules.cel_syntax import Node, Roots
from tidegate.contracts.rules.places import Path


@dataclass(frozen=True, slots=True)
class LoweredRule:
    """A rule of kind `cel` that can be generated as code, with the syntax tree and roots of its expression."""

    rule: Cel
    node: Node
    roots: Roots

    @property
    def reads(self) -> frozenset[Path]:
        """Return the paths that the expression reads."""
        return self.roots.paths(self.node)

    @property
    def holders(self) -> frozenset[Path]:
        """Return the paths whose list or map the expression uses as a whole."""
        return self.roots.holders(self.node)

    def decide(self, program: CodeWriter) -> tuple[str, str]:
        """Return the test that the rule certainly holds, and the test that it is certainly broken."""
        keeps, breaks = self._answers(program)
        if self.rule.field is None:
            return keeps, breaks
        variable = program.variable(self.roots.value)
        is_absent, is_there = f"{variable} is None", f"{variable} is not None"
        if self.rule.nulls == "pass":
            return any_of(is_absent, keeps), all_of(is_there, breaks)
        return all_of(is_there, keeps), any_of(is_absent, breaks)

    def write(self, program: CodeWriter) -> None:
        """Add to a program the test that the rule certainly holds."""
        program.require(self.decide(program)[0], (self.roots.value,), without_array=self.rule.nulls == "pass")

    def test(self) -> Callable[[Any], bool | None]:
        """Compile a function that returns whether a record breaks the expression; None if that is uncertain."""
        program = CodeWriter()
        keeps, breaks = self._answers(program)
        return program.statements([f"if {keeps}: return False", f"if {breaks}: return True"], "None", DECODED)

    def _answers(self, program: CodeWriter) -> tuple[str, str]:
        tests = lower(self.node, program, self.roots)
        if breaks_unknown(self.rule):
            return tests.holds, tests.misses
        return tests.passes, tests.fails


def lowered(rule: Cel) -> LoweredRule | None:
    """Lower a rule; return None if its expression must be left to the CEL library."""
    found = LoweredRule(rule, tree_of(rule), roots_of(rule))
    try:
        found.decide(CodeWriter())
    except NotLoweredError:
        return None
    return found
