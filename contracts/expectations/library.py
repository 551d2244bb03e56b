"""An expectation as Great Expectations takes it: the arguments in Python's types for the column, not as JSON has them.

Timestamps are those of UTC, without a zone: the library compares what an engine collects, which has none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tidegate.contracts.expectations.bounds import value_of
from tidegate.contracts.expectations.compile import CompiledExpectation

_OF_A_VALUE = ("min_value", "max_value")


def library_arguments(compiled: CompiledExpectation, columns: pa.Schema) -> dict[str, Any]:
    """Return the arguments of an expectation for the library."""
    kwargs = dict(compiled.expectation.kwargs)
    if not compiled.columns:
        return kwargs
    kind = columns.field(compiled.columns[0]).type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        for name in _OF_A_VALUE:
            if isinstance(kwargs.get(name), str):
                kwargs[name] = _plain(value_of(kwargs[name], kind))
    if "value_set" in kwargs:
        kwargs["value_set"] = [_plain(value) for value in compiled.given.values]
    return kwargs


def library_columns(rows: pa.Table) -> pa.Table:
    """Return typed columns as the library is to see them: timestamps of UTC, without a zone."""
    plain = [
        pa.field(field.name, pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type)
        for field in rows.schema
    ]
    return rows.cast(pa.schema(plain))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value
