"""Judge and profile data frames of Spark, pandas and polars, through Arrow."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from tidegate.contracts.columns.json_rows import require_json
from tidegate.contracts.errors import SettingsError

if TYPE_CHECKING:
    from tidegate.contracts.document.model import DataContract
    from tidegate.contracts.infer.infer import Inference

VERDICT: Final = "verdict"
"""Name of the column that `Contract.judge_frame` adds."""
_WORDS: Final = ("stage", "code", "pointer", "severity", "message")
_VIOLATION: Final = pa.struct([pa.field(name, pa.string()) for name in _WORDS])
VERDICT_TYPE: Final = pa.struct(
    [("accepted", pa.bool_()), ("disposition", pa.string()), ("violations", pa.list_(_VIOLATION))]
)
"""Type of that column: whether the row is accepted, its disposition and its violations, without values of the row."""
PARTITION_BITS: Final = 40
"""The low bits of a position hold the row number; the bits above hold the partition number in Spark. Both begin with 1."""
_BATCH_ROWS: Final = 4_096
_HELD_BY_PARTITION: Final = 2_000
_MERGERS: Final = 8
"""Number of tasks that merge the profiles of partitions, and of profiles that the driver gets at most."""
_PROFILE: Final = "profile"


class TableJudge(Protocol):
    """The part of `tidegate.Contract` that judges data frames."""

    @property
    def document(self) -> DataContract:
        """Return the contract document."""
        ...

    def judge_table(self, table: pa.Table) -> pa.Table:
        """Return the table with an additional last column `verdict`."""
        ...


class FrameKind(Protocol):
    """The operations on data frames of one library."""

    def judge(self, contract: TableJudge, frame: Any) -> Any:
        """Return the frame with an additional last column `verdict`."""
        ...

    def split(self, judged: Any) -> tuple[Any, Any]:
        """Return the accepted rows without the column `verdict`, and the refused rows with it."""
        ...

    def infer(self, frame: Any) -> Inference:
        """Profile the rows. Their positions are row numbers from 1; for Spark, see PARTITION_BITS."""
        ...


class _Spark:
    def judge(self, contract: TableJudge, frame: Any) -> Any:
        from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - the frame is one of Spark: loaded already
        from pyspark.sql.types import StructType  # noqa: PLC0415 - the same

        if VERDICT in frame.columns:
            raise SettingsError(f"the data frame has a column `{VERDICT}` already; rename it first")
        added = StructType().add(VERDICT, from_arrow_type(VERDICT_TYPE))

        def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from contract.judge_table(pa.Table.from_batches([batch])).to_batches()

        # mapInArrow works in Spark classic and Connect, and needs no code in the JVM.
        return frame.mapInArrow(judge_batches, StructType([*frame.schema.fields, *added.fields]))

    def split(self, judged: Any) -> tuple[Any, Any]:
        is_accepted = judged[f"{VERDICT}.accepted"]
        return judged.filter(is_accepted).drop(VERDICT), judged.filter(~is_accepted)

    def infer(self, frame: Any) -> Inference:
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - the same
        from pyspark.sql.types import BinaryType, StructType  # noqa: PLC0415 - the same

        from tidegate.contracts.infer.infer import Inference  # noqa: PLC0415 - judging does without it

        require_json(to_arrow_schema(frame.schema))  # fail here, not in a worker after hours
        profile = StructType().add(_PROFILE, BinaryType())
        parts = frame.mapInArrow(_profiles, profile).repartition(_MERGERS).mapInArrow(_merged, profile)
        whole = Inference()
        for row in parts.collect():
            whole.merge(pickle.loads(row[_PROFILE]))  # noqa: S301 - what our function wrote in a worker
        return whole


def _profiles(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the profile of one partition; nothing for an empty one. Runs in a Spark worker."""
    from pyspark import TaskContext  # noqa: PLC0415 - a worker of Spark

    from tidegate.contracts.infer.infer import Inference  # noqa: PLC0415 - judging does without it

    context = TaskContext.get()
    first = ((context.partitionId() if context else 0) + 1 << PARTITION_BITS) + 1
    inference = Inference(most_held=_HELD_BY_PARTITION)
    for batch in batches:
        _add(inference, pa.Table.from_batches([batch]), first)
        first += batch.num_rows
    if inference.records:
        yield _row(inference)


def _merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the merged profile of several partitions. Runs in a Spark worker."""
    whole: Inference | None = None
    for batch in batches:
        for value in batch.column(0):
            part: Inference = pickle.loads(value.as_py())  # noqa: S301 - what `_profiles` wrote
            if whole is None:
                whole = part
            else:
                whole.merge(part)
    if whole is not None:
        yield _row(whole)


def _row(inference: Inference) -> pa.RecordBatch:
    return pa.record_batch([pa.array([pickle.dumps(inference)], pa.binary())], [_PROFILE])


class _Pandas:
    def judge(self, contract: TableJudge, frame: Any) -> Any:
        definition = contract.document.schema_.definition
        table = _table_of_pandas(
            frame, definition.get("properties", ()) if isinstance(definition, dict) else ()
        )
        judged = contract.judge_table(table)
        return frame.assign(**{VERDICT: judged.column(VERDICT).to_pylist()})

    def split(self, judged: Any) -> tuple[Any, Any]:
        is_accepted = judged[VERDICT].map(lambda verdict: verdict["accepted"]).astype(bool)
        return judged[is_accepted].drop(columns=VERDICT), judged[~is_accepted]

    def infer(self, frame: Any) -> Inference:
        return infer_table(_table_of_pandas(frame, frame.index.names))


def _table_of_pandas(frame: Any, fields: Iterable[Any]) -> pa.Table:
    """Convert a pandas DataFrame to an Arrow table, without its index.

    Raises SettingsError for an index named like one of the `fields`, and for rows without columns. It does so too for
    multi-level or repeated column names, and for a column that Arrow has no type for.
    """
    if frame.columns.nlevels > 1:
        raise SettingsError(
            f"the columns of the data frame have {frame.columns.nlevels} levels of names; join them, such as with "
            "`frame.columns = ['_'.join(map(str, each)) for each in frame.columns]`"
        )
    names = [str(name) for name in frame.columns]
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise SettingsError(f"the data frame has two columns `{name}`; rename one of them")
    wanted = {str(each) for each in fields} - {"None", *names}
    for level in frame.index.names:
        if str(level) in wanted:
            raise SettingsError(
                f"`{level}` is the index of the data frame and no column, so it would be left out; make it a column with "
                "`frame.reset_index()`, or remove it with `frame.reset_index(drop=True)`"
            )
    if len(frame) and not names:
        raise SettingsError("the data frame has rows without a column: there is nothing to judge")
    return pa.table({str(name): _array(name, values) for name, values in frame.items()})


def _array(name: Any, values: Any) -> pa.Array | pa.ChunkedArray:
    if str(values.dtype).startswith("Sparse["):
        values = values.sparse.to_dense()
    held, advice = "", f"`frame[{name!r}].astype(str)`"
    try:
        array = pa.Array.from_pandas(values)
    except OverflowError:
        held = "holds an integer of more than 64 bits"
    except UnicodeEncodeError:
        held = "holds text with half a surrogate pair"
        advice = f"`frame[{name!r}].str.encode('utf-8', 'replace').str.decode('utf-8')`"
    except (pa.ArrowException, TypeError, ValueError):
        held = _held(values)
    else:
        held = "" if _is_as_it_was(values, array.type) else _held(values)
    if held:
        if "datetime" in held or "Timestamp" in held:
            advice = f"`pandas.to_datetime(frame[{name!r}], utc=True)`"
        raise SettingsError(
            f"the column `{name}` {held}, for which Arrow has no type; convert it, such as with {advice}, or leave it out"
        )
    return array


def _held(values: Any) -> str:
    """Return a phrase for messages about the types in a column. It contains no values."""
    if values.dtype != object and values.dtype.name != "category":
        return f"is of type {values.dtype}"
    types = sorted({_type_name(each) for each in values.dropna()})
    if types in (["dict"], ["list"]):
        return f"holds values of type {types[0]} whose members are of different types"
    if types == ["Decimal"]:  # Arrow converts NaN to null, and supports at most 76 digits
        return "holds an infinite decimal, or one of more than 76 digits"
    several = len(types) > 1
    return f"holds values of {'the types' if several else 'type'} {', '.join(types[:5])}"


def _type_name(value: Any) -> str:
    zone = " with a time zone" if isinstance(value, datetime) and value.tzinfo is not None else ""
    return type(value).__name__ + zone


def _is_as_it_was(values: Any, kind: pa.DataType) -> bool:
    """Return whether Arrow kept the types of a column's values.

    In mixed columns, Arrow converts integers beside timestamps to times since 1970, text beside bytes to bytes, and times
    beside dates to dates. It reads local times beside zoned ones as times of that zone. Pandas periods become numbers.
    """
    if values.dtype.name == "category":
        kind, values = kind.value_type, values.cat.categories
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name.startswith("pandas."):
        return False
    if values.dtype != object or not (pa.types.is_temporal(kind) or pa.types.is_binary(kind)):
        return True
    return len({_kind_name(each) for each in values.dropna()}) <= 1


def _kind_name(value: Any) -> str:
    """Return a name that is equal for types that Arrow converts alike."""
    if isinstance(value, datetime):
        return "local" if value.tzinfo is None else "zoned"
    if isinstance(value, np.datetime64):
        return "local"
    return "duration" if isinstance(value, timedelta | np.timedelta64) else type(value).__name__


class _Polars:
    def judge(self, contract: TableJudge, frame: Any) -> Any:
        import polars as pl  # noqa: PLC0415 - loaded already, as the frame is one of polars

        return pl.from_arrow(contract.judge_table(_table_of_polars(frame)))

    def split(self, judged: Any) -> tuple[Any, Any]:
        is_accepted = judged[VERDICT].struct.field("accepted")
        return judged.filter(is_accepted).drop(VERDICT), judged.filter(~is_accepted)

    def infer(self, frame: Any) -> Inference:
        return infer_table(_table_of_polars(frame))


def _table_of_polars(frame: Any) -> pa.Table:
    """Convert a polars DataFrame to an Arrow table. Raises SettingsError for a column that Arrow has no type for."""
    for name, kind in frame.schema.items():
        try:
            # polars exports the address of a Python object as bytes.
            is_known = not kind.is_object() and frame.head(0).select(name).to_arrow() is not None
        except pa.ArrowException:
            is_known = False
        if not is_known:
            raise SettingsError(
                f"the column `{name}` is of type {kind}, for which Arrow has no type; convert it, such as with "
                f"`polars.col({name!r}).cast(polars.String)`, or leave it out"
            )
    return frame.to_arrow()


_KINDS: Final[dict[str, FrameKind]] = {"pyspark": _Spark(), "pandas": _Pandas(), "polars": _Polars()}
_ADVICE: Final = {
    "polars.LazyFrame": "call `.collect()` on it first",
    "polars.Series": "call `.to_frame()` on it first",
    "pandas.Series": "call `.to_frame()` on it first",
    "pyarrow.RecordBatch": "make a table of it with `pyarrow.Table.from_batches([batch])`",
    "pyarrow.RecordBatchReader": "make a table of it with `.read_all()`",
    "builtins.list": "make a table of it with `pyarrow.Table.from_pylist(records)`, or call `judge` for each record",
    "builtins.dict": "call `judge` for one record, or make a table of columns with `pyarrow.table(columns)`",
}
"""Advice for objects that are not frames, by library and class."""


def kind_of(frame: object) -> FrameKind:
    """Return the operations for a data frame, by its library. Raises SettingsError for other objects."""
    for each in type(frame).__mro__:
        library = each.__module__.partition(".")[0]
        # The DataFrame of pyspark.pandas is neither one of Spark nor one of pandas.
        if library in _KINDS and each.__name__ == "DataFrame" and "pyspark.pandas" not in each.__module__:
            return _KINDS[library]
    kind = type(frame)
    library = kind.__module__.partition(".")[0]
    name = kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"
    advice = _ADVICE.get(f"{library}.{kind.__name__}", "convert it to one of them")
    if "pyspark.pandas" in kind.__module__:
        advice = "call `.to_spark()` on it first"
    raise SettingsError(f"{name} is no DataFrame of Spark, pandas or polars, and no pyarrow.Table; {advice}")


def rows_where(table: pa.Table, chosen: pa.BooleanArray) -> pa.Table:
    """Return the rows where `chosen` is true. It must not have nulls."""
    try:
        return table.filter(chosen)
    except pa.ArrowNotImplementedError:  # for views of text or bytes, also within lists
        edges = np.flatnonzero(np.diff(chosen.to_numpy(zero_copy_only=False), prepend=False, append=False))
        parts = [table.slice(begin, end - begin) for begin, end in edges.reshape(-1, 2)]
        return pa.concat_tables(parts) if parts else table.slice(0, 0)


def infer_table(table: pa.Table) -> Inference:
    """Profile the rows of an Arrow table. Raises SettingsError for a column type that JSON cannot represent."""
    from tidegate.contracts.infer.infer import Inference  # noqa: PLC0415 - judging does without it

    inference = Inference()
    _add(inference, table, 1)
    return inference


def _add(inference: Inference, table: pa.Table, first: int) -> None:
    """Add rows whose positions count from `first`."""
    for batch in _as_columns(table).to_batches(_BATCH_ROWS):
        inference.add(batch, np.arange(first, first + batch.num_rows))
        first += batch.num_rows


def _as_columns(table: pa.Table) -> pa.Table:
    """Return the table with a lone binary column as large_binary, so that it is not taken for encoded records."""
    binary = [field.with_type(pa.large_binary()) for field in table.schema if field.type == pa.binary()]
    return table.cast(pa.schema(binary)) if len(binary) == table.num_columns == 1 else table
