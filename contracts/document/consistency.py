"""What a contract must hold together by itself, before anybody looks at its schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from tidegate.contracts.document.diagnosis import suggest
from tidegate.contracts.document.model import DataContract, ReferenceSet
from tidegate.contracts.document.rule_model import Forbidden, OneOf, Ordered, Range, RequiredWhen, Rule
from tidegate.contracts.document.source import escape
from tidegate.contracts.document.times import date_key, instant_key
from tidegate.contracts.errors import Problem
from tidegate.contracts.verdict import Severity

_NUMBER_BOUNDS = ("minimum", "exclusive_minimum", "maximum", "exclusive_maximum")
_TIME_BOUNDS = ("not_before", "after", "not_after", "before")
_EXCLUSIVE = {"exclusive_minimum", "exclusive_maximum", "after", "before"}


def inconsistencies(contract: DataContract) -> Iterator[Problem]:
    """Find the contradictions inside a contract; pointers are into the contract document."""
    rule_ids = [(f"/rules/{index}/id", rule.id) for index, rule in enumerate(contract.rules)]
    expectation_ids = [
        (f"/expectations/{index}/id", each.id) for index, each in enumerate(contract.expectations)
    ]
    yield from _repeated("rule id", rule_ids + expectation_ids)
    for index, each in enumerate(contract.expectations):
        if each.severity is Severity.WARNING and each.on_violation is not None:
            message = (
                "after a warning a batch is written; remove `on_violation`, or make the severity `error`"
            )
            yield Problem(f"/expectations/{index}/on_violation", message)
    for index, rule in enumerate(contract.rules):
        yield from _rule_problems(f"/rules/{index}", rule)
        yield from _set_problems(f"/rules/{index}", rule, contract.reference_sets)
    for name, reference_set in contract.reference_sets.items():
        if bool(reference_set.values) == (reference_set.file is not None):
            yield Problem(
                f"/reference_sets/{escape(name)}", "give either `values`, or the `file` that has them"
            )
    # Query engines do not tell columns apart by case.
    columns = [
        (f"/columns/{index}/name", column.name.lower()) for index, column in enumerate(contract.columns)
    ]
    yield from _repeated("column", columns)
    yield from _repeated(
        "consumer id", [(f"/consumers/{index}/id", each.id) for index, each in enumerate(contract.consumers)]
    )
    yield from _repeated(
        "column", [(f"/primary_key/{index}", name) for index, name in enumerate(contract.primary_key)]
    )


def _repeated(what: str, placed: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    seen: set[str] = set()
    for pointer, name in placed:
        if name in seen:
            yield Problem(pointer, f"{what} `{name}` is used twice")
        seen.add(name)


def _rule_problems(pointer: str, rule: Rule) -> Iterator[Problem]:
    if rule.severity is Severity.WARNING and rule.on_violation is not None:
        message = (
            "a warning is always written and counted; remove `on_violation`, or make the severity `error`"
        )
        yield Problem(f"{pointer}/on_violation", message)
    match rule:
        case Range():
            yield from _range_problems(pointer, rule)
        case Ordered():
            yield from _repeated(
                "field", [(f"{pointer}/fields/{index}", field) for index, field in enumerate(rule.fields)]
            )
        case RequiredWhen():
            tests = sorted(rule.when.model_fields_set - {"field"})
            if len(tests) != 1:
                message = "give exactly one of `equals`, `one_of` and `present`"
                yield Problem(f"{pointer}/when", message)
        case _:
            pass


def _set_problems(pointer: str, rule: Rule, sets: dict[str, ReferenceSet]) -> Iterator[Problem]:
    if not isinstance(rule, Forbidden | OneOf):
        return
    if bool(rule.values) == (rule.set is not None):
        yield Problem(pointer, "give either `values` or the name of a reference set as `set`")
    elif rule.set is not None and rule.set not in sets:
        near = suggest(rule.set, sets) if sets else "; name its values under `reference_sets`"
        yield Problem(f"{pointer}/set", f"the contract has no reference set `{rule.set}`{near}")


def _range_problems(pointer: str, rule: Range) -> Iterator[Problem]:
    numbers = [name for name in _NUMBER_BOUNDS if getattr(rule, name) is not None]
    times = [name for name in _TIME_BOUNDS if getattr(rule, name) is not None]
    if not numbers and not times:
        bounds = ", ".join(f"`{name}`" for name in (*_NUMBER_BOUNDS, *_TIME_BOUNDS))
        yield Problem(pointer, f"a range needs a bound: {bounds}")
    if numbers and times:
        message = f"`{times[0]}` bounds dates and `{numbers[0]}` numbers; a range has one or the other"
        yield Problem(f"{pointer}/{times[0]}", message)
        return
    names = _NUMBER_BOUNDS if numbers else _TIME_BOUNDS
    for low, high in (names[:2], names[2:]):
        if getattr(rule, low) is not None and getattr(rule, high) is not None:
            yield Problem(f"{pointer}/{high}", f"`{low}` and `{high}` bound the same side; keep one of them")
    yield from _empty_range(pointer, rule, names)


def _empty_range(pointer: str, rule: Range, names: tuple[str, ...]) -> Iterator[Problem]:
    for low_name, high_name in product(names[:2], names[2:]):
        low, high = getattr(rule, low_name), getattr(rule, high_name)
        if low is None or high is None:
            continue
        (low_sort, low_key), (high_sort, high_key) = _sort_key(low), _sort_key(high)
        if low_sort == high_sort and None not in {low_key, high_key}:
            is_open = low_name in _EXCLUSIVE or high_name in _EXCLUSIVE
            if low_key > high_key or (is_open and low_key == high_key):
                yield Problem(
                    f"{pointer}/{high_name}", f"no value lies between `{low_name}` and `{high_name}`"
                )


def _sort_key(bound: str | float) -> tuple[str, Any]:
    """Return the sort of a bound and a key within it; what is neither date nor timestamp is told by compiling."""
    if not isinstance(bound, str):
        return "number", bound
    if (day := date_key(bound)) is not None:
        return "date", day
    return "instant", instant_key(bound)
