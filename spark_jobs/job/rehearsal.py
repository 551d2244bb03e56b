"""A standby's rehearsal: it judges some records without writing them, so that a takeover finds Java's classes loaded."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

import structlog

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import span
from tidegate.spark_jobs.job.source import read_range
from tidegate.spark_jobs.job.stream import Job
from tidegate.spark_jobs.sinks.judged_rows import judged_rows
from tidegate.spark_jobs.sinks.sink import MicroBatch
from tidegate.spark_jobs.steps import Stopwatch
from tidegate.spark_jobs.worker.record_spool import Packing, RecordTarget

log = structlog.get_logger()

_RECORDS: Final = 100
"""Maximum records of a partition that are judged; the number matters little, because classes are loaded by the first."""


def rehearse(job: Job, plan: EnforcementPlan) -> None:
    """Judge the newest records of the contract's topic, and forget the verdicts. Never raises, and writes nothing."""
    contract = plan.contract
    with suppress(Exception):  # the takeover will report what is wrong, if it still is then
        latest = job.topics.latest(contract.topic)
        start = {
            partition: max(offset, latest.get(partition, 0) - _RECORDS)
            for partition, offset in job.topics.earliest(contract.topic).items()
        }
        rows = read_range(job.spark, job.settings, contract.topic, start, latest)
        watch = Stopwatch(contract.id, job.observer)
        batch = MicroBatch(rows, start, latest, plan.with_now(time.time_ns()), {}, watch)
        judged_rows(batch, (), RecordTarget(Packing()), Packing(), tasks=1).toArrow()
        log.info("takeover_rehearsed", stream=contract.id, records=span(start, latest))
