"""Consumers that a change affects, by the fields that they read and by their assumptions."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, Final

from tidegate.contracts.compatibility.finding import Change, Comparison, Direction, FindingSeverity, overlap
from tidegate.contracts.compatibility.rule_schemas import STEPS, with_rules
from tidegate.contracts.compatibility.witness_search import Judge
from tidegate.contracts.document.model import Consumer, DataContract, JsonSchema
from tidegate.contracts.document.semver import major_of
from tidegate.contracts.document.terms import equal_json
from tidegate.contracts.errors import ContractError
from tidegate.contracts.inclusion import json_schema
from tidegate.contracts.inclusion.answer import Difference, Inclusion, Outcome
from tidegate.contracts.inclusion.avro.documents import json_schema_of

CODES: Final = {
    "consumer.added": "a consumer is registered",
    "consumer.removed": "a consumer is no longer registered",
    "consumer.reads-changed": "a consumer reads other fields, or takes other things for granted",
    "consumer.assumption-broken": "an assumption of a consumer was guaranteed and no longer is",
    "consumer.assumption-unproven": "an assumption of a consumer was not guaranteed, and still is not",
}
"""Every code that a comparison of consumers can report, with its meaning. The codes are stable."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A registered consumer, merged from all registrations with its id.

    `reads` are the fields that it reads, empty for a consumer that may read any field. `assumes` are the JSON Schemas
    that it assumes all records to fit. Each is checked separately: its references are local to it, and an assumption
    that was never guaranteed must not hide that another one no longer is.
    """

    id: str
    reads: tuple[str, ...]
    assumes: tuple[Any, ...]


def readers_of(*lists: Iterable[Consumer]) -> dict[str, Reader]:
    """Return the consumers of several lists by id, each with the fields and assumptions from all lists.

    So a change cannot evade a consumer by removing it, or by declaring that it reads other fields.
    """
    readers: dict[str, Reader] = {}
    for each in chain(*lists):
        known = readers.get(each.id, Reader(each.id, each.reads, ()))
        # A consumer that does not declare what it reads may read any field.
        reads = tuple(dict.fromkeys([*known.reads, *each.reads])) if known.reads and each.reads else ()
        is_known = any(equal_json(each.assumes, one) for one in known.assumes)
        is_more = each.assumes is not None and not is_known
        assumes = (*known.assumes, each.assumes) if is_more else known.assumes
        readers[each.id] = Reader(each.id, reads, assumes)
    return readers


def touched(
    fields: Collection[str], consumers: Collection[Reader], declared: Container[str]
) -> tuple[str, ...]:
    """Return the sorted ids of the consumers that read one of the fields, a part of one, or a parent of one.

    A consumer that does not declare what it reads is affected by every field. Without fields the result is empty.
    """
    if not fields:
        return ()
    found = (
        each.id
        for each in consumers
        if not each.reads or any(overlap(*pair, declared) for pair in product(fields, each.reads))
    )
    return tuple(sorted(found))


def unacknowledged(
    comparison: Comparison, acknowledgements: Collection[str], *, version: str
) -> tuple[str, ...]:
    """Return the sorted ids of the consumers that must still agree before the candidate may replace the base.

    These are the consumers that a breaking finding affects, without `acknowledgements` (the ids that have agreed).
    `version` is that of the candidate; a new major version needs no agreement.
    """
    if major_of(version) > major_of(comparison.against):
        return ()
    asked = {
        consumer
        for finding in comparison.findings
        if finding.severity is FindingSeverity.BREAKING
        for consumer in finding.consumers
    }
    return tuple(sorted(asked - set(acknowledgements)))


def compare_consumers(base: Judge, candidate: Judge) -> Iterator[Change]:
    """Yield changes of the registered consumers, and assumptions of consumers that records do not fulfil."""
    before, after = readers_of(base.contract.consumers), readers_of(candidate.contract.consumers)
    for name in dict.fromkeys([*after, *before]):
        old, new = before.get(name), after.get(name)
        places = _place(name, candidate.contract), _place(name, base.contract)
        if old is None or new is None:
            code, what = ("consumer.added", "new") if old is None else ("consumer.removed", "gone")
            yield Change(code, f"the consumer {name} is {what}", *places, Outcome.PROVEN)
        elif not equal_json((old.reads, old.assumes), (new.reads, new.assumes)):
            sentence = f"the consumer {name} says in another way what it reads"
            yield Change("consumer.reads-changed", sentence, *places, Outcome.PROVEN)
    if (base.contract.schema_, base.contract.rules) != (candidate.contract.schema_, candidate.contract.rules):
        for reader in readers_of(base.contract.consumers, candidate.contract.consumers).values():
            places = _place(reader.id, candidate.contract), _place(reader.id, base.contract)
            for assumption in reader.assumes:
                yield from _assumption(reader.id, assumption, (base, candidate), places)


def _assumption(
    name: str, assumes: Any, judges: tuple[Judge, Judge], places: tuple[str, str]
) -> Iterator[Change]:
    base, candidate = judges
    try:
        now = _keeps(candidate, assumes)
    except ContractError as error:
        sentence = f"what {name} takes for granted is no JSON Schema: {error.problems[0].message}"
        code = "consumer.assumption-unproven"
        yield Change(
            code,
            sentence,
            *places,
            Outcome.UNDETERMINED,
            (),
            severity=FindingSeverity.WARNING,
            touches=True,
            consumer=name,
        )
        return
    if now.outcome is Outcome.PROVEN:
        return
    was_sure = _keeps(base, assumes).outcome is Outcome.PROVEN
    for difference in now.differences:
        outcome = difference.outcome if _is_written(candidate, difference) else Outcome.UNDETERMINED
        code = "consumer.assumption-broken" if was_sure else "consumer.assumption-unproven"
        sentence = f"{name} takes for granted what records need not keep: {difference.sentence}"
        yield Change(
            code,
            sentence,
            *places,
            outcome,
            (difference.field,),
            frozenset({Direction.FORWARD}) if was_sure else frozenset(),
            FindingSeverity.WARNING,
            difference.counterexample if outcome is Outcome.REFUTED else None,
            touches=True,
            consumer=name,
        )


def _keeps(judge: Judge, assumes: Any) -> Inclusion:
    """Check whether every record that a contract writes fits an assumption, as far as schemas describe the records.

    Raises ContractError if the assumption is not a JSON Schema.
    """
    schema = judge.contract.schema_
    if isinstance(schema, JsonSchema):
        definition: Any = True if schema.definition is None else schema.definition
        formats_asserted = schema.formats == "assert"
    else:
        definition = True if judge.avro is None else json_schema_of(judge.avro)
        formats_asserted = True
    return json_schema.includes(
        with_rules(definition, judge.contract, judge.fields),
        assumes,
        formats_asserted=formats_asserted,
        budget=STEPS,
    )


def _is_written(judge: Judge, difference: Difference) -> bool:
    """Return whether the contract writes the counterexample of a difference. Always False for Avro."""
    shown = difference.counterexample
    if shown is None or judge.plan is None or judge.avro is not None:
        return False
    return judge.plan.explain(shown.text.encode()).disposition.is_written


def _place(name: str, contract: DataContract) -> str:
    for index, each in enumerate(contract.consumers):
        if each.id == name:
            return f"/consumers/{index}"
    return "/consumers" if contract.consumers else ""
