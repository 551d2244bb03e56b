"""Counterexamples of schemas that also keep the rules of the contract whose records they stand for.

A record that breaks a rule is not written, so it shows nothing. Most often another value of the rule's field is all that it
takes; where that does not help, the rules have to become part of the schema, and the comparison is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from contracts.compatibility.constants import MISSING, fields_of_rule, values_at
from contracts.compatibility.inclusion import Counterexample, Difference, Outcome
from contracts.compatibility.json_schema.values import text_of
from contracts.compatibility.judging import Judge
from contracts.compatibility.rule_schemas import dialect_of
from contracts.fields import tokens
from contracts.formats.json_schema import JsonSchemaFormat
from contracts.model import JsonSchema
from contracts.record import decode_exactly
from contracts.rule_model import Rule
from contracts.rules.places import Path
from contracts.verdict import Violation

_MAX_TRIED: Final = 40

Separates = Callable[[Any, str], bool]
"""Whether a record is one of the old schema, and refused by the new one at a place in that."""
Examples = dict[tuple[str, str], Counterexample]
"""Counterexamples by the place in the new schema and the field."""


class Guard:
    """Rules that keep records of a contract from being written, each with its schema."""

    def __init__(self, old: Judge, rules: Iterable[tuple[Rule, dict[str, Any]]], definition: Any) -> None:
        self._old = old
        dialect = dialect_of(definition)
        self._rules = [(rule, _test({**dialect, "allOf": [part]})) for rule, part in rules]

    def examples(self, differences: Iterable[Difference], separates: Separates) -> Examples | None:
        """Give a record that keeps the rules for every refuted difference; None when one has none, or none is refuted."""
        found: Examples = {}
        for each in differences:
            if each.outcome is not Outcome.REFUTED or each.counterexample is None:
                continue
            example = self._kept(each.counterexample, each.new_pointer, separates)
            if example is None:
                return None
            found[each.new_pointer, each.field] = example
        return found or None

    def _kept(self, example: Counterexample, pointer: str, separates: Separates) -> Counterexample | None:
        record = first = decode_exactly(example.text.encode(errors="replace"))
        if isinstance(first, Violation):
            return None
        for rule, is_kept in self._rules:
            if is_kept(record):
                continue
            others = (each for each in self._others(record, rule) if is_kept(each))
            record = next((each for each in others if separates(each, pointer)), None)
            if record is None:
                return None
        if record is first:
            return example
        text = text_of(record)
        read = decode_exactly(text.encode(errors="replace"))
        if isinstance(read, Violation) or not separates(read, pointer):
            return None
        return Counterexample(text) if all(is_kept(read) for _, is_kept in self._rules) else None

    def _others(self, record: Any, rule: Rule) -> Iterator[Any]:
        """Give the record with other values of a rule's field, the shortest first."""
        for field in fields_of_rule(rule):
            values = values_at(field, (rule,), self._old)[:_MAX_TRIED]
            for value in sorted(values, key=lambda each: (each is not MISSING, len(repr(each)))):
                changed = _with(record, tokens(field), value)
                if changed is not None:
                    yield changed


def _test(schema: dict[str, Any]) -> Callable[[Any], bool]:
    return JsonSchemaFormat(JsonSchema.model_validate({"type": "json-schema", "definition": schema})).is_valid


def _with(record: Any, path: Path, value: Any) -> dict[str, Any] | None:
    """Give the record with a value at a path; None when the path does not lead into it."""
    if not isinstance(record, dict):
        return None
    name, rest = path[0], path[1:]
    if rest:
        inner = _with(record.get(name), rest, value)
        return None if inner is None else {**record, name: inner}
    if value is MISSING:
        return {key: each for key, each in record.items() if key != name}
    return {**record, name: value}
