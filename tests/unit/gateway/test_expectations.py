"""The history of expectations, kept from batch reports, in the API and on the stream's page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tidegate.contracts.errors import NotFoundError
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory

MakeReport = Callable[..., BatchReport]
NOW = datetime.now(UTC).replace(microsecond=0)
MINUTE = timedelta(minutes=1)
STREAM = "hospital.admissions"

pytestmark = pytest.mark.usefixtures("known_streams")


def result(outcome: str = "met", **changes: Any) -> dict[str, Any]:
    return {
        "id": "plausible-mean-stay",
        "type": "expect_column_mean_to_be_between",
        "columns": ["length_of_stay"],
        "outcome": outcome,
        "judged_by": "tidegate",
        "considered": 100,
        "observed": 4.25,
        **changes,
    }


@pytest.fixture
def told(factory: Factory, make_report: MakeReport, known_streams: None) -> None:  # noqa: ARG001 - they come first
    """Three batches; the newest did not meet the expectations, and the judges disagreed about it."""
    median = result(id="median", type="expect_column_median_to_be_between", judged_by="great_expectations")
    for n, expectations in enumerate(
        (
            [result(), median | {"observed": None}],
            [result("skipped", considered=0, observed=None)],
            [result("quarantined", observed=41.5, agrees=False)],
        ),
        start=1,
    ):
        at = NOW - (4 - n) * MINUTE
        factory.reports().record(STREAM, make_report(n, committed_at=at, expectations=expectations))


@pytest.mark.usefixtures("told")
def test_results_are_kept_newest_first(factory: Factory) -> None:
    found = factory.expectations().results(STREAM, NOW - 10 * MINUTE, NOW, expectation="plausible-mean-stay")

    assert [(each.n, each.result.outcome.value, each.result.observed) for each in found] == [
        (3, "quarantined", 41.5),
        (2, "skipped", None),
        (1, "met", 4.25),
    ]


@pytest.mark.usefixtures("told")
def test_history_counts_what_was_judged(factory: Factory) -> None:
    median, mean = factory.expectations().history(STREAM, NOW - 10 * MINUTE, NOW)

    assert (mean.expectation, mean.judged, mean.unmet, mean.disagreements) == ("plausible-mean-stay", 2, 1, 1)
    assert (median.judged, median.unmet, median.disagreements) == (1, 0, 0)


@pytest.mark.usefixtures("told")
def test_a_range_and_a_limit_cut_the_history(factory: Factory) -> None:
    reader = factory.expectations()

    assert [each.n for each in reader.results(STREAM, NOW - 2 * MINUTE, NOW)] == [3, 2]
    assert [each.n for each in reader.results(STREAM, NOW - 10 * MINUTE, NOW, limit=1)] == [3]


def test_a_stream_that_never_reported_is_not_there(factory: Factory) -> None:
    with pytest.raises(NotFoundError, match="no batch of a stream nobody"):
        factory.expectations().history("nobody", NOW - MINUTE, NOW)


@pytest.mark.usefixtures("told")
def test_the_api_lists_results(client: TestClient) -> None:
    answer = client.get(f"/api/v1/streams/{STREAM}/expectations", params={"limit": 1})

    assert answer.status_code == 200
    (entry,) = answer.json()["results"]
    assert (entry["epoch"], entry["n"]) == (1, 3)
    assert entry["result"] == result("quarantined", observed=41.5, agrees=False, unexpected=None)


@pytest.mark.usefixtures("told")
def test_the_page_shows_each_expectation_and_a_disagreement(client: TestClient) -> None:
    page = client.get(f"/desk/streams/{STREAM}").text

    assert 'id="expectation-plausible-mean-stay"' in page
    assert "column mean to be between: length_of_stay" in page
    assert "41.5" in page
    assert "1 of 2" in page
    assert "Great Expectations disagreed about" in page


def test_a_stream_without_expectations_has_no_section(
    factory: Factory, client: TestClient, make_report: MakeReport
) -> None:
    factory.reports().record(STREAM, make_report(1, committed_at=NOW, expectations=()))

    assert "expectations-title" not in client.get(f"/desk/streams/{STREAM}").text
