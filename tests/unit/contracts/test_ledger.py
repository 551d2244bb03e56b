"""The ledger's values."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tests import ledgers
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.history import HISTORY_PARTITION, HistoryMark
from tidegate.contracts.stream.ledger import (
    BatchRefusal,
    BatchTotals,
    Ledger,
    PublishedBatch,
    Settled,
    Settlement,
    require_contiguous,
    span,
)
from tidegate.contracts.stream.segments import LEAST_OF_PARTITION, FateCounts, Segment, sums

LEDGER = ledgers.LEDGER.model_copy(update={"scan_from": {"t.quarantine": {0: 4}}, "slots": 2})


def test_the_text_is_canonical_and_reads_back() -> None:
    assert Ledger.parse(LEDGER.text) == LEDGER
    assert Ledger.parse(LEDGER.text).text == LEDGER.text


def test_a_text_of_another_version_stops_the_stream() -> None:
    with pytest.raises(StreamStopped, match="cannot be read by this version"):
        Ledger.parse('{"epoch": 1}')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no ledger", r"text: Invalid JSON.*"),
        ('{"epoch": 1}', r"(\w+: Field required; ){4}\w+: Field required"),
        (json.dumps({**json.loads(LEDGER.text), "x" * 600: 1}), "x{500}"),
    ],
)
def test_what_cannot_be_read_of_a_ledger_is_told_in_few_words(text: str, told: str) -> None:
    with pytest.raises(StreamStopped, match=rf"by this version \({told}\)\. Start the job"):
        Ledger.parse(text)


@pytest.mark.parametrize(("slots", "kept"), [(1, 2), (2, 2), (4, 4)])
def test_a_claim_counts_the_epoch_and_keeps_the_slots_that_may_be_open(slots: int, kept: int) -> None:
    claimed = LEDGER.claim(slots)
    assert (claimed.epoch, claimed.slots) == (4, kept)
    assert claimed.model_copy(update={"epoch": 3, "slots": 2}) == LEDGER


def test_publishing_moves_everything_that_a_batch_changes() -> None:
    totals = BatchTotals(written=3, quarantined=1, dropped=1, absent=2)
    batch = PublishedBatch({0: 10, 2: 0}, {0: 15, 2: 2}, {"t.quarantine": {0: 9}}, totals, "s@1.0.0", 1)
    published = LEDGER.publish(batch)
    assert published.n == 8
    assert published.begin == {0: 0, 1: 5, 2: 0}
    assert published.end == {0: 15, 1: 5, 2: 2}
    assert published.scan_from == {"t.quarantine": {0: 9}}
    assert (published.totals, published.contract, published.slots) == (totals, "s@1.0.0", 1)
    assert totals.offsets == span(batch.start, batch.end) == 7


def test_a_partition_that_is_new_counts_from_zero() -> None:
    assert span({0: 3}, {0: 5, 1: 4}) == 6


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({0: 11, 1: 5}, "leaves a gap: partition 0 starts at 11"),
        ({0: 10, 1: 4}, "overlaps: partition 1 starts at 4"),
        (
            {0: 10, 1: 5, 2: 3},
            "leaves a gap: partition 2 was added since the ledger was written, and starts at 3, not at 0",
        ),
    ],
)
def test_a_batch_must_begin_where_the_ledger_ends(start: dict[int, int], message: str) -> None:
    with pytest.raises(StreamStopped, match=message):
        require_contiguous(LEDGER.end, start)


def test_a_batch_may_begin_a_new_partition_and_leave_one_out() -> None:
    require_contiguous(LEDGER.end, {0: 10, 2: 0})


SETTLED = Settled(
    {
        (0, 11): Settlement("q", 0, 100),
        (0, 20): Settlement("q", 0, 101),
        (1, 5): Settlement("q", 1, 40),
        (1, 6): Settlement("q", 1, 39),
    }
)


def test_settled_records_of_a_batch() -> None:
    assert set(SETTLED.within({0: 10, 1: 5}, {0: 20, 1: 6})) == {(0, 11), (1, 5)}
    assert set(SETTLED.within({0: 10}, {0: 21})) == {(0, 11), (0, 20)}


def test_a_recovery_scans_from_the_first_settled_record_that_is_still_ahead() -> None:
    ahead = SETTLED.after({0: 20, 1: 5})
    assert set(ahead.entries) == {(0, 20), (1, 5), (1, 6)}
    assert ahead.scan_from({"q": {0: 200, 1: 50, 2: 7}}) == {"q": {0: 101, 1: 39, 2: 7}}
    assert SETTLED.after({0: 21, 1: 7}).scan_from({"q": {0: 200}}) == {"q": {0: 200}}


def test_a_ledger_of_before_instances_and_upserts_keeps_its_text() -> None:
    """It is compared by its text: one that reads as another would look like another instance's."""
    text = (
        '{"name":"s@iceberg:1","stream":"s","topic":"t","topic_id":"x","epoch":3,"n":2,"begin":{"0":0},"end":{"0":4},'
        '"scan_from":{},"slots":1,"totals":{"written":4,"quarantined":0,"dropped":0,"absent":0},"contract":null}'
    )
    assert Ledger.parse(text).text == text


def test_a_claim_has_the_mark_of_its_instance() -> None:
    one, other = LEDGER.claim(1, "one"), LEDGER.claim(1, "other")
    assert one.text != other.text
    assert Ledger.parse(one.text) == one


def test_a_ledger_without_an_adoption_is_written_as_before() -> None:
    """An older version compares its text, and may read it again."""
    assert "adopted" not in LEDGER.text
    assert "unproven" not in LEDGER.text
    adopted = LEDGER.skip_to(2, 3, "a" * 32)
    assert Ledger.parse(adopted.text) == adopted
    assert adopted.adopted == "a" * 32


def test_a_partition_that_is_not_known_is_skipped_to_where_it_begins() -> None:
    """What came before was never part of the ledger."""
    skipped = LEDGER.skip_to(2, 3, "f" * 32)
    assert (skipped.begin, skipped.end) == ({0: 0, 1: 5, 2: 3}, {0: 10, 1: 5, 2: 3})
    assert (skipped.epoch, skipped.n, skipped.totals) == (4, 7, LEDGER.totals)
    assert skipped.instance == "f" * 8


def test_offsets_that_a_known_partition_skips_are_counted_as_unproven() -> None:
    ledger = LEDGER.model_copy(update={"totals": BatchTotals(written=10)})
    skipped = ledger.skip_to(0, 14, "f" * 32)
    assert skipped.end == {0: 14, 1: 5}
    assert skipped.totals == BatchTotals(written=10, unproven=4)
    assert span(skipped.begin, skipped.end) == skipped.totals.offsets


def test_a_batch_closes_a_segment_of_each_partition_that_it_moved() -> None:
    counts = {0: FateCounts(3, 1, 0), 2: FateCounts(accepted=2)}
    batch = PublishedBatch({0: 10, 2: 0}, {0: 15, 2: 2}, {}, BatchTotals(), "s@1.0.0", 1, counts)
    published = LEDGER.publish(batch)
    assert published.segments == {0: (Segment(10, 15, 3, 1, 0),), 2: (Segment(0, 2, 2, 0, 0),)}
    assert '"segments":{"0":[[10,15,3,1,0]],"2":[[0,2,2,0,0]]}' in published.text
    assert Ledger.parse(published.text) == published
    again = published.publish(PublishedBatch({0: 15}, {0: 17}, {}, BatchTotals(), "s@1.0.0", 1, {}))
    assert again.segments == {0: (Segment(10, 15, 3, 1, 0), Segment(15, 17, 0, 0, 0)), 2: ((0, 2, 2, 0, 0),)}


def test_segments_begin_again_after_offsets_that_were_not_counted() -> None:
    first = PublishedBatch({0: 10}, {0: 15}, {}, BatchTotals(written=5), "s@1.0.0", 1, {0: FateCounts(5)})
    uncounted = PublishedBatch({0: 15}, {0: 18}, {}, BatchTotals(written=3), "s@1.0.0", 1)
    last = PublishedBatch(
        {0: 18}, {0: 19}, {}, BatchTotals(dropped=1), "s@1.0.0", 1, {0: FateCounts(dropped=1)}
    )
    published = LEDGER.publish(first).publish(uncounted).publish(last)
    assert published.segments == {0: (Segment(18, 19, 0, 0, 1),)}
    prefix, segment = published.closed_ranges()
    assert (prefix.begin, prefix.end, prefix.counts) == ({0: 0, 1: 5}, {0: 18, 1: 5}, FateCounts(8))
    assert (segment.begin, segment.end, segment.counts) == ({0: 18}, {0: 19}, FateCounts(dropped=1))


@pytest.mark.parametrize(("partitions", "most"), [(1, 16), (16, 16), (32, 8), (500, 2)])
def test_a_ledger_stays_small_however_long_a_stream_runs(partitions: int, most: int) -> None:
    """Segments are joined as they age: each is shorter than what comes after it, as far as there is room."""
    ledger = LEDGER.model_copy(update={"begin": {}, "end": {}})
    batches = 300 if partitions < 100 else 5
    for n in range(batches):
        start, end = (dict.fromkeys(range(partitions), 10 * number) for number in (n, n + 1))
        counts = {p: FateCounts(7, 2, 1) for p in range(partitions)}
        totals = BatchTotals(written=7 * partitions, quarantined=2 * partitions, dropped=partitions)
        ledger = ledger.publish(PublishedBatch(start, end, {}, totals, "s@1.0.0", 1, counts))
    for segments in ledger.segments.values():
        assert len(segments) == min(most, batches)
        assert (segments[0].begin, segments[-1].end) == (0, 10 * batches)
        assert all(before.end == after.begin for before, after in pairwise(segments))
        assert sums(segments) == FateCounts(7 * batches, 2 * batches, batches)
        if most > LEAST_OF_PARTITION:
            assert segments[-1].end - segments[-1].begin <= 20
            assert segments[0].end - segments[0].begin < 10 * batches * 0.9
    assert len(ledger.text) < 700 + 40 * max(256, 2 * partitions) + 30 * partitions


def test_a_partition_that_a_batch_names_and_does_not_move_keeps_its_segments() -> None:
    counted = LEDGER.publish(
        PublishedBatch({0: 10}, {0: 12}, {}, BatchTotals(), "s@1.0.0", 1, {0: FateCounts(2)})
    )
    still = PublishedBatch({0: 12, 1: 5}, {0: 12, 1: 5, 3: 2}, {}, BatchTotals(), "s@1.0.0", 1, {})
    assert counted.publish(still).segments == {0: (Segment(10, 12, 2, 0, 0),), 3: (Segment(0, 2, 0, 0, 0),)}


def test_segments_are_joined_where_they_are_short_for_their_age() -> None:
    """Their age is counted from the ledger's end: behind a long batch those of before it are all old."""
    ledger = LEDGER.model_copy(update={"begin": {}, "end": {0: 0}})
    lengths = [*(2**k for k in range(16, 0, -1)), 1_000_000]
    for length in lengths:
        first = ledger.end[0]
        batch = PublishedBatch({0: first}, {0: first + length}, {}, BatchTotals(), "s@1.0.0", 1, {})
        ledger = ledger.publish(batch)
    assert [each.end - each.begin for each in ledger.segments[0]] == [*lengths[:14], 4 + 2, 1_000_000]


def test_totals_of_a_merge_say_what_became_of_each_record() -> None:
    """Of five staged records two delete, and the table has one row more: two have lost to newer ones."""
    merged = BatchTotals(written=10, superseded=1, deleted=3).merged(5, tombstones=2, growth=1)
    assert merged == BatchTotals(written=6, superseded=3, deleted=5)


def test_every_fate_covers_an_offset() -> None:
    totals = BatchTotals(
        written=1, quarantined=2, dropped=4, superseded=8, deleted=16, absent=32, unproven=64
    )
    assert totals.offsets == 127


def test_a_partition_that_is_skipped_begins_its_segments_again() -> None:
    segments = {0: (Segment(0, 10, 10, 0, 0),), 1: (Segment(0, 5, 5, 0, 0),)}
    skipped = LEDGER.model_copy(update={"segments": segments}).skip_to(0, 14, "f" * 32)
    assert skipped.segments == {1: segments[1]}


def test_a_topic_whose_records_are_deleted_is_scanned_from_where_it_begins() -> None:
    """What was passed before is not read again."""
    ledger = LEDGER.forget_deleted("t.quarantine", {0: 2, 1: 0, 2: 9}, {0: 5, 1: 0, 2: 9}, "f" * 32)
    assert ledger.scan_from == {"t.quarantine": {0: 4, 1: 0, 2: 9}}
    assert (ledger.epoch, ledger.slots) == (4, 2)
    assert (ledger.instance, ledger.adopted) == ("f" * 8, "f" * 32)


def test_a_topic_that_was_created_again_is_scanned_from_its_beginning() -> None:
    """Also by those who look for deleted records, or they would find none that the next start misses."""
    assert LEDGER.scan_start("t.quarantine", {0: 4}) == {0: 4}
    assert LEDGER.scan_start("t.quarantine", {0: 3}) == {0: 0}
    ledger = LEDGER.forget_deleted("t.quarantine", {0: 2}, {0: 3}, "f" * 32)
    assert ledger.scan_from == {"t.quarantine": {0: 2}}


def test_the_digest_of_dropped_positions_stays_until_there_is_a_newer_one() -> None:
    first, silent, last = (
        PublishedBatch({0: 10 + n}, {0: 11 + n}, {}, BatchTotals(), "s@1.0.0", 1, dropped_digest=digest)
        for n, digest in enumerate(("aa", "", "bb"))
    )
    published = LEDGER.publish(first)
    assert published.dropped_digest == "aa"
    assert published.publish(silent).dropped_digest == "aa"
    assert published.publish(silent).publish(last).dropped_digest == "bb"


def test_what_segments_do_not_count_was_before_them() -> None:
    totals = BatchTotals(written=3, quarantined=4, dropped=5, superseded=6, deleted=7, absent=1, unproven=2)
    segments = {0: (Segment(8, 10, 1, 1, 0),)}
    prefix, _ = LEDGER.model_copy(
        update={"totals": totals, "segments": segments, "begin": {1: 5}}
    ).closed_ranges()
    assert (prefix.begin, prefix.end) == ({0: 0, 1: 5}, {0: 8, 1: 5})
    assert (prefix.counts, prefix.given_up) == (FateCounts(15, 3, 5), 2)
    counted = BatchTotals(written=1, quarantined=1)
    prefix, _ = LEDGER.model_copy(update={"totals": counted, "segments": segments}).closed_ranges()
    assert prefix.counts == FateCounts()


def test_a_new_partition_that_begins_at_its_second_record_leaves_a_gap() -> None:
    with pytest.raises(StreamStopped, match="starts at 1, not at 0"):
        require_contiguous(LEDGER.end, {2: 1})


def test_a_refusal_covers_its_batch_and_no_record_after_it() -> None:
    refusal = BatchRefusal({0: 5}, ())
    assert refusal.covers(0, 4)
    assert not refusal.covers(0, 5)
    assert not refusal.covers(1, 0)


def test_settled_records_at_the_very_beginning() -> None:
    """A partition that a vector does not name stands at 0."""
    first = Settled({(0, 0): Settlement("q", 0, 100)})
    assert len(first) == 1
    assert set(first.within({}, {0: 1})) == {(0, 0)}
    assert first.within({}, {1: 1}) == {}
    assert first.after({}).entries == first.entries


def test_a_refusal_is_reported_once_for_all_of_its_records() -> None:
    one, other = BatchRefusal({0: 5}, ()), BatchRefusal({0: 9}, ())
    of = [None, one, one, other, None]
    entries = {(0, n): Settlement("q", 0, n, refusal=refusal) for n, refusal in enumerate(of)}
    assert Settled(entries).refusals() == (one, other)


def test_a_ledger_counts_the_records_of_its_history_that_are_to_come() -> None:
    assert LEDGER.pending_history == 0
    begun = LEDGER.model_copy(update={"history": HistoryMark(load="l", end=7)})
    assert begun.pending_history == 7
    further = begun.model_copy(update={"end": {**LEDGER.end, HISTORY_PARTITION: 5}})
    assert further.pending_history == 2
