"""The page of Data Docs, rendered by the real library."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.spark_jobs.data_docs import data_docs_page

CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: hospital.stays
version: 1.0.0
topic: hospital.stays
schema:
  type: json-schema
  definition: {type: object, properties: {age: {type: integer}, ward: {type: string}, sex: {type: string}}}
expectations:
  - {id: mean-age, type: expect_column_mean_to_be_between, kwargs: {column: age, min_value: 0, max_value: 50}}
  - {id: wards, type: expect_column_values_to_be_in_set, kwargs: {column: ward, value_set: ["<script>alert(1)</script>", "\\u202e\\u001b"]}}
  - {id: sexes, type: expect_column_distinct_values_to_be_in_set, kwargs: {column: sex, value_set: [f, m]}}
"""


def result(name: str, kind: str, outcome: ExpectationOutcome, **figures: float) -> ExpectationResult:
    found = {"id": name, "type": kind, "outcome": outcome, "judged_by": "tidegate", "considered": 200}
    return ExpectationResult.model_validate(found | figures)


def test_a_page_has_the_figures_and_runs_no_text_of_the_contract() -> None:
    results = [
        result("mean-age", "expect_column_mean_to_be_between", ExpectationOutcome.MET, observed=41.5),
        result("wards", "expect_column_values_to_be_in_set", ExpectationOutcome.QUARANTINED, unexpected=50),
        result("sexes", "expect_column_distinct_values_to_be_in_set", ExpectationOutcome.SKIPPED),
    ]
    contract = parse_contract(CONTRACT, name="stays.yaml", read_schema=None).contract
    page = data_docs_page(
        contract, results, "Delta table <stays\u2066>: all rows", datetime(2026, 1, 2, tzinfo=UTC)
    )
    assert "<script>alert" not in page
    assert "<stays" not in page
    assert [odd for odd in ("\u202e", "\u2066", "\x1b") if odd in page] == []
    words = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "hospital.stays@1.0.0" in words
    assert "Evaluated Expectations 2 Successful Expectations 1 Unsuccessful Expectations 1" in words
    assert "41.5" in words
    assert "25% unexpected" in words
    assert r"\u202e\u001b" in words
