"""Checks that a contract is consistent in itself, without its schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.contracts.document.model import DataContract, ReferenceSet
from tidegate.contracts.document.rule_model import BaseRule
from tidegate.contracts.document.source import escape
from tidegate.contracts.errors import Problem
from tidegate.contracts.suggestions import did_you_mean
from tidegate.contracts.verdict import Severity


def inconsistencies(contract: DataContract) -> Iterator[Problem]:
    """Yield the contradictions inside a contract; pointers are into the contract document."""
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
        for place, message in rule.contradictions():
            yield Problem(f"/rules/{index}{place}", message)
        yield from _set_problems(f"/rules/{index}", rule, contract.reference_sets)
    for name, reference_set in contract.reference_sets.items():
        if bool(reference_set.values) == (reference_set.file is not None):
            yield Problem(
                f"/reference_sets/{escape(name)}", "give either `values`, or the `file` that has them"
            )
    # Query engines compare column names without case.
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


def _set_problems(pointer: str, rule: BaseRule, sets: dict[str, ReferenceSet]) -> Iterator[Problem]:
    """Yield the mistakes of a rule that lists values or names a reference set; any other rule has none."""
    if "set" not in type(rule).model_fields:
        return
    values, name = getattr(rule, "values", ()), getattr(rule, "set", None)
    if bool(values) == (name is not None):
        yield Problem(pointer, "give either `values` or the name of a reference set as `set`")
    elif name is not None and name not in sets:
        near = did_you_mean(name, sets) if sets else "; name its values under `reference_sets`"
        yield Problem(f"{pointer}/set", f"the contract has no reference set `{name}`{near}")
