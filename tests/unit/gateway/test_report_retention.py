"""Old batch reports are deleted as new ones arrive; what pages and sums say stays right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select

from tidegate.contracts.document.terms import MOST_DAYS
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.storage.reports import ExpectationResultRow
from tidegate.gateway.storage.tables import BatchRow, BatchRuleRow
from tidegate.gateway.streams.reports import ReportService

MakeReport = Callable[..., BatchReport]
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
STREAM = "hospital.admissions"
REFUSED = {
    "quarantined": 10,
    "rules": [{"stage": "rule", "code": "age-is-known", "severity": "error", "records": 10}],
    "expectations": [
        {
            "id": "mean",
            "type": "expect_column_mean_to_be_between",
            "columns": ["age"],
            "outcome": "met",
            "judged_by": "tidegate",
        }
    ],
}

pytestmark = pytest.mark.usefixtures("known_streams")


def book_at(factory: Factory, now: datetime, days: int = 30) -> ReportService:
    return ReportService(factory.database, timedelta(days=days), lambda: now)


def rows(factory: Factory) -> tuple[int, ...]:
    """Count what is kept of batches: reports, their counts by rule, their results of expectations."""
    return factory.database.read(
        lambda stores: tuple(
            stores.reports._session.scalar(select(func.count()).select_from(table)) or 0
            for table in (BatchRow, BatchRuleRow, ExpectationResultRow)
        )
    )


def days_kept(factory: Factory, stream: str = STREAM) -> list[int]:
    found = factory.streams().batches(stream, NOON - 1000 * DAY, NOON + 1000 * DAY)
    return [(report.committed_at - NOON) // DAY for report in reversed(found)]


def test_reports_are_kept_for_thirty_days_before_the_newest(
    factory: Factory, make_report: MakeReport
) -> None:
    for day in range(45):
        book = book_at(factory, NOON + day * DAY)
        assert book.record(STREAM, make_report(day + 1, committed_at=NOON + day * DAY, **REFUSED))
    assert days_kept(factory) == list(range(14, 45))
    assert rows(factory) == (31, 31, 31)
    summary = factory.streams().summary(STREAM)
    assert (summary.totals.batches, summary.totals.quarantined) == (45, 450)
    assert summary.first_started_at == NOON - timedelta(seconds=10)
    # Every bucket within the retention counts what was refused in it.
    until = NOON + 44 * DAY + timedelta(hours=1)
    buckets = factory.streams().refusals(STREAM, until - 30 * DAY, until, 30)
    assert [sum(bucket.counts.values()) for bucket in buckets] == [10] * 30


def test_a_backlog_is_deleted_in_small_steps(factory: Factory, make_report: MakeReport) -> None:
    patient = book_at(factory, NOON + 500 * DAY, days=1000)
    for n in range(1, 251):
        patient.record(STREAM, make_report(n, committed_at=NOON + timedelta(minutes=n)))
    book = book_at(factory, NOON + 500 * DAY)
    left = []
    for n in range(251, 255):
        book.record(STREAM, make_report(n, committed_at=NOON + 100 * DAY + timedelta(minutes=n)))
        left.append(rows(factory)[0])
    assert left == [151, 52, 3, 4]
    assert factory.streams().summary(STREAM).totals.batches == 254


def test_the_report_of_the_last_batch_stays_however_old_it_is(
    factory: Factory, make_report: MakeReport
) -> None:
    book = book_at(factory, NOON + 500 * DAY)
    book.record(STREAM, make_report(1, committed_at=NOON + 100 * DAY))
    book.record(STREAM, make_report(2, committed_at=NOON))  # the job's clock went back
    assert factory.streams().summary(STREAM).n == 2
    assert days_kept(factory) == [0, 100]
    book.record(STREAM, make_report(3, committed_at=NOON + 101 * DAY))
    assert days_kept(factory) == [100, 101]


def test_a_report_that_comes_again_after_it_was_deleted_is_not_counted_again(
    factory: Factory, make_report: MakeReport
) -> None:
    first = make_report(1, committed_at=NOON)
    book = book_at(factory, NOON + 40 * DAY)
    assert book.record(STREAM, first)
    assert book.record(STREAM, make_report(2, committed_at=NOON + 40 * DAY))
    assert days_kept(factory) == [40]
    assert book.record(STREAM, first) is False
    assert factory.streams().summary(STREAM).totals.batches == 2
    # One that is only late is kept and counted.
    assert book.record(STREAM, make_report(1, epoch=0, committed_at=NOON + 10 * DAY))
    assert days_kept(factory) == [10, 40]


def test_a_clock_that_is_ahead_deletes_nothing(factory: Factory, make_report: MakeReport) -> None:
    book = book_at(factory, NOON + DAY)
    for n, day in ((1, 0), (2, 900), (3, 1)):
        assert book.record(STREAM, make_report(n, committed_at=NOON + day * DAY))
    assert days_kept(factory) == [0, 1, 900]


def test_streams_are_apart(factory: Factory, make_report: MakeReport) -> None:
    book = book_at(factory, NOON + 500 * DAY)
    book.record("old", make_report(1, stream="old", committed_at=NOON))
    book.record("old", make_report(2, stream="old", committed_at=NOON + DAY))
    book.record("new", make_report(1, stream="new", committed_at=NOON + 300 * DAY))
    book.record("new", make_report(2, stream="new", committed_at=NOON + 301 * DAY))
    # A stream that has stopped keeps what led there.
    assert (days_kept(factory, "old"), days_kept(factory, "new")) == ([0, 1], [300, 301])


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_setting_decides(settings: GatewaySettings, make_report: MakeReport) -> None:
    factory = Factory(settings.model_copy(update={"report_retention_days": 2}))
    factory.database.migrate()
    try:
        for n in range(1, 6):
            factory.reports().record(STREAM, make_report(n, committed_at=NOON + n * DAY))
        assert days_kept(factory) == [3, 4, 5]
    finally:
        factory.close()


def test_a_retention_that_reaches_before_the_first_date_is_refused(
    settings: GatewaySettings, make_report: MakeReport
) -> None:
    """It was accepted, and every report after the first of a stream failed."""
    with pytest.raises(ValidationError, match="less than or equal to 36500"):
        GatewaySettings(report_retention_days=MOST_DAYS + 1)
    factory = Factory(settings.model_copy(update={"report_retention_days": MOST_DAYS}))
    factory.database.migrate()
    try:
        for n in (1, 2):
            factory.reports().record(STREAM, make_report(n, committed_at=NOON + n * DAY))
        assert days_kept(factory) == [1, 2]
    finally:
        factory.close()
