"""Great Expectations as the second opinion, on pandas: in one process, a few milliseconds an expectation."""

from __future__ import annotations

import logging
import os
import warnings
from functools import lru_cache
from typing import Any

import pandas as pd
import pyarrow as pa

from tidegate.contracts.expectations.compile import CompiledExpectation
from tidegate.contracts.expectations.library import library_arguments, library_columns

os.environ["GX_ANALYTICS_ENABLED"] = "false"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its dependencies
    import great_expectations as gx
    from great_expectations.expectations.registry import (
        get_expectation_impl,
        list_registered_expectation_implementations,
    )

_AGGREGATES = ("min_to", "max_to", "mean_to", "sum_to", "stdev_to", "distinct_values")
_BASIC = {"result_format": "BASIC", "partial_unexpected_count": 0}


def library_says(compiled: CompiledExpectation, rows: pa.Table) -> tuple[bool, dict[str, Any]]:
    """Judge an expectation by the library: whether it is met, and the result. Raises what the library caught."""
    arguments = library_arguments(compiled, rows.schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas' own, of how the library calls it
        expectation = get_expectation_impl(compiled.expectation.type)(**arguments)
        batch = _definition().get_batch({"dataframe": _frame(compiled, rows)})
        result = batch.validate(expectation, result_format=_BASIC)
    raised = [each for each in _exceptions(result.exception_info) if each]
    assert not raised, raised
    return bool(result.success), dict(result.result)


def library_names() -> set[str]:
    """Name every expectation of the library."""
    return set(list_registered_expectation_implementations())


def library_arguments_of(name: str) -> dict[str, bool]:
    """Name the arguments of an expectation of the library, and say which are required."""
    return {argument: field.required for argument, field in get_expectation_impl(name).__fields__.items()}


@lru_cache(maxsize=1)
def _definition() -> Any:
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    asset = context.data_sources.add_pandas("pandas").add_dataframe_asset("rows")
    return asset.add_batch_definition_whole_dataframe("whole")


def _frame(compiled: CompiledExpectation, rows: pa.Table) -> pd.DataFrame:
    rows = library_columns(rows)
    if any(name in compiled.expectation.type for name in _AGGREGATES):
        # pandas has no null beside dates and decimals, and adds None up; an aggregate looks at values only.
        rows = pa.table({name: rows.column(name).drop_null() for name in compiled.columns})
    plain = {
        name: pd.Series(rows.column(name).to_pylist(), dtype=object)
        if pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind)
        else rows.column(name).to_pandas()
        for name, kind in zip(rows.column_names, rows.schema.types, strict=True)
    }
    return pd.DataFrame(plain)


def _exceptions(info: Any) -> list[Any]:
    if not info:
        return []
    parts = [info] if "raised_exception" in info else list(info.values())
    return [part["exception_message"] for part in parts if part["raised_exception"]]
