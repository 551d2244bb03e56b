"""Rules in the Common Expression Language, through google's cel-expr-python.

A missing key, a missing item or a null makes a rule unknown; any other error is a violation, but not of a record
that breaks its schema anyway, for that says already what is wrong. In CEL a number is a 64-bit integer or a double:
what fits neither is rounded to the nearest double.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, auto
from functools import cache
from typing import Any, Final

from cel_expr_python import cel

from contracts.fields import join
from contracts.model import Cel
from contracts.rules.compiled import Built
from contracts.rules.scope import Scope

_CHAIN = re.compile(r"\bthis((?:\.[A-Za-z_][A-Za-z0-9_]*)+)(\s*\()?")
_LITERAL = re.compile(
    r"""[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL
)
_COMMENT = re.compile(r"//[^\n]*")
_ABSENT: Final = ("NOT_FOUND", "null_type", "Index error")
"""How the library's errors say that a key, a value or an item is not there."""
_MIN_INT, _MAX_UINT = -(2**63), 2**64


class Outcome(Enum):
    """What an expression says of a record."""

    HOLDS = auto()
    BROKEN = auto()
    UNKNOWN = auto()
    ERROR = auto()


_DETAILS: Final = {
    Outcome.UNKNOWN: "lacks a value that the expression of the rule needs",
    Outcome.ERROR: "breaks the expression of the rule: evaluation error",
}


@cache
def _environment() -> Any:
    return cel.NewEnv(variables={"this": cel.Type.DYN})


def build_cel(rule: Cel, scope: Scope) -> Built | None:
    """Compile a rule of kind `cel`; its check also wants to know whether the record fits its schema."""
    try:
        expression = _environment().compile(rule.expr)
    except RuntimeError as error:
        scope.refuse("/expr", f"not a CEL expression: {_reason(error)}")
        return None
    if expression.return_type() != cel.Type.BOOL:
        name = expression.return_type().name().lower()
        scope.refuse("/expr", f"must give true or false, and gives {name}; compare it with something")
    _expect_fields(rule.expr, scope)
    unknown = rule.nulls == "violate"

    def breaks(record: Any, fits: bool) -> bool:  # noqa: FBT001 - called by position for every record
        match evaluate(expression.eval, record):
            case Outcome.HOLDS:
                return False
            case Outcome.BROKEN:
                return True
            case Outcome.UNKNOWN:
                return unknown
            case Outcome.ERROR:
                return fits

    def detail(record: Any) -> str | None:
        return _DETAILS.get(evaluate(expression.eval, record))

    return Built((), breaks, "", "breaks the expression of the rule", detail)


def all_hold(expressions: list[str]) -> Callable[[Any], bool] | None:
    """Compile the test that several sound expressions all hold; None when there are fewer than two.

    Most records break none, and one evaluation takes hardly longer than that of one expression alone.
    """
    if len(expressions) < 2:
        return None
    evaluator = _environment().compile(" && ".join(f"({expression}\n)" for expression in expressions)).eval

    def hold(record: Any) -> bool:
        return _ask(evaluator, record)[0] is Outcome.HOLDS

    return hold


def evaluate(evaluator: Callable[..., Any], record: Any) -> Outcome:
    """Evaluate an expression over a record. Never raises."""
    outcome, reason = _ask(evaluator, record)
    if outcome is not Outcome.ERROR:
        return outcome
    plain = _plain(record)
    if plain is not record:
        outcome, reason = _ask(evaluator, plain)
    if outcome is Outcome.ERROR and "SELECT" in reason:
        # A field of null, or of something that has no fields? Without the nulls it is a missing key.
        bare, _ = _ask(evaluator, _without_nulls(plain))
        return Outcome.UNKNOWN if bare is Outcome.UNKNOWN or record is None else Outcome.ERROR
    return outcome


def _ask(evaluator: Callable[..., Any], record: Any) -> tuple[Outcome, str]:
    try:
        result = evaluator(data={"this": record})
    except RuntimeError:  # such as the budget of iterations
        return Outcome.ERROR, ""
    value = result.value()
    if value is True or value is False:
        return (Outcome.HOLDS if value else Outcome.BROKEN), ""
    reason = str(value)
    is_absent = any(part in reason for part in _ABSENT)
    return (Outcome.UNKNOWN if is_absent else Outcome.ERROR), reason


def _plain(value: Any) -> Any:
    """Turn numbers that CEL does not have into doubles; the same object when there are none."""
    if isinstance(value, dict):
        members = {name: _plain(member) for name, member in value.items()}
        return members if any(members[name] is not value[name] for name in members) else value
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, Decimal) or (isinstance(value, int) and not _MIN_INT <= value < _MAX_UINT):
        return float(Decimal(value))
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _expect_fields(expression: str, scope: Scope) -> None:
    for match in _CHAIN.finditer(_COMMENT.sub("", _LITERAL.sub('""', expression))):
        path = match[1].split(".")[1:]
        if match[2]:  # the last name is that of a function
            path.pop()
        if path:
            scope.field_type(join(tuple(path)), "/expr")


def _reason(error: RuntimeError) -> str:
    first = str(error).splitlines()[0]
    return re.sub(r"^INVALID_ARGUMENT: ERROR: <input>:(\d+:\d+): ", r"at \1: ", first)
