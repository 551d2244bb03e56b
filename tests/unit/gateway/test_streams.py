from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.marks import examples
from tests.unit.conftest import know
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.bounds import MOST_PARTITIONS, MOST_RULES
from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings
from tidegate.gateway.streams.reports import ReportService, StreamReader
from tidegate.gateway.streams.summaries import StreamTotals

MakeReport = Callable[..., BatchReport]
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
STREAM = "hospital.admissions"
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

pytestmark = pytest.mark.usefixtures("known_streams")


@pytest.fixture
def book(factory: Factory) -> ReportService:
    return factory.reports()


def reader_at(factory: Factory, now: datetime) -> StreamReader:
    return StreamReader(factory.database, lambda: now)


def test_a_report_is_kept_once(factory: Factory, book: ReportService, make_report: MakeReport) -> None:
    results = [book.record(STREAM, make_report(n)) for n in (1, 1, 2, 1)]
    assert results == [True, False, True, False]
    assert factory.streams().summary(STREAM).totals.batches == 2


def test_a_report_sent_again_may_differ_in_its_timings_only(
    book: ReportService, make_report: MakeReport
) -> None:
    book.record(STREAM, make_report(1))
    assert book.record(STREAM, make_report(1, timings_ms={"judge": 1})) is False
    with pytest.raises(
        ConflictError, match=r"batch 1/1 of hospital.admissions was reported with other offsets"
    ):
        book.record(STREAM, make_report(1, end={0: 1200}))


def test_a_report_as_large_as_its_bounds_allow_is_kept(client: Any, make_report: MakeReport) -> None:
    """A job sends a report once: one that is refused is lost to totals and metrics."""
    codes = [
        {"stage": "rule", "code": f"{n:0>500}", "severity": "error", "records": 1} for n in range(MOST_RULES)
    ]
    offsets = dict.fromkeys(range(20_000), 10**12)
    content = make_report(1, rules=codes, start=offsets, end=offsets).model_dump_json().encode()
    assert len(content) > 1 << 20
    assert client.post(f"/api/v1/streams/{STREAM}/batches", content).status_code == 201


def test_a_report_about_another_stream_is_refused(book: ReportService, make_report: MakeReport) -> None:
    with pytest.raises(ConflictError, match="post it there, not to other"):
        book.record("other", make_report(1))


def test_a_summary_says_where_the_stream_stands(
    factory: Factory, book: ReportService, make_report: MakeReport
) -> None:
    book.record(STREAM, make_report(1, records=1000, quarantined=10, committed_at=NOON))
    book.record(
        STREAM,
        make_report(
            2,
            epoch=2,
            committed_at=NOON + 60 * MINUTE,
            records=3000,
            written=2880,
            warned=7,
            alerted=5,
            quarantined=100,
            dropped=20,
            contract="hospital.admissions@1.3.0",
            lag_records=17,
        ),
    )
    (summary,) = reader_at(factory, NOON + 60 * MINUTE + 20 * SECOND).summaries()
    assert (summary.stream, summary.epoch, summary.n, summary.lag_records) == (STREAM, 2, 2, 17)
    assert summary.contract == "hospital.admissions@1.3.0"
    assert summary.first_started_at == NOON - 10 * SECOND
    assert summary.started_at == NOON + 60 * MINUTE - 10 * SECOND
    assert summary.last_committed_at == NOON + 60 * MINUTE
    assert summary.records_per_second_since_start == 300.0
    assert summary.records_per_second_last_minute == 50.0
    assert summary.totals == StreamTotals(
        batches=2, records=4000, written=3870, warned=7, alerted=5, quarantined=110, dropped=20
    )
    assert (summary.totals.refused, summary.totals.refused_share) == (130, 0.0325)
    filled = [(found.records, found.refused) for found in summary.sparkline if found.records]
    assert filled == [(1000, 10), (3000, 120)]
    assert len(summary.sparkline) == 48


def test_a_young_stream_is_not_measured_over_time_before_it_began(
    factory: Factory, book: ReportService, make_report: MakeReport
) -> None:
    book.record(STREAM, make_report(1, records=1000, committed_at=NOON))
    assert reader_at(factory, NOON + 10 * SECOND).summary(STREAM).records_per_second_last_minute == 50.0
    # A clock that is behind the job's must not divide by nothing.
    assert reader_at(factory, NOON - 10 * SECOND).summary(STREAM).records_per_second_last_minute == 0.0


def test_a_silent_stream_has_no_rate(factory: Factory, book: ReportService, make_report: MakeReport) -> None:
    book.record(STREAM, make_report(1, committed_at=NOON))
    summary = reader_at(factory, NOON + 25 * 60 * MINUTE).summary(STREAM)
    assert summary.records_per_second_last_minute == 0.0
    assert {found.records for found in summary.sparkline} == {0}
    assert summary.totals.records == 100


def test_a_batch_without_records_is_a_batch(
    factory: Factory, book: ReportService, make_report: MakeReport
) -> None:
    book.record(STREAM, make_report(1, records=0))
    totals = factory.streams().summary(STREAM).totals
    assert (totals.batches, totals.refused_share) == (1, 0.0)


def test_streams_are_apart(factory: Factory, book: ReportService, make_report: MakeReport) -> None:
    book.record("b", make_report(1, stream="b", records=5))
    book.record("a", make_report(1, stream="a", records=7))
    summaries = factory.streams().summaries()
    assert [(found.stream, found.totals.records) for found in summaries] == [("a", 7), ("b", 5)]
    assert [found.records for found in factory.streams().batches("a", NOON, NOON + SECOND)] == [7]


def test_nothing_is_known_of_a_stream_that_never_reported(factory: Factory) -> None:
    streams = factory.streams()
    assert streams.summaries() == ()
    for ask in (
        lambda: streams.summary("x"),
        lambda: streams.batches("x", NOON, NOON + SECOND),
        lambda: streams.volumes("x", NOON, NOON + SECOND, 1),
        lambda: streams.refusals("x", NOON, NOON + SECOND, 1),
    ):
        with pytest.raises(NotFoundError, match=r"^no batch of a stream x was reported$"):
            ask()


def test_batches_come_newest_first_from_a_half_open_range(
    factory: Factory, book: ReportService, make_report: MakeReport
) -> None:
    reports = [make_report(n, committed_at=NOON + n * MINUTE) for n in (1, 2, 3, 4)]
    for report in reports:
        book.record(STREAM, report)
    streams = factory.streams()
    assert streams.batches(STREAM, NOON + MINUTE, NOON + 4 * MINUTE) == tuple(reports[2::-1])
    assert streams.batches(STREAM, NOON, NOON + 9 * MINUTE, limit=2) == tuple(reports[:1:-1])


def test_an_answer_of_batches_ends_after_some_bytes_and_can_be_continued(
    client: Any, book: ReportService, make_report: MakeReport
) -> None:
    offsets = dict.fromkeys(range(MOST_PARTITIONS), 10**18)
    for n in range(1, 6):  # two of them are committed at the same time
        book.record(STREAM, make_report(n, committed_at=NOON + n // 2 * MINUTE, start=offsets, end=offsets))
    asked = f"/api/v1/streams/{STREAM}/batches?since=2026-07-01T00:00:00Z&until=2026-07-02T00:00:00Z"
    first = client.get(asked)
    assert len(first.content) < 12 << 20
    assert [each["n"] for each in first.json()["batches"]] == [5, 4, 3, 2]
    second = client.get(f"{asked}&older_than={first.json()['older']}").json()
    assert [each["n"] for each in second["batches"]] == [1]
    assert second["older"] is None


def test_every_page_of_batches_continues_the_one_before(
    client: Any, book: ReportService, make_report: MakeReport
) -> None:
    for n in range(1, 8):  # all committed at the same time
        book.record(STREAM, make_report(n))
    asked = f"/api/v1/streams/{STREAM}/batches?since=2026-07-01T00:00:00Z&until=2026-07-02T00:00:00Z&limit=3"
    found, older = [], ""
    while older is not None:
        answer = client.get(asked + older).json()
        found.append([each["n"] for each in answer["batches"]])
        older = answer["older"] and f"&older_than={answer['older']}"
    assert found == [[7, 6, 5], [4, 3, 2], [1]]
    for place in ("x", "1-", "1-²", f"1-{10**19}"):
        assert client.get(f"{asked}&older_than={place}").status_code == 422


def test_refusals_are_counted_by_rule_in_equal_slices(
    factory: Factory, book: ReportService, make_report: MakeReport
) -> None:
    def count(stage: Stage, code: str, records: int, severity: Severity = Severity.ERROR) -> RuleCount:
        return RuleCount(stage=stage, code=code, severity=severity, records=records)

    for n, (second, rules) in enumerate(
        [
            (0, [count(Stage.RULE, "age-is-known", 3), count(Stage.SCHEMA, "type", 1)]),
            (19.999999, [count(Stage.RULE, "age-is-known", 4)]),
            (20, [count(Stage.RULE, "age-is-known", 5)]),
            (59, [count(Stage.DECODE, "json.invalid", 2), count(Stage.RULE, "w", 9, Severity.WARNING)]),
            (60, [count(Stage.RULE, "age-is-known", 100)]),
        ],
        start=1,
    ):
        book.record(STREAM, make_report(n, committed_at=NOON + second * SECOND, rules=rules, quarantined=50))
    buckets = factory.streams().refusals(STREAM, NOON, NOON + MINUTE, 3)
    assert [(bucket.start, bucket.end, bucket.counts) for bucket in buckets] == [
        (
            NOON,
            NOON + 20 * SECOND,
            {(Stage.RULE, "age-is-known"): 7, (Stage.SCHEMA, "type"): 1},
        ),
        (NOON + 20 * SECOND, NOON + 40 * SECOND, {(Stage.RULE, "age-is-known"): 5}),
        (NOON + 40 * SECOND, NOON + 60 * SECOND, {(Stage.DECODE, "json.invalid"): 2}),
    ]


def test_warnings_are_counted_apart_from_refusals(
    factory: Factory, book: ReportService, make_report: MakeReport
) -> None:
    rules = [RuleCount(stage=Stage.RULE, code="w", severity=Severity.WARNING, records=9)]
    book.record(STREAM, make_report(1, committed_at=NOON, warned=9, rules=rules))
    streams = factory.streams()
    (refused,) = streams.refusals(STREAM, NOON, NOON + MINUTE, 1)
    (warned,) = streams.refusals(STREAM, NOON, NOON + MINUTE, 1, Severity.WARNING)
    assert (refused.counts, warned.counts) == ({}, {(Stage.RULE, "w"): 9})


def test_volumes_are_summed_in_equal_slices(
    factory: Factory, book: ReportService, make_report: MakeReport
) -> None:
    for n, second in enumerate((0, 29, 30, 60), start=1):
        book.record(
            STREAM, make_report(n, committed_at=NOON + second * SECOND, records=n * 10, quarantined=n)
        )
    volumes = factory.streams().volumes(STREAM, NOON, NOON + MINUTE, 2)
    assert [(found.start, found.records, found.refused) for found in volumes] == [
        (NOON, 30, 3),
        (NOON + 30 * SECOND, 30, 3),
    ]


@pytest.mark.full
@pytest.mark.parametrize("buckets", [1, 7, 1000])
def test_slices_cover_the_whole_range_however_it_divides(
    factory: Factory, book: ReportService, make_report: MakeReport, buckets: int
) -> None:
    rules = [RuleCount(stage=Stage.RULE, code="r", severity=Severity.ERROR, records=1)]
    until = NOON + timedelta(microseconds=203)
    for n in range(203):
        at = NOON + timedelta(microseconds=n)
        book.record(STREAM, make_report(n + 1, committed_at=at, quarantined=1, rules=rules))
    found = factory.streams().refusals(STREAM, NOON, until, buckets)
    assert len(found) == buckets
    assert sum(count for bucket in found for count in bucket.counts.values()) == 203


REPORTS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(0, 500), st.integers(0, 100)),
    min_size=1,
    unique_by=lambda found: found[:2],
)


@settings(deadline=None, max_examples=examples(40))
@given(found=REPORTS, data=st.data())
def test_the_sums_are_those_of_the_batches_in_whatever_order_and_however_often_they_arrive(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    reports = [
        BatchReport(
            stream=STREAM,
            topic=STREAM,
            quarantine_topic=f"{STREAM}.quarantine",
            sink="kafka:t.accepted",
            epoch=epoch,
            n=n,
            contract=f"{STREAM}@1.0.0",
            fingerprint="f",
            started_at=NOON + (epoch * 10 + n) * MINUTE,
            committed_at=NOON + (epoch * 10 + n) * MINUTE + 30 * SECOND,
            records=written + dropped,
            written=written,
            warned=0,
            alerted=0,
            quarantined=0,
            dropped=dropped,
            start={0: 0},
            end={0: 1},
        )
        for epoch, n, written, dropped in found
    ]
    arrivals = data.draw(st.permutations(reports + data.draw(st.lists(st.sampled_from(reports)))))
    folder: Path = tmp_path_factory.mktemp("sums")
    factory = Factory(GatewaySettings(database_url=SecretStr(f"sqlite:///{folder}/r.db")))
    factory.database.migrate()
    know(factory, STREAM)
    for report in arrivals:
        factory.reports().record(STREAM, report)
    summary = factory.streams().summary(STREAM)
    factory.close()
    last = max(reports, key=lambda report: (report.epoch, report.n))
    epoch = [report for report in reports if report.epoch == last.epoch]
    seconds = (last.committed_at - min(report.started_at for report in epoch)).total_seconds()
    assert summary.totals.records == sum(report.records for report in reports)
    assert summary.totals.dropped == sum(report.dropped for report in reports)
    assert summary.totals.batches == len(reports)
    assert (summary.epoch, summary.n, summary.contract) == (last.epoch, last.n, last.contract)
    assert (summary.fingerprint, summary.last_committed_at) == (last.fingerprint, last.committed_at)
    assert summary.first_started_at == min(report.started_at for report in reports)
    assert summary.records_per_second_since_start == sum(report.records for report in epoch) / seconds
