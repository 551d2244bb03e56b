"""Comparison of what contracts declare besides schema and rules: topic, framing, consequences, columns.

These changes are certain in themselves and need no record as evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidegate.contracts.columns.typed import compile_columns
from tidegate.contracts.compatibility.advice import ASSUMED
from tidegate.contracts.compatibility.column_values import HeldColumns
from tidegate.contracts.compatibility.finding import (
    BOTH,
    Change,
    Direction,
    FindingSeverity,
    directions_of,
    is_transitive,
    overlap,
    shown,
    was_and_is,
)
from tidegate.contracts.compatibility.witness_search import Judge
from tidegate.contracts.document.fields import join
from tidegate.contracts.document.model import Compatibility, DataContract, JsonSchema, Mask, Status
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.errors import ContractError
from tidegate.contracts.inclusion.answer import Outcome

CODES: Final = {
    "contract.id-changed": "the contracts have different ids",
    "contract.status-changed": "the contract is in another state of its life",
    "contract.topic-changed": "the records are in another topic",
    "contract.framing-changed": "the framing of the payload has changed",
    "contract.compatibility-group-changed": "the version is in another compatibility group, whose records it judges",
    "contract.unframed-group-changed": "records that name no schema are judged by another compatibility group",
    "contract.tombstones-changed": "a null value does something else",
    "contract.primary-key-changed": "other columns identify a record",
    "contract.on-violation-changed": "what breaking the contract does to a record is something else",
    "contract.error-budget-changed": "the stream stops for another share of refused records",
    "contract.retention-changed": "the topics of refused and accepted records keep them for another time",
    "contract.replay-approval-changed": "another person approves other requests about refused records",
    "contract.classification-changed": "a field is classified in another way, and masked accordingly",
    "contract.mask-changed": "sinks get something else instead of a field or a key",
    "contract.producer-headers-changed": "other headers say which producer wrote a record, or people may read others",
    "contract.compatibility-lowered": "later versions may change what this one must not",
    "contract.compatibility-raised": "later versions may change less",
    "contract.undeclared-changed": "properties that the schema does not declare are assumed to be absent, or no longer",
    "column.added": "a column is new",
    "column.removed": "a column is gone",
    "column.type-changed": "a column is of another type",
    "column.mask-changed": "a column is masked in another way, and may not hold the values of its field",
    "column.source-changed": "a column takes its values from another field",
}
"""Every code that a comparison of declarations and columns can report, with its meaning. The codes are stable."""

_PAYLOADS: Final = {
    "none": {"bare", "bare with a header"},
    "confluent-header": {"bare with a header"},
    "confluent-prefix": {"prefixed"},
    "auto": {"bare", "bare with a header", "prefixed"},
}
"""The forms of a record that each framing accepts."""
_NEITHER: Final = frozenset[Direction]()


def compare_declarations(base: DataContract, candidate: DataContract) -> Iterator[Change]:
    """Yield changes of everything except schema, columns, rules, expectations and consumers."""
    enforced = {Status.ACTIVE, Status.DEPRECATED}
    is_dropped = base.status in enforced and candidate.status not in enforced
    contracts = base, candidate
    framings = (_PAYLOADS[each.framing] for each in contracts)
    nulls = (set() if each.tombstones == "refuse" else {None} for each in contracts)
    passing = (
        {"sound", "unsound"} if each.on_violation is OnViolation.ALERT else {"sound"} for each in contracts
    )
    keeps = keeps_level(base.compatibility, candidate.compatibility)
    level = "contract.compatibility-raised" if keeps else "contract.compatibility-lowered"
    declared: tuple[tuple[str, str, frozenset[Direction], bool], ...] = (
        ("contract.id-changed", "id", _NEITHER, True),
        ("contract.status-changed", "status", _NEITHER, is_dropped),
        ("contract.topic-changed", "topic", BOTH, False),
        ("contract.framing-changed", "framing", _broken(*framings), False),
        ("contract.compatibility-group-changed", "compatibility_group", _NEITHER, True),
        ("contract.unframed-group-changed", "unframed_group", _NEITHER, True),
        ("contract.tombstones-changed", "tombstones", _broken(*nulls), True),
        ("contract.primary-key-changed", "primary_key", BOTH, False),
        ("contract.on-violation-changed", "on_violation", _broken(*passing), True),
        ("contract.error-budget-changed", "error_budget", _NEITHER, True),
        ("contract.mask-changed", "key_mask", _NEITHER, True),
        ("contract.retention-changed", "retention", _NEITHER, True),
        ("contract.replay-approval-changed", "replay_approval", _NEITHER, True),
        ("contract.producer-headers-changed", "producer_headers", _NEITHER, True),
        (level, "compatibility", _NEITHER, not keeps),
        ("contract.undeclared-changed", "undeclared", _NEITHER, candidate.undeclared == "ignore"),
    )
    for code, key, breaks, warns in declared:
        if getattr(base, key) != getattr(candidate, key):
            severity = FindingSeverity.WARNING if warns and not breaks else FindingSeverity.INFO
            yield _of(code, key, base, candidate, breaks, severity)
    yield from _of_fields("classification", "contract.classification-changed", base, candidate)
    yield from _of_fields("mask", "contract.mask-changed", base, candidate)


def _of_fields(key: str, code: str, base: DataContract, candidate: DataContract) -> Iterator[Change]:
    """Yield changes of a key that maps fields to values, such as `mask`, one for each field."""
    former: dict[str, str] = getattr(base, key)
    latter: dict[str, str] = getattr(candidate, key)
    for field in sorted({*former, *latter}):
        before, after = former.get(field), latter.get(field)
        if before != after:
            sentence = f"`{field}`: {was_and_is(key, before, after)}"
            place, base_place = (
                f"/{key}" + (join((field,)) if field in each else "") for each in (latter, former)
            )
            yield Change(
                code,
                sentence,
                place,
                base_place,
                Outcome.PROVEN,
                (field,),
                severity=FindingSeverity.WARNING,
                touches=True,
            )


def keeps_level(before: Compatibility, after: Compatibility) -> bool:
    """Return whether the level `after` forbids everything that the level `before` forbids."""
    return directions_of(before) <= directions_of(after) and is_transitive(before) <= is_transitive(after)


def accepts_more_framings(base: DataContract, candidate: DataContract) -> bool:
    """Return whether the candidate's framing accepts forms of a record that the base's framing does not."""
    return not _PAYLOADS[candidate.framing] <= _PAYLOADS[base.framing]


def _broken(before: set[Any], after: set[Any]) -> frozenset[Direction]:
    """Return the directions that a change of the accepted values from one set to another breaks."""
    broken = {Direction.BACKWARD: before <= after, Direction.FORWARD: after <= before}
    return frozenset(direction for direction, holds in broken.items() if not holds)


def _of(
    code: str,
    key: str,
    base: DataContract,
    candidate: DataContract,
    breaks: frozenset[Direction],
    severity: FindingSeverity,
) -> Change:
    """Return the change of one key of the contract."""
    before, after = (each.model_dump(mode="json")[key] for each in (base, candidate))
    sentence = f"{key} was {shown(before or None)} and is {shown(after or None)}"
    outcome = Outcome.REFUTED if breaks else Outcome.PROVEN
    place, base_place = (f"/{key}" if key in each.model_fields_set else "" for each in (candidate, base))
    return Change(code, sentence, place, base_place, outcome, ("",) if breaks else (), breaks, severity)


_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_WIDER: Final = {("int", "long"), ("float", "double")}


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table: its type, the pointer of its field in a record, and its pointer in the contract."""

    name: str
    type: str
    field: str
    pointer: str


def compare_columns(base: Judge, candidate: Judge) -> Iterator[Change]:
    """Yield changes of the table columns; columns that are derived from the schema count like declared ones.

    Yields nothing if the columns of a contract do not compile.
    """
    one, other = base.contract, candidate.contract
    if (
        one.columns == other.columns
        and one.mask == other.mask
        and (one.columns or one.schema_ == other.schema_)
    ):
        return
    before, after = _columns(base), _columns(candidate)
    if before is None or after is None:
        return
    held = HeldColumns(base, candidate)
    gained = [
        name
        for name, column in after.items()
        if name not in before or _masks_at(one, column.field) != _masks_at(other, column.field)
    ]
    unproven = held.unproven(gained)
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None:
            yield from _compared(old, new)
            if name in unproven:
                places = new.pointer, old.pointer
                what = f"the column {new.name} is masked in another way"
                yield _unheld("column.mask-changed", what, places, new, held)
        elif old is not None:
            places = "/columns" if other.columns else "", old.pointer
            what = f"the column {old.name} is gone"
            yield _column_change("column.removed", what, places, old.field, frozenset({Direction.FORWARD}))
        elif new is not None:
            places = new.pointer, "/columns" if one.columns else ""
            what = f"the column {new.name} is new"
            if name in unproven:
                yield _unheld("column.added", what, places, new, held)
            else:
                yield _column_change("column.added", what, places, new.field, _NEITHER)


def _masks_at(contract: DataContract, field: str) -> dict[str, Mask]:
    """Return the masks that change values of a field, by pointer."""
    return {pointer: mask for pointer, mask in contract.mask.items() if overlap(pointer, field)}


def _unheld(code: str, what: str, places: tuple[str, str], column: _Column, held: HeldColumns) -> Change:
    """Return the change of a column that is not proven to hold the values of earlier records."""
    name = column.name.lower()
    example = held.counterexample(name)
    if held.is_assumed(name):
        sentence = f"{what}; {ASSUMED}"
        return Change(
            code,
            sentence,
            *places,
            Outcome.ASSUMED,
            (column.field,),
            severity=FindingSeverity.WARNING,
            counterexample=example,
        )
    outcome = Outcome.UNDETERMINED if example is None else Outcome.REFUTED
    refusal = "may not hold" if example is None else "does not hold"
    sentence = f"{what}, and as {column.type} it {refusal} every value of {column.field} in earlier records"
    breaks = frozenset({Direction.BACKWARD})
    return Change(
        code,
        sentence,
        *places,
        outcome,
        (column.field,),
        breaks,
        counterexample=example,
        advice="give the column a wider type, such as json, or raise the major version",
    )


def _compared(old: _Column, new: _Column) -> Iterator[Change]:
    places = new.pointer, old.pointer
    if old.field != new.field:
        sentence = f"the column {old.name} was taken from {old.field} and is from {new.field}"
        yield _column_change("column.source-changed", sentence, places, old.field, BOTH)
    if old.type != new.type:
        breaks = BOTH
        if _is_wider(old.type, new.type):
            breaks = frozenset({Direction.FORWARD})
        elif _is_wider(new.type, old.type):
            breaks = frozenset({Direction.BACKWARD})
        sentence = f"the column {old.name} was {old.type} and is {new.type}"
        yield _column_change("column.type-changed", sentence, places, old.field, breaks)


def _is_wider(narrow: str, wide: str) -> bool:
    """Return whether a column of the type `wide` can hold every value of the type `narrow`."""
    left, right = _DECIMAL.fullmatch(narrow), _DECIMAL.fullmatch(wide)
    if left and right:
        return left[2] == right[2] and int(left[1]) <= int(right[1])
    return (narrow, wide) in _WIDER


def _columns(judge: Judge) -> dict[str, _Column] | None:
    """Return the columns by lowercase name; None if they do not compile."""
    contract = judge.contract
    if contract.columns:
        return {
            each.name.lower(): _Column(each.name, each.type.replace(" ", ""), each.from_, f"/columns/{index}")
            for index, each in enumerate(contract.columns)
        }
    schema = contract.schema_
    asserts = isinstance(schema, JsonSchema) and schema.formats == "assert"
    try:
        columns = compile_columns(contract, judge.fields, formats_hold=asserts)
    except ContractError:
        return None
    return {
        each.name.lower(): _Column(each.name, each.type, join(each.path), "/schema/definition")
        for each in columns
    }


def _column_change(
    code: str,
    sentence: str,
    places: tuple[str, str],
    field: str,
    breaks: frozenset[Direction],
) -> Change:
    outcome = Outcome.REFUTED if breaks else Outcome.PROVEN
    return Change(code, sentence, *places, outcome, (field,), breaks)
