"""Helpers for judging in Spark's Python workers: schema headers, column types, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.formats.writers import SCHEMA_HEADER
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.spark_jobs.kafka.topics import TooLarge, TransactionEnded
from tidegate.spark_jobs.worker.record_spool import header_pairs

_MOST_KNOWN: Final = 10_000
_OURS: Final = (Unavailable, Fenced, StreamStopped, TooLarge, TransactionEnded)
"""Our own errors that a worker may raise, and that the driver raises again with their type."""


def schema_headers(plan: EnforcementPlan, headers: pa.Array) -> pa.Array | None:
    """Return the schema header of each record, for `EnforcementPlan.judge`; None if the plan does not read it.

    `headers` is a string array: all headers of each record as Spark's `to_json` writes them, with values in base64.
    """
    if not plan.reads_headers:
        return None
    known: dict[str | None, bytes | None] = {}
    found = []
    for text in headers.to_pylist():
        if text not in known:  # records of one producer usually have the same headers
            if len(known) > _MOST_KNOWN:
                known.clear()
            names_one = text is not None and SCHEMA_HEADER in text
            known[text] = schema_header(header_pairs(text)) if names_one else None
        found.append(known[text])
    return pa.array(found, pa.binary())


@contextmanager
def worker_errors() -> Iterator[None]:
    """Raise our own errors of workers with their type: Spark reports every error of a worker as PythonException."""
    try:
        yield
    except PythonException as error:
        for kind in _OURS:
            _, is_ours, reason = str(error).partition(f"\n{kind.__module__}.{kind.__name__}: ")
            if is_ours:
                raise kind(reason.partition("\n")[0]) from error
        raise


def column_types(columns: pa.Schema) -> StructType:
    """Return the Spark types of typed columns; a timestamp without time zone stays without one."""
    types = from_arrow_type(pa.struct(list(columns)), prefer_timestamp_ntz=True)
    assert isinstance(types, StructType)  # noqa: S101 - narrows for the type checker
    return types
