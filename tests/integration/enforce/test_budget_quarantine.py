"""A spent error budget that quarantines: the whole batch is refused, and the next one is judged by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.enforce.line import Line, row
from tidegate.contracts.stream.evidence import read_evidence


@pytest.mark.parametrize("sink", ["kafka", "iceberg"])
def test_a_spent_budget_refuses_the_whole_batch_and_leaves_the_next_alone(
    make_line: Callable[..., Line], sink: str
) -> None:
    line = make_line(sink=sink)
    budget = {"ratio": 0.5, "action": "quarantine", "window_records": 1000}
    line.contracts.plan = line.plan(error_budget=budget)
    line.produce(*(row(number, 999) for number in range(3)), row(3), row(4))
    line.enforce()
    (report,) = line.reports
    assert (report.written, report.quarantined) == (0, 5)
    assert {(rule.code, rule.records) for rule in report.rules} == {
        ("amount-is-known", 3),
        ("error-budget", 2),
    }
    codes = [evidence.rules for record in line.quarantined() if (evidence := read_evidence(record.headers))]
    assert sorted(codes) == [("amount-is-known",)] * 3 + [("error-budget",)] * 2
    line.produce(row(5), row(6, 999))
    line.enforce()
    assert (line.reports[1].written, line.reports[1].quarantined) == (1, 1)
    assert line.reconcile().holds
