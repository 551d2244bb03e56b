"""Enforce contracts: put the parts together, run the streams, take everything down again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import structlog
from py4j.protocol import Py4JError

from tidegate.contracts.address_secrets import mask_event
from tidegate.contracts.crash import crash_told
from tidegate.spark_jobs.contract_source import registry_http
from tidegate.spark_jobs.job.reports import RegistryReporter
from tidegate.spark_jobs.job.stream import Job
from tidegate.spark_jobs.job.supervisor import run_streams
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.session import build_session
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.steps import StepObserver, ignore_steps


def enforce_contracts(
    settings: JobSettings,
    contract_ids: Sequence[str],
    ready_file: Path | None = None,
    observer: StepObserver = ignore_steps,
) -> int | None:
    """Run a stream for each contract until all have ended; returns the signal that ended them, or None.

    Raises the TidegateError that weighs most when streams have failed.
    """
    _configure_logging()
    spark = build_session(settings)
    try:
        with registry_http(settings, settings.registry_url, settings.registry_timeout_seconds) as client:
            reporter = RegistryReporter(client)
            topics = Topics(settings.kafka)
            try:
                job = Job(spark, settings, topics, reporter, observer)
                return run_streams(job, contract_ids, client, ready_file)
            finally:
                reporter.close()
    finally:
        with suppress(
            Py4JError, OSError
        ):  # a Java process that is gone needs no stop, and says so in its own words
            spark.stop()


def _configure_logging() -> None:
    """One JSON object a line on stderr."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            crash_told,
            mask_event,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
