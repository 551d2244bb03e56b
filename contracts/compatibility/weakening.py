"""Weakenings of a contract: more records are accepted, fewer fields are masked, or error budgets are raised.

A weakening needs the approval of someone other than its author, whatever the compatibility level. *Undetermined* counts
as a weakening: only a contract that is proven to be as strict is published without approval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidegate.contracts.compatibility.declarations import accepts_more_framings, compare_columns, keeps_level
from tidegate.contracts.compatibility.expectations import compare_expectations, effect_of_batch
from tidegate.contracts.compatibility.finding import Change, Direction, was_and_is
from tidegate.contracts.compatibility.predicates import bounded_searches
from tidegate.contracts.compatibility.rules import compare_rules, have_one_meaning
from tidegate.contracts.compatibility.schemas import altered_fields, compare_schemas
from tidegate.contracts.compatibility.witness_search import Judge
from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.document.model import AvroSchema, DataContract, ErrorBudget, Mask
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.inclusion.avro.leniency import made_up, strict_reader
from tidegate.contracts.privacy.classes import MASKED, classes_of
from tidegate.contracts.rules.compile import effect, with_reference_sets
from tidegate.contracts.verdict import Severity

_APPROVALS: Final = ("never", "fixes", "always")
_STRICTNESS: Final = {
    None: 0,  # a warning
    OnViolation.ALERT: 1,
    OnViolation.DROP: 2,
    OnViolation.QUARANTINE: 3,
    OnViolation.FAIL: 4,
}
"""The order of consequences, as in `Disposition`: a record gets the highest one of its violations."""
_MASKS: Final = {None: 0, Mask.HASH: 1, Mask.REDACT: 2, Mask.DROP: 3}
_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Weakening:
    """One way in which a proposed contract is less strict than the enforced one.

    `code` is stable: that of the compatibility finding, or one of `CODES`. `pointer` is a JSON Pointer into the
    proposed document, to the nearest place that exists. `field` is the JSON Pointer of a place in a record, "" for
    none. `sentence` contains only declared names and values, never data of records.
    """

    code: str
    sentence: str
    pointer: str = ""
    field: str = ""


CODES: Final = {
    "contract.id-changed": "the contract has another id",
    "contract.topic-changed": "the contract governs another topic",
    "contract.framing-widened": "records in other frames pass",
    "contract.unframed-group-changed": "records that name no schema are judged by another compatibility group",
    "avro.reader-fills-in": "a default or an alias lets records of more writer's schemas be read",
    "contract.tombstones-changed": "null values do something else than being refused",
    "contract.on-violation-lowered": "breaking the contract has a lesser consequence",
    "contract.error-budget-raised": "more records may be refused before the stream stops, or that cannot be told",
    "contract.primary-key-changed": "other columns identify a record, or none",
    "contract.classification-lowered": "a field has no class any more, or another one",
    "contract.mask-lowered": "sinks get more of a field or of the key",
    "contract.producer-header-public": "people may read the values of a header that names the producer",
    "contract.compatibility-lowered": "later versions may change what this one must not",
    "contract.replay-approval-lowered": "another person approves fewer requests about refused records",
    "contract.undeclared-ignored": "later versions may declare properties that records already have",
    "rule.consequence-lowered": "breaking a rule has a lesser consequence",
    "expectation.consequence-lowered": "not meeting an expectation has a lesser consequence",
}
"""The codes of this module besides those of compatibility findings, with their meaning. The codes are stable."""


def weakenings(enforced: DataContract, proposed: DataContract) -> tuple[Weakening, ...]:
    """Return every way in which `proposed` is less strict than `enforced`; empty if it is proven to be as strict.

    Both must be self-contained and must compile. Their `status` is ignored. Raises ContractError for an invalid schema.
    """
    base, candidate = with_reference_sets(enforced), with_reference_sets(proposed)
    found: dict[tuple[str, str, str], Weakening] = {}
    for find in (_governed, _declared, _privacy, _records, _batches):
        for each in find(base, candidate):
            found.setdefault((each.code, each.pointer, each.field), each)
    return tuple(found.values())


def _governed(base: DataContract, candidate: DataContract) -> Iterator[Weakening]:
    """Yield weakenings by a change of the records that the contract governs: its id, topic and framing."""
    if base.id != candidate.id:
        yield _changed("contract.id-changed", "id", base.id, candidate.id)
    if base.topic != candidate.topic:
        yield _changed("contract.topic-changed", "topic", base.topic, candidate.topic)
    if accepts_more_framings(base, candidate):
        yield _changed("contract.framing-widened", "framing", base.framing, candidate.framing)
    if candidate.unframed_group not in {base.unframed_group, None}:
        groups = base.unframed_group, candidate.unframed_group
        yield _changed("contract.unframed-group-changed", "unframed_group", *groups)


def _declared(base: DataContract, candidate: DataContract) -> Iterator[Weakening]:
    yield from _filled_in(base, candidate)
    if candidate.tombstones not in {base.tombstones, "refuse"}:
        yield _changed("contract.tombstones-changed", "tombstones", base.tombstones, candidate.tombstones)
    if _STRICTNESS[candidate.on_violation] < _STRICTNESS[base.on_violation]:
        values = base.on_violation.value, candidate.on_violation.value
        yield _changed("contract.on-violation-lowered", "on_violation", *values)
    if base.primary_key and base.primary_key != candidate.primary_key:
        values_of_key = list(base.primary_key), list(candidate.primary_key) or None
        yield _changed("contract.primary-key-changed", "primary_key", *values_of_key)
    if not keeps_level(base.compatibility, candidate.compatibility):
        levels = base.compatibility.value, candidate.compatibility.value
        yield _changed("contract.compatibility-lowered", "compatibility", *levels)
    if base.undeclared != "ignore" == candidate.undeclared:
        yield _changed("contract.undeclared-ignored", "undeclared", base.undeclared, candidate.undeclared)
    if _APPROVALS.index(candidate.replay_approval) < _APPROVALS.index(base.replay_approval):
        approvals = base.replay_approval, candidate.replay_approval
        yield _changed("contract.replay-approval-lowered", "replay_approval", *approvals)
    if base.error_budget is not None and _raises(base.error_budget, candidate.error_budget):
        budgets = (_shown(each) for each in (base.error_budget, candidate.error_budget))
        yield _changed("contract.error-budget-raised", "error_budget", *budgets)


def _filled_in(base: DataContract, candidate: DataContract) -> Iterator[Weakening]:
    """Yield the defaults and aliases that the Avro schema gains.

    Without framing they have no effect, because records do not name a writer's schema.
    """
    before, after = base.schema_, candidate.schema_
    if not (isinstance(before, AvroSchema) and isinstance(after, AvroSchema)) or candidate.framing == "none":
        return
    for name, field, what in made_up(before.definition, after.definition):
        place = f"the field `{field}` of `{name}`" if field else f"the enum `{name}`"
        given = "a default" if what == "default" else f"the alias `{what}`"
        sentence = f"{place} has {given} now: records of writer's schemas that lack it can be read"
        yield Weakening(
            "avro.reader-fills-in", sentence, "/schema/definition", join((field,)) if field else ""
        )


def _raises(old: ErrorBudget, new: ErrorBudget | None) -> bool:
    """Return whether a new budget allows more refusals, or cannot be compared with the old one.

    Budgets with different windows cannot be compared, nor with different actions unless the new action is `fail`.
    """
    if new is None or new.window_records != old.window_records:
        return True
    return (
        new.ratio > old.ratio or new.min_records > old.min_records or new.action not in {old.action, "fail"}
    )


def _shown(budget: ErrorBudget | None) -> dict[str, Any] | None:
    return None if budget is None else budget.model_dump(mode="json", exclude_none=True)


def _privacy(base: DataContract, candidate: DataContract) -> Iterator[Weakening]:
    """Yield weakenings of classes, masks and public headers. Classes have no order, so any other class is a weakening."""
    after = classes_of(candidate)
    for pointer, name in classes_of(base).by_pointer.items():
        found = after.of(tokens(pointer))
        if after.by_pointer.get(pointer) == name:
            continue  # the field keeps its own class, even if `of` returns that of an enclosing field
        if name != MASKED and (found is None or found.casefold() != name.casefold()):
            sentence = f"`{pointer}`: {was_and_is('class', name, None if found == MASKED else found)}"
            yield Weakening("contract.classification-lowered", sentence, "/classification", pointer)
    for pointer, mask in base.mask.items():
        left = _mask_at(candidate, pointer)
        if _MASKS[left] < _MASKS[mask]:
            sentence = f"`{pointer}`: {was_and_is('mask', mask.value, left.value if left else None)}"
            yield Weakening("contract.mask-lowered", sentence, "/mask", pointer)
    if _MASKS[candidate.key_mask] < _MASKS[base.key_mask]:
        values = (each.value if each else None for each in (base.key_mask, candidate.key_mask))
        yield _changed("contract.mask-lowered", "key_mask", *values)
    known = {each.name for each in base.producer_headers if each.public}
    for index, each in enumerate(candidate.producer_headers):
        if each.public and each.name not in known:
            sentence = f"the header `{each.name}` is public: people may read its values"
            yield Weakening("contract.producer-header-public", sentence, f"/producer_headers/{index}")


def _mask_at(contract: DataContract, pointer: str) -> Mask | None:
    """Return the strictest mask of a field, its own or that of an enclosing place; None if there is none."""
    path = tokens(pointer)
    found = [mask for name, mask in contract.mask.items() if _covers(tokens(name), path)]
    return max(found, key=lambda mask: _MASKS[mask], default=None)


def _covers(outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    return len(outer) <= len(inner) and all(
        left in {_ANY, right} for left, right in zip(outer, inner, strict=False)
    )


def _records(base: DataContract, candidate: DataContract) -> Iterator[Weakening]:
    """Yield weakenings of schema and rules, comparing once for each consequence of the enforced contract.

    At one consequence, a contract consists of its schema and the rules with at least this consequence. So a rule that
    was removed, changed or lowered accepts more records there. The schema has the consequence of the contract. Above
    that level only rules are compared, and a rule can be replaced only by the same rule.
    """
    of_schema = min(_STRICTNESS[base.on_violation], _STRICTNESS[candidate.on_violation])
    levels = sorted({_rank(rule, base) for rule in base.rules} | {of_schema}, reverse=True)
    for level in levels:
        if level > of_schema:
            yield from _missing_rules(base, candidate, level)
        else:
            yield from _looser(_strict_at(base, level), _strict_at(candidate, level), base, candidate)


def _strict_at(contract: DataContract, level: int) -> DataContract:
    """Return a contract with only the rules of at least this consequence, all refusing, and without masks."""
    rules = tuple(
        rule.model_copy(update={"severity": Severity.ERROR, "on_violation": None})
        for rule in contract.rules
        if _rank(rule, contract) >= level
    )
    return contract.model_copy(
        update={"rules": rules, "on_violation": OnViolation.QUARANTINE, "mask": {}, "classification": {}}
    )


def _looser(
    old: DataContract, new: DataContract, base: DataContract, candidate: DataContract
) -> Iterator[Weakening]:
    judges = Judge(_as_written(old, new)), Judge(new)
    with bounded_searches():
        schemas = list(compare_schemas(*judges))
        changes = [
            *schemas,
            *_column_changes(judges, candidate),
            *compare_rules(*judges, altered_fields(schemas)),
        ]
    for change in changes:
        if Direction.FORWARD in change.breaks:
            yield _of_change(change, base, candidate)


def _as_written(old: DataContract, new: DataContract) -> DataContract:
    """Return a contract whose Avro schema has no defaults and aliases, so that a missing field is always noticed.

    The contract is returned unchanged if its schema is that of `new`, or not Avro.
    """
    schema = old.schema_
    if not isinstance(schema, AvroSchema) or schema == new.schema_:
        return old
    strict = schema.model_copy(update={"definition": strict_reader(schema.definition)})
    return old.model_copy(update={"schema_": strict})


def _column_changes(judges: tuple[Judge, Judge], candidate: DataContract) -> Iterator[Change]:
    """Yield the changes of columns, except of fields that the candidate masks: a mask may change their columns.

    If both contracts derive their columns, these require no more than the schemas, which are compared themselves.
    """
    if not any(judge.contract.columns for judge in judges):
        return
    for change in compare_columns(*judges):
        if not any(_mask_at(candidate, field) for field in change.fields):
            yield change


def _of_change(change: Change, base: DataContract, candidate: DataContract) -> Weakening:
    """Return the weakening for a compatibility change; if a rule only has a lesser consequence, one about that."""
    for rule in base.rules if change.code.startswith("rule.") else ():
        after = next((each for each in candidate.rules if each.id == rule.id), None)
        is_meant = f"`{rule.id}`" in change.sentence
        if is_meant and after is not None and have_one_meaning(rule, after):
            return _lowered(rule, base, after, candidate, change.fields[0] if change.fields else "")
    return Weakening(change.code, change.sentence, change.pointer, change.fields[0] if change.fields else "")


def _missing_rules(base: DataContract, candidate: DataContract, level: int) -> Iterator[Weakening]:
    kept = [rule for rule in candidate.rules if _rank(rule, candidate) >= level]
    for rule in base.rules:
        if _rank(rule, base) < level or any(have_one_meaning(rule, each) for each in kept):
            continue
        after = next((each for each in candidate.rules if each.id == rule.id), None)
        if after is None:
            yield Weakening("rule.removed", f"the rule `{rule.id}` is gone", "/rules")
        elif have_one_meaning(rule, after):
            yield _lowered(rule, base, after, candidate)
        else:
            place = f"/rules/{candidate.rules.index(after)}"
            yield Weakening("rule.loosened", f"the rule `{rule.id}` is written in another way", place)


def _lowered(
    rule: Rule, base: DataContract, after: Rule, candidate: DataContract, field: str = ""
) -> Weakening:
    before, now = (_named(effect(*each)) for each in ((rule, base), (after, candidate)))
    sentence = f"breaking the rule `{rule.id}` was {before} and is {now}"
    return Weakening("rule.consequence-lowered", sentence, f"/rules/{candidate.rules.index(after)}", field)


def _rank(rule: Rule, contract: DataContract) -> int:
    return _STRICTNESS[effect(rule, contract)]


def _named(consequence: OnViolation | None) -> str:
    return "a warning" if consequence is None else consequence.value


def _batches(base: DataContract, candidate: DataContract) -> Iterator[Weakening]:
    """Yield weakenings of expectations: of what they require, as if all refused batches, then of consequences."""
    old, new = (_expecting(each) for each in (base, candidate))
    for change in compare_expectations(old, new):
        if Direction.FORWARD in change.breaks or change.code == "expectation.changed":
            yield Weakening(
                change.code, change.sentence, change.pointer, change.fields[0] if change.fields else ""
            )
    after = {each.id: each for each in candidate.expectations}
    for each in base.expectations:
        if each.id not in after:
            continue
        before, now = effect_of_batch(each, base), effect_of_batch(after[each.id], candidate)
        if _STRICTNESS[now] < _STRICTNESS[before]:
            index = candidate.expectations.index(after[each.id])
            sentence = f"not meeting the expectation `{each.id}` was {_named(before)} and is {_named(now)}"
            yield Weakening("expectation.consequence-lowered", sentence, f"/expectations/{index}")


def _expecting(contract: DataContract) -> DataContract:
    expectations = tuple(
        each.model_copy(update={"severity": Severity.ERROR, "on_violation": "quarantine"})
        for each in contract.expectations
    )
    return contract.model_copy(update={"expectations": expectations})


def _changed(code: str, key: str, before: Any, after: Any) -> Weakening:
    return Weakening(code, was_and_is(key, before, after), join((key,)))
