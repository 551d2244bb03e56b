"""Data frames of Spark, pandas and polars: a verdict for each row, by way of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from tidegate.contracts.errors import SettingsError

if TYPE_CHECKING:
    from tidegate.contract import Contract

VERDICT: Final = "verdict"
"""Name of the column that `Contract.judge_frame` adds."""
_WORDS: Final = ("stage", "code", "pointer", "severity", "message")
_VIOLATION: Final = pa.struct([pa.field(name, pa.string()) for name in _WORDS])
VERDICT_TYPE: Final = pa.struct(
    [("accepted", pa.bool_()), ("disposition", pa.string()), ("violations", pa.list_(_VIOLATION))]
)
"""Type of that column: whether the row is written, what becomes of it, and each violation. It holds no value of a row."""


class FrameKind(Protocol):
    """What is done with the data frames of one library."""

    def judge(self, contract: Contract, frame: Any) -> Any:
        """Return the frame with the column `verdict` at its end."""
        ...

    def split(self, judged: Any) -> tuple[Any, Any]:
        """Return the accepted rows without their verdict, and the refused ones with it."""
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


class _Pandas:
    def judge(self, contract: Contract, frame: Any) -> Any:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        return frame.assign(**{VERDICT: contract.judge_table(table).column(VERDICT).to_pylist()})

    def split(self, judged: Any) -> tuple[Any, Any]:
        is_accepted = judged[VERDICT].map(lambda verdict: verdict["accepted"]).astype(bool)
        return judged[is_accepted].drop(columns=VERDICT), judged[~is_accepted]


class _Polars:
    def judge(self, contract: Contract, frame: Any) -> Any:
        import polars as pl  # noqa: PLC0415 - loaded already, as the frame is one of polars

        return pl.from_arrow(contract.judge_table(frame.to_arrow()))

    def split(self, judged: Any) -> tuple[Any, Any]:
        is_accepted = judged[VERDICT].struct.field("accepted")
        return judged.filter(is_accepted).drop(VERDICT), judged.filter(~is_accepted)


_KINDS: Final[dict[str, FrameKind]] = {"pyspark": _Spark(), "pandas": _Pandas(), "polars": _Polars()}


def kind_of(frame: object) -> FrameKind:
    """Return what is done with a data frame of this library. Raises SettingsError for anything else."""
    library = type(frame).__module__.partition(".")[0]
    if library not in _KINDS:
        raise SettingsError(
            f"{type(frame).__name__} is no DataFrame of Spark, pandas or polars, and no Arrow table"
        )
    return _KINDS[library]
