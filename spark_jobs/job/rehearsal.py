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

_PARTITIONS: Final = 10
_RECORDS: Final = 10
"""Maximum records of a partition that are judged. They stay few, because the driver holds all of them in memory."""


def rehearse(job: Job, plan: EnforcementPlan) -> None:
    """Judge the newest records of the contract's topic, and forget the verdicts. Never raises, and writes nothing."""
    contract = plan.contract
    with suppress(Exception):  # the takeover will report what is wrong, if it still is then
        latest = dict(sorted(job.topics.latest(contract.topic).items())[:_PARTITIONS])
        earliest = job.topics.earliest(contract.topic)
        start = {each: max(earliest.get(each, 0), end - _RECORDS) for each, end in latest.items()}
        rows = read_range(job.spark, job.settings, contract.topic, start, latest)
        watch = Stopwatch(contract.id, job.observer)
        batch = MicroBatch(rows, start, latest, plan.with_now(time.time_ns()), {}, watch)
        judged_rows(batch, (), RecordTarget(Packing()), Packing(), tasks=1).toArrow()
        log.info("takeover_rehearsed", stream=contract.id, records=span(start, latest))
