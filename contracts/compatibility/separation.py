"""The search for a record that one contract writes and another refuses by one of its rules.

It tries the constants of the rules, one step below and above them, missing fields and nulls, in small records of the
schema, nearest first; both plans judge every one. What it finds is real, and what it does not find proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, Final

from tidegate.contracts.compatibility.constants import MISSING, values_at
from tidegate.contracts.compatibility.judging import Pair, Refusal
from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.inclusion.json_schema.prover import Budget, BudgetSpentError
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.rules.places import EACH, Path

MAX_RECORDS: Final = 2_000
"""Most records that are judged for one rule."""
MAX_JUDGEMENTS: Final = 150_000
"""Most rules that are asked about records in a direction, before each rule is left with MIN_RECORDS."""
MIN_RECORDS: Final = 10
MAX_OVERDRAFT: Final = 1_000_000
"""Most rules that are asked after that; the rules that are left are undetermined, so that thousands of them end."""
MAX_PREPARATION: Final = 500_000
"""Most steps of a direction to collect values and to repair seeds: rules looked at, values made, rules asked."""
MAX_FIELDS: Final = 4
"""Most fields of which the values are varied together."""
_MAX_UNFIT: Final = 200
"""Records that break the new schema too, after which one of them will do."""
_MAX_REPAIRS: Final = 6
_MAX_REPAIR_RECORDS: Final = 400
_STEPS_OF_SEEDS: Final = 2_000
"""Steps that are charged for the first records of some fields, which are made of the whole schema."""
_RULES_A_STEP: Final = 10
"""Rules whose fields are compared in a step: far cheaper than to make a value or to judge."""


class Search:
    """Looks for separating records between two contracts; its seeds serve all rules."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._seeds: dict[tuple[Path, ...], list[Any]] = {}
        self._cost = 10 + len(pair.old.contract.rules) + len(pair.new.contract.rules)
        self._left = MAX_JUDGEMENTS
        self._budget = Budget(MAX_PREPARATION)
        self._fields = {rule.id: kind_of(rule).fields(rule) for rule in pair.old.contract.rules}

    def refusal(self, rule: Rule, others: Iterable[Rule]) -> Refusal | None:
        """Find a record that `old` writes and that breaks a rule of `new`: one that fits its schema, if there is one.

        `others` are rules of `old` whose constants may matter: those that the rule came from. None too when the steps
        are used up.
        """
        try:
            return self._refusal(rule, others)
        except BudgetSpentError:
            return None

    def _refusal(self, rule: Rule, others: Iterable[Rule]) -> Refusal | None:
        near = [rule, *others]
        names = _fields(near)[:MAX_FIELDS]
        if self._left < -MAX_OVERDRAFT:
            return None
        bound = self._about(names)
        self._left -= self._cost + len(bound)
        found = self._found(rule, names, [*near, *bound])
        # What the rule is about may be bound to other fields by other rules.
        wider = list(dict.fromkeys([*names, *_fields(bound)]))[:MAX_FIELDS]
        if found is None and wider != names:
            found = self._found(rule, wider, [*near, *bound], shared=near)
        return found

    def _found(
        self, rule: Rule, names: list[str], rules: list[Rule], shared: list[Rule] | None = None
    ) -> Refusal | None:
        """Vary some fields; `shared` are rules whose constants are tried in all of them."""
        choices = {tokens(name): self._values(name, rules, shared or ()) for name in names}
        second: Refusal | None = None
        for seed in self._sound_seeds(
            tuple(path if path[-1] == EACH else path[:-1] for path in choices if len(path) > 1)
        ):
            for count, refusal in enumerate(self._pair.judge(self._records(seed, choices))):
                if rule.id in refusal.rules and refusal.is_refused:
                    if refusal.fits:
                        return refusal
                    second = second or refusal
                if second is not None and count > _MAX_UNFIT:
                    break
        return second

    def _records(self, seed: Any, choices: dict[Path, tuple[Any, ...]]) -> Iterator[Any]:
        most = max(MIN_RECORDS, min(MAX_RECORDS, self._left // self._cost))
        for record in _varied(seed, choices, most):
            self._left -= self._cost
            yield record

    def _sound_seeds(self, needed: tuple[Path, ...]) -> list[Any]:
        if needed not in self._seeds:
            self._budget.spend(_STEPS_OF_SEEDS)
            self._seeds[needed] = []
            for seed in self._pair.seeds(needed):
                sound = self._repaired(seed)
                if sound is not None:
                    self._seeds[needed].append(sound)
                    break
        return self._seeds[needed]

    def _repaired(self, seed: Any) -> Any:
        """Change the fields of the rules that keep `old` from writing a seed until it does; None when that fails."""
        broken = self._broken(seed)
        rules = {rule.id: rule for rule in self._pair.old.contract.rules}
        for _ in range(_MAX_REPAIRS):
            if not broken:
                break
            rule = rules[min(broken)]
            near = self._about(self._fields[rule.id])
            choices = {tokens(name): self._values(name, near) for name in self._fields[rule.id][:MAX_FIELDS]}
            for record in _varied(seed, choices, _MAX_REPAIR_RECORDS):
                left = self._broken(record)
                if left is not None and left < broken:
                    seed, broken = record, left
                    break
            else:
                return None
        return seed if broken is not None and not broken else None

    def _broken(self, record: Any) -> frozenset[str] | None:
        self._budget.spend(self._cost)
        return self._pair.broken(record)

    def _about(self, names: Iterable[str]) -> list[Rule]:
        """Return the rules of `old` that are about some of these fields."""
        rules, wanted = self._pair.old.contract.rules, set(names)
        self._budget.spend(1 + len(rules) // _RULES_A_STEP)
        return [rule for rule in rules if not wanted.isdisjoint(self._fields[rule.id])]

    def _values(self, name: str, rules: list[Rule], shared: Iterable[Rule] = ()) -> tuple[Any, ...]:
        return values_at(name, rules, self._pair.old, shared, self._budget)


def _fields(rules: Iterable[Rule]) -> list[str]:
    return list(dict.fromkeys(field for rule in rules for field in kind_of(rule).fields(rule)))


def _varied(seed: Any, choices: dict[Path, tuple[Any, ...]], limit: int) -> Iterator[Any]:
    """Yield the seed with every choice of values in its fields, those of small indexes first."""
    paths = list(choices)
    sizes = [len(values) for values in choices.values()]
    count = 0
    for total in range(sum(sizes) - len(sizes) + 1):
        for indexes in _summing(sizes, total):
            record = seed
            for path, index in zip(paths, indexes, strict=True):
                record = with_value(record, path, choices[path][index])
            yield record
            count += 1
            if count == limit:
                return


def _summing(sizes: list[int], total: int) -> Iterator[tuple[int, ...]]:
    """Yield the indexes, one below each size, that add up to a total."""
    if not sizes:
        if total == 0:
            yield ()
        return
    *first, last = sizes
    for indexes in product(*(range(min(size, total + 1)) for size in first)):
        left = total - sum(indexes)
        if 0 <= left < last:
            yield (*indexes, left)


def with_value(record: Any, path: Path, value: Any) -> Any:
    """Copy a record with a value at a path, making objects on the way; MISSING takes the member away.

    Of an array that is gone through, the first element gets the value.
    """
    if not path:
        return record if value is MISSING else value
    first, rest = path[0], path[1:]
    if first == EACH and not isinstance(record, dict):
        items = record if isinstance(record, list) else []
        is_nothing = not items and value is MISSING
        return record if is_nothing else [with_value(items[0] if items else {}, rest, value), *items[1:]]
    if isinstance(record, list) and first.isdigit() and int(first) < len(record):
        index = int(first)
        return [*record[:index], with_value(record[index], rest, value), *record[index + 1 :]]
    members = record if isinstance(record, dict) else {}
    if value is MISSING and (first not in members or not rest):
        return {name: member for name, member in members.items() if name != first} if members else record
    return {**members, first: with_value(members.get(first, {}), rest, value)}
