"""Confluent's rules as rules of a contract, as far as the judge has words for them.

A condition in CEL over the whole message becomes a `cel` rule over `this`. Confluent's meaning is kept: a value that
is not there breaks the rule, as an error of the expression does in a client.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from contracts.model import Cel, OnViolation
from contracts.verdict import Severity
from gateway.confluent.entities import Rule, RuleSet

PREFIX = "confluent."
"""Begins the ids of rules that come from a rule set; the next registration replaces them."""

_LITERAL = re.compile(
    r"""[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL
)
_MESSAGE = re.compile(r"(?<![\w.])message\b")
_MAX_ID = 80
_ODD = re.compile(r"[^a-z0-9._-]")


@dataclass(frozen=True, slots=True)
class ImportedRules:
    """The rules of a rule set that the judge takes, and for each other one why it does not."""

    rules: tuple[Cel, ...]
    left_out: tuple[str, ...]


def import_rules(rule_set: RuleSet | None) -> ImportedRules:
    """Translate the rules of a rule set; disabled ones are no rules."""
    taken: list[Cel] = []
    left_out: list[str] = []
    for rule in () if rule_set is None else rule_set.rules():
        if rule.disabled:
            continue
        reason = _obstacle(rule)
        if reason is None:
            taken.append(_translated(rule, {one.id for one in taken}))
        else:
            left_out.append(f"{rule.name} is {reason}")
    return ImportedRules(tuple(taken), tuple(left_out))


def _obstacle(rule: Rule) -> str | None:
    if rule.mode not in {"WRITE", "READ", "WRITEREAD"}:
        return f"a migration of mode {rule.mode}"
    if rule.kind != "CONDITION":
        return f"a {rule.kind} of type {rule.type}, which clients run"
    if rule.type != "CEL":
        return f"a condition of type {rule.type}"
    if not rule.expr:
        return "without an expression"
    return None


def _translated(rule: Rule, taken: set[str]) -> Cel:
    warns = (rule.on_failure or "ERROR").partition(",")[0].strip().upper() == "NONE"
    return Cel(
        id=_rule_id(rule.name, taken),
        kind="cel",
        expr=translated_expression(rule.expr or ""),
        description=rule.doc,
        severity=Severity.WARNING if warns else Severity.ERROR,
        on_violation=None if warns else OnViolation.QUARANTINE,
        nulls="violate",
    )


def translated_expression(expression: str) -> str:
    """Write an expression over `message`, with its guard if it has one, as one over `this`."""
    guard, semicolon, condition = _split(expression)
    if not semicolon:
        return _over_this(guard)
    return f"!({_over_this(guard)}) || ({_over_this(condition)})"


def _split(expression: str) -> tuple[str, str, str]:
    """Cut `guard ; condition` at a semicolon that stands in no literal."""
    blank = _LITERAL.sub(lambda match: " " * len(match[0]), expression)
    at = blank.find(";")
    if at < 0:
        return expression.strip(), "", ""
    return expression[:at].strip(), ";", expression[at + 1 :].strip()


def _over_this(expression: str) -> str:
    parts: list[str] = []
    end = 0
    for literal in _LITERAL.finditer(expression):
        parts += [_MESSAGE.sub("this", expression[end : literal.start()]), literal[0]]
        end = literal.end()
    return "".join([*parts, _MESSAGE.sub("this", expression[end:])])


def _rule_id(name: str, taken: set[str]) -> str:
    found = PREFIX + _ODD.sub("-", name.lower()).strip("._-")
    if len(found) > _MAX_ID or found in taken or found == PREFIX:
        found = f"{found[: _MAX_ID - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return found
