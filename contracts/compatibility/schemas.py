"""Comparison of the schemas of two contracts: every record that fits the old one must fit the new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from tidegate.contracts.compatibility.advice import ASSUMED, advice_about, is_declared_now
from tidegate.contracts.compatibility.finding import BOTH, Change, Direction, FindingSeverity
from tidegate.contracts.compatibility.rule_schemas import dialect_of, kept_rules, with_schemas
from tidegate.contracts.compatibility.separation import MISSING, values_at
from tidegate.contracts.compatibility.witness_search import Judge
from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.model import AvroSchema, DataContract, JsonSchema
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.inclusion import avro, json_schema
from tidegate.contracts.inclusion.answer import Counterexample, Difference, Inclusion, Outcome
from tidegate.contracts.inclusion.json_schema.values import text_of
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.rules.places import Path
from tidegate.contracts.verdict import Violation

_MAX_TRIED: Final = 40
_MAX_MENDED: Final = 20
"""Maximum counterexamples that are corrected; further differences keep theirs."""

Separates = Callable[[Any, str], bool]
"""Returns whether the old schema accepts a record that the new one refuses, at a JSON Pointer into the new one."""
Examples = dict[tuple[str, str], Counterexample]
"""Counterexamples by the pointer into the new schema and the field."""


class Guard:
    """The rules of the old contract that keep records from being written, each with its JSON Schema.

    A counterexample that breaks such a rule is not valid evidence. Usually another value of the rule's field corrects
    it. Otherwise the caller adds the rules to the schema and repeats the comparison.
    """

    def __init__(self, old: Judge, rules: Iterable[tuple[Rule, dict[str, Any]]], definition: Any) -> None:
        self._old = old
        dialect = dialect_of(definition)
        self._rules = [(rule, _test({**dialect, "allOf": [part]})) for rule, part in rules]
        self._helped: dict[str, Any] = {}
        """The value that corrected the last record, by rule id."""

    def examples(self, differences: Iterable[Difference], separates: Separates) -> Examples:
        """Return counterexamples that satisfy the rules, for those refuted differences for which one was found."""
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
        """Yield the record with other values of a rule's fields, short ones first.

        Each result is the value, the JSON text of the record, and the record that is decoded from it.
        """
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
        """Yield values to try; a generator, because a value that helped before usually makes them unnecessary."""
        values = [each for each in values_at(field, (rule,), self._old) if not isinstance(each, bytes)]
        yield from sorted(values[:_MAX_TRIED], key=lambda each: (each is not MISSING, len(repr(each))))


def _test(schema: dict[str, Any]) -> Callable[[Any], bool]:
    return JsonSchemaFormat(JsonSchema.model_validate({"type": "json-schema", "definition": schema})).is_valid


def _with(record: Any, path: Path, value: Any) -> dict[str, Any] | None:
    """Return the record with a value at a path (MISSING removes the member); None if there is no such path in it."""
    if not isinstance(record, dict):
        return None
    name, rest = path[0], path[1:]
    if rest:
        inner = _with(record.get(name), rest, value)
        return None if inner is None else {**record, name: inner}
    if value is MISSING:
        return {key: each for key, each in record.items() if key != name}
    return {**record, name: value}


CODES: Final = {
    "schema.type-changed": "the schema is of another type: JSON Schema instead of Avro, or the reverse",
}
"""The codes of this module; the codes of differences are defined by the provers."""

_DEFINITION: Final = "/schema/definition"
_WARNINGS: Final = frozenset(
    {
        "avro.promotion-rounds",
        "avro.enum-symbol-defaulted",
        "avro.enum-default-changed",
        "avro.logical-type-added",
    }
)
_ALTERING: Final = frozenset(
    {"avro.promotion-rounds", "avro.enum-symbol-defaulted", "avro.logical-type-added"}
)
"""Codes of remarks about readers that get other values than were written."""


def compare_schemas(base: Judge, candidate: Judge) -> Iterator[Change]:
    """Yield the changes between the schemas of two contracts, in both directions.

    Raises ContractError for an invalid schema.
    """
    before, after = base.contract.schema_, candidate.contract.schema_
    if before == after:
        return
    match before, after:
        case JsonSchema(), JsonSchema():
            definitions = _definition(base.contract), _definition(candidate.contract)
            asserted = before.formats == "assert", after.formats == "assert"
            pair = json_schema.SchemaPair(*definitions, formats_asserted=asserted)
            fields = JsonFields(definitions[0])
            for change, difference in _one_way(base, definitions[0], pair.forth, Direction.BACKWARD):
                if (
                    change.breaks
                    and base.contract.undeclared == "ignore"
                    and is_declared_now(difference, fields)
                ):
                    yield _assumed(change)
                else:
                    yield replace(change, advice=advice_about(difference, fields, definitions[1]))
            yield from (
                change for change, _ in _one_way(candidate, definitions[1], pair.back, Direction.FORWARD)
            )
        case AvroSchema(), AvroSchema():
            yield from _compare_avro(before, after)
        case _:
            sentence = f"the schema was {before.type} and is {after.type}"
            places = ("/schema/type", "/schema/type")
            yield Change("schema.type-changed", sentence, *places, Outcome.REFUTED, ("",), BOTH)


def _assumed(change: Change) -> Change:
    """Return a change as one that is assumed to be harmless, because no record is assumed to have the property."""
    return replace(
        change,
        sentence=f"{change.sentence}; {ASSUMED}",
        outcome=Outcome.ASSUMED,
        breaks=frozenset(),
        severity=FindingSeverity.WARNING,
    )


def altered_fields(changes: list[Change]) -> frozenset[str]:
    """Return the fields whose values differ if they are read with the other schema."""
    return frozenset(field for change in changes if change.code in _ALTERING for field in change.fields)


def _one_way(
    old: Judge, definition: Any, way: json_schema.DirectedPair, direction: Direction
) -> Iterator[tuple[Change, Difference]]:
    """Yield each change in one direction, with the difference that it reports."""
    inclusion = way()
    if inclusion.outcome is Outcome.PROVEN:
        return
    is_broken, shown = _guarded(old, definition, way, inclusion)
    for difference in inclusion.differences:
        change = _change(difference, direction)
        if not is_broken:
            sentence = f"{difference.sentence.rpartition('; ')[0]}; rules asked for as much"
            change = replace(
                change, sentence=sentence, outcome=Outcome.PROVEN, breaks=frozenset(), counterexample=None
            )
        elif change.counterexample is not None and difference.outcome is Outcome.REFUTED:
            example = shown.get((difference.new_pointer, difference.field), change.counterexample)
            change = replace(change, counterexample=example)
        yield change, difference


def _guarded(
    old: Judge, definition: Any, way: json_schema.DirectedPair, inclusion: Inclusion
) -> tuple[bool, Examples]:
    """Return whether differences remain if the rules of `old` are considered, and counterexamples that satisfy them.

    A rule of the old contract may already have required what the new schema requires.
    """
    rules = kept_rules(definition, old.contract, old.fields)
    examples = Guard(old, rules, definition).examples(inclusion.differences, way.separates) if rules else {}
    refuted = {(each.new_pointer, each.field) for each in inclusion.differences if each.counterexample}
    places = [difference.field for difference in inclusion.differences]
    near = kept_rules(definition, old.contract, old.fields, places)
    if not near or (refuted and refuted == examples.keys()):
        return True, examples
    kept = way(guarded=with_schemas(definition, [part for _, part in near]))
    found = {
        (each.new_pointer, each.field): each.counterexample
        for each in kept.differences
        if each.counterexample
    }
    return kept.outcome is not Outcome.PROVEN, {**found, **examples}


def _definition(contract: DataContract) -> Any:
    definition = contract.schema_.definition
    return True if definition is None else definition


def _compare_avro(base: AvroSchema, candidate: AvroSchema) -> Iterator[Change]:
    before, after = base.definition, candidate.definition
    for direction, writer, reader in (
        (Direction.BACKWARD, before, after),
        (Direction.FORWARD, after, before),
    ):
        resolution = avro.resolve(writer, reader)
        for difference in resolution.inclusion.differences:
            yield _change(difference, direction)
        for remark in resolution.remarks:
            # Most forward remarks repeat the backward ones.
            if direction is Direction.BACKWARD or remark.code in _ALTERING:
                yield _remark(remark, direction)


def _change(difference: Difference, direction: Direction) -> Change:
    return Change(
        difference.code,
        difference.sentence,
        *_places(difference, direction),
        difference.outcome,
        (difference.field,),
        frozenset({direction}),
        counterexample=difference.counterexample,
    )


def _remark(remark: Difference, direction: Direction) -> Change:
    severity = FindingSeverity.WARNING if remark.code in _WARNINGS else FindingSeverity.INFO
    sentence = remark.sentence
    if direction is Direction.FORWARD:
        sentence = f"{sentence} (by readers of the base, of new records)"
    return Change(
        remark.code,
        sentence,
        *_places(remark, direction),
        Outcome.PROVEN,
        (remark.field,),
        severity=severity,
        touches=remark.code not in {"avro.field-added", "avro.default-changed"},
    )


def _places(difference: Difference, direction: Direction) -> tuple[str, str]:
    """Return the pointers into the candidate and into the base."""
    places = difference.new_pointer, difference.old_pointer
    after, before = places if direction is Direction.BACKWARD else places[::-1]
    return _DEFINITION + after, _DEFINITION + before
