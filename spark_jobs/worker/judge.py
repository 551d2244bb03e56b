"""The judge as a Spark column: the one plan of `contracts`, called on Arrow arrays in a Python worker.

For queries that have records in a column; a stream judges and writes in one function (`part_writer.py`).
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # its own __init__ names it without a type
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import BinaryType, DataType, StructField, StructType

from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.formats.writers import SCHEMA_HEADER
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.judge.verdict_arrays import packed
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.crashes import crashes_without_values
from tidegate.spark_jobs.kafka.topics import TooLarge, TransactionEnded

_MOST_KNOWN: Final = 10_000
_MOST_BYTES: Final = 2**31 - 1
_OURS: Final = (Unavailable, Fenced, StreamStopped, TooLarge, TransactionEnded)
"""Errors of a worker that no record causes."""


def judge_column(plan: EnforcementPlan, *, typed: bool) -> Callable[[Column], Column]:
    """Return the column function that judges a column of record values.

    It returns the verdict as binary, null if nothing failed, for `disposition_of` and `failed_of`. With `typed` it
    returns struct<verdict: binary, columns: struct>, with the typed columns of the written records. The function is
    marked nondeterministic, so that the optimizer never runs it twice. It also reads the column `headers` if headers
    name the schemas of records, and the column `timestamp` if rules use the current time.
    """
    result = judged_type(plan, typed=typed)
    # Each is pickled with its plan, which a worker compiles once for all its tasks.
    whole, given = (plan.judge_typed, _with_columns) if typed else (plan.judge, packed)

    def judge(values: pa.Array) -> pa.Array:
        with crashes_without_values():
            return given(whole(values))

    def judge_beside(values: pa.Array, headers: pa.Array, timestamps: pa.Array) -> pa.Array:
        with crashes_without_values():
            return given(whole(values, Moments(records=timestamps), schema_headers(plan, headers)))

    # The annotations are strings here; pyspark needs the types themselves.
    if plan.reads_headers or plan.asks_now:
        judge_beside.__annotations__ = dict.fromkeys(("values", "headers", "timestamps", "return"), pa.Array)
        beside = arrow_udf(judge_beside, result).asNondeterministic()
        headers = F.to_json("headers") if plan.reads_headers else F.lit(None).cast("string")
        return lambda values: beside(values, headers, F.col("timestamp"))
    judge.__annotations__ = {"values": pa.Array, "return": pa.Array}
    udf: Callable[[Column], Column] = arrow_udf(judge, result).asNondeterministic()
    return udf


def disposition_of(verdict: Column) -> Column:
    """Return the number of the disposition from a column of verdicts."""
    return F.coalesce(F.ascii(verdict.cast("string")), F.lit(int(Disposition.ACCEPTED)))


def failed_of(verdict: Column) -> Column:
    """Return the bit set of failed slots from a column of verdicts, for `plan.failed_slots`; null if nothing failed."""
    return F.substring(verdict, 2, _MOST_BYTES)


def _with_columns(judged: pa.StructArray) -> pa.StructArray:
    return pa.StructArray.from_arrays([packed(judged), judged.field("columns")], ["verdict", "columns"])


def schema_headers(plan: EnforcementPlan, headers: pa.Array) -> pa.Array | None:
    """Return the schema header of each record, for `EnforcementPlan.judge`; None if the plan does not read it.

    `headers` are all headers of each record as Spark's `to_json` writes them, values in base64, an array of string.
    """
    if not plan.reads_headers:
        return None
    known: dict[str | None, bytes | None] = {}
    found = []
    for text in headers.to_pylist():
        if text not in known:  # records of one producer usually have the same headers
            if len(known) > _MOST_KNOWN:
                known.clear()
            known[text] = None if text is None or SCHEMA_HEADER not in text else _schema_header(text)
        found.append(known[text])
    return pa.array(found, pa.binary())


def _schema_header(text: str) -> bytes | None:
    pairs = (
        (each["key"], b64decode(each["value"]) if "value" in each else None) for each in json.loads(text)
    )
    return schema_header(tuple(pairs))


@contextmanager
def worker_errors() -> Iterator[None]:
    """Raise our own errors in a form that survives Spark, which reports every error as an error of Python."""
    try:
        yield
    except PythonException as error:
        for kind in _OURS:
            _, is_ours, reason = str(error).partition(f"\n{kind.__module__}.{kind.__name__}: ")
            if is_ours:
                raise kind(reason.partition("\n")[0]) from error
        raise


def judged_type(plan: EnforcementPlan, *, typed: bool) -> DataType:
    """Return the Spark type of a judged value."""
    if not typed:
        return BinaryType()
    return StructType([StructField("verdict", BinaryType()), StructField("columns", column_types(plan))])


def column_types(plan: EnforcementPlan) -> StructType:
    """Return the Spark types of the typed columns; a timestamp without a zone stays without one."""
    columns = from_arrow_type(pa.struct(list(plan.columns)), prefer_timestamp_ntz=True)
    assert isinstance(columns, StructType)  # noqa: S101 - narrows for the type checker
    return columns
