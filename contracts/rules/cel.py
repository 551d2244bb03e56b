"""Rules in the Common Expression Language, through google's cel-expr-python.

A missing key or a null makes a rule unknown; any other error is a violation.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from cel_expr_python import cel

from contracts.fields import join
from contracts.model import Cel
from contracts.rules.kinds import Built, Scope

_CHAIN = re.compile(r"\bthis((?:\.[A-Za-z_][A-Za-z0-9_]*)+)(\s*\()?")
_LITERAL = re.compile(
    r"""[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL
)
_NULL_ERRORS = ("NOT_FOUND", "null_type", "Index error")


@cache
def _environment() -> Any:
    return cel.NewEnv(variables={"this": cel.Type.DYN})


def compile_cel(rule: Cel, scope: Scope) -> Built | None:
    """Compile a CEL rule; None when problems were noted."""
    try:
        expression = _environment().compile(rule.expr)
    except RuntimeError as error:
        scope.refuse("/expr", f"not a CEL expression: {_compile_message(error)}")
        return None
    if expression.return_type() != cel.Type.BOOL:
        name = expression.return_type().name().lower()
        scope.refuse("/expr", f"must be true or false, and is {name}; compare it with something")
    for match in _CHAIN.finditer(_LITERAL.sub('""', rule.expr)):
        path = match[1].split(".")[1:]
        if match[2]:  # the last name is a function's
            path.pop()
        if path:
            scope.field_type(join(tuple(path)), "/expr")
    if scope.problems:
        return None
    absent = rule.nulls == "violate"

    def violates(record: Any) -> bool:
        outcome = evaluate(expression, record)
        return absent if outcome is None else outcome is not True

    return Built("", "breaks the expression of the rule", violates)


def evaluate(expression: Any, record: Any) -> bool | str | None:
    """Evaluate over a record: True, False, None for unknown, or "error"."""
    try:
        result = expression.eval(data={"this": record})
    except RuntimeError:
        return "error"
    if result.type() == cel.Type.BOOL:
        return bool(result.value())
    message = result.value() if result.type() == cel.Type.ERROR else ""
    if any(part in message for part in _NULL_ERRORS):
        return None
    return "error"


def _compile_message(error: RuntimeError) -> str:
    first = str(error).splitlines()[0]
    return re.sub(r"^INVALID_ARGUMENT: ERROR: <input>:(\d+:\d+): ", r"at \1: ", first)
