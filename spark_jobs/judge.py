"""The judge as a Spark column: the one plan of `contracts`, called on Arrow arrays in a Python worker."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # its own __init__ names it without a type
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from contracts.plan import VERDICT_TYPE, EnforcementPlan


def judge_column(plan: EnforcementPlan, *, typed: bool) -> Callable[[Column], Column]:
    """Make the column function that judges a column of record values.

    It gives struct<disposition: byte, failed: binary>, and with `typed` also `columns`, the typed columns of the
    records that are written. The function is marked nondeterministic, so that the optimizer never runs it twice.
    """

    def judge(values: pa.Array) -> pa.Array:
        # Pickled with its plan, which a worker compiles once however many tasks bring it.
        return plan.judge_typed(values) if typed else plan.judge(values)

    # The annotations are strings here; pyspark asks for the types themselves.
    judge.__annotations__ = {"values": pa.Array, "return": pa.Array}
    udf: Callable[[Column], Column] = arrow_udf(judge, verdict_type(plan, typed=typed)).asNondeterministic()
    return udf


def verdict_type(plan: EnforcementPlan, *, typed: bool) -> StructType:
    """Spark type of a judged value."""
    verdict = from_arrow_type(VERDICT_TYPE)
    assert isinstance(verdict, StructType)  # noqa: S101 - narrows for the type checker
    if not typed:
        return verdict
    return StructType([*verdict.fields, StructField("columns", column_types(plan))])


def column_types(plan: EnforcementPlan) -> StructType:
    """Spark types of the typed columns; a timestamp without a zone stays without one."""
    columns = from_arrow_type(pa.struct(list(plan.columns)), prefer_timestamp_ntz=True)
    assert isinstance(columns, StructType)  # noqa: S101 - narrows for the type checker
    return columns
