"""Expectations in the form of the Great Expectations library: arguments, findings, and suites as JSON.

Arguments have Python's types for the column. Timestamps are in UTC without a zone, because the library compares with
values collected from an engine, which have no zone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
from pydantic import ValidationError

from tidegate.contracts.document.model import DataContract, Expectation
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.expectations.bounds import value_of
from tidegate.contracts.expectations.checks import CheckedExpectation
from tidegate.contracts.expectations.compile import CompiledExpectation
from tidegate.contracts.verdict import Severity

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class LibraryFinding:
    """The library's result for an expectation; `observed` is None unless it is a number."""

    is_met: bool
    considered: int | None = None
    unexpected: int | None = None
    observed: float | None = None


def agrees(compiled: CompiledExpectation, ours: CheckedExpectation, theirs: LibraryFinding) -> bool:
    """Return whether two findings about the same rows agree.

    Sums are exact here, but doubles in the library. If a figure is within rounding of a bound, different results are not
    a disagreement.
    """
    if any(isinstance(bound, Fraction) and float(bound) != bound for bound in _bounds(compiled)):
        return True  # the library rounds the bound to a double, and so checks a different bound
    if "distinct" not in compiled.expectation.type and None not in {ours.unexpected, theirs.unexpected}:
        return ours.is_met == theirs.is_met and ours.unexpected == theirs.unexpected
    return ours.is_met == theirs.is_met or _is_on_a_bound(compiled, theirs.observed)


def _is_on_a_bound(compiled: CompiledExpectation, observed: float | None) -> bool:
    return observed is not None and any(
        abs(observed - float(bound)) <= _ROUNDING * max(1.0, abs(float(bound)))
        for bound in _bounds(compiled)
        if isinstance(bound, Fraction)
    )


def _bounds(compiled: CompiledExpectation) -> tuple[object, object]:
    return compiled.arguments.interval.low, compiled.arguments.interval.high


_OF_A_VALUE = ("min_value", "max_value")


def library_arguments(compiled: CompiledExpectation, columns: pa.Schema) -> dict[str, Any]:
    """Return the arguments of an expectation for the library."""
    kwargs = dict(compiled.expectation.kwargs)
    if not compiled.columns:
        return kwargs
    kind = columns.field(compiled.columns[0]).type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        for name in _OF_A_VALUE:
            if isinstance(kwargs.get(name), str):
                kwargs[name] = _plain(value_of(kwargs[name], kind))
    if "value_set" in kwargs:
        kwargs["value_set"] = [_plain(value) for value in compiled.arguments.values]
    return kwargs


def library_columns(rows: pa.Table) -> pa.Table:
    """Return typed columns for the library: timestamps are in UTC, without a zone."""
    plain = [
        pa.field(field.name, pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type)
        for field in rows.schema
    ]
    return rows.cast(pa.schema(plain))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


_OURS = "tidegate"
_NOT_OF_A_BATCH = frozenset({"batch_id", "result_format", "catch_exceptions", "include_config", "meta"})


def write_suite(contract: DataContract) -> str:
    """Return the expectations of a contract as a JSON suite that the library can read.

    Properties that a suite lacks (id, action on violation, minimum records) are in `meta` under `tidegate`, which the
    library keeps. Source: Great Expectations 1.x, `ExpectationSuite.to_json_dict`; `read_suite` also reads keys of 0.x.
    """
    suite = {
        "name": f"{contract.id}@{contract.version}",
        "expectations": [_written(each) for each in contract.expectations],
        "meta": {},
    }
    return json.dumps(suite, indent=2, ensure_ascii=False) + "\n"


def read_suite(text: str | bytes, taken: Iterable[str] = ()) -> tuple[Expectation, ...]:
    """Return the expectations of a suite, each with an id that is not in `taken`. Equal suites get equal ids.

    Raises ContractError for entries that are not expectations, with pointers into the suite.
    """
    try:
        suite = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContractError.at("", "not a JSON document") from error
    listed = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(listed, list):
        raise ContractError.at("/expectations", "a suite has a list of expectations")
    found: list[Expectation] = []
    problems: list[Problem] = []
    own = {
        _own_id(each) for each in listed
    }  # ids that `write_suite` wrote are kept, so no earlier entry may get them
    used = {*taken}
    for index, each in enumerate(listed):
        try:
            found.append(_read(each, used, own))
            used.add(found[-1].id)
        except (ValidationError, TypeError, AttributeError):
            message = "an expectation has a `type` and `kwargs`, as Great Expectations writes them"
            problems.append(Problem(f"/expectations/{index}", message))
    if problems:
        raise ContractError(tuple(problems))
    return tuple(found)


def _written(expectation: Expectation) -> dict[str, Any]:
    ours = expectation.model_dump(
        mode="json", include={"id", "on_violation", "min_records"}, exclude_defaults=True
    )
    return {
        "type": expectation.type,
        "kwargs": dict(expectation.kwargs),
        "meta": {_OURS: ours},
        "description": expectation.description,
        "severity": "critical" if expectation.severity is Severity.ERROR else "warning",
    }


def _own_id(entry: Any) -> str | None:
    match entry:
        case {"meta": {"tidegate": {"id": str(own)}}}:
            return own
        case _:
            return None


def _read(entry: dict[str, Any], used: set[str], own: Collection[str | None]) -> Expectation:
    name = entry.get("type", entry.get("expectation_type"))
    kwargs = (
        {
            key: value
            for key, value in entry["kwargs"].items()
            if key not in _NOT_OF_A_BATCH and value is not None
        }
        if isinstance(entry.get("kwargs"), dict)
        else None
    )
    ours = (entry.get("meta") or {}).get(_OURS, {})
    severity = Severity.ERROR if entry.get("severity", "critical") == "critical" else Severity.WARNING
    kept = _own_id(entry)
    named = _unused(_id(name, kwargs or {}), {*used, *own}) if kept is None else _unused(kept, used)
    return Expectation.model_validate(
        {**ours, "id": named}
        | {"type": name, "kwargs": kwargs, "severity": severity, "description": entry.get("description")}
    )


def _id(name: Any, kwargs: dict[str, Any]) -> str:
    """Return an id from the name of an expectation and its column."""
    about = kwargs.get("column", kwargs.get("column_A", ""))
    words = f"{name}-{about}".removeprefix("expect_").lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:70].strip("-")


def _unused(name: str, used: Collection[str | None]) -> str:
    return next(
        each for each in (name, *(f"{name}-{at}" for at in range(2, len(used) + 3))) if each not in used
    )
