"""Collection of the source positions of a data frame's rows in the tasks: the driver gets bitmaps instead of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.spark_jobs.progress import doing
from tidegate.spark_jobs.sinks.quarantine_rows import Outdated
from tidegate.spark_jobs.sinks.store import RECORDS_OF_KEY, Taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PACKED_DDL: Final = "partition int, seen binary, again binary"
_PACKED: Final = pa.schema([("partition", pa.int32()), ("seen", pa.binary()), ("again", pa.binary())])


def rows_of(table: DataFrame, topic: str) -> DataFrame:
    """Return partition and offset of the rows of this topic. Rows of other writers have another source or null."""
    return table.where(table["_source.topic"] == topic).select("_source.partition", "_source.offset")


def rows_with(table: DataFrame, topic: str, column: str, values: Sequence[str]) -> DataFrame:
    """Return partition and offset of the rows of this topic whose column, cast to string, has one of these values."""
    return rows_of(table.where(table[f"`{column}`"].cast("string").isin(list(values))), topic)


def records_present(table: DataFrame, keys: pa.Table) -> int:
    """Return the number of records whose primary key is in the table; `keys` as in `LedgerStore.records_present`."""
    *names, _ = keys.column_names
    if not {*names} <= {*table.columns}:
        return 0  # the contract's key is newer than the table
    doing("looking for the primary keys in the table")
    own = [f"k{number}" for number in range(len(names))]
    wanted = table.sparkSession.createDataFrame(keys.rename_columns([*own, RECORDS_OF_KEY]))
    of_table = table.select(*(table[f"`{name}`"].alias(each) for name, each in zip(names, own, strict=True)))
    # The table is read once and not shuffled, however large it is: each task gets all keys.
    found = of_table.join(F.broadcast(wanted), own).distinct().agg(F.sum(RECORDS_OF_KEY)).collect()
    return int(found[0][0] or 0)


def rows_taken(topic: str, taken: Taken) -> str:
    """Return the SQL condition for the rows of a topic to delete."""
    if isinstance(taken, Outdated):
        places = taken.condition("_source.partition", "_source.offset")
    elif isinstance(taken, Positions):
        offsets = ((p, ", ".join(map(str, bitmap))) for p, bitmap in sorted(taken.bitmaps().items()))
        places = " OR ".join(
            f"(_source.partition = {p} AND _source.offset IN ({each}))" for p, each in offsets
        )
    else:
        places = " OR ".join(
            f"(_source.partition = {partition} AND _source.offset >= {offset})"
            for partition, offset in sorted(taken.items())
        )
    # Safe to quote: topic names consist of letters, digits, dots, dashes and underscores.
    return f"_source.topic = '{topic}' AND ({places})"


def sightings(rows: DataFrame) -> Sightings:
    """Collect the positions of a data frame with the columns partition and offset; rows with a null have none."""
    doing("reading the rows of the table")
    found = Sightings()
    for packed in rows.mapInArrow(_packed, _PACKED_DDL).collect():
        found.add_packed(packed["partition"], packed["seen"], packed["again"])
    return found


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Collect the positions of one task."""
    found = Sightings()
    for batch in batches:
        found.add_arrays(*batch.columns)
    for row in found.packed():
        yield pa.RecordBatch.from_pylist([dict(zip(_PACKED.names, row, strict=True))], _PACKED)
