"""Reports of batches on their way to the registry, past proxies that answer in its place."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import httpx
import pytest
from structlog.testing import capture_logs

from tidegate.contracts.stream.report import BatchReport
from tidegate.spark_jobs.job import reports
from tidegate.spark_jobs.job.reports import RegistryReporter

PAGE = httpx.Response(404, html="<h1>default backend</h1>")
OWN = httpx.Response(404, json={"type": "urn:tidegate:problem:not-found"})
TOO_LARGE = httpx.Response(413, html="<h1>413 Request Entity Too Large</h1>")


def posted(answers: list[httpx.Response], report: BatchReport, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Post a report; return the statuses of the answers until it is done or all are given."""
    monkeypatch.setattr(reports, "_RETRY_SECONDS", 0.01)
    given: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert json.loads(request.content)["n"] == report.n
        found = answers[len(given)]
        given.append(found.status_code)
        return found

    client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://registry")
    reporter = RegistryReporter(client)
    reporter.report(report)
    until = time.monotonic() + 30
    while reporter._waiting and len(given) < len(answers):
        assert time.monotonic() < until
        time.sleep(0.005)
    reporter.close()
    return given


def test_a_report_is_kept_until_the_registry_itself_answers(
    make_report: Callable[..., BatchReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = httpx.Response(302, headers={"Location": "http://login"})
    answers = [
        elsewhere,
        PAGE,
        httpx.Response(401),
        httpx.Response(408),
        httpx.Response(503),
        httpx.Response(200),
    ]
    assert posted(answers, make_report(7), monkeypatch) == [302, 404, 401, 408, 503, 200]


@pytest.mark.parametrize("refusal", [OWN, TOO_LARGE])
def test_a_report_that_is_refused_for_good_is_logged_and_holds_up_no_other(
    make_report: Callable[..., BatchReport], monkeypatch: pytest.MonkeyPatch, refusal: httpx.Response
) -> None:
    with capture_logs() as logs:
        assert posted([refusal], make_report(7), monkeypatch) == [refusal.status_code]
    assert [each["event"] for each in logs] == ["report_refused"]
