"""Expressions of Confluent's rules, written in the words of the judge: other names, and a guard as a condition."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.contracts.rules.cel import gives

_LITERAL = re.compile(
    r"""[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL
)
NAMES = ("value", "parent", "this")
"""What an expression about a field can name; one about a record has only the last."""


def condition(expression: str, names: Mapping[str, str], *, is_of_field: bool) -> str:
    """Write a condition, with its guard if it has one, as an expression that gives true or false.

    An error in the guard is one of the condition: a client fails then, too.
    """
    guard, semicolon, test = _split(expression)
    known = NAMES if is_of_field else NAMES[-1:]
    if not semicolon:
        return _boolean(renamed(guard, names), known)
    test = _boolean(renamed(test, names), known)
    return f"({renamed(guard, names)}) ? ({test}) : true" if guard else test


def assertion(expression: str, names: Mapping[str, str], *, is_of_field: bool) -> str:
    """Write an inline rule, which gives true or an empty text for a good value, as one that gives true or false."""
    written = renamed(expression.strip(), names)
    match gives(written, NAMES if is_of_field else NAMES[-1:]):
        case "string":
            return f"({written}) == ''"
        case "dyn":
            return f"({written}) in [true, '']"
        case _:
            return written


def parts_of(expression: str) -> tuple[str, ...]:
    """Return the guard and the condition of an expression, or what is there of them."""
    guard, _, test = _split(expression)
    return tuple(part for part in (guard, test) if part)


def renamed(expression: str, names: Mapping[str, str]) -> str:
    """Write other expressions for some of the names in an expression; literals and members are no names."""
    pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, names))})\b(?!\s*\()")
    parts: list[str] = []
    end = 0
    for literal in _LITERAL.finditer(expression):
        parts += [_replaced(pattern, names, expression[end : literal.start()]), literal[0]]
        end = literal.end()
    return "".join([*parts, _replaced(pattern, names, expression[end:])])


def quoted(text: str) -> str:
    """Write a string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def _replaced(pattern: re.Pattern[str], names: Mapping[str, str], text: str) -> str:
    return pattern.sub(lambda match: names[match[1]], text)


def _boolean(expression: str, known: tuple[str, ...]) -> str:
    """Make sure of a result that is true or false: a member of a record may be anything, and is then a failure."""
    return f"({expression}) == true" if gives(expression, known) == "dyn" else expression


def _split(expression: str) -> tuple[str, str, str]:
    """Cut `guard ; condition` at a semicolon that stands in no literal."""
    blank = _LITERAL.sub(lambda match: " " * len(match[0]), expression)
    at = blank.find(";")
    if at < 0:
        return expression.strip(), "", ""
    return expression[:at].strip(), ";", expression[at + 1 :].strip()
