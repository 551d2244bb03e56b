"""What rules cost: ten, a hundred, and the same in CEL, lowered and through the library; processor time, without Spark.

The records are the demo's admissions. Every rule holds for nearly all of them, so that what is measured is asking; half
of them refused, by a rule or by the schema, is a case of its own. Reasons are what the driver writes of each refused
record: its verdict with all evidence and its headers, by the slots that it is known to have failed, or judged again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.admissions_data import contract, values
from benchmarks.figures import Figure, interleaved_seconds, run_on_records
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.verdict import Disposition

BATCH: Final = 20_000
"""The records of one Arrow batch, as in Spark."""
UNIT: Final = "records/s"


def main() -> None:
    """Measure, print and write the figures."""
    run_on_records(__doc__, measure, records=100_000, rounds=5)


def measure(records: int, rounds: int) -> list[Figure]:
    """Return the figures of judging the same records by different rules."""
    documents = values(records)
    in_cel = [{"kind": "cel", "expr": expression} for expression in EXPRESSIONS]
    # An expression with a macro is not lowered; this macro does not change the result.
    in_library = [{"kind": "cel", "expr": f"({each}) || [0].exists(x, x == 1)"} for each in EXPRESSIONS]
    plans = {
        "none": plan_of([]),
        "ten": plan_of(RULES),
        "hundred": plan_of([rule for number in range(10) for rule in varied(number)]),
        "cel": plan_of(in_cel),
        "library": plan_of(in_library),
        "one_in_library": plan_of(in_library[:1]),
        "elements": plan_of(
            [*RULES, {"kind": "matches", "field": "/diagnosis_codes/*", "pattern": "^[A-Z]"}]
        ),
        "half": plan_of([*RULES, HALF]),
        "half_cel": plan_of([*in_cel, {"kind": "cel", "expr": "this.length_of_stay >= 5"}]),
    }
    _require_same_verdicts(documents, plans["ten"], plans["hundred"], plans["cel"], plans["library"])
    _require_same_verdicts(documents, plans["half"], plans["half_cel"])
    cases = {name: _judging(plan, documents) for name, plan in plans.items()}
    cases["half_schema"] = _judging(plans["ten"], [_misfit(each, at) for at, each in enumerate(documents)])
    cases["reasons_by_slots"], cases["reasons_anew"] = (
        _explaining(plans["half"], documents, by_slots=by_slots) for by_slots in (True, False)
    )
    rates = {
        name: records / seconds
        for name, seconds in interleaved_seconds(cases, rounds, time.process_time).items()
    }
    return [
        Figure.of("ten_rules_over_none", rates["ten"], UNIT, rates["none"]),
        Figure.of("hundred_rules_over_ten", rates["hundred"], UNIT, rates["ten"]),
        Figure.of("ten_in_cel_over_ten_rules", rates["cel"], UNIT, rates["ten"]),
        Figure.of("ten_in_library_over_ten_rules", rates["library"], UNIT, rates["ten"]),
        Figure.of("one_in_library_over_none", rates["one_in_library"], UNIT, rates["none"]),
        Figure.of("rule_of_elements_over_ten_rules", rates["elements"], UNIT, rates["ten"]),
        Figure.of("half_refused_over_ten_rules", rates["half"], UNIT, rates["ten"]),
        Figure.of("half_refused_by_cel_over_cel", rates["half_cel"], UNIT, rates["cel"]),
        Figure.of("half_refused_by_schema_over_ten_rules", rates["half_schema"], UNIT, rates["ten"]),
        Figure.of("reasons_by_slots_over_anew", rates["reasons_by_slots"], UNIT, rates["reasons_anew"]),
    ]


RULES: Final[list[dict[str, Any]]] = [
    {"kind": "forbidden", "field": "/age", "values": [999]},
    {"kind": "range", "field": "/age", "maximum": 130},
    {"kind": "range", "field": "/charge", "minimum": 0, "maximum": 9_000_000},
    {"kind": "range", "field": "/discharge_date", "after": "1900-01-01"},
    {"kind": "range", "field": "/admission_date", "after": "1900-01-01", "before": "2100-01-01"},
    {"kind": "ordered", "fields": ["/admission_date", "/discharge_date"]},
    {"kind": "one_of", "field": "/ward", "values": ["cardiology", "general", "icu", "orthopaedics"]},
    {"kind": "one_of", "field": "/sex", "values": ["F", "M", "X"]},
    {"kind": "range", "field": "/length_of_stay", "minimum": 0, "maximum": 10_000},
    {"kind": "forbidden", "field": "/address/country", "values": ["XX", "ZZ"]},
]
"""Ten rules of native kinds."""

EXPRESSIONS: Final = [
    "this.age != 999",
    "this.age <= 130",
    "this.charge >= 0.0 && this.charge <= 9000000.0",
    "this.discharge_date > '1900-01-01'",
    "this.admission_date > '1900-01-01' && this.admission_date < '2100-01-01'",
    "this.admission_date <= this.discharge_date",
    "this.ward in ['cardiology', 'general', 'icu', 'orthopaedics']",
    "this.sex in ['F', 'M', 'X']",
    "this.length_of_stay >= 0 && this.length_of_stay <= 10000",
    "!(this.address.country in ['XX', 'ZZ'])",
]
"""The same ten rules in CEL."""

HALF: Final = {"kind": "range", "field": "/length_of_stay", "minimum": 5}
"""A rule that about half of the admissions violate."""


def varied(number: int) -> list[dict[str, Any]]:
    """Return the ten rules with maximums that are higher by `number`."""
    return [
        {
            name: value + number if name in {"maximum", "exclusive_maximum"} else value
            for name, value in rule.items()
        }
        if number
        else rule
        for rule in RULES
    ]


def plan_of(rules: list[dict[str, Any]]) -> EnforcementPlan:
    """Compile the admissions contract with these rules."""
    document = contract().model_dump(mode="json", by_alias=True, exclude_defaults=True)
    numbered = [{"id": f"rule-{index}", **rule} for index, rule in enumerate(rules)]
    return compile_plan(DataContract.model_validate({**document, "rules": numbered}))


def _judging(plan: EnforcementPlan, documents: list[bytes]) -> Callable[[], object]:
    whole = pa.array(documents, pa.binary())
    batches = [whole.slice(start, BATCH) for start in range(0, len(whole), BATCH)]
    return lambda: [plan.judge(batch) for batch in batches]


def _misfit(document: bytes, at: int) -> bytes:
    """Return the document, changed if `at` is odd so that it violates the schema in one of four ways."""
    if at % 2 == 0:
        return document
    return document.replace(*_MISFITS[at // 2 % len(_MISFITS)])


_MISFITS: Final = (
    (b'"ward"', b'"Ward"'),
    (b'"age":', b'"age":-'),
    (b'"charge":', b'"charge":"","x":'),
    (b'"patient_id":"P', b'"patient_id":"Q'),
)


def _explaining(plan: EnforcementPlan, documents: list[bytes], *, by_slots: bool) -> Callable[[], object]:
    """Return a function that explains as many refused records as there are documents, and makes their headers."""
    values = pa.array(documents, pa.binary())
    judged = plan.judge(values)
    is_refused = pc.greater(judged.field("disposition"), int(Disposition.ALERTED))
    refused, failed = values.filter(is_refused), judged.field("failed").filter(is_refused)
    # The figure must be for the same number of records as the others.
    indexes = pa.array(np.arange(len(values)) % len(refused))
    whole, slots = refused.take(indexes), failed.take(indexes)
    source = EventPointer("t", 0, 0)

    def run() -> None:
        for verdict in plan.explain_each(whole, failed=slots if by_slots else None):
            quarantine_headers(source, "ledger", "c@1.0.0", verdict)

    return run


def _require_same_verdicts(documents: list[bytes], *plans: EnforcementPlan) -> None:
    some = pa.array(documents[:5_000], pa.binary())
    first, *others = [plan.judge(some).field("disposition").to_pylist() for plan in plans]
    if any(other != first for other in others):
        raise RuntimeError("rules that say the same give other verdicts")


if __name__ == "__main__":
    main()
