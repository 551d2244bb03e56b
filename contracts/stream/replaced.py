"""Which records of a table that is upserted into were replaced: the row of their key is newer. Pure values; no I/O.

Newer is by event order (docs/explanation/exactly-once.md): within a source partition the higher offset, between partitions the later
timestamp, then the higher partition. That order has no end where clocks contradict offsets, so of a key whose records come from
several partitions an older row proves no loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.stream.fates import Upserts
from tidegate.contracts.stream.positions import Positions, Sightings

RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("deletes", pa.bool_()),
    ]
)
"""Records or rows by primary key, as `key_bytes` writes it; `key` is null where it is not known."""

_ROWS_AT_A_TIME = 1_000_000
_NO_ROW = -1
_Int64s = npt.NDArray[np.int64]


def key_bytes(columns: list[pa.Array]) -> pa.Array:
    """Write the columns of a primary key as one binary column, the same bytes for the same key; null where one is null."""
    escaped = [
        pc.replace_substring(pc.replace_substring(each.cast(pa.string()), "\\", "\\\\"), "|", "\\|")
        for each in columns
    ]
    return pc.binary_join_element_wise(*escaped, "|").cast(pa.binary())


def can_compare(fields: Iterable[pa.Field]) -> bool:
    """Return whether keys of these columns have one text each. A float that became a double has another."""
    return not any(pa.types.is_floating(field.type) or pa.types.is_binary(field.type) for field in fields)


def find_replaced(records: pa.Table, rows: Iterable[pa.RecordBatch]) -> Upserts:
    """Compare records that are in no output with the rows of their keys; both as RECORDS.

    Of the records of one key and partition only the newest must have left its mark: the older ones are replaced by it.
    It has when the row is not older, or when it is a tombstone and there is no row.
    """
    is_known = records.column("key").is_valid()
    known = records.filter(is_known)
    unclear = _positions(records.filter(pc.invert(is_known)))
    if not known.num_rows:
        return Upserts(unclear=unclear)
    keys = pc.unique(known.column("key"))
    row = _Rows.of(keys, rows)
    key = _index(known.column("key"), keys)
    partition, offset, time = (_int64(known.column(name)) for name in ("partition", "offset", "timestamp_ms"))
    line = key * (int(partition.max()) + 1) + partition
    _, of_line = np.unique(line, return_inverse=True)
    newest = np.full(int(of_line.max()) + 1, -1, np.int64)
    np.maximum.at(newest, of_line, offset)
    is_older = offset < newest[of_line]
    has_row = row.partition[key] != _NO_ROW
    is_same = row.partition[key] == partition
    is_newer = np.where(
        is_same,
        row.offset[key] >= offset,
        (row.timestamp_ms[key] > time) | ((row.timestamp_ms[key] == time) & (row.partition[key] > partition)),
    )
    deletes = np.asarray(known.column("deletes"))
    is_replaced = is_older | np.where(has_row, is_newer, deletes)
    is_unclear = ~is_replaced & _several_partitions(key, partition, row)
    is_rowless = ~is_replaced & ~is_unclear & ~has_row
    return Upserts(
        replaced=_positions(known.filter(pa.array(is_replaced))),
        rowless=_positions(known.filter(pa.array(is_rowless))),
        unclear=unclear | _positions(known.filter(pa.array(is_unclear))),
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where the row of each key came from, by the key's index; partition -1 where there is no row."""

    partition: _Int64s
    offset: _Int64s
    timestamp_ms: _Int64s

    @classmethod
    def of(cls, keys: pa.Array, rows: Iterable[pa.RecordBatch]) -> _Rows:
        """Find the rows of keys."""
        found = cls(*(np.full(len(keys), _NO_ROW, np.int64) for _ in range(3)))
        waiting: list[pa.RecordBatch] = []
        # Each look makes a table of all keys: few looks for many rows.
        for batch in rows:
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= _ROWS_AT_A_TIME:
                found._add(keys, pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            found._add(keys, pa.Table.from_batches(waiting))
        return found

    def _add(self, keys: pa.Array, rows: pa.Table) -> None:
        indices = pc.index_in(rows.column("key"), value_set=keys, skip_nulls=True)
        # A row that somebody else has written has no source.
        is_wanted = pc.and_(indices.is_valid(), rows.column("offset").is_valid())
        matched, at = rows.filter(is_wanted), _int64(indices.filter(is_wanted))
        for name in ("partition", "offset", "timestamp_ms"):
            getattr(self, name)[at] = _int64(matched.column(name))


def _several_partitions(key: _Int64s, partition: _Int64s, row: _Rows) -> npt.NDArray[np.bool_]:
    """Return for each record whether records of its key, or its row, come from several partitions."""
    lowest = np.where(row.partition == _NO_ROW, np.iinfo(np.int64).max, row.partition)
    highest = row.partition.copy()
    np.minimum.at(lowest, key, partition)
    np.maximum.at(highest, key, partition)
    return np.asarray(lowest[key] != highest[key])


def _index(values: pa.ChunkedArray, among: pa.Array) -> _Int64s:
    return _int64(pc.index_in(values, value_set=among))


def _int64(values: pa.ChunkedArray) -> _Int64s:
    return np.asarray(values).astype(np.int64)


def _positions(records: pa.Table) -> Positions:
    found = Sightings()
    for batch in records.to_batches():
        found.add_arrays(batch.column("partition"), batch.column("offset"))
    return found.seen
