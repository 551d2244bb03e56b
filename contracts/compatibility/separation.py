"""Search for a record that one contract writes and another refuses by one of its rules.

It varies a small record of the schema with constants of the rules, their neighbours, missing fields and nulls. The
plans of both contracts judge every record, so a record that is found is a counterexample. Finding none proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import permutations, product
from math import isfinite
from typing import Any, Final, assert_never

from tidegate.contracts.compatibility.predicates import first_text
from tidegate.contracts.compatibility.witness_search import ContractPair, Judge, WitnessRefusal
from tidegate.contracts.document.fields import FieldType, is_index, tokens
from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.document.rule_model import AMOUNT_BOUNDS, BaseRule, Rule
from tidegate.contracts.document.times import instant_key
from tidegate.contracts.inclusion.json_schema.prover import Budget, BudgetSpentError
from tidegate.contracts.rules.clock import offset_of_now
from tidegate.contracts.rules.kinds.registry import kind_of, refused_set
from tidegate.contracts.rules.places import EACH, Path
from tidegate.contracts.rules.rule_kind import (
    AbsentWhen,
    BrokenExpression,
    Listed,
    Others,
    OutOfOrder,
    Outside,
    RefusedSet,
    Unmatched,
)
from tidegate.contracts.rules.values import Order, native, number_of, order_of_times

MISSING: Final = object()
"""Stands for the absence of a field."""

_LITERAL = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<![\w.])(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"""
)
_PLAIN: Final[dict[str, tuple[Any, ...]]] = {
    "integer": (0, 1, -1),
    "number": (0, 1, 0.5, -1),
    "string": ("", "a", "0"),
    "boolean": (True, False),
    "array": ([],),
    "object": ({},),
    "bytes": (b"", b"\xff"),
}
_TEXTS: Final = {
    "date": ("2000-01-01", "2000-01-02"),
    "date-time": ("2000-01-01T00:00:00Z", "2000-01-01T00:00:01Z"),
}
_MAX_NUMBERS: Final = 8
_MAX_PATTERNS: Final = 3
_MAX_LENGTH: Final = 200
_MAX_DIGITS: Final = 100
"""Maximum digits of a whole number that is parsed exactly; integers of CEL have up to 20."""
_DAY: Final = timedelta(days=1)


def values_at(
    field: str,
    rules: Iterable[BaseRule],
    judge: Judge,
    shared: Iterable[BaseRule] = (),
    budget: Budget | None = None,
) -> tuple[Any, ...]:
    """Return values to try for a field: constants of rules with their neighbours, then MISSING, None and others.

    `rules` contribute constants only if they are about the field, those of `shared` always do. Each rule and each value
    costs a step of the `budget`, if there is one. Raises BudgetSpentError.
    """
    spend = _for_nothing if budget is None else budget.spend
    found = judge.fields.find(field) or FieldType()
    if isinstance(judge.contract.schema_, JsonSchema):  # JSON has no bytes, even for a field of any type
        found = replace(found, types=found.possible - {"bytes"})
    times = order_of_times(found)
    values: list[Any] = []
    about = [refused_set(rule) for rule in rules if field in kind_of(rule).fields(rule)]
    for form in [*about, *(refused_set(rule) for rule in shared)]:
        spend()
        for constant in _constants(form):
            near = _around(constant, found, times)
            spend(1 + len(near))
            values += near
    patterns = [form.pattern for form in about if isinstance(form, Unmatched)]
    values += [first_text((one,), (other,)) for one, other in permutations(patterns[:_MAX_PATTERNS], 2)]
    values += [MISSING, None, *judge.listed(tokens(field)), *_ordinary(found, times)]
    spend(len(values))
    return _unique(values)


def _for_nothing(_: int = 1) -> None:
    """Spend nothing: the stand-in for `Budget.spend` without a budget."""


def _constants(form: RefusedSet | None) -> Iterator[Any]:
    match form:
        case Listed() | Others():
            yield from form.values
        case Outside():
            for name, limit in form.limits.items():
                number = number_of(limit) if name in AMOUNT_BOUNDS else None
                if number is not None:
                    yield float(number) if isinstance(number, Decimal) else number
                elif offset_of_now(str(limit)) is None:
                    yield limit
        case AbsentWhen():
            yield from (None,) if form.values is None else form.values
        case Unmatched():
            text = first_text((form.pattern,))
            yield from () if text is None else (text,)
        case BrokenExpression():
            yield from _literals(form.rule.expr)
        case None | OutOfOrder():
            pass
        case _:
            assert_never(form)


def _literals(expression: str) -> Iterator[Any]:
    """Yield the constants of a CEL expression, sums and differences of its numbers, and texts with such lengths."""
    numbers: list[Any] = []
    for match in _LITERAL.finditer(expression):
        if match["number"]:
            text = match["number"]
            is_whole = text.lstrip("-").isdigit() and len(text) <= _MAX_DIGITS
            number = int(text) if is_whole else float(text)
            numbers.extend((number,) if isfinite(number) else ())
        else:
            yield match["text"][1:-1]
    yield from numbers
    for one, other in permutations(numbers[:_MAX_NUMBERS], 2):
        yield one - other
        yield one + other
    if "size" in expression:
        yield from (
            "a" * number for number in numbers if isinstance(number, int) and 0 < number <= _MAX_LENGTH
        )


def _around(constant: Any, found: FieldType, times: Order | None) -> list[Any]:
    """Return a constant and its neighbours as values of the field; empty for a constant of another kind."""
    match constant:
        case bool() | None:
            return [constant]
        case int() | float():
            return _near(constant, has_fractions="number" in found.types)
        case str() if times is not None and (moments := _moments(constant, found, times)):
            return moments
        case str():
            return [constant, f"{constant}a", constant[:-1], ""]
        case _:
            return []


def _near(constant: float, *, has_fractions: bool) -> list[int | float]:
    """Return a number and its neighbours, by one step of its last digit and by 1; some also as floats.

    Without `has_fractions` all results are integers, one step apart.
    """
    number = Decimal(repr(native(constant)))
    step = Decimal(1).scaleb(int(number.as_tuple().exponent)) if has_fractions else Decimal(1)
    near = [number, number - step, number + step, number - 1, number + 1]
    values: list[int | float] = [
        int(each) if each == each.to_integral_value() else float(each) for each in near
    ]
    return [*values, *(float(each) for each in near[:3])] if has_fractions else values


def _moments(text: str, found: FieldType, times: Order) -> list[Any]:
    if "string" in found.types:
        try:
            if len(text) == 10:
                day = date.fromisoformat(text)
                return [(day + step * _DAY).isoformat() for step in (0, -1, 1)]
            moment = datetime.fromisoformat(text)
        except (ValueError, OverflowError):
            return []
        if instant_key(text) is None:
            return []
        near = [moment.astimezone(UTC) + timedelta(seconds=step) for step in (-1, 1)]
        return [text, *(each.isoformat().replace("+00:00", "Z") for each in near)]
    key, unit = times.parse(text), times.key(1)
    if not isinstance(key, int) or not isinstance(unit, int):
        return []
    return [key // unit + step for step in (0, -1, 1)]


def _ordinary(found: FieldType, times: Order | None) -> list[Any]:
    """Return a few values of each type of the field."""
    values: list[Any] = []
    if times is not None and "string" in found.types:
        values += _TEXTS["date" if times.name == "dates" else "date-time"]
    for kind in ("integer", "number", "string", "boolean", "bytes", "array", "object"):
        if kind in found.types:
            values += _PLAIN[kind]
    return values


def _unique(values: list[Any]) -> tuple[Any, ...]:
    return tuple({(type(value).__name__, repr(value)): value for value in values}.values())


MAX_RECORDS: Final = 2_000
"""Maximum records that are judged for one rule."""
MAX_JUDGEMENTS: Final = 150_000
"""Maximum evaluations of rules on records in one direction; after that, each rule gets only MIN_RECORDS records."""
MIN_RECORDS: Final = 10
MAX_OVERDRAFT: Final = 1_000_000
"""Maximum evaluations after that; the remaining rules are undetermined, so that thousands of rules end in time."""
MAX_PREPARATION: Final = 500_000
"""Maximum steps in one direction to collect values and to repair seeds: rules compared, values built, evaluations."""
MAX_FIELDS: Final = 4
"""Maximum fields whose values are varied together."""
_MAX_UNFIT: Final = 200
"""Records to judge before a counterexample that also breaks the new schema is accepted."""
_MAX_REPAIRS: Final = 6
_MAX_REPAIR_RECORDS: Final = 400
_STEPS_OF_SEEDS: Final = 2_000
"""Steps that are charged for the seeds of a set of fields, which are built from the whole schema."""
_RULES_A_STEP: Final = 10
"""Rules whose fields are compared in one step: far cheaper than building a value or judging."""


class Search:
    """Searches for records that one contract writes and another refuses; its seeds are reused for all rules.

    A seed is a small record that `old` writes.
    """

    def __init__(self, pair: ContractPair) -> None:
        self._pair = pair
        self._seeds: dict[tuple[Path, ...], list[Any]] = {}
        self._cost = 10 + len(pair.old.contract.rules) + len(pair.new.contract.rules)
        self._left = MAX_JUDGEMENTS
        self._budget = Budget(MAX_PREPARATION)
        self._fields = {rule.id: kind_of(rule).fields(rule) for rule in pair.old.contract.rules}

    def refusal(self, rule: Rule, others: Iterable[Rule]) -> WitnessRefusal | None:
        """Return a record that `old` writes and that breaks a rule of `new`, if possible one that fits its schema.

        `others` are rules of `old` whose constants may matter: the predecessors of the rule. None if no record was
        found or the steps are used up.
        """
        try:
            return self._refusal(rule, others)
        except BudgetSpentError:
            return None

    def _refusal(self, rule: Rule, others: Iterable[Rule]) -> WitnessRefusal | None:
        near = [rule, *others]
        names = _fields(near)[:MAX_FIELDS]
        if self._left < -MAX_OVERDRAFT:
            return None
        bound = self._about(names)
        self._left -= self._cost + len(bound)
        found = self._found(rule, names, [*near, *bound])
        # Other rules may relate the fields of this rule to further fields.
        wider = list(dict.fromkeys([*names, *_fields(bound)]))[:MAX_FIELDS]
        if found is None and wider != names:
            found = self._found(rule, wider, [*near, *bound], shared=near)
        return found

    def _found(
        self, rule: Rule, names: list[str], rules: list[Rule], shared: list[Rule] | None = None
    ) -> WitnessRefusal | None:
        """Return a refusal found by varying some fields, or None.

        `shared` are rules whose constants are tried in all of these fields.
        """
        choices = {tokens(name): self._values(name, rules, shared or ()) for name in names}
        second: WitnessRefusal | None = None
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
        """Return a seed with fields changed until it breaks no rule of `old`; None if that fails."""
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
        """Return the rules of `old` that are about any of these fields."""
        rules, wanted = self._pair.old.contract.rules, set(names)
        self._budget.spend(1 + len(rules) // _RULES_A_STEP)
        return [rule for rule in rules if not wanted.isdisjoint(self._fields[rule.id])]

    def _values(self, name: str, rules: list[Rule], shared: Iterable[Rule] = ()) -> tuple[Any, ...]:
        return values_at(name, rules, self._pair.old, shared, self._budget)


def _fields(rules: Iterable[Rule]) -> list[str]:
    return list(dict.fromkeys(field for rule in rules for field in kind_of(rule).fields(rule)))


def _varied(seed: Any, choices: dict[Path, tuple[Any, ...]], limit: int) -> Iterator[Any]:
    """Yield the seed with every combination of values in its fields, by ascending sum of their indexes."""
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
    """Yield every tuple of indexes, each below its size, that adds up to a total."""
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
    """Return a copy of a record with a value at a path, creating objects on the way; MISSING removes the member.

    Where the path goes through the elements of an array, the first element gets the value.
    """
    if not path:
        return record if value is MISSING else value
    first, rest = path[0], path[1:]
    if first == EACH and not isinstance(record, dict):
        items = record if isinstance(record, list) else []
        is_nothing = not items and value is MISSING
        return record if is_nothing else [with_value(items[0] if items else {}, rest, value), *items[1:]]
    if isinstance(record, list) and is_index(first) and int(first) < len(record):
        index = int(first)
        return [*record[:index], with_value(record[index], rest, value), *record[index + 1 :]]
    members = record if isinstance(record, dict) else {}
    if value is MISSING and (first not in members or not rest):
        return {name: member for name, member in members.items() if name != first} if members else record
    return {**members, first: with_value(members.get(first, {}), rest, value)}
