"""The fate of every offset: a comparison of a ledger with topics and outputs. Pure values and arithmetic; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.stream.ledger import ClosedRange, Ledger, Vector, span
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer


@dataclass(frozen=True, slots=True)
class Upserts:
    """Source records of a table with upserts that are in no output, by what the row of their primary key shows.

    `replaced` records need not be in an output. The row of their primary key has an equal or newer position, or a
    tombstone has deleted it. For `unclear` records this is unknown. `rowless` records have no row, and the source no
    longer holds a tombstone for them. Records in none of the three sets have an older row.
    """

    replaced: Positions = field(default_factory=Positions)
    rowless: Positions = field(default_factory=Positions)
    unclear: Positions = field(default_factory=Positions)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The result of a reconciliation. Every offset of `ledger` has one fate, apart from the records in the sets.

    `unaccounted` are source records that are in no output and were not replaced by a newer row of their key. They
    include dropped records with unknown positions. `beyond` are written records that no ledger covers, or that the
    source never had. Quarantined records beyond the ledger are not a fault: an unpublished batch has settled them, and
    the next instance will omit them. `absent` offsets have no record. `in_no_output` is the ledger's count of
    dropped, superseded or deleted records.

    `lost` is the minimum number of records that are in no output and should be. `surplus` counts records that are in
    an output and should not be, by the ledger's counts. For `unverifiable` offsets neither can be proven.
    `past_retention` and `compacted` count offsets that the source has deleted or compacted since they were judged;
    `forgotten` counts records that the quarantine topic has deleted. They may be verifiable or not. `given_up`
    offsets, which an adoption found in no output and a person gave up, are never verifiable.

    `closed` counts the quarantined records that were discarded or sent to the source topic.
    `not_kept` are refused records without a row in the quarantine table, and `kept_twice` those with several.
    """

    ledger: Ledger
    unaccounted: Positions
    written_twice: Positions
    quarantined_twice: Positions
    in_both: Positions
    beyond: Positions
    written: int
    quarantined: int
    in_no_output: int
    absent: int
    lost: int = 0
    surplus: int = 0
    unverifiable: int = 0
    past_retention: int = 0
    compacted: int = 0
    forgotten: int = 0
    given_up: int = 0
    closed: int = 0
    not_kept: Positions = field(default_factory=Positions)
    kept_twice: Positions = field(default_factory=Positions)

    @property
    def twice(self) -> int:
        """Return the number of records that are in more than one place, or twice in one."""
        return len(self.written_twice | self.quarantined_twice | self.in_both)

    @property
    def answer(self) -> ReconciliationAnswer:
        """Return the answer: `lost` for a found fault, even if other offsets cannot be checked."""
        if self.lost or self.surplus or self.twice or self.beyond or self.not_kept or self.kept_twice:
            return ReconciliationAnswer.LOST
        return ReconciliationAnswer.UNPROVEN if self.unverifiable else ReconciliationAnswer.HOLDS

    @property
    def holds(self) -> bool:
        """Return whether it is proven that no record is lost, in an output twice, or beyond the ledger."""
        return self.answer is ReconciliationAnswer.HOLDS


@dataclass(frozen=True, slots=True)
class Written:
    """The positions that were read from the table or the accepted topic.

    They are from the same snapshot as the ledger. A store without snapshots gives later positions, and `later` is a
    ledger that was read after them. `upserts` is for tables with upserts; without it, the keys of such a table are
    unknown. `dropped` are the records that the contract dropped, where their positions are proven. A range whose
    number of dropped positions equals the ledger's count is complete.
    """

    rows: Sightings
    later: Ledger | None = None
    upserts: Upserts | None = None
    dropped: Positions = field(default_factory=Positions)


@dataclass(frozen=True, slots=True)
class Retained:
    """What the topics still hold: the first offsets of the source, and which topics are compacted or complete.

    With `is_written_ahead`, accepted records are written before the ledger is updated. Records beyond the ledger are
    then not a fault.

    Read this after the topics, so that records deleted in the meantime count as past retention.
    """

    source: Vector = field(default_factory=dict)
    is_source_compacted: bool = False
    is_quarantine_whole: bool = True
    is_written_ahead: bool = False
    is_written_whole: bool = True
    unknown_replays: int = 0
    """Replayed records whose positions are lost: they are written, and still in the quarantine topic."""
    unknown_closed: int = 0
    """Discarded and resent records whose positions are lost: it is unknown which refusals are closed."""


def reconcile(
    ledger: Ledger,
    source: Positions,
    written: Written,
    quarantined: Sightings,
    retained: Retained | None = None,
) -> Reconciliation:
    """Compare the source topic with the outputs, also while the stream runs.

    Records of the source outside the ledger's range are ignored. Without `retained`, the topics hold the whole range.

    The result is exact if `source` and `quarantined` were read after `ledger`. A row that only the later ledger of
    `written` covers is newer, and is checked only for duplicates.
    """
    held = retained or Retained()
    begin = {p: max(first, held.source.get(p, 0)) for p, first in ledger.begin.items()}
    covered = source.within(begin, ledger.end)
    upserts = written.upserts
    in_table, in_quarantine = written.rows.seen, quarantined.seen
    in_both = in_table & in_quarantine
    hidden_replays = len(in_both) if len(in_both) <= held.unknown_replays else 0
    if hidden_replays:
        in_quarantine, in_both = in_quarantine - in_both, Positions()
    dropped = written.dropped.within(ledger.begin, ledger.end)
    totals = ledger.totals
    absent = sum(max(0, ledger.end[p] - first) for p, first in begin.items()) - len(covered)
    # Offsets that are absent now but were not when they were judged had a record, which compaction has deleted.
    compacted = max(0, absent - totals.absent) if held.is_source_compacted else 0
    unaccounted = covered - in_table - in_quarantine - dropped
    if upserts is not None and _has_replaced_rows(ledger):
        unaccounted -= upserts.replaced
    looked = _Looked(held, covered, in_table, in_quarantine, dropped, unaccounted)
    found = [looked.compared(each) for each in ledger.closed_ranges()]
    sums = _add_up(found, ledger, looked, upserts)
    return Reconciliation(
        ledger=ledger,
        unaccounted=unaccounted,
        written_twice=written.rows.again,
        quarantined_twice=quarantined.again,
        in_both=in_both,
        beyond=_unexplained(in_table - covered, ledger, begin, held, written.later),
        written=len(in_table & covered),
        quarantined=len(in_quarantine & covered),
        in_no_output=totals.dropped + totals.superseded + totals.deleted,
        absent=absent - compacted,
        lost=sums.lost,
        surplus=sums.surplus,
        unverifiable=max(sums.unverifiable, totals.unproven, hidden_replays, held.unknown_closed),
        past_retention=span(ledger.begin, {p: min(begin[p], ledger.end[p]) for p in ledger.begin}),
        compacted=compacted,
        forgotten=sum(each.forgotten for each in found),
        given_up=totals.unproven,
    )


@dataclass(frozen=True, slots=True)
class _Sums:
    """The counts of faults in a `Reconciliation`."""

    lost: int = 0
    surplus: int = 0
    unverifiable: int = 0


@dataclass(frozen=True, slots=True)
class _Compared:
    """The records found in one closed range, compared with the ledger's counts for it.

    `dropped` counts dropped records with unknown positions, `dropped_and_there` dropped records that are in an output.
    `missing_rows` and `missing_quarantined` are negative when more was found than was counted. Topics may have deleted
    up to `expired` of the missing rows and `forgotten` of the missing refusals. `given_up` offsets are in no output;
    it is unknown whether they had a record. `hidden` offsets had a record that is in no output and no longer in the
    source, or may be given up.
    """

    dropped: int
    dropped_and_there: int
    unaccounted: Positions
    missing_rows: int
    missing_quarantined: int
    expired: int
    forgotten: int
    given_up: int
    hidden: int

    @property
    def surplus(self) -> int:
        """Return the number of records that an output should not hold: beyond the counts, or dropped."""
        extra = max(0, -self.missing_rows) + max(0, -self.missing_quarantined)
        return max(extra, self.dropped_and_there)


@dataclass(frozen=True, slots=True)
class _Looked:
    """The positions that were read, to compare with the counts of the ledger."""

    held: Retained
    covered: Positions
    table: Positions
    quarantine: Positions
    dropped: Positions
    unaccounted: Positions

    def compared(self, counted: ClosedRange) -> _Compared:
        """Compare the offsets of one range."""
        begin, end, counts = counted.begin, counted.end, counted.counts
        table, quarantine = self.table.within(begin, end), self.quarantine.within(begin, end)
        missing_rows, missing_quarantined = counts.accepted - len(table), counts.quarantined - len(quarantine)
        records = counts.accepted + counts.quarantined + counts.dropped
        dropped = self.dropped.within(begin, end)
        seen = len(self.covered.within(begin, end) | table | quarantine | dropped)
        return _Compared(
            dropped=max(0, counts.dropped - len(dropped)),
            dropped_and_there=len(dropped & (table | quarantine)),
            unaccounted=self.unaccounted.within(begin, end),
            missing_rows=missing_rows,
            missing_quarantined=missing_quarantined,
            expired=0 if self.held.is_written_whole else max(0, missing_rows),
            forgotten=0 if self.held.is_quarantine_whole else max(0, missing_quarantined),
            given_up=counted.given_up,
            hidden=max(0, records + counted.given_up - seen),
        )


def _has_replaced_rows(ledger: Ledger) -> bool:
    """Return whether rows were superseded or deleted; if not, each accepted record has its own row."""
    return bool(ledger.totals.superseded or ledger.totals.deleted)


def _add_up(found: Sequence[_Compared], ledger: Ledger, looked: _Looked, upserts: Upserts | None) -> _Sums:
    """Add up the ranges: by rows for a table to which rows are appended, by keys for one with upserts."""
    if not _has_replaced_rows(ledger):
        return _of_rows(found)
    totals = ledger.totals
    missing_rows = totals.written - len(looked.table.within(ledger.begin, ledger.end))
    if upserts is None:
        without_trace = totals.dropped - len(looked.dropped) + totals.superseded + totals.deleted
        return _of_unknown_keys(found, missing_rows, without_trace)
    # With several partitions or compaction, the source may no longer hold a tombstone that deleted a row.
    sees_deletions = len(ledger.end) == 1 and not looked.held.is_source_compacted
    return _of_keys(found, missing_rows, upserts, sees_deletions=sees_deletions)


def _of_rows(found: Iterable[_Compared]) -> _Sums:
    """Add up a table or topic to which rows are appended: a range has as many rows as accepted records.

    A missing row is lost if the source still has its record. Source records in no output are not lost where they may
    have been dropped, or deleted from an output topic by retention. Other missing rows are unverifiable: a user may
    have deleted them.
    """
    lost = surplus = unverifiable = 0
    for each in found:
        shown = max(0, len(each.unaccounted) - each.dropped - each.expired - each.forgotten - each.given_up)
        lost += shown
        missing = max(0, each.missing_rows) + max(0, each.missing_quarantined)
        unverifiable += max(0, missing - shown)
        surplus += each.surplus
    return _Sums(lost, surplus, unverifiable)


def _of_keys(
    found: Sequence[_Compared], missing_rows: int, upserts: Upserts, *, sees_deletions: bool
) -> _Sums:
    """Add up a table with upserts, where the key of each record that is in no output was looked up.

    `missing_rows` is the number for all ranges together, because the ledger does not count the rows of one range. A
    record without a row is certainly lost with `sees_deletions`, or if no offset is hidden. Otherwise at most
    `missing_rows` of them are lost.
    """
    lost = rowless = unsettled = 0
    for each in found:
        doubtful = len(each.unaccounted & upserts.unclear)
        without_row = len(each.unaccounted & upserts.rowless)
        stale = len(each.unaccounted) - doubtful - without_row
        missing_quarantined = max(0, each.missing_quarantined)
        slack = each.dropped + each.forgotten + each.given_up
        shown = max(0, stale - slack)
        shown_rowless = max(0, stale + without_row - slack) - shown
        unsure = stale + without_row - shown - shown_rowless
        if not each.hidden and not each.forgotten and not each.given_up and shown < missing_quarantined:
            # The missing refusals are among the records with unclear keys, or have a row of their key.
            doubtful = max(0, doubtful - (missing_quarantined - shown))
            shown = missing_quarantined
        lost += shown
        rowless += shown_rowless
        unsettled += max(unsure + doubtful + each.hidden, missing_quarantined - shown)
    if not sees_deletions and any(each.hidden for each in found):
        missed = min(rowless, max(0, missing_rows))
        unsettled += rowless - missed
        rowless = missed
    lost += rowless
    surplus = sum(each.surplus for each in found) or max(0, -missing_rows)
    return _Sums(lost, surplus, max(unsettled, missing_rows - lost))


def _of_unknown_keys(found: Sequence[_Compared], missing_rows: int, without_trace: int) -> _Sums:
    """Add up a table with upserts without looking up keys: only the total counts can be compared.

    `without_trace` records were superseded or deleted, or dropped at unknown positions.
    """
    hidden = sum(each.hidden for each in found)
    forgotten = sum(each.forgotten + each.given_up for each in found)
    unaccounted = sum(len(each.unaccounted) for each in found)
    lost = max(0, unaccounted - without_trace - forgotten)
    surplus = sum(each.surplus for each in found) or max(0, -missing_rows)
    if not hidden:
        lost = max(lost, missing_rows)
    return _Sums(lost, surplus, hidden + max(0, unaccounted - lost))


def _unexplained(
    strays: Positions, ledger: Ledger, begin: Vector, held: Retained, later: Ledger | None
) -> Positions:
    """Return the `strays` that nothing explains: written records that are not among the source's covered records.

    `begin` maps each partition to the first offset that the source still holds.
    """
    past = {p: min(begin[p], end) for p, end in ledger.end.items()}
    strays -= strays.within(ledger.begin, past)
    if held.is_source_compacted:
        strays -= strays.within(begin, ledger.end)
    if held.is_written_ahead:
        strays -= strays.since(ledger.end)
    if later is not None:
        # These belong to a batch that was published after `ledger` was read.
        strays -= strays.within({**later.begin, **ledger.end}, later.end)
    return strays


RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("deletes", pa.bool_()),
    ]
)
"""Schema of records or rows by primary key. `key` has the format of `key_bytes`, and is null if unknown."""

_ROWS_AT_A_TIME = 1_000_000
_NO_ROW = -1
_Int64s = npt.NDArray[np.int64]


def key_bytes(columns: list[pa.Array]) -> pa.Array:
    """Return the columns of a primary key as one binary column: equal for equal keys, null if any is null."""
    escaped = [
        pc.replace_substring(pc.replace_substring(each.cast(pa.string()), "\\", "\\\\"), "|", "\\|")
        for each in columns
    ]
    return pc.binary_join_element_wise(*escaped, "|").cast(pa.binary())


def can_compare(fields: Iterable[pa.Field]) -> bool:
    """Return whether equal keys of these columns have equal texts; a float widened to a double changes its text."""
    return not any(pa.types.is_floating(field.type) or pa.types.is_binary(field.type) for field in fields)


def find_replaced(records: pa.Table, rows: Iterable[pa.RecordBatch]) -> Upserts:
    """Compare records that are in no output with the rows of their keys; both have the schema RECORDS.

    Event order decides which is newer (docs/explanation/exactly-once.md): the higher offset within a partition; between
    partitions the later timestamp, then the higher partition. This order is not transitive where timestamps contradict
    offsets. So an older row does not prove a loss for a key whose records come from several partitions.

    Of the records of one key and partition, only the newest is checked: it replaced the older ones. Its effect is in
    the table if the row is not older, or if it is a tombstone and there is no row.
    """
    is_known = records.column("key").is_valid()
    known = records.filter(is_known)
    unclear = positions_of_records(records.filter(pc.invert(is_known)))
    if not known.num_rows:
        return Upserts(unclear=unclear)
    keys = pc.unique(known.column("key"))
    row = _Rows.of(keys, rows)
    key = _int64(pc.index_in(known.column("key"), value_set=keys))
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
        replaced=positions_of_records(known.filter(pa.array(is_replaced))),
        rowless=positions_of_records(known.filter(pa.array(is_rowless))),
        unclear=unclear | positions_of_records(known.filter(pa.array(is_unclear))),
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The source position of the row of each key, by the key's index; partition -1 means no row."""

    partition: _Int64s
    offset: _Int64s
    timestamp_ms: _Int64s

    @classmethod
    def of(cls, keys: pa.Array, rows: Iterable[pa.RecordBatch]) -> _Rows:
        """Find the rows of `keys` in `rows`, which have the schema RECORDS."""
        found = cls(*(np.full(len(keys), _NO_ROW, np.int64) for _ in range(3)))
        waiting: list[pa.RecordBatch] = []
        # Each lookup builds a hash table of all keys, so rows are collected to need few lookups.
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
        # A row of another writer has no source position, and is left out.
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


def _int64(values: pa.ChunkedArray) -> _Int64s:
    return np.asarray(values).astype(np.int64)


def positions_of_records(records: pa.Table) -> Positions:
    """Return the positions of RECORDS."""
    found = Sightings()
    for batch in records.to_batches():
        found.add_arrays(batch.column("partition"), batch.column("offset"))
    return found.seen
