"""Read and write expectation suites as Great Expectations keeps them, as JSON.

Source: Great Expectations 1.x, `ExpectationSuite.to_json_dict`; the keys of 0.x are read too. What a suite has no word
for (id, outcome, fewest records) travels in `meta` under `tidegate`, where the library keeps it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from tidegate.contracts.document.model import DataContract, Expectation
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.verdict import Severity

_OURS = "tidegate"
_NOT_OF_A_BATCH = frozenset({"batch_id", "result_format", "catch_exceptions", "include_config", "meta"})


def write_suite(contract: DataContract) -> str:
    """Write the expectations of a contract as a suite, which the library reads."""
    suite = {
        "name": f"{contract.id}@{contract.version}",
        "expectations": [_written(each) for each in contract.expectations],
        "meta": {},
    }
    return json.dumps(suite, indent=2, ensure_ascii=False) + "\n"


def read_suite(text: str | bytes) -> tuple[Expectation, ...]:
    """Read the expectations of a suite. Raises ContractError with what is no expectation, by its place in the suite."""
    try:
        suite = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContractError.at("", "not a JSON document") from error
    listed = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(listed, list):
        raise ContractError.at("/expectations", "a suite has a list of expectations")
    found: list[Expectation] = []
    problems: list[Problem] = []
    for index, each in enumerate(listed):
        try:
            found.append(_read(each, {expectation.id for expectation in found}))
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


def _read(entry: dict[str, Any], taken: Iterable[str]) -> Expectation:
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
    document = {"id": _id(name, kwargs or {}, set(taken)), **ours}
    return Expectation.model_validate(
        document
        | {"type": name, "kwargs": kwargs, "severity": severity, "description": entry.get("description")}
    )


def _id(name: Any, kwargs: dict[str, Any], taken: set[str]) -> str:
    """Make an id of what an expectation is and which column it is about."""
    about = kwargs.get("column", kwargs.get("column_A", ""))
    words = f"{name}-{about}".removeprefix("expect_").lower()
    plain = re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:70].strip("-")
    numbered = (f"{plain}-{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (plain, *numbered) if each not in taken)
