"""Rules in the Common Expression Language, evaluated by Google's cel-expr-python.

A missing key, a missing item or a null makes a rule unknown. Any other error is a violation, except for a record that
violates its schema, because the schema already gives the reason. In CEL a number is a 64-bit integer or a double; all
other numbers are rounded to the nearest double.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Any, Final

import orjson
from cel_expr_python import cel
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.document.times import NANOSECONDS, instant_key
from tidegate.contracts.rules.cel_functions import EXHAUSTED, MAX_ITERATIONS, begin, declarations
from tidegate.contracts.rules.cel_syntax import Node, Roots, syntax_of
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.places import EACH, Path
from tidegate.contracts.rules.rule_kind import Scope

_CHAIN = re.compile(r"\bthis((?:\.[A-Za-z_][A-Za-z0-9_]*)+)(\s*\()?")
_LITERAL = re.compile(
    r"""[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL
)
_COMMENT = re.compile(r"//[^\n]*")
_ABSENT: Final = ("NOT_FOUND", "null_type", "Index error")
"""Texts in the library's errors about a missing key, value or item."""
_SYNTAX: Final = "Syntax error"
"""Text in the library's messages about invalid syntax, but not in those about unknown names."""
_MIN_INT, _MAX_UINT = -(2**63), 2**64


class ExpressionResult(Enum):
    """The result of an expression for a record."""

    HOLDS = auto()
    BROKEN = auto()
    UNKNOWN = auto()
    ERROR = auto()
    EXHAUSTED = auto()
    """The evaluation takes more iterations than the library allows. A rule treats it as an error."""


_DETAILS: Final = {
    ExpressionResult.UNKNOWN: "lacks a value that the expression of the rule needs",
    ExpressionResult.ERROR: "breaks the expression of the rule: evaluation error",
    ExpressionResult.EXHAUSTED: f"takes more than {MAX_ITERATIONS:,} iterations to evaluate the expression of the rule",
}


_THIS: Final = ("this",)
_WITH_FIELD: Final = ("value", "parent", "this")


@cache
def _environment(names: tuple[str, ...] = _THIS) -> Any:
    return cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN), functions=declarations())


def build_cel(rule: Cel, scope: Scope) -> FieldCheck | None:
    """Compile a rule of kind `cel`; its check also takes whether the record fits its schema."""
    if rule.field is not None:
        scope.field_type(rule.field, "/field")
    names = _THIS if rule.field is None else _WITH_FIELD
    expression = _compiled(rule, scope, names)
    if expression is None:
        return None
    unknown = breaks_unknown(rule)

    def breaks(record: Any, fits: bool) -> bool:  # noqa: FBT001 - called by position for every record
        return _is_broken(evaluate(expression.eval, record), fits=fits, unknown=unknown)

    def detail(record: Any) -> str | None:
        return _DETAILS.get(evaluate(expression.eval, record))

    if rule.field is not None:
        return _built_of_field(rule, rule.field, expression.eval)
    return FieldCheck((), breaks, "", "breaks the expression of the rule", detail)


def _built_of_field(rule: Cel, field: str, evaluator: Callable[..., Any]) -> FieldCheck:
    roots = roots_of(rule)
    name, absent, unknown = field.removeprefix("/"), rule.nulls == "violate", breaks_unknown(rule)

    def breaks(value: Any, parent: Any, record: Any, fits: bool) -> bool:  # noqa: FBT001 - as of a whole record
        if value is None:
            return absent
        found = evaluate_with(evaluator, {"value": value, "parent": parent, "this": record})
        return _is_broken(found, fits=fits, unknown=unknown)

    def detail(value: Any, parent: Any, record: Any) -> str | None:
        if value is None:
            return f"{name} is missing or null"
        found = evaluate_with(evaluator, {"value": value, "parent": parent, "this": record})
        return f"{name} {_DETAILS[found]}" if found in _DETAILS else None

    message = f"{name} breaks the expression of the rule"
    return FieldCheck((roots.value, roots.parent, ()), breaks, field, message, detail, asks_fit=True)


def roots_of(rule: Cel) -> Roots:
    """Return the paths of the variables that the expression of a rule can use."""
    if rule.field is None:
        return Roots()
    path = tokens(rule.field)
    holder = path
    while holder and holder[-1] == EACH:
        holder = holder[:-1]
    return Roots(path, holder[:-1])


def _is_broken(outcome: ExpressionResult, *, fits: bool, unknown: bool) -> bool:
    match outcome:
        case ExpressionResult.HOLDS:
            return False
        case ExpressionResult.BROKEN:
            return True
        case ExpressionResult.UNKNOWN:
            return unknown
        case ExpressionResult.ERROR | ExpressionResult.EXHAUSTED:
            return fits


def _compiled(rule: Cel, scope: Scope, names: tuple[str, ...]) -> Any:
    """Compile the expression with the library. Return None and record problems if it cannot be a rule."""
    try:
        expression = _environment(names).compile(rule.expr)
    except RuntimeError as error:
        scope.refuse("/expr", f"not a CEL expression: {_reason(error)}")
        return None
    if expression.return_type() != cel.Type.BOOL:
        name = expression.return_type().name().lower()
        scope.refuse("/expr", f"must give true or false, and gives {name}; compare it with something")
    for path in named_paths(_COMMENT.sub("", _LITERAL.sub('""', rule.expr))):
        scope.field_type(join(path), "/expr")
    return None if scope.problems else expression


def breaks_unknown(rule: Cel) -> bool:
    """Return whether a record breaks a rule if a value that the expression needs is missing.

    For a rule without a field, `nulls` decides. For a rule about a field, `nulls` only concerns the field itself.
    """
    return rule.strict or (rule.field is None and rule.nulls == "violate")


def tree_of(rule: Cel) -> Node:
    """Return the syntax tree of a rule; None if its expression does not compile."""
    try:
        return syntax_of(_environment(_THIS if rule.field is None else _WITH_FIELD).compile(rule.expr))
    except RuntimeError:
        return None


def gives(expression: str, names: tuple[str, ...] = _THIS) -> str | None:
    """Return the result type of an expression, such as bool or dyn; None if it does not compile."""
    try:
        return str(_environment(names).compile(expression).return_type().name().lower())
    except RuntimeError:
        return None


def syntax_error(expression: str) -> str | None:
    """Return the syntax error of an expression; None without one, even if names or functions are unknown."""
    try:
        _environment().compile(expression)
    except RuntimeError as error:
        return _reason(error) if _SYNTAX in str(error) else None
    return None


def outcome_of(expression: str, variables: dict[str, Any]) -> ExpressionResult | None:
    """Evaluate an expression over named values; return None if it does not compile."""
    evaluator = _evaluator(expression, tuple(variables))
    return None if evaluator is None else evaluate_with(evaluator, variables)


@lru_cache(maxsize=256)
def _evaluator(expression: str, names: tuple[str, ...]) -> Callable[..., Any] | None:
    """Return the evaluation function of an expression; None if it does not compile."""
    try:
        evaluator: Callable[..., Any] = _environment(names).compile(expression).eval
    except RuntimeError:
        return None
    return evaluator


def holds(expression: str) -> Callable[[Any], bool]:
    """Compile the test that an expression certainly holds for a decoded record; a false result proves nothing."""
    evaluator = _environment().compile(expression).eval
    return lambda record: _ask(evaluator, {"this": record})[0] is ExpressionResult.HOLDS


def evaluate(evaluator: Callable[..., Any], record: Any) -> ExpressionResult:
    """Evaluate an expression over a record. Never raises."""
    return evaluate_with(evaluator, {"this": record})


def evaluate_with(evaluator: Callable[..., Any], variables: dict[str, Any]) -> ExpressionResult:
    """Evaluate an expression over named values. Never raises."""
    outcome, reason = _ask(evaluator, variables)
    if outcome is not ExpressionResult.ERROR:
        return outcome
    plain = {name: _plain(value) for name, value in variables.items()}
    if any(plain[name] is not variables[name] for name in plain):
        outcome, reason = _ask(evaluator, plain)
    if outcome is ExpressionResult.ERROR and "SELECT" in reason:
        # The expression selects a field of null, or of a value without fields. Without the nulls, the former is a
        # missing key.
        bare, _ = _ask(evaluator, {name: _without_nulls(value) for name, value in plain.items()})
        return (
            ExpressionResult.UNKNOWN
            if bare is ExpressionResult.UNKNOWN or variables["this"] is None
            else ExpressionResult.ERROR
        )
    return outcome


def _ask(evaluator: Callable[..., Any], variables: dict[str, Any]) -> tuple[ExpressionResult, str]:
    begin()
    try:
        result = evaluator(data=whole(variables))
    except RuntimeError as error:
        return (ExpressionResult.EXHAUSTED if EXHAUSTED in str(error) else ExpressionResult.ERROR), ""
    value = result.value()
    if value is True or value is False:
        return (ExpressionResult.HOLDS if value else ExpressionResult.BROKEN), ""
    reason = str(value)
    if EXHAUSTED in reason:
        return ExpressionResult.EXHAUSTED, ""
    is_absent = any(part in reason for part in _ABSENT)
    return (ExpressionResult.UNKNOWN if is_absent else ExpressionResult.ERROR), reason


def _plain(value: Any) -> Any:
    """Return a value with doubles for numbers that CEL cannot represent; the same object if there are none."""
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


def named_paths(expression: str) -> Iterator[Path]:
    """Yield the path of each chain of members of the record, such as `this.a.b`; text and comments count too."""
    for match in _CHAIN.finditer(expression):
        path = tuple(match[1].split(".")[1:])
        if match[2]:  # the last name is a function
            path = path[:-1]
        if path:
            yield path


def _reason(error: RuntimeError) -> str:
    first = str(error).splitlines()[0]
    return re.sub(r"^INVALID_ARGUMENT: ERROR: <input>:(\d+:\d+): ", r"at \1: ", first)


_ZERO: Final = "\0"
_WRITTEN: Final = b"\\u0000"
"""The escape of U+0000 in JSON."""
_NO_CHARACTER: Final = "\ufffe"
"""Replaces U+0000 in names, which cannot be wrapped in a message; a noncharacter that no text contains."""


def whole(variables: dict[str, Any]) -> dict[str, Any]:
    """Return the variables in a form that the library reads completely; the same object if nothing must change.

    The library's Python binding cuts a `str` or `bytes` at its first U+0000, and rejects a map with two names that are
    equal up to there. It reads a message of the wrapper types completely, as the wrapped text. A member with U+0000 in
    its name gets a name that no expression can use.
    """
    return _whole(variables) if _may_hold_zero(variables) else variables


def _may_hold_zero(variables: dict[str, Any]) -> bool:
    try:
        return _WRITTEN in orjson.dumps(variables, default=_shown)
    except TypeError:  # such as an integer beyond 64 bits
        return True


def _shown(value: Any) -> str | None:
    """Return a stand-in for a value that orjson cannot write: U+0000 for bytes that contain it, else None."""
    return _ZERO if isinstance(value, bytes) and 0 in value else None


def _whole(value: Any) -> Any:
    match value:
        case str() if _ZERO in value:
            return StringValue(value=value)
        case bytes() if 0 in value:
            return BytesValue(value=value)
        case dict():
            return _renamed({name: _whole(member) for name, member in value.items()})
        case list():
            return [_whole(item) for item in value]
        case _:
            return value


def _renamed(members: dict[str, Any]) -> dict[str, Any]:
    if not any(_ZERO in name for name in members):
        return members
    found = {name: member for name, member in members.items() if _ZERO not in name}
    for name, member in members.items():
        if _ZERO in name:
            other = name.replace(_ZERO, _NO_CHARACTER)
            while other in found:
                other += _NO_CHARACTER
            found[other] = member
    return found


_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)", re.ASCII
)


_SPAN: Final = re.compile(r"(\d{1,6})(h|m|s)", re.ASCII)


_SPAN_UNITS: Final = {"h": 3600 * NANOSECONDS, "m": 60 * NANOSECONDS, "s": NANOSECONDS}


# Well inside the years 1 to 9999, the range of CEL timestamps.
_MOMENT_LENGTH: Final = len("2026-01-31T12:00:00.123456789+01:00")
FIRST_MOMENT, LAST_MOMENT = -62_000_000_000 * NANOSECONDS, 253_000_000_000 * NANOSECONDS


def moment_of(text: Any) -> int | None:
    """Return a timestamp in nanoseconds since 1970; None unless the library certainly reads the same moment."""
    # Longer texts are no such timestamps, and a few thousand long ones would fill the memory.
    return _moment(text) if type(text) is str and len(text) <= _MOMENT_LENGTH else None


@lru_cache(maxsize=4_096)
def _moment(text: str) -> int | None:
    moment = instant_key(text) if _MOMENT.fullmatch(text) else None
    return moment if type(moment) is int and FIRST_MOMENT <= moment <= LAST_MOMENT else None


def span_of(text: str) -> int | None:
    """Return a CEL duration of whole hours, minutes and seconds in nanoseconds; None for any other text."""
    parts = list(_SPAN.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        return None
    return sum(int(part[1]) * _SPAN_UNITS[part[2]] for part in parts)
