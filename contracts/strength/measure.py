"""Measure the strength of a contract: corrupt good records, judge them, and find rules that catch the missed ones.

The judge decides everything: which records are good, whether a corrupted one is refused, and whether a suggested rule
catches it and refuses no good record.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from random import Random
from typing import Any, Final

import orjson
import pyarrow as pa

from tidegate.contracts.compiled import schema_fields
from tidegate.contracts.document.fields import value_at
from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.errors import ContractError, SettingsError, mistakes_by_rule
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.privacy.classes import classes_of
from tidegate.contracts.strength.candidates import Rule, candidate_rules
from tidegate.contracts.strength.good_values import ABSENT, GoodField, good_fields, ordered_pairs
from tidegate.contracts.strength.mutations import UNCHANGED, Mutation, mutations_of
from tidegate.contracts.verdict import Disposition, Stage

_FIT: Final = 5
"""Every fifth good record is held back from deriving rules; the rules must accept these records too."""
_TRIES: Final = 10
"""Number of records that are tried for each wanted mutant, because a mutation does not change every record."""


@dataclass(slots=True)
class GoodRecords:
    """Collects the first `most` records that a contract accepts without a warning; `read` counts all judged."""

    plan: EnforcementPlan
    most: int
    values: list[bytes] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)
    """The same records, decoded."""
    read: int = 0

    @property
    def is_full(self) -> bool:
        """Return whether no more records are needed."""
        return len(self.values) >= self.most

    def add(self, values: pa.Array) -> None:
        """Judge some records, an array of large_binary, and keep the good ones."""
        dispositions = self.plan.judge(values).field("disposition").to_pylist()
        for value, disposition in zip(values.to_pylist(), dispositions, strict=True):
            if self.is_full:
                return
            self.read += 1
            if disposition != Disposition.ACCEPTED or value is None:
                continue
            try:
                self.records.append(orjson.loads(value))
            except orjson.JSONDecodeError:  # a lone surrogate, which cannot be encoded again
                continue
            self.values.append(value)


@dataclass(frozen=True, slots=True)
class MutationResult:
    """Verdicts of the contract on the mutants of one mutation of a field, or of a swap of two fields.

    Of `mutants` records, `refused` ones do not reach the sink, `warned` ones do with a warning or an alert, and `missed`
    ones do unnoticed. `rule` is the suggested rule that catches most of the missed ones, None if there is none; `caught`
    is how many it catches.
    """

    mutation: str
    pointers: tuple[str, ...]
    mutants: int
    refused: int
    warned: int
    missed: int
    rule: Rule | None = None
    caught: int = 0


@dataclass(frozen=True)
class Strength:
    """The strength of a contract: `good` of the `read` records were corrupted; outcomes are in field order."""

    contract: str
    read: int
    good: int
    seed: int
    outcomes: tuple[MutationResult, ...]

    @property
    def mutants(self) -> int:
        """Return the number of corrupted records."""
        return sum(each.mutants for each in self.outcomes)

    @property
    def missed(self) -> int:
        """Return the number of corrupted records that would reach the sink unnoticed."""
        return sum(each.missed for each in self.outcomes)

    @property
    def missed_share(self) -> float:
        """Return the share of corrupted records that would reach the sink unnoticed."""
        return self.missed / max(self.mutants, 1)

    @property
    def caught(self) -> int:
        """Return the number of missed records that the suggested rules catch."""
        return sum(each.caught for each in self.outcomes)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Return the suggested rules, each once."""
        found = {each.rule["id"]: each.rule for each in self.outcomes if each.rule is not None}
        return tuple(found.values())


def plan_for_mutation(contract: DataContract) -> EnforcementPlan:
    """Compile a contract for records without frames. Raises SettingsError if they are not JSON."""
    if not isinstance(contract.schema_, JsonSchema):
        raise SettingsError(
            f"{contract.id} describes Avro records, and mutate corrupts JSON only; measure a rule on real records with `tidegate backtest`"
        )
    return compile_plan(contract.model_copy(update={"framing": "none"}))


def measure(good: GoodRecords, *, mutants: int, seed: int) -> Strength:
    """Corrupt at most `mutants` good records for each mutation of each field, and judge them.

    The result depends only on the records, the contract and the seed.
    """
    plan, records = good.plan, good.records
    schema = schema_fields(plan.contract)
    hides = classes_of(plan.contract).touches
    fields = good_fields(records, schema, hides)
    pairs = ordered_pairs(fields)
    fit = [record for index, record in enumerate(records) if index % _FIT or len(records) < _FIT]
    fit_fields = good_fields(fit, schema, hides)
    candidates = candidate_rules(
        fit_fields, ordered_pairs(fit_fields), (rule.id for rule in plan.contract.rules)
    )
    suggestions = Suggestions.of(plan.contract, candidates, good.values)
    outcomes = []
    for corruption in _corruptions(fields, pairs):
        corrupted = _corrupted(records, corruption, mutants, seed)
        if corrupted:
            outcomes.append(_outcome(plan, suggestions, corruption, corrupted))
    return Strength(plan.name, good.read, len(records), seed, tuple(outcomes))


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Candidate rules that refuse no good record; `plan` judges by them and by the rules of the contract."""

    plan: EnforcementPlan
    rules: dict[str, Rule]
    """The suggested rules by id; of two that catch as much, the better one comes first."""

    @classmethod
    def of(cls, contract: DataContract, candidates: Sequence[Rule], good: Sequence[bytes]) -> Suggestions:
        """Return the candidates that compile and refuse no good record."""
        plan, rules = _compiled(contract, list(candidates))
        found = cls(plan, {rule["id"]: rule for rule in rules})
        refusing = {name for names in found.broken_by(good) for name in names}
        return cls(plan, {name: rule for name, rule in found.rules.items() if name not in refusing})

    def broken_by(self, values: Sequence[bytes]) -> Iterator[frozenset[str]]:
        """Yield for each record the ids of the suggested rules that it violates."""
        failed = self.plan.judge(pa.array(values, pa.large_binary())).field("failed")
        for bits in failed.to_pylist():
            slots = self.plan.failed_slots(bits)
            yield frozenset(slot.code for slot in slots if slot.stage is Stage.RULE) & self.rules.keys()

    def best(self, values: Sequence[bytes]) -> tuple[Rule | None, int]:
        """Return the rule that catches most of these records, and how many; (None, 0) if no rule catches any."""
        caught = Counter(name for names in self.broken_by(values) for name in names) if values else Counter()
        if not caught:
            return None, 0
        name = max(self.rules, key=lambda each: caught[each])  # `max` returns the first of equal ones
        return self.rules[name], caught[name]


def _compiled(contract: DataContract, candidates: list[Rule]) -> tuple[EnforcementPlan, list[Rule]]:
    """Return the plan of a contract extended by the candidates that compile, and these candidates."""
    document = contract.model_copy(update={"framing": "none"}).model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    own = document.get("rules", [])
    while True:
        try:
            extended = DataContract.model_validate({**document, "rules": [*own, *candidates]})
            return compile_plan(extended), candidates
        except ContractError as error:
            # The schema's types may not allow a rule, such as bounds of days for texts without a format.
            wrong = {index - len(own) for index in mistakes_by_rule(error)}
            kept = [rule for index, rule in enumerate(candidates) if index not in wrong]
            if len(kept) == len(candidates):
                raise
            candidates = kept


@dataclass(frozen=True, slots=True)
class _Corruption:
    """A mutation of one or two fields. `apply` changes a record in place, and returns False if it changes nothing."""

    label: str
    pointers: tuple[str, ...]
    apply: Callable[[Any], bool]


def _corruptions(
    fields: Iterable[GoodField], pairs: Iterable[tuple[GoodField, GoodField]]
) -> Iterator[_Corruption]:
    for first, second in pairs:
        yield _Corruption("swapped", (first.pointer, second.pointer), partial(_swap, first.path, second.path))
    for each in fields:
        for mutation in mutations_of(each):
            yield _Corruption(mutation.label, (each.pointer,), partial(_change, each.path, mutation))


def _swap(first: tuple[str, ...], second: tuple[str, ...], record: Any) -> bool:
    parent = value_at(record, first[:-1])
    if not isinstance(parent, dict) or first[-1] not in parent or second[-1] not in parent:
        return False
    low, high = parent[first[-1]], parent[second[-1]]
    parent[first[-1]], parent[second[-1]] = high, low
    return bool(low != high)


def _change(path: tuple[str, ...], mutation: Mutation, record: Any) -> bool:
    parent = value_at(record, path[:-1])
    if not isinstance(parent, dict) or path[-1] not in parent:
        return False
    changed = mutation.corrupt(parent[path[-1]])
    if changed is UNCHANGED:
        return False
    if changed is ABSENT:
        del parent[path[-1]]
    else:
        parent[path[-1]] = changed
    return True


def _corrupted(records: Sequence[Any], corruption: _Corruption, most: int, seed: int) -> list[bytes]:
    """Return at most `most` corrupted copies of records, encoded; the seed determines which are chosen."""
    chance = Random(f"{seed} {corruption.label} {corruption.pointers}")  # noqa: S311 - reproducible, not a secret
    found: list[bytes] = []
    for index in chance.sample(range(len(records)), min(len(records), most * _TRIES)):
        record = copy.deepcopy(records[index])
        if corruption.apply(record):
            found.append(orjson.dumps(record))
        if len(found) == most:
            break
    return found


def _outcome(
    plan: EnforcementPlan, suggestions: Suggestions, corruption: _Corruption, corrupted: list[bytes]
) -> MutationResult:
    dispositions = plan.judge(pa.array(corrupted, pa.large_binary())).field("disposition").to_pylist()
    missed = [
        value
        for value, disposition in zip(corrupted, dispositions, strict=True)
        if disposition == Disposition.ACCEPTED
    ]
    refused = sum(not Disposition(each).is_written for each in dispositions)
    rule, caught = suggestions.best(missed)
    return MutationResult(
        corruption.label,
        corruption.pointers,
        len(corrupted),
        refused,
        len(corrupted) - refused - len(missed),
        len(missed),
        rule,
        caught,
    )
