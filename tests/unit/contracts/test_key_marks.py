"""Marks of deleted keys: which are still known, and which records they hold back."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest

from tidegate.contracts.stream import key_marks
from tidegate.contracts.stream.key_marks import (
    KeyMarks,
    KnownMarks,
    MarksRecord,
    chained_marks,
    key_digests,
)
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, MarkedKeys, Vector, with_marks
from tidegate.contracts.stream.positions import Positions, digest_of

BEGUN = Ledger(
    name="s@iceberg:1",
    stream="s",
    topic="t",
    topic_id="id",
    epoch=1,
    n=1,
    begin={0: 0, 1: 0},
    end={0: 0, 1: 0},
    scan_from={},
    slots=1,
)
FEW = 37 * 2 * 4 // 3 + 1
"""Room for two marks."""


def marks(*places: tuple[object, int, int, int], deletes: bool = True) -> KeyMarks:
    """Return marks of keys at a partition, offset and time in milliseconds."""
    keys, partitions, offsets, times = zip(*places, strict=True)
    rows = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([1000 * each for each in times], pa.timestamp("us", "UTC")),
            "value": pa.array([None if deletes else b"{}"] * len(keys), pa.binary()),
        }
    )
    return KeyMarks.of([pa.array(keys)], rows)


def published(
    held: Ledger, end: Vector, added: KeyMarks, most_bytes: int = 10_000
) -> tuple[Ledger, list[MarksRecord]]:
    """Return the ledger after a batch with marks, and their records."""
    records = list(chained_marks(held, end, added, most_bytes))
    found = with_marks(held, end, digest_of(records[-1].text))
    return held.model_copy(update={"end": end, "marks": found}), records


def read(ledger: Ledger, records: Iterable[MarksRecord], most: int = 100) -> KnownMarks:
    return KnownMarks.read(ledger, (each.text for each in records), most)


def test_a_newer_delete_of_the_key_holds_a_record_back() -> None:
    ledger, records = published(BEGUN, {0: 9, 1: 9}, marks(("a", 0, 5, 50), ("b", 1, 2, 20)))
    known = read(ledger, records)
    assert known.since == {}
    places = (
        ("a", 0, 4, 99),
        ("a", 0, 5, 50),
        ("a", 0, 6, 1),
        ("a", 1, 1, 49),
        ("a", 1, 2, 51),
        ("c", 0, 1, 1),
    )
    assert [*known.deleted_since(marks(*places, deletes=False))] == [(0, 4), (1, 1)]


def test_of_two_partitions_at_one_time_the_higher_one_is_newer() -> None:
    ledger, records = published(BEGUN, {0: 9, 1: 9}, marks(("a", 0, 5, 50), ("b", 1, 2, 20)))
    places = (("a", 1, 1, 50), ("b", 0, 9, 20))
    assert [*read(ledger, records).deleted_since(marks(*places, deletes=False))] == [(0, 9)]


def test_records_that_a_replay_wrote_hold_nothing_back() -> None:
    ledger, records = published(BEGUN, {0: 9, 1: 9}, marks(("a", 0, 5, 50), deletes=False))
    assert not read(ledger, records).deleted_since(marks(("a", 0, 4, 1), deletes=False))


def test_what_retention_has_deleted_is_known_to_be_unknown() -> None:
    first, old = published(BEGUN, {0: 10, 1: 0}, marks(("a", 0, 5, 1)))
    ledger, new = published(first, {0: 20, 1: 0}, marks(("b", 0, 15, 1)))
    assert read(ledger, [*old, *new]).since == {}
    assert with_marks(ledger, {0: 30, 1: 0}, "") == ledger.marks, "a batch without deletes adds no record"
    assert read(ledger, new).since == {0: 10, 1: 0}
    assert read(ledger, []).since == {0: 20, 1: 0}


def test_a_part_of_the_marks_of_a_batch_says_nothing_about_the_batch() -> None:
    places = [("a", 0, offset, 1) for offset in range(5)]
    ledger, records = published(BEGUN, {0: 10, 1: 0}, marks(*places), FEW)
    assert len(records) == 3
    assert read(ledger, records).since == {}
    assert read(ledger, records[1:]).since == {0: 10, 1: 0}


@pytest.mark.parametrize(("most_bytes", "held"), [(1, 1), (148, 3)], ids=["one mark is held", "filled"])
def test_a_record_of_marks_has_so_many_bytes_at_most(most_bytes: int, held: int) -> None:
    places = [("a", 0, offset, 1) for offset in range(5)]
    records = [*chained_marks(BEGUN, {0: 10, 1: 0}, marks(*places), most_bytes)]
    assert [len(each.unpacked()) for each in records][:-1] == [held] * (len(records) - 1)
    assert sum(len(each.unpacked()) for each in records) == 5
    assert held == 1 or max(len(each.marks) for each in records) == most_bytes


def test_marks_of_many_batches_are_held_together() -> None:
    ledger, records = published(BEGUN, {0: 9, 1: 9}, marks(("a", 0, 5, 50)))
    known = read(ledger, records)
    for offset in range(10, 400):
        assert known.add(marks((offset, 0, offset, 1)))
    assert len(known.marks) < 300
    assert sum(map(len, known.marks)) == 391
    assert [*known.deleted_since(marks((11, 0, 9, 1), deletes=False))] == [(0, 9)]


def test_only_the_newest_marks_are_held() -> None:
    first, old = published(BEGUN, {0: 10, 1: 0}, marks(("a", 0, 5, 1), ("c", 0, 6, 1)))
    ledger, new = published(first, {0: 20, 1: 0}, marks(("b", 0, 15, 1)))
    known = read(ledger, [*old, *new], 2)
    assert known.since == {0: 10, 1: 0}
    assert sum(map(len, known.marks)) == 1
    known = read(ledger, [*old, *new], 3)
    assert (known.since, [*map(len, known.marks)]) == ({}, [3])
    last, newest = published(ledger, {0: 30, 1: 0}, marks(("d", 0, 25, 1)))
    assert [*map(len, read(last, [*old, *new, *newest], 2).marks)] == [2]
    assert read(first, old, 1).since == {}, "one record is held, however many marks it has"


def test_a_job_tells_when_it_holds_too_many_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_marks, "MOST_MARKS", 2)
    known = KnownMarks({})
    assert [known.add(marks((offset, 0, offset, 1))) for offset in range(5)] == [True] * 4 + [False]


def test_records_that_no_ledger_names_are_left_out() -> None:
    ledger, records = published(BEGUN, {0: 9, 1: 9}, marks(("a", 0, 5, 50)))
    _, unpublished = published(BEGUN, {0: 9, 1: 9}, marks(("a", 0, 8, 50)))
    other = MarksRecord(ledger="another", after="", begin={}, marks="")
    texts = [b"no record", other.text, *(each.text for each in [*unpublished, *records])]
    known = KnownMarks.read(ledger, texts)
    assert [each.entries["offset"].tolist() for each in known.marks] == [[5]]
    another = BEGUN.model_copy(update={"name": "another"})
    (foreign,) = chained_marks(another, {0: 9}, marks(*[("a", 0, 1, 1)] * 5), 10_000)
    assert read(ledger, [*records, foreign], 2).since == {}


@pytest.mark.parametrize(
    ("deleted", "since"), [(0, {}), (3, {0: 7, 1: 7})], ids=["nothing deleted", "deleted without marks"]
)
def test_a_ledger_of_an_earlier_release_knows_its_deletes_from_now_on(deleted: int, since: Vector) -> None:
    totals = BatchTotals(written=14 - deleted, deleted=deleted)
    earlier = BEGUN.model_copy(update={"end": {0: 7, 1: 7}, "totals": totals})
    assert read(earlier, []).since == since
    claimed = earlier.claim(1)
    assert claimed.marks == (MarkedKeys(since=since, until=since) if since else None)
    ledger, records = published(claimed, {0: 9, 1: 9}, marks(("a", 0, 8, 1)))
    assert read(ledger, records).since == since
    assert ledger.claim(1).marks == ledger.marks


def test_the_marks_of_some_positions_are_records_with_digests() -> None:
    ledger, records = published(BEGUN, {0: 9, 1: 9}, marks((7, 0, 5, 50), (8, 0, 6, 60), deletes=False))
    (found,) = read(ledger, records).records(Positions([(0, 5)])).to_pylist()
    assert (found["offset"], found["timestamp_ms"], found["deletes"]) == (5, 50, False)
    assert len(found["key"]) == 16


def test_a_key_with_a_null_has_no_digest() -> None:
    for values in ([1, None], ["x", None], [b"\xff", None]):
        (found, missing) = key_digests([pa.array(values), pa.array(["a", "b"])]).to_pylist()
        assert (len(found), missing) == (16, None)


def test_times_are_kept_in_milliseconds() -> None:
    rows = {
        "partition": [0],
        "offset": [1],
        "timestamp": pa.array([1999], pa.timestamp("us", "UTC")),
        "value": [b""],
    }
    found = KeyMarks.of([pa.array(["a"])], pa.RecordBatch.from_pydict(rows))
    assert found.entries["timestamp_ms"].tolist() == [1]


def test_bytes_that_are_no_text_have_a_digest_too() -> None:
    found = marks((b"\xff", 0, 1, 0), (b"\xfe", 0, 2, 0))
    assert KeyMarks.unpacked(found.packed()).entries.tolist() == found.entries.tolist()
    assert len({*found.entries["key"].tolist()}) == 2
