"""Great Expectations on the accepted rows of a batch: in Spark, without storing them."""

from __future__ import annotations

import logging
import numbers
import os
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.expectations.compile import CompiledExpectation
from tidegate.contracts.expectations.library import LibraryFinding, library_arguments, library_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT: Final = {"result_format": "BASIC", "partial_unexpected_count": 0}
"""The default would put twenty payload values into a result."""


class GreatExpectationsRunner:
    """Runner with one ephemeral context. Create it only when a batch needs it, because the import takes seconds."""

    def __init__(self, spark: SparkSession) -> None:
        os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of its dependencies
            import great_expectations as gx  # noqa: PLC0415 - slow, and only contracts with expectations need it
            from great_expectations.expectations.registry import get_expectation_impl  # noqa: PLC0415 - the same
        logging.getLogger("great_expectations").setLevel(logging.CRITICAL)  # its messages quote the payload
        self._spark = spark
        self._expectation = get_expectation_impl
        context: Any = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False, "metric_calculations": False}
        # By default, batches are persisted, and would never be released.
        asset = context.data_sources.add_spark("accepted", persist=False).add_dataframe_asset("rows")
        self._definition = asset.add_batch_definition_whole_dataframe("batch")

    def ask(self, expectations: Iterable[CompiledExpectation], rows: pa.Table) -> dict[str, LibraryFinding]:
        """Judge expectations on typed columns; return the findings by expectation id.

        Expectations that the library cannot judge are omitted. Raises Unavailable if Spark fails.
        """
        plain = library_columns(rows)
        frame = self._spark.createDataFrame(plain, from_arrow_schema(plain.schema, prefer_timestamp_ntz=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own deprecations
            try:
                batch = self._definition.get_batch({"dataframe": frame.persist()})
                found = {each.expectation.id: self._judge(batch, each, rows.schema) for each in expectations}
            except Exception as error:  # noqa: BLE001 - no error of the library is the batch's fault
                raise Unavailable(f"Great Expectations failed with {type(error).__name__}") from None
            finally:
                frame.unpersist()
        return {name: finding for name, finding in found.items() if finding is not None}

    def _judge(self, batch: Any, compiled: CompiledExpectation, schema: pa.Schema) -> LibraryFinding | None:
        arguments = library_arguments(compiled, schema)
        expectation = self._expectation(compiled.expectation.type)(**arguments)
        answer = batch.validate(expectation, result_format=_FORMAT)
        if _has_raised(answer.exception_info):
            return None
        result = answer.result
        count, missing = result.get("element_count"), result.get("missing_count")
        return LibraryFinding(
            is_met=bool(answer.success),
            considered=None if count is None else int(count) - int(missing or 0),
            unexpected=None if "unexpected_count" not in result else int(result["unexpected_count"]),
            observed=_number(result.get("observed_value")),
        )


def _has_raised(info: Any) -> bool:
    if not info:
        return False
    parts = [info] if "raised_exception" in info else info.values()
    return any(part["raised_exception"] for part in parts)


def _number(observed: Any) -> float | None:
    is_number = isinstance(observed, numbers.Number) and not isinstance(observed, bool | complex)
    return float(observed) if is_number else None
