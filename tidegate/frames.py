"""Data frames of Spark, pandas and polars: a verdict for each row, by way of Arrow."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from tidegate.contracts.columns.json_rows import require_json
from tidegate.contracts.errors import SettingsError

if TYPE_CHECKING:
    from tidegate.contract import Contract
    from tidegate.contracts.infer.infer import Inference

VERDICT: Final = "verdict"
"""Name of the column that `Contract.judge_frame` adds."""
_WORDS: Final = ("stage", "code", "pointer", "severity", "message")
_VIOLATION: Final = pa.struct([pa.field(name, pa.string()) for name in _WORDS])
VERDICT_TYPE: Final = pa.struct(
    [("accepted", pa.bool_()), ("disposition", pa.string()), ("violations", pa.list_(_VIOLATION))]
)
"""Type of that column: whether the row is written, what becomes of it, and each violation. It holds no value of a row."""
PARTITION_BITS: Final = 40
"""A position is the number of a row, and above these bits the number of its partition in Spark, both from 1."""
_BATCH_ROWS: Final = 4_096
_HELD_BY_PARTITION: Final = 2_000
_MERGERS: Final = 8
"""Tasks that merge the profiles of the partitions: the driver gets so many, however many partitions there are."""
_PROFILE: Final = "profile"


class FrameKind(Protocol):
    """What is done with the data frames of one library."""

    def judge(self, contract: Contract, frame: Any) -> Any:
        """Return the frame with the column `verdict` at its end."""
        ...

    def split(self, judged: Any) -> tuple[Any, Any]:
        """Return the accepted rows without their verdict, and the refused ones with it."""
        ...

    def infer(self, frame: Any) -> Inference:
        """Profile the rows; where they stand in the frame, counted from 1, are their positions."""
        ...


class _Spark:
    def judge(self, contract: Contract, frame: Any) -> Any:
        from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - the frame is one of Spark: loaded already
        from pyspark.sql.types import StructType  # noqa: PLC0415 - the same

        if VERDICT in frame.columns:
            raise SettingsError(f"the data frame has a column `{VERDICT}` already; rename it first")
        added = StructType().add(VERDICT, from_arrow_type(VERDICT_TYPE))

        def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from contract.judge_table(pa.Table.from_batches([batch])).to_batches()

        # mapInArrow is in Spark classic and in Connect alike, and needs no code on the JVM's side.
        return frame.mapInArrow(judge_batches, StructType([*frame.schema.fields, *added.fields]))

    def split(self, judged: Any) -> tuple[Any, Any]:
        is_accepted = judged[f"{VERDICT}.accepted"]
        return judged.filter(is_accepted).drop(VERDICT), judged.filter(~is_accepted)

    def infer(self, frame: Any) -> Inference:
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - the same
        from pyspark.sql.types import BinaryType, StructType  # noqa: PLC0415 - the same

        from tidegate.contracts.infer.infer import Inference  # noqa: PLC0415 - judging does without it

        require_json(to_arrow_schema(frame.schema))  # here, not in a worker after hours
        profile = StructType().add(_PROFILE, BinaryType())
        parts = frame.mapInArrow(_profiles, profile).repartition(_MERGERS).mapInArrow(_merged, profile)
        whole = Inference()
        for row in parts.collect():
            whole.merge(pickle.loads(row[_PROFILE]))  # noqa: S301 - what our function wrote in a worker
        return whole


def _profiles(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the profile of one partition, in a worker of Spark."""
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
    """Yield the profile of some partitions, in a worker of Spark."""
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
    def judge(self, contract: Contract, frame: Any) -> Any:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        return frame.assign(**{VERDICT: contract.judge_table(table).column(VERDICT).to_pylist()})

    def split(self, judged: Any) -> tuple[Any, Any]:
        is_accepted = judged[VERDICT].map(lambda verdict: verdict["accepted"]).astype(bool)
        return judged[is_accepted].drop(columns=VERDICT), judged[~is_accepted]

    def infer(self, frame: Any) -> Inference:
        return infer_table(pa.Table.from_pandas(frame, preserve_index=False))


class _Polars:
    def judge(self, contract: Contract, frame: Any) -> Any:
        import polars as pl  # noqa: PLC0415 - loaded already, as the frame is one of polars

        return pl.from_arrow(contract.judge_table(frame.to_arrow()))

    def split(self, judged: Any) -> tuple[Any, Any]:
        is_accepted = judged[VERDICT].struct.field("accepted")
        return judged.filter(is_accepted).drop(VERDICT), judged.filter(~is_accepted)

    def infer(self, frame: Any) -> Inference:
        return infer_table(frame.to_arrow())


_KINDS: Final[dict[str, FrameKind]] = {"pyspark": _Spark(), "pandas": _Pandas(), "polars": _Polars()}


def kind_of(frame: object) -> FrameKind:
    """Return what is done with a data frame of this library. Raises SettingsError for anything else."""
    library = type(frame).__module__.partition(".")[0]
    if library not in _KINDS:
        raise SettingsError(
            f"{type(frame).__name__} is no DataFrame of Spark, pandas or polars, and no Arrow table"
        )
    return _KINDS[library]


def infer_table(table: pa.Table) -> Inference:
    """Profile the rows of an Arrow table. Raises SettingsError for a column that JSON has no value for."""
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
    """Return the table, so that a lone column `value` of bytes is not taken for encoded records."""
    binary = [field.with_type(pa.large_binary()) for field in table.schema if field.type == pa.binary()]
    return table.cast(pa.schema(binary)) if len(binary) == table.num_columns == 1 else table
