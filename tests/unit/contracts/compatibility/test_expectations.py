"""Expectations in a comparison: what bounds and sets decide, and what they do not."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.compatibility.compare import compare
from contracts.compatibility.finding import FindingSeverity
from contracts.compatibility.inclusion import Outcome
from contracts.model import Compatibility

MEAN = {
    "id": "e",
    "type": "expect_column_mean_to_be_between",
    "kwargs": {"column": "age", "min_value": 0, "max_value": 50},
}
SET = {
    "id": "e",
    "type": "expect_column_values_to_be_in_set",
    "kwargs": {"column": "ward", "value_set": ["a", "b"]},
}
COUNT = {"id": "e", "type": "expect_table_row_count_to_equal", "kwargs": {"value": 5}}


def with_kwargs(expectation: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    return {**expectation, "kwargs": {**expectation["kwargs"], **kwargs}}


CASES = [
    (None, MEAN, "expectation.added", {"BACKWARD"}),
    (MEAN, None, "expectation.removed", {"FORWARD"}),
    (MEAN, with_kwargs(MEAN, max_value=40), "expectation.tightened", {"BACKWARD"}),
    (MEAN, with_kwargs(MEAN, max_value=60), "expectation.loosened", {"FORWARD"}),
    (MEAN, with_kwargs(MEAN, min_value=1, max_value=60), "expectation.tightened", {"BACKWARD", "FORWARD"}),
    (MEAN, with_kwargs(MEAN, strict_max=True), "expectation.tightened", {"BACKWARD"}),
    (MEAN, with_kwargs(MEAN, mostly=0.9), "expectation.loosened", {"FORWARD"}),
    (SET, with_kwargs(SET, value_set=["a"]), "expectation.tightened", {"BACKWARD"}),
    (SET, with_kwargs(SET, value_set=["b", "a"]), "expectation.loosened", set()),
    (MEAN, {**MEAN, "severity": "warning"}, "expectation.removed", {"FORWARD"}),
    ({**MEAN, "severity": "warning"}, MEAN, "expectation.added", {"BACKWARD"}),
    (COUNT, with_kwargs(COUNT, value=6), "expectation.changed", set()),
    (MEAN, with_kwargs(MEAN, column="weight"), "expectation.changed", set()),
    (MEAN, SET, "expectation.changed", set()),
    ({**MEAN, "severity": "warning"}, None, "expectation.warning-changed", set()),
]


@pytest.mark.parametrize(("before", "after", "code", "broken"), CASES)
def test_expectations_take_part(
    make_contract: Any,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    code: str,
    broken: set[str],
) -> None:
    base, candidate = (make_contract(expectations=[each] if each else []) for each in (before, after))
    found = set()
    for level in (Compatibility.BACKWARD, Compatibility.FORWARD):
        (finding,) = compare(base, candidate, level=level).findings
        assert finding.code == code
        if finding.severity is FindingSeverity.BREAKING:
            found.add(level.value)
    assert found == broken


def test_what_cannot_be_decided_warns(make_contract: Any) -> None:
    base, candidate = (make_contract(expectations=[each]) for each in (COUNT, with_kwargs(COUNT, value=6)))
    (finding,) = compare(base, candidate).findings
    assert (finding.severity, finding.outcome) == (FindingSeverity.WARNING, Outcome.UNDETERMINED)
    assert finding.sentence == "the expectation `e`: value was 5 and is 6"


def test_an_expectation_is_about_the_field_of_its_column(make_contract: Any) -> None:
    columns = [{"name": "years", "from": "/age", "type": "int"}]
    expectation = with_kwargs(MEAN, column="years")
    base = make_contract(columns=columns)
    candidate = make_contract(columns=columns, expectations=[expectation])
    (finding,) = compare(base, candidate).findings
    assert (finding.field, finding.pointer, finding.base_pointer) == ("/age", "/expectations/0", "")
