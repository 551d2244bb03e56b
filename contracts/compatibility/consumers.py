"""Whom a change touches: registered consumers, by the fields that they read and by what they take for granted."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from typing import Any, Final

from tidegate.contracts.compatibility.changes import Change
from tidegate.contracts.compatibility.finding import Comparison, Direction, FindingSeverity
from tidegate.contracts.compatibility.judging import Judge
from tidegate.contracts.compatibility.pointers import overlap
from tidegate.contracts.compatibility.rule_schemas import STEPS, with_rules
from tidegate.contracts.document.model import Consumer, DataContract, JsonSchema
from tidegate.contracts.document.semver import major_of
from tidegate.contracts.errors import ContractError
from tidegate.contracts.inclusion import json_schema
from tidegate.contracts.inclusion.answer import Difference, Inclusion, Outcome
from tidegate.contracts.inclusion.avro.json_form import json_schema_of

CODES: Final = {
    "consumer.added": "a consumer is registered",
    "consumer.removed": "a consumer is registered no more",
    "consumer.reads-changed": "a consumer reads other fields, or takes other things for granted",
    "consumer.assumption-broken": "what a consumer takes for granted was sure and is not any more",
    "consumer.assumption-unproven": "what a consumer takes for granted was not sure, and is not now",
}
"""Every code that a comparison of consumers gives, and what it says. They are stable."""


def registered(base: DataContract, candidate: DataContract) -> tuple[Consumer, ...]:
    """Return the consumers of both contracts; one that stands in both reads what either says.

    A change cannot get rid of a consumer by leaving it out.
    """
    consumers = {each.id: each for each in base.consumers}
    for each in candidate.consumers:
        known = consumers.get(each.id)
        if known is None:
            consumers[each.id] = each
            continue
        # Who does not say what it reads may read anything.
        reads = tuple(dict.fromkeys([*known.reads, *each.reads])) if known.reads and each.reads else ()
        assumes = known.assumes if known.assumes is not None else each.assumes
        consumers[each.id] = known.model_copy(update={"reads": reads, "assumes": assumes})
    return tuple(consumers.values())


def touched(
    fields: Collection[str], consumers: Collection[Consumer], declared: Container[str]
) -> tuple[str, ...]:
    """Return the ids of the consumers that read one of some fields, part of one, or what holds one; sorted.

    A consumer that does not say what it reads is touched by everything.
    """
    return tuple(
        sorted(
            each.id
            for each in consumers
            if fields
            and (
                not each.reads
                or any(overlap(field, read, declared) for field in fields for read in each.reads)
            )
        )
    )


def unacknowledged(
    comparison: Comparison, acknowledgements: Collection[str], *, version: str
) -> tuple[str, ...]:
    """Return the ids of the consumers that must still agree before a candidate of this version may replace the base.

    Those are the ones that a breaking finding touches; a new major version needs nobody's word.
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
    """Compare who is registered, and whether the records still keep what consumers take for granted."""
    before = {each.id: (index, each) for index, each in enumerate(base.contract.consumers)}
    after = {each.id: (index, each) for index, each in enumerate(candidate.contract.consumers)}
    for name in dict.fromkeys([*after, *before]):
        old, new = before.get(name), after.get(name)
        places = _place(new, candidate.contract), _place(old, base.contract)
        if old is None or new is None:
            code, what = ("consumer.added", "new") if old is None else ("consumer.removed", "gone")
            yield Change(code, f"the consumer {name} is {what}", *places, Outcome.PROVEN)
        elif (old[1].reads, old[1].assumes) != (new[1].reads, new[1].assumes):
            sentence = f"the consumer {name} says in another way what it reads"
            yield Change("consumer.reads-changed", sentence, *places, Outcome.PROVEN)
    if (base.contract.schema_, base.contract.rules) != (candidate.contract.schema_, candidate.contract.rules):
        for consumer in registered(base.contract, candidate.contract):
            if consumer.assumes is not None:
                places = (
                    _place(after.get(consumer.id), candidate.contract),
                    _place(before.get(consumer.id), base.contract),
                )
                yield from _assumption(consumer, base, candidate, places)


def _assumption(
    consumer: Consumer, base: Judge, candidate: Judge, places: tuple[str, str]
) -> Iterator[Change]:
    try:
        now = _keeps(candidate, consumer.assumes)
    except ContractError as error:
        sentence = f"what {consumer.id} takes for granted is no JSON Schema: {error.problems[0].message}"
        code = "consumer.assumption-unproven"
        yield Change(
            code,
            sentence,
            *places,
            Outcome.UNDETERMINED,
            (),
            severity=FindingSeverity.WARNING,
            touches=True,
            consumer=consumer.id,
        )
        return
    if now.outcome is Outcome.PROVEN:
        return
    was_sure = _keeps(base, consumer.assumes).outcome is Outcome.PROVEN
    for difference in now.differences:
        outcome = difference.outcome if _is_written(candidate, difference) else Outcome.UNDETERMINED
        code = "consumer.assumption-broken" if was_sure else "consumer.assumption-unproven"
        sentence = f"{consumer.id} takes for granted what records need not keep: {difference.sentence}"
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
            consumer=consumer.id,
        )


def _keeps(judge: Judge, assumes: Any) -> Inclusion:
    """Ask whether every record that a contract writes keeps an assumption, as far as schemas can say what it writes."""
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
    """Return whether the record that shows a difference is really one that the contract writes."""
    shown = difference.counterexample
    if shown is None or judge.plan is None or judge.avro is not None:
        return False
    return judge.plan.explain(shown.text.encode()).disposition.is_written


def _place(found: tuple[int, Consumer] | None, contract: DataContract) -> str:
    if found is None:
        return "/consumers" if contract.consumers else ""
    return f"/consumers/{found[0]}"
