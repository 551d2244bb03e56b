"""Reconciliation of tables with upserts: the fate of records without a row, by the row of their primary key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import ledgers
from tests.reconciling import reconcile
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, Position
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.reconcile import (
    RECORDS,
    Reconciliation,
    Retained,
    Upserts,
    can_compare,
    find_replaced,
    key_bytes,
)
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer

UNHURRIED = settings(deadline=None)  # Arrow loads its functions at the first call


def upserted(*, partitions: int = 1, **totals: int) -> Ledger:
    """Return a ledger with these totals. All records are in partition 0; other partitions are empty."""
    end = {0: sum(totals.values())} | dict.fromkeys(range(1, partitions), 0)
    changes = {"begin": dict.fromkeys(end, 0), "end": end, "totals": BatchTotals(**totals)}
    return ledgers.LEDGER.model_copy(update=changes)


def at(*offsets: int) -> list[Position]:
    """Return positions of partition 0."""
    return [(0, offset) for offset in offsets]


def by_key(
    *, replaced: Sequence[int] = (), rowless: Sequence[int] = (), unclear: Sequence[int] = ()
) -> Upserts:
    """Return what the rows of the keys show, by the offsets of the records."""
    return Upserts(*(Positions(at(*offsets)) for offsets in (replaced, rowless, unclear)))


def faults(found: Reconciliation) -> tuple[int, int, int]:
    """Return the lost, surplus and unverifiable records. Check that the answer agrees with them."""
    if found.lost or found.surplus:
        assert found.answer is ReconciliationAnswer.LOST
    else:
        expected = ReconciliationAnswer.UNPROVEN if found.unverifiable else ReconciliationAnswer.HOLDS
        assert found.answer is expected
    return found.lost, found.surplus, found.unverifiable


@pytest.mark.parametrize(
    ("partitions", "retained", "expected"),
    [
        (1, Retained({0: 2}), (1, 0, 1)),
        (2, Retained({0: 2}), (0, 0, 2)),
        (1, Retained({0: 2}, is_source_compacted=True), (0, 0, 2)),
    ],
    ids=["one partition", "two partitions", "compacted"],
)
def test_a_record_without_a_row_is_lost_unless_the_source_may_have_deleted_a_tombstone(
    partitions: int, retained: Retained, expected: tuple[int, int, int]
) -> None:
    """The source has deleted offsets 0 and 1. Offset 1 is in no output, and the key of offset 2 has no row.

    The table has as many rows as the ledger counts, so the number of rows does not show a loss.
    """
    ledger = upserted(partitions=partitions, written=3, superseded=2)
    found = reconcile(ledger, at(2, 3, 4), at(0, 3, 4), [], retained, upserts=by_key(rowless=[2]))
    assert faults(found) == expected


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_record_without_a_row_is_lost_where_the_source_holds_every_record(partitions: int) -> None:
    ledger = upserted(partitions=partitions, written=3, superseded=2)
    upserts = by_key(replaced=[1], rowless=[2])
    found = reconcile(ledger, at(0, 1, 2, 3, 4), at(0, 3, 4), [], upserts=upserts)
    assert faults(found) == (1, 0, 0)


def test_a_lost_row_is_not_unverifiable_as_well() -> None:
    ledger = upserted(written=3, superseded=1)
    found = reconcile(ledger, at(0, 1, 2, 3), at(1, 2), [], upserts=by_key(replaced=[0], rowless=[3]))
    assert faults(found) == (1, 0, 0)


def test_of_records_without_a_row_as_many_are_lost_as_rows_are_missing() -> None:
    """Offset 0 may have been the tombstone of one of the two keys without a row."""
    ledger = upserted(partitions=2, written=3, superseded=2)
    found = reconcile(ledger, at(1, 2, 3, 4), at(3, 4), [], Retained({0: 1}), upserts=by_key(rowless=[1, 2]))
    assert faults(found) == (1, 0, 2)


def test_a_record_with_an_older_row_is_lost_and_one_without_a_row_may_have_been_deleted() -> None:
    """Offset 1 may have been the tombstone of offset 3. The key of offset 2 has the row of offset 0."""
    ledger = upserted(partitions=2, written=3, superseded=3)
    found = reconcile(ledger, at(2, 3, 4, 5), at(0, 4, 5), [], Retained({0: 2}), upserts=by_key(rowless=[3]))
    assert faults(found) == (1, 0, 2)


def test_offsets_that_were_given_up_are_not_lost() -> None:
    """The source still holds them, and the rows of their keys are older."""
    ledger = upserted(written=3, superseded=1, unproven=2)
    found = reconcile(ledger, at(*range(6)), at(1, 2, 3), [], upserts=by_key(replaced=[0]))
    assert faults(found) == (0, 0, 2)


@pytest.mark.parametrize("upserts", [by_key(rowless=[1]), None], ids=["keys known", "keys unknown"])
def test_offsets_that_were_given_up_do_not_stand_for_deleted_ones(upserts: Upserts | None) -> None:
    """Offsets 5 and 6 were given up. Offset 0 is no longer in the source, and may have been a tombstone."""
    ledger = upserted(partitions=2, written=3, superseded=2, unproven=2)
    found = reconcile(ledger, at(*range(1, 7)), at(2, 3, 4), [], Retained({0: 1}), upserts=upserts)
    assert faults(found) == (0, 0, 4)


@pytest.mark.parametrize(
    ("rows", "upserts", "expected"),
    [
        (at(1, 2, 3), by_key(replaced=[0]), (0, 0, 1)),
        (at(1, 2, 3), by_key(replaced=[0], rowless=[4]), (0, 0, 1)),
        (at(1, 2), by_key(replaced=[0], rowless=[3]), (1, 0, 1)),
    ],
    ids=["older row", "no row", "one more without a row"],
)
def test_as_many_records_as_were_dropped_at_unknown_offsets_are_not_lost(
    rows: list[Position], upserts: Upserts, expected: tuple[int, int, int]
) -> None:
    ledger = upserted(written=3, superseded=1, dropped=1)
    assert faults(reconcile(ledger, at(0, 1, 2, 3, 4), rows, [], upserts=upserts)) == expected


def test_a_missing_refusal_is_lost_though_its_key_cannot_be_read() -> None:
    ledger = upserted(written=3, superseded=1, quarantined=1)
    upserts = by_key(replaced=[0], unclear=[4])
    found = reconcile(ledger, at(0, 1, 2, 3, 4), at(1, 2, 3), [], upserts=upserts)
    assert faults(found) == (1, 0, 0)


def test_a_missing_refusal_is_unverifiable_where_the_source_has_deleted_a_record() -> None:
    """Either offset 0 or offset 4 was the refused record, and the other one was superseded."""
    ledger = upserted(written=3, superseded=1, quarantined=1)
    found = reconcile(ledger, at(1, 2, 3, 4), at(1, 2, 3), [], Retained({0: 1}), upserts=by_key(unclear=[4]))
    assert faults(found) == (0, 0, 2)


def test_missing_refusals_are_at_most_the_records_that_are_in_no_output() -> None:
    """Offset 4 has an older row. One of offsets 5 and 6 was superseded, the other one was refused."""
    ledger = upserted(written=3, superseded=2, quarantined=2)
    upserts = by_key(replaced=[0], unclear=[5, 6])
    found = reconcile(ledger, at(*range(7)), at(1, 2, 3), [], upserts=upserts)
    assert faults(found) == (2, 0, 1)


@pytest.mark.parametrize(
    ("upserts", "unverifiable"), [(by_key(replaced=[0]), 0), (None, 1)], ids=["keys known", "keys unknown"]
)
def test_a_refusal_at_an_offset_without_a_record_is_surplus(
    upserts: Upserts | None, unverifiable: int
) -> None:
    ledger = upserted(written=3, superseded=1, absent=1)
    found = reconcile(ledger, at(0, 1, 2, 3), at(1, 2, 3), at(4), upserts=upserts)
    assert faults(found) == (0, 1, unverifiable)


@pytest.mark.parametrize("upserts", [by_key(), None], ids=["keys known", "keys unknown"])
def test_a_row_that_should_have_been_replaced_is_surplus(upserts: Upserts | None) -> None:
    ledger = upserted(written=3, superseded=1)
    found = reconcile(ledger, at(0, 1, 2, 3), at(0, 1, 2, 3), [], upserts=upserts)
    assert faults(found) == (0, 1, 0)


def test_without_keys_only_the_counts_show_a_loss() -> None:
    ledger = upserted(written=3, superseded=1)
    source = at(0, 1, 2, 3)
    assert faults(reconcile(ledger, source, at(1, 2, 3), [])) == (0, 0, 1)
    assert faults(reconcile(ledger, source, at(1, 2), [])) == (1, 0, 1)
    # The superseded record is no longer in the source: only its own fate is unknown.
    assert faults(reconcile(ledger, source[1:], at(1, 2, 3), [], Retained({0: 1}))) == (0, 0, 1)


def test_without_keys_a_missing_row_is_lost_only_where_the_source_holds_every_record() -> None:
    """Offset 3 was accepted, and is in the quarantine topic. Offset 0 was superseded."""
    ledger = upserted(written=3, superseded=1)
    assert faults(reconcile(ledger, at(0, 1, 2, 3), at(1, 2), at(3))) == (1, 1, 0)
    # Either offset 0 or offset 1 was superseded, and the other one may have been deleted.
    assert faults(reconcile(ledger, at(1, 2, 3), at(2, 3), [], Retained({0: 1}))) == (0, 0, 2)


def test_without_keys_a_record_that_was_dropped_at_a_known_offset_explains_no_other_one() -> None:
    """One of the offsets 2 and 3 may have been superseded."""
    ledger = upserted(written=3, superseded=1, dropped=1)
    found = reconcile(ledger, at(1, 2, 3, 4), at(1), [], Retained({0: 1}), dropped=at(4))
    assert faults(found) == (1, 0, 2)


def test_without_keys_offsets_that_were_given_up_are_not_lost() -> None:
    ledger = upserted(written=3, superseded=1, unproven=2)
    assert faults(reconcile(ledger, at(*range(6)), at(1, 2, 3), [])) == (0, 0, 3)


@dataclass(frozen=True)
class Keyed:
    """A record or a row, and its primary key. A row of another writer has no offset."""

    key: bytes | None
    partition: int
    offset: int | None
    time: int = 0
    deletes: bool = False

    @property
    def position(self) -> Position:
        assert self.offset is not None
        return self.partition, self.offset

    def is_newer_than(self, other: Keyed) -> bool:
        """Return whether this is newer by event order, or the same record."""
        if self.partition == other.partition:
            return self.position >= other.position
        return (self.time, self.partition) > (other.time, other.partition)


def batch(keyed: Iterable[Keyed]) -> pa.RecordBatch:
    rows = [
        {
            "key": each.key,
            "partition": None if each.offset is None else each.partition,
            "offset": each.offset,
            "timestamp_ms": None if each.offset is None else each.time,
            "deletes": each.deletes,
        }
        for each in keyed
    ]
    return pa.RecordBatch.from_pylist(rows, RECORDS)


def find(records: Iterable[Keyed], *rows: Iterable[Keyed]) -> dict[str, list[Position]]:
    """Return the positions that `find_replaced` finds, by the name of the set."""
    found = find_replaced(pa.Table.from_batches([batch(records)]), map(batch, rows))
    return {name: [*getattr(found, name)] for name in ("replaced", "rowless", "unclear")}


OF_PARTITION_1 = Keyed(b"a", 1, 5, time=50)


@pytest.mark.parametrize(
    ("row", "is_replaced"),
    [
        (Keyed(b"a", 1, 6, time=40), True),
        (Keyed(b"a", 1, 5, time=50), True),
        (Keyed(b"a", 1, 4, time=60), False),
        (Keyed(b"a", 0, 9, time=51), True),
        (Keyed(b"a", 0, 9, time=50), False),
        (Keyed(b"a", 0, 9, time=49), False),
        (Keyed(b"a", 2, 1, time=51), True),
        (Keyed(b"a", 2, 1, time=50), True),
        (Keyed(b"a", 2, 1, time=49), False),
    ],
)
def test_event_order_decides_whether_a_row_replaces_a_record(row: Keyed, *, is_replaced: bool) -> None:
    """Within a partition the offset decides; between partitions the timestamp, then the partition.

    An older row of the same partition proves a loss. An older row of another partition proves nothing.
    """
    found = find([OF_PARTITION_1], [row])
    is_unclear = not is_replaced and row.partition != 1
    expected = [(1, 5)]
    assert found == {
        "replaced": expected if is_replaced else [],
        "rowless": [],
        "unclear": expected if is_unclear else [],
    }


def test_a_tombstone_without_a_row_has_deleted_it_and_another_record_has_no_row() -> None:
    tombstone = Keyed(b"a", 0, 2, deletes=True)
    assert find([tombstone]) == {"replaced": [(0, 2)], "rowless": [], "unclear": []}
    assert find([Keyed(b"a", 0, 2)]) == {"replaced": [], "rowless": [(0, 2)], "unclear": []}
    # The tombstone should have deleted this row.
    assert find([tombstone], [Keyed(b"a", 0, 1)]) == {"replaced": [], "rowless": [], "unclear": []}


def test_of_the_records_of_a_key_and_a_partition_only_the_newest_is_checked() -> None:
    records = [Keyed(b"a", 0, 3), Keyed(b"a", 0, 1), Keyed(b"b", 1, 0), Keyed(b"b", 1, 2)]
    assert find(records) == {"replaced": [(0, 1), (1, 0)], "rowless": [(0, 3), (1, 2)], "unclear": []}


def test_records_of_one_key_in_two_partitions_without_a_row_are_unclear() -> None:
    found = find([Keyed(b"a", 0, 3), Keyed(b"a", 1, 1)])
    assert found == {"replaced": [], "rowless": [], "unclear": [(0, 3), (1, 1)]}


def test_records_without_a_key_are_unclear() -> None:
    found = find([Keyed(None, 0, 3), Keyed(None, 0, 4)], [Keyed(None, 0, 9)])
    assert found == {"replaced": [], "rowless": [], "unclear": [(0, 3), (0, 4)]}


def test_a_row_of_another_writer_replaces_nothing() -> None:
    found = find([Keyed(b"a", 0, 3)], [Keyed(b"a", 0, None)])
    assert found == {"replaced": [], "rowless": [(0, 3)], "unclear": []}


def test_rows_are_found_among_more_than_a_million() -> None:
    """They are looked up in groups of a million: the first row is in a full group, the last one after it."""
    many = 1_000_000
    strangers = pa.RecordBatch.from_arrays(
        [
            pa.array(np.arange(many)).cast(pa.string()).cast(pa.binary()),
            pa.array(np.zeros(many, np.int32)),
            pa.array(np.arange(many)),
            pa.array(np.zeros(many, np.int64)),
            pa.repeat(pa.scalar(value=False), many),
        ],
        schema=RECORDS,
    )
    records = pa.Table.from_batches([batch([Keyed(b"a", 0, 1), Keyed(b"b", 0, 2), Keyed(b"c", 0, 3)])])
    rows = [batch([Keyed(b"a", 0, many)]), strangers, batch([Keyed(b"b", 0, many + 1)])]
    found = find_replaced(records, rows)
    assert (found.replaced, found.rowless) == ({(0, 1), (0, 2)}, {(0, 3)})


def one_by_one(records: list[Keyed], rows: list[Keyed]) -> dict[str, list[Position]]:
    """Return what the rule of `find_replaced` says for each record by itself."""
    found: dict[str, list[Position]] = {"replaced": [], "rowless": [], "unclear": []}
    for record in sorted(records, key=lambda each: each.position):
        if record.key is None:
            found["unclear"].append(record.position)
            continue
        of_key = [each for each in records if each.key == record.key]
        row = next((each for each in rows if each.key == record.key and each.offset is not None), None)
        newest = max(each.position for each in of_key if each.partition == record.partition)
        partitions = {each.partition for each in of_key} | ({row.partition} if row else set())
        has_effect = record.deletes if row is None else row.is_newer_than(record)
        if record.position < newest or has_effect:
            found["replaced"].append(record.position)
        elif len(partitions) > 1:
            found["unclear"].append(record.position)
        elif row is None:
            found["rowless"].append(record.position)
    return found


partitions, offsets, times = st.integers(0, 2), st.integers(0, 5), st.integers(0, 2)
keys = st.sampled_from([b"a", b"b", b"c"])


@UNHURRIED
@given(
    st.lists(
        st.builds(Keyed, keys | st.none(), partitions, offsets, times, st.booleans()),
        max_size=8,
        unique_by=lambda each: each.position,
    ),
    st.lists(
        st.builds(Keyed, keys, partitions, offsets | st.none(), times),
        max_size=4,
        unique_by=lambda row: row.key,
    ),
    st.integers(0, 4),
)
def test_replaced_records_are_found_as_one_by_one(records: list[Keyed], rows: list[Keyed], cut: int) -> None:
    assert find(records, rows[:cut], rows[cut:]) == one_by_one(records, rows)


texts = st.lists(st.text(alphabet="a|\\", max_size=3), min_size=2, max_size=2)


@UNHURRIED
@given(texts, texts)
def test_keys_of_two_columns_are_equal_only_if_both_columns_are(one: list[str], other: list[str]) -> None:
    columns = [pa.array(list(column)) for column in zip(one, other, strict=True)]
    first, second = key_bytes(columns).to_pylist()
    assert (first == second) is (one == other)


def test_a_key_with_a_null_is_null() -> None:
    found = key_bytes([pa.array([1, None, 3]), pa.array(["a", "b", None])])
    assert found.type == pa.binary()
    assert found.is_valid().to_pylist() == [True, False, False]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([pa.string(), pa.int64()], True),
        ([pa.decimal128(9, 2), pa.date32()], True),
        ([pa.float64()], False),
        ([pa.float32()], False),
        ([pa.binary()], False),
        ([pa.string(), pa.float64()], False),
        ([pa.binary(), pa.string()], False),
    ],
)
def test_keys_with_floating_point_or_binary_columns_cannot_be_compared(
    types: list[pa.DataType], *, expected: bool
) -> None:
    assert can_compare([pa.field("k", each) for each in types]) is expected
