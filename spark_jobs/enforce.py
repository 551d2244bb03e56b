"""Enforcement of contracts: connect the parts, run the streams, release all resources."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import structlog

from tidegate.contracts.address_secrets import mask_event
from tidegate.contracts.crash import exception_without_values
from tidegate.spark_jobs.class_archive import writes_archive
from tidegate.spark_jobs.history.request import HistoryRequest
from tidegate.spark_jobs.session import build_session, stop_session, warm_up
from tidegate.spark_jobs.settings import ContractSelection, JobSettings
from tidegate.spark_jobs.steps import StepObserver, ignore_steps
from tidegate.spark_jobs.tracing import open_tracer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WARM_UP_SECONDS = 10.0


def enforce_contracts(
    settings: JobSettings,
    wanted: Sequence[str] | ContractSelection,
    ready_file: Path | None = None,
    observer: StepObserver = ignore_steps,
    history: HistoryRequest | None = None,
) -> int | None:
    """Run a stream for each contract until all have ended; return the number of the signal that ended them, or None.

    With a `history`, the named contracts judge that instead of their topics. With a selection, streams start and stop
    with the contracts of the registry, until a signal. Raises the most severe TidegateError of the failed streams.
    """
    log_to_stderr()
    with ThreadPoolExecutor(1, thread_name_prefix="session") as starter:
        starting = starter.submit(_start_session, settings)
        # Imported while Java starts, because after a crash, nothing is judged until both are done.
        from tidegate.spark_jobs.contract_source import registry_http  # noqa: PLC0415 - see above
        from tidegate.spark_jobs.job.reports import RegistryReporter  # noqa: PLC0415 - see above
        from tidegate.spark_jobs.job.stream import Job  # noqa: PLC0415 - see above
        from tidegate.spark_jobs.job.supervisor import run_streams, watch_streams  # noqa: PLC0415 - see above
        from tidegate.spark_jobs.kafka.topics import Topics  # noqa: PLC0415 - see above

        spark, settings = starting.result()
    warming = Thread(target=warm_up, args=(spark,), name="warm-up", daemon=True)
    warming.start()
    try:
        with registry_http(settings, settings.registry_url, settings.registry_timeout_seconds) as client:
            tracer = open_tracer()
            tracer.follow(client)
            reporter = RegistryReporter(client, tracer)
            topics = Topics(settings.kafka)
            try:
                job = Job(spark, settings, topics, reporter, observer, tracer)
                if isinstance(wanted, ContractSelection):
                    return watch_streams(job, wanted, client, ready_file)
                return run_streams(job, wanted, client, ready_file, history)
            finally:
                reporter.close()
                tracer.close()
    finally:
        stop_session(spark, settings)
        # At exit, Python ends a thread inside Arrow by unwinding its C++ frames, which aborts the process.
        warming.join(_WARM_UP_SECONDS)


def _start_session(settings: JobSettings) -> tuple[SparkSession, JobSettings]:
    """Return a new session, and the settings with the answer whether this run writes the archive of classes."""
    settings = settings.model_copy(update={"write_class_archive": writes_archive(settings)})
    return build_session(settings), settings


def log_to_stderr() -> None:
    """Configure logging as JSON lines to stderr, so that stdout holds only the output of a command."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            exception_without_values,
            mask_event,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
