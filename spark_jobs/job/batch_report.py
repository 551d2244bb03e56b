"""Reports of a published batch: for the registry, the log and the trace."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from tidegate.contracts.stream.bounds import MOST_EXPECTATIONS, MOST_RULES
from tidegate.contracts.stream.counts import rule_counts
from tidegate.contracts.stream.decide import Decision
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.stream.shadow import ShadowResult
from tidegate.spark_jobs.sinks.sink import CommittedBatch, JudgedBatch, MicroBatch, Sink
from tidegate.spark_jobs.tracing import Attributes

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a batch; `lag` counts the records behind it, None if the broker does not answer."""

    decision: Decision
    published: CommittedBatch
    began: datetime
    lag: int | None


def report_of(
    stream: str, sink: Sink[Any], batch: MicroBatch, judged: JudgedBatch[Any], outcome: BatchOutcome
) -> BatchReport:
    """Return the report of a batch that was just published."""
    decision, ledger = outcome.decision, outcome.published.ledger
    topic = batch.plan.contract.topic
    return BatchReport(
        stream=stream,
        topic=topic,
        quarantine_topic=quarantine_topic(topic),
        sink=sink.name,
        epoch=ledger.epoch,
        n=ledger.n,
        contract=batch.contract,
        fingerprint=batch.plan.fingerprint,
        started_at=outcome.began,
        committed_at=datetime.now(UTC),
        records=decision.records,
        written=decision.written,
        warned=decision.warned,
        alerted=decision.alerted,
        quarantined=decision.quarantined,
        dropped=decision.dropped,
        rules=rule_counts(decision.rules + outcome.published.evidence)[:MOST_RULES],
        alerts=rule_counts(decision.alerts)[:MOST_RULES],
        expectations=decision.expectations[:MOST_EXPECTATIONS],
        shadow=_compared(stream, judged),
        start=batch.start,
        end=batch.end,
        lag_records=outcome.lag,
        timings_ms=batch.watch.milliseconds,
        table=sink.table_size,
        maintenance=sink.maintenance,
    )


def log_batch(report: BatchReport, decision: Decision) -> None:
    """Log a published batch, and its warnings."""
    log.info(
        "batch_published",
        stream=report.stream,
        contract=report.contract.rpartition("@")[2],
        epoch=report.epoch,
        n=report.n,
        records=report.records,
        written=report.written,
        quarantined=report.quarantined,
        dropped=report.dropped,
        lag=report.lag_records,
        ms=report.timings_ms,
    )
    if decision.alerts:
        counts = {code: records for (_, code, _), records in sorted(decision.alerts.items())}
        log.warning("alert_raised", stream=report.stream, n=report.n, records=decision.alerted, rules=counts)
    if decision.over_budget:
        log.warning("budget_exceeded", stream=report.stream, n=report.n, records=decision.records)


def figures_of(report: BatchReport) -> Attributes:
    """Return the attributes of a batch's trace: names and counts."""
    return {
        "tidegate.contract": report.contract,
        "tidegate.epoch": report.epoch,
        "tidegate.batch": report.n,
        "tidegate.records": report.records,
        "tidegate.written": report.written,
        "tidegate.quarantined": report.quarantined,
        "tidegate.dropped": report.dropped,
    }


def _compared(stream: str, judged: JudgedBatch[Any]) -> ShadowResult | None:
    try:
        return judged.results.shadow_result()
    except Exception as error:  # noqa: BLE001 - the batch is published, and a report must not fail it
        log.warning("shadow_not_compared", stream=stream, error=type(error).__name__)
        return None
