"""Counterexamples of schemas that also keep the rules of the contract whose records they stand for.

A record that breaks a rule is not written, so it shows nothing. Most often another value of the rule's field is all that it
takes; where that does not help, the rules have to become part of the schema, and the comparison is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from tidegate.contracts.compatibility.constants import MISSING, values_at
from tidegate.contracts.compatibility.judging import Judge
from tidegate.contracts.compatibility.rule_schemas import dialect_of
from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.inclusion.answer import Counterexample, Difference
from tidegate.contracts.inclusion.json_schema.values import text_of
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.rules.places import Path
from tidegate.contracts.verdict import Violation

_MAX_TRIED: Final = 40
_MAX_MENDED: Final = 20
"""Most examples that are mended; with more differences than that, the rest keep theirs."""

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
        self._helped: dict[str, Any] = {}
        """By rule the value that mended the last record."""

    def examples(self, differences: Iterable[Difference], separates: Separates) -> Examples:
        """Return records that keep the rules, for as many of some refuted differences as they are found for."""
        found: Examples = {}
        for each in differences:
            if each.counterexample is not None and len(found) < _MAX_MENDED:
                example = self._kept(each.counterexample, each.new_pointer, separates)
                found |= {} if example is None else {(each.new_pointer, each.field): example}
        return found

    def _kept(self, example: Counterexample, pointer: str, separates: Separates) -> Counterexample | None:
        text, record = example.text, decode_exactly(example.text.encode(errors="replace"))
        for rule, is_kept in self._rules:
            if is_kept(record):
                continue
            others = self._changed(record, rule)
            mended = next((each for each in others if is_kept(each[2]) and separates(each[2], pointer)), None)
            if mended is None:
                return None
            self._helped[rule.id], text, record = mended
        return Counterexample(text) if all(is_kept(record) for _, is_kept in self._rules) else None

    def _changed(self, record: Any, rule: Rule) -> Iterator[tuple[Any, str, Any]]:
        """Yield the record with other values of a rule's field, the shortest first: the value, the text, what it says."""
        for field in kind_of(rule).fields(rule):
            path = tokens(field)
            known = [self._helped[rule.id]] if rule.id in self._helped else []
            for value in chain(known, self._values(field, rule)):
                changed = _with(record, path, value)
                text = text_of(changed)
                read = decode_exactly(text.encode(errors="replace"))
                if changed is not None and not isinstance(read, Violation):
                    yield value, text, read

    def _values(self, field: str, rule: Rule) -> Iterator[Any]:
        values = [each for each in values_at(field, (rule,), self._old) if not isinstance(each, bytes)]
        yield from sorted(values[:_MAX_TRIED], key=lambda each: (each is not MISSING, len(repr(each))))


def _test(schema: dict[str, Any]) -> Callable[[Any], bool]:
    return JsonSchemaFormat(JsonSchema.model_validate({"type": "json-schema", "definition": schema})).is_valid


def _with(record: Any, path: Path, value: Any) -> dict[str, Any] | None:
    """Return the record with a value at a path; None when the path does not lead into it."""
    if not isinstance(record, dict):
        return None
    name, rest = path[0], path[1:]
    if rest:
        inner = _with(record.get(name), rest, value)
        return None if inner is None else {**record, name: inner}
    if value is MISSING:
        return {key: each for key, each in record.items() if key != name}
    return {**record, name: value}
