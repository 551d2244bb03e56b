"""Classification of failures: whether the batch's size or one of its records is the cause, so halves may pass."""

from __future__ import annotations

import builtins
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException

from tidegate.contracts.crash import chain_of
from tidegate.contracts.errors import StreamStopped, TidegateError
from tidegate.contracts.stream.ledger import Vector
from tidegate.spark_jobs.crashes import WorkerCrash
from tidegate.spark_jobs.kafka.topics import TooLarge, TransactionEnded

_TOLD_BY_SPARK: Final = (
    "is bigger than spark.driver.maxResultSize",
    "java.lang.OutOfMemoryError",
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
)
"""Messages of Spark for a process that ran out of memory, or was killed by a record. Others may be outages."""

_JUDGES: Final = frozenset(
    (
        "contracts",
        "fastavro",
        "jsonschema",
        "jsonschema_rs",
        "msgspec",
        "numpy",
        "orjson",
        "pyarrow",
        "referencing",
    )
)
"""Packages that only process records: in a worker, their errors are caused by a record."""

_CRASH: Final = f"{WorkerCrash.__module__}.{WorkerCrash.__name__}: "


def reason_to_halve(error: BaseException) -> str | None:
    """Return why a smaller batch may avoid the error, without record values.

    Return None for outages, which affect every batch, and for errors that may be outages.
    """
    match error:
        case TidegateError():
            return str(error) if isinstance(error, (TooLarge, TransactionEnded)) else None
        case MemoryError():
            return "the driver had too little memory"
        case PythonException() if _CRASH in str(error):
            return _crash_of_a_record(str(error))
        case PySparkException() | Py4JError():
            texts = (text for each in chain_of(error) for text in _TOLD_BY_SPARK if text in str(each))
            return next(texts, None)
    return None


def may_blame_record(error: BaseException) -> bool:
    """Return whether a record caused the failure of the batch that has only that record.

    False for an ended transaction: one record is written quickly, so the broker or the machine must be slow.
    """
    return not isinstance(error, TransactionEnded)


def stopped_by_record(stream: str, topic: str, failed: tuple[Vector, Vector], reason: str) -> StreamStopped:
    """Return the error that ends a stream after a failed batch of one offset; it names the record and what to do."""
    start, end = failed
    partition = next(each for each in sorted(end) if end[each] > start.get(each, 0))
    offset = start.get(partition, 0)
    return StreamStopped(
        f"the record of topic {topic}, partition {partition}, offset {offset} cannot be processed, in a batch of its own "
        f"either: {reason}. Remove the cause, or set the record aside: tidegate quarantine-record {stream} {partition} "
        f"{offset}. Then start the stream again"
    )


def _crash_of_a_record(text: str) -> str | None:
    """Return the description of a worker crash if a record caused it, else None.

    Errors of code that uses a store or a network are not blamed on a record: an outage may have caused them.
    """
    crash = text.rpartition(_CRASH)[2].partition("\n")[0].strip()
    kind = crash.partition(" ")[0].rstrip(":")
    if "." in kind:
        return crash if kind.partition(".")[0] in _JUDGES else None
    found = getattr(builtins, kind, None)
    is_ours = isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, OSError)
    return crash if is_ours else None
