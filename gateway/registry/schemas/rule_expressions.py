"""Expressions of Confluent's rules: their guards, the names that they use, and their conversion for contracts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Final

from tidegate.contracts.compatibility.finding import overlap
from tidegate.contracts.rules.cel import ExpressionResult, gives, outcome_of

_LITERAL = re.compile(
    r"""[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL
)
_MESSAGE = re.compile(r"(?<![\w.])message\b((?:\.[A-Za-z_]\w*)*)(\s*\()?")
NAMES: Final = ("value", "parent", "this")
"""Names that an expression about a field may use; one about a record may use only the last."""


def condition(expression: str, names: Mapping[str, str], *, is_of_field: bool) -> str:
    """Return a condition, with its guard if it has one, as a boolean expression.

    An error in the guard is an error of the condition, as it is in a client.
    """
    guard, semicolon, test = _split(expression)
    known = NAMES if is_of_field else NAMES[-1:]
    if not semicolon:
        return _boolean(renamed(guard, names), known)
    test = _boolean(renamed(test, names), known)
    return f"({renamed(guard, names)}) ? ({test}) : true" if guard else test


def assertion(expression: str, names: Mapping[str, str], *, is_of_field: bool) -> str:
    """Return an inline rule, which gives true or an empty text for a valid value, as a boolean expression."""
    written = renamed(expression.strip(), names)
    match gives(written, NAMES if is_of_field else NAMES[-1:]):
        case "string":
            return f"({written}) == ''"
        case "dyn":
            return f"({written}) in [true, '']"
        case _:
            return written


def parts_of(expression: str) -> tuple[str, ...]:
    """Return the guard and the condition of an expression, or those that exist."""
    guard, _, test = _split(expression)
    return tuple(part for part in (guard, test) if part)


def renamed(expression: str, names: Mapping[str, str]) -> str:
    """Replace names in an expression with other expressions; literals and members of objects are left alone."""
    pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, names))})\b(?!\s*\()")
    parts: list[str] = []
    end = 0
    for literal in _LITERAL.finditer(expression):
        parts += [_replaced(pattern, names, expression[end : literal.start()]), literal[0]]
        end = literal.end()
    return "".join([*parts, _replaced(pattern, names, expression[end:])])


def quoted(text: str) -> str:
    """Return a text as a string literal of CEL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def _replaced(pattern: re.Pattern[str], names: Mapping[str, str], text: str) -> str:
    return pattern.sub(lambda match: names[match[1]], text)


def _boolean(expression: str, known: tuple[str, ...]) -> str:
    """Return an expression that holds only for a boolean true: a member of a record may have any type."""
    return f"({expression}) == true" if gives(expression, known) == "dyn" else expression


def _split(expression: str) -> tuple[str, str, str]:
    """Split `guard ; condition` at a semicolon outside of literals."""
    at = _blank(expression).find(";")
    if at < 0:
        return expression.strip(), "", ""
    return expression[:at].strip(), ";", expression[at + 1 :].strip()


def may_run(expression: str, names: Mapping[str, str]) -> bool:
    """Return whether a rule about a field may run for a field with these names: false if its guard is never true.

    Missing names, such as `value`, are unknown: reading one is an error, which `false &&` absorbs.
    """
    guard, semicolon, _ = _split(expression)
    if not guard or not semicolon:
        return True
    written = renamed(guard, {**dict.fromkeys(_FIELD_NAMES, _UNKNOWN), **names})
    return outcome_of(written, {"this": {}}) is not ExpressionResult.BROKEN


def is_split_in_a_text(expression: str) -> bool:
    """Return whether the first semicolon is in a literal; clients still end the guard there."""
    return expression.find(";") != _blank(expression).find(";")


def is_boolean(expression: str, names: Mapping[str, str], *, is_of_field: bool) -> bool:
    """Return whether a condition is boolean for every record, as far as the types in it show."""
    test = parts_of(expression)[-1:]
    return gives(renamed("".join(test), names), NAMES if is_of_field else NAMES[-1:]) != "dyn"


_FIELD_NAMES: Final = ("value", "message", "fullName", "typeName", "name", "tags")
_UNKNOWN: Final = "dyn(1 / 0)"
"""An expression whose evaluation is an error."""


def _blank(expression: str) -> str:
    return _LITERAL.sub(lambda match: " " * len(match[0]), expression)


def reads(expression: str) -> Iterator[str]:
    """Yield the places of the message that a condition reads; "" for the whole."""
    for match in _MESSAGE.finditer(expression):
        path = match[1].split(".")[1:]
        if match[2] and path:  # the last name is that of a function
            path.pop()
        yield "".join(f"/{name}" for name in path)


def touches(read: Iterable[str], changed: Iterable[str]) -> bool:
    """Return whether a place that is read equals, contains or lies within a place that changes."""
    return any(overlap(one, other) for one, other in product(read, changed))
