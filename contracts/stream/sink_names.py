"""The names of the sinks, for the job, which opens them, and for `tidegate up`, which must not import the job."""

from __future__ import annotations

from enum import StrEnum


class SinkName(StrEnum):
    """The destinations of accepted records."""

    ICEBERG = "iceberg"
    DELTA = "delta"
    POSTGRESQL = "postgresql"
    KAFKA = "kafka"
