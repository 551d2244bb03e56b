"""Source positions of a data frame's rows, gathered where the rows are read: the driver gets bitmaps, and no row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidegate.contracts.stream.positions import Sightings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PACKED_DDL: Final = "partition int, seen binary, again binary"
_PACKED: Final = pa.schema([("partition", pa.int32()), ("seen", pa.binary()), ("again", pa.binary())])


def rows_of(table: DataFrame, topic: str) -> DataFrame:
    """Return partition and offset of the rows that came from this topic; rows of others have another source, or none."""
    return table.where(table["_source.topic"] == topic).select("_source.partition", "_source.offset")


def sightings(rows: DataFrame) -> Sightings:
    """Gather the positions of a frame of two columns, partition and offset. A row in which either is null has none."""
    found = Sightings()
    for packed in rows.mapInArrow(_packed, _PACKED_DDL).collect():
        found.add_packed(packed["partition"], packed["seen"], packed["again"])
    return found


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Gather the positions of one task."""
    found = Sightings()
    for batch in batches:
        found.add_arrays(*batch.columns)
    for row in found.packed():
        yield pa.RecordBatch.from_pylist([dict(zip(_PACKED.names, row, strict=True))], _PACKED)
