"""A stream of this process, with a real registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic

import httpx
from pyspark.sql import SparkSession

from tests.integration.enforce.job import DEADLINE_SECONDS
from tests.integration.enforce.line import Line
from tidegate.spark_jobs.job.stream import Job
from tidegate.spark_jobs.job.supervisor import StreamThread
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import StepObserver, ignore_steps


@contextmanager
def running(
    spark: SparkSession, line: Line, url: str, observer: StepObserver = ignore_steps, **changes: object
) -> Iterator[StreamThread]:
    """A stream of this process, as one job has it; it is stopped at the end."""
    settings = line.settings.model_copy(update={"available_now": False, **changes})
    job = Job(spark, settings, Topics(settings.kafka), line.reports, observer)
    stopping = Event()
    with httpx.Client(base_url=url) as client:
        thread = StreamThread(job, line.contract_id, client, stopping)
        thread.start()
        try:
            yield thread
        finally:
            stopping.set()
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = monotonic() + DEADLINE_SECONDS
    while not holds():
        assert monotonic() < deadline
        Event().wait(0.2)
