"""Schemas as part of a contract: every record of the old one must fit the new one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from tidegate.contracts.compatibility.changes import BOTH, Change
from tidegate.contracts.compatibility.finding import Direction, FindingSeverity
from tidegate.contracts.compatibility.guarding import Examples, Guard
from tidegate.contracts.compatibility.judging import Judge
from tidegate.contracts.compatibility.rule_schemas import kept_rules, with_schemas
from tidegate.contracts.document.model import AvroSchema, DataContract, JsonSchema
from tidegate.contracts.inclusion import avro, json_schema
from tidegate.contracts.inclusion.answer import Difference, Inclusion, Outcome

CODES: Final = {
    "schema.type-changed": "the schema is of another type: JSON Schema instead of Avro, or the reverse",
}
"""Codes of this module; those of the differences themselves are the provers'."""

_DEFINITION: Final = "/schema/definition"
_WARNINGS: Final = frozenset(
    {"avro.promotion-rounds", "avro.enum-symbol-defaulted", "avro.enum-default-changed"}
)
_ALTERING: Final = frozenset({"avro.promotion-rounds", "avro.enum-symbol-defaulted"})
"""Remarks that say that a reader gets other values than were written."""


def compare_schemas(base: Judge, candidate: Judge) -> Iterator[Change]:
    """Compare the schemas of two contracts, in both directions.

    Raises ContractError for an invalid schema.
    """
    before, after = base.contract.schema_, candidate.contract.schema_
    if before == after:
        return
    match before, after:
        case JsonSchema(), JsonSchema():
            definitions = _definition(base.contract), _definition(candidate.contract)
            asserted = before.formats == "assert", after.formats == "assert"
            pair = json_schema.Pair(*definitions, formats_asserted=asserted)
            yield from _one_way(base, definitions[0], pair.forth, Direction.BACKWARD)
            yield from _one_way(candidate, definitions[1], pair.back, Direction.FORWARD)
        case AvroSchema(), AvroSchema():
            yield from _compare_avro(before, after)
        case _:
            sentence = f"the schema was {before.type} and is {after.type}"
            places = ("/schema/type", "/schema/type")
            yield Change("schema.type-changed", sentence, *places, Outcome.REFUTED, ("",), BOTH)


def altered_fields(changes: list[Change]) -> frozenset[str]:
    """Return the fields that a reader with the other schema reads as other values."""
    return frozenset(field for change in changes if change.code in _ALTERING for field in change.fields)


def _one_way(old: Judge, definition: Any, way: json_schema.Way, direction: Direction) -> Iterator[Change]:
    inclusion = way()
    if inclusion.outcome is Outcome.PROVEN:
        return
    is_broken, shown = _guarded(old, definition, way, inclusion)
    for difference in inclusion.differences:
        change = _change(difference, direction)
        if not is_broken:
            sentence = f"{difference.sentence.rpartition('; ')[0]}; rules asked for as much"
            yield replace(
                change, sentence=sentence, outcome=Outcome.PROVEN, breaks=frozenset(), counterexample=None
            )
        elif change.counterexample is not None and difference.outcome is Outcome.REFUTED:
            example = shown.get((difference.new_pointer, difference.field), change.counterexample)
            yield replace(change, counterexample=example)
        else:
            yield change


def _guarded(
    old: Judge, definition: Any, way: json_schema.Way, inclusion: Inclusion
) -> tuple[bool, Examples]:
    """Return whether anything is left of an inclusion's differences once the rules of `old` count, with examples that keep them.

    What the new schema asks for, rules of the old contract may have asked for.
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
            # Forward, most remarks say again what they say backward.
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
    """Return the places in the candidate and in the base."""
    places = difference.new_pointer, difference.old_pointer
    after, before = places if direction is Direction.BACKWARD else places[::-1]
    return _DEFINITION + after, _DEFINITION + before
