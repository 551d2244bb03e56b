"""The metrics for Prometheus, read back with its own parser."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus_text
from sqlalchemy import Engine, event

from tidegate.contracts.stream.control import StreamEvent
from tidegate.contracts.stream.reconciliation import ReconciliationRequest, ReconciliationResult
from tidegate.contracts.stream.report import BatchReport, TableMaintenance, TableSize
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.native.reconciliations import RESULT
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams import metrics as stream_metrics

MakeContract = Callable[..., bytes]
MakeReport = Callable[..., BatchReport]
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
STREAM = "hospital.admissions"
Samples = dict[tuple[str, ...], float]

pytestmark = pytest.mark.usefixtures("known_streams")


def rule(code: str, records: int, severity: str = "error") -> dict[str, Any]:
    return {"stage": "rule", "code": code, "severity": severity, "records": records}


def samples(text: str) -> Samples:
    """Value by name and label values, in the order of the label names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in prometheus_text(text)
        for sample in family.samples
    }


def told(factory: Factory, make_report: MakeReport) -> None:
    book = factory.reports()
    book.record(
        STREAM,
        make_report(
            1,
            quarantined=10,
            rules=[rule("age", 9), rule("ward", 2, "warning")],
            timings_ms={"judge": 200, "publish": 50},
        ),
    )
    book.record(
        STREAM,
        make_report(
            2,
            epoch=3,
            committed_at=NOON + timedelta(minutes=1),
            quarantined=5,
            rules=[rule("age", 5), rule("stay", 1)],
            timings_ms={"judge": 100},
            start={0: 1100, 1: 0},
            end={0: 1150, 1: 50},
            lag_records=7,
            table=TableSize(snapshots=510, metadata_bytes=700_000, data_files=90),
            maintenance=TableMaintenance(
                snapshots_expired=70,
                files_compacted=400,
                bytes_compacted=8_000_000,
                manifests_rewritten=12,
                orphans_removed=3,
                orphan_bytes=60_000,
                replaced_removed=40,
                replaced_bytes=900_000,
                failures=1,
                seconds=2.5,
            ),
        ),
    )


def test_the_metrics_are_those_of_the_reports(
    client: Any, factory: Factory, make_report: MakeReport, make_contract: MakeContract
) -> None:
    factory.registry().publish(make_contract(), "contract.json")
    told(factory, make_report)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert samples(answer.text) == {
        ("tidegate_stream_paused", STREAM): 0,
        ("tidegate_stream_stopped", STREAM): 0,
        ("tidegate_stream_ended", STREAM): 0,
        ("tidegate_stream_info", "iceberg:lake.hospital.admissions", STREAM, "1.2.0"): 1,
        ("tidegate_records_total", "written", STREAM): 185,
        ("tidegate_records_total", "quarantined", STREAM): 15,
        ("tidegate_records_total", "dropped", STREAM): 0,
        ("tidegate_flagged_records_total", "warned", STREAM): 0,
        ("tidegate_flagged_records_total", "alerted", STREAM): 0,
        ("tidegate_violations_total", "age", "error", "rule", STREAM): 14,
        ("tidegate_violations_total", "ward", "warning", "rule", STREAM): 2,
        ("tidegate_violations_total", "stay", "error", "rule", STREAM): 1,
        ("tidegate_batches_total", STREAM): 2,
        ("tidegate_lag_records", STREAM): 7,
        ("tidegate_ledger_offset", "0", STREAM, STREAM): 1150,
        ("tidegate_ledger_offset", "1", STREAM, STREAM): 50,
        ("tidegate_table_snapshots", STREAM): 510,
        ("tidegate_table_metadata_bytes", STREAM): 700_000,
        ("tidegate_table_data_files", STREAM): 90,
        ("tidegate_table_expired_snapshots_total", STREAM): 70,
        ("tidegate_table_compacted_files_total", STREAM): 400,
        ("tidegate_table_compacted_bytes_total", STREAM): 8_000_000,
        ("tidegate_table_rewritten_manifests_total", STREAM): 12,
        ("tidegate_table_orphans_removed_total", STREAM): 3,
        ("tidegate_table_orphan_bytes_removed_total", STREAM): 60_000,
        ("tidegate_table_replaced_files_removed_total", STREAM): 40,
        ("tidegate_table_replaced_bytes_removed_total", STREAM): 900_000,
        ("tidegate_table_maintenance_failures_total", STREAM): 1,
        ("tidegate_table_maintenance_seconds", STREAM): 2.5,
        ("tidegate_ledger_epoch", STREAM): 3,
        ("tidegate_ledger_batch", STREAM): 2,
        ("tidegate_last_batch_seconds", "judge", STREAM): 0.1,
        ("tidegate_batch_seconds_total", "judge", STREAM): 0.3,
        ("tidegate_batch_seconds_total", "publish", STREAM): 0.05,
        ("tidegate_last_commit_timestamp_seconds", STREAM): (NOON + timedelta(minutes=1)).timestamp(),
    }


def test_open_metrics_are_spoken_too(client: Any, factory: Factory, make_report: MakeReport) -> None:
    told(factory, make_report)
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = {family.name: family.type for family in open_metrics(answer.text)}
    assert (families["tidegate_records"], families["tidegate_lag_records"]) == ("counter", "gauge")


def test_a_report_sent_again_counts_once_and_a_new_process_counts_the_same(
    client: Any, factory: Factory, make_report: MakeReport
) -> None:
    told(factory, make_report)
    before = client.get("/metrics").text
    told(factory, make_report)
    assert client.get("/metrics").text == before
    again = Factory(factory.settings)
    try:
        assert list(again.stream_metrics().collect()) == list(factory.stream_metrics().collect())
    finally:
        again.close()


def test_a_stream_that_is_paused_or_stopped_says_so_before_its_first_batch_too(
    client: Any, factory: Factory, make_contract: MakeContract, make_report: MakeReport
) -> None:
    factory.registry().publish(make_contract(), "contract.json")
    factory.stream_controls().pause(STREAM, None)
    event = StreamEvent.model_validate(
        {"id": uuid4(), "stream": STREAM, "kind": "stopped", "at": NOON + timedelta(hours=1)}
    )
    factory.stream_controls().record_event(STREAM, event)
    expected = {
        ("tidegate_stream_paused", STREAM): 1,
        ("tidegate_stream_stopped", STREAM): 1,
        ("tidegate_stream_ended", STREAM): 0,
    }
    assert samples(client.get("/metrics").text) == expected
    factory.reports().record(STREAM, make_report(1, committed_at=NOON))
    assert expected.items() <= samples(client.get("/metrics").text).items()
    factory.reports().record(STREAM, make_report(2, committed_at=NOON + timedelta(hours=2)))
    assert samples(client.get("/metrics").text)["tidegate_stream_stopped", STREAM] == 0


def test_what_the_last_reconciliation_found_stays_until_another_finds_something(
    client: Any, factory: Factory, make_contract: MakeContract, make_report: MakeReport
) -> None:
    factory.registry().publish(make_contract(), "contract.json")
    factory.stream_controls().beat(STREAM)
    reconciliations = factory.reconciliations()

    def metrics_after(**told: Any) -> Samples:
        result = ReconciliationResult.model_validate({"at": NOON, **told})
        reconciliations.answer(STREAM, reconciliations.ask(STREAM)[0].asked.id, result)
        found = samples(client.get("/metrics").text)
        return {key: value for key, value in found.items() if "reconciliation" in key[0]}

    def metrics(lost: int, doubled: int, holds: float, minute: int, unverifiable: int = 0) -> Samples:
        return {
            ("tidegate_reconciliation_lost_records", STREAM): lost,
            ("tidegate_reconciliation_doubled_records", STREAM): doubled,
            ("tidegate_reconciliation_holds", STREAM): holds,
            ("tidegate_reconciliation_unverifiable_offsets", STREAM): unverifiable,
            ("tidegate_last_reconciliation_timestamp_seconds", STREAM): NOON.timestamp() + 60 * minute,
        }

    assert metrics_after(failure="the broker does not answer") == {}
    fault = {**RESULT["findings"], "lost": 4, "twice": 2}
    assert metrics_after(findings=fault) == metrics(4, 2, 0, 0)
    assert metrics_after(failure="the broker does not answer") == metrics(4, 2, 0, 0)
    factory.reports().record(STREAM, make_report())
    fine = {**fault, "answer": "holds", "holds": True, "lost": 0, "twice": 0}
    assert metrics_after(findings=fine, at=NOON + timedelta(minutes=1)) == metrics(0, 0, 1, 1)
    # Neither an alert on 0 fires, nor does it look as if it held.
    unproven = {**fine, "answer": "cannot-be-proven", "holds": False, "unverifiable": 7}
    assert metrics_after(findings=unproven, at=NOON + timedelta(minutes=2)) == metrics(0, 0, 0.5, 2, 7)


def test_the_number_of_series_is_bounded_and_no_counter_falls(
    client: Any, factory: Factory, make_report: MakeReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_metrics, "_MOST_RULES", 2)
    monkeypatch.setattr(stream_metrics, "_MOST_PARTITIONS", 3)
    book = factory.reports()
    before: Samples = {}
    for n, codes in enumerate((["a"], ["z", "y"], ["b", "a", "c"], ["c"]), start=1):
        partitions = range(5)
        report = make_report(
            n,
            rules=[rule(code, n) for code in codes],
            start=dict.fromkeys(partitions, 0),
            end=dict.fromkeys(partitions, n),
        )
        book.record(STREAM, report)
        found = samples(client.get("/metrics").text)
        counters = {key: value for key, value in found.items() if key[0].endswith("_total")}
        assert all(counters[key] >= value for key, value in before.items())
        before = counters
        assert len([key for key in found if key[0] == "tidegate_ledger_offset"]) == 3
    violations = {key[1:4]: value for key, value in before.items() if key[0] == "tidegate_violations_total"}
    assert violations == {
        ("a", "error", "rule"): 4,
        ("z", "error", "rule"): 2,
        ("other", "error", "other"): 12,
    }


@pytest.mark.parametrize(
    "path",
    ["/metrics", "/api/v1/streams", "/api/v1/contracts", "/api/v1/problems", "/desk", "/desk/contracts"],
)
def test_many_streams_take_as_many_queries_as_few(
    client: Any, factory: Factory, make_report: MakeReport, path: str
) -> None:
    """A registry has a thousand streams, and Prometheus asks every few seconds."""

    def answered(asked: ReconciliationRequest, stores: Stores) -> None:
        stores.reconciliations.add(asked)
        stores.reconciliations.answer(asked.id, ReconciliationResult.model_validate(RESULT))

    def queries(*streams: str) -> int:
        for stream in streams:
            factory.reports().record(stream, make_report(stream=stream, rules=[rule("age", 1)]))
            asked = ReconciliationRequest(id=uuid4(), stream=stream, by="cli:a", at=NOON)
            factory.database.write(partial(answered, asked))
        assert client.get(path).status_code == 200  # once, for what is kept in memory
        found: list[str] = []

        def note(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
            found.append(statement)

        event.listen(Engine, "before_cursor_execute", note)
        try:
            assert client.get(path).status_code == 200
        finally:
            event.remove(Engine, "before_cursor_execute", note)
        return len(found)

    few = queries("a", STREAM)
    assert queries("b", "new", "old") == few
