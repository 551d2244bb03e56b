"""The ledger's values and the arithmetic of reconciling."""

from __future__ import annotations

import pytest

from contracts.errors import StreamStopped
from contracts.ledger import (
    BatchTotals,
    Ledger,
    PublishedBatch,
    Retained,
    Settled,
    Settlement,
    reconcile,
    require_contiguous,
    span,
)

LEDGER = Ledger(
    name="s@iceberg:1",
    stream="s",
    topic="t",
    topic_id="id",
    epoch=3,
    n=7,
    begin={0: 0, 1: 5},
    end={0: 10, 1: 5},
    scan_from={"t.quarantine": {0: 4}},
    slots=2,
)


def test_the_text_is_canonical_and_reads_back() -> None:
    assert Ledger.parse(LEDGER.text) == LEDGER
    assert Ledger.parse(LEDGER.text).text == LEDGER.text


def test_a_text_of_another_version_stops_the_stream() -> None:
    with pytest.raises(StreamStopped, match="cannot be read by this version"):
        Ledger.parse('{"epoch": 1}')


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
    ],
)
def test_a_batch_must_begin_where_the_ledger_ends(start: dict[int, int], message: str) -> None:
    with pytest.raises(StreamStopped, match=message):
        require_contiguous(LEDGER.end, start)


def test_a_batch_may_begin_a_new_partition_and_leave_one_out() -> None:
    require_contiguous(LEDGER.end, {0: 10, 2: 3})


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


SOURCE = [(0, offset) for offset in range(10)]


def test_all_is_well() -> None:
    found = reconcile(LEDGER, [*SOURCE, (0, 10), (1, 4)], SOURCE[:7], SOURCE[7:])
    assert (found.holds, found.lost, found.twice) == (True, 0, 0)


@pytest.mark.parametrize(
    ("written", "quarantined", "lost", "twice"),
    [
        (SOURCE[:6], SOURCE[7:], 1, 0),
        ([*SOURCE, (0, 3)], [], 0, 1),
        (SOURCE[:7], [*SOURCE[7:], (0, 9)], 0, 1),
        (SOURCE, [(0, 9)], 0, 1),
        (SOURCE[:5], [(0, 4), (0, 4)], 5, 1),
    ],
)
def test_what_is_lost_or_twice(
    written: list[tuple[int, int]], quarantined: list[tuple[int, int]], lost: int, twice: int
) -> None:
    found = reconcile(LEDGER, SOURCE, written, quarantined)
    assert (found.holds, found.lost, found.twice) == (False, lost, twice)


def test_dropped_records_are_in_no_output() -> None:
    ledger = LEDGER.model_copy(update={"totals": BatchTotals(dropped=2)})
    assert reconcile(ledger, SOURCE, SOURCE[:8], []).holds
    assert not reconcile(ledger, SOURCE, SOURCE[:9], []).holds


def test_rows_that_no_published_batch_covers() -> None:
    """Refused records of a batch in flight are no fault; rows are."""
    assert reconcile(LEDGER, SOURCE, SOURCE, [(0, 12)]).holds
    found = reconcile(LEDGER, SOURCE, [*SOURCE, (0, 12)], [])
    assert (found.holds, found.beyond) == (False, {(0, 12)})


def test_a_ledger_of_before_instances_and_upserts_keeps_its_text() -> None:
    """It is compared by its text: one that reads as another would look like another instance's."""
    text = (
        '{"name":"s@iceberg:1","stream":"s","topic":"t","topic_id":"x","epoch":3,"n":2,"begin":{"0":0},"end":{"0":4},'
        '"scan_from":{},"slots":1,"totals":{"written":4,"quarantined":0,"dropped":0,"absent":0},"contract":null}'
    )
    assert Ledger.parse(text).text == text


def test_a_claim_bears_the_mark_of_its_instance() -> None:
    one, other = LEDGER.claim(1, "one"), LEDGER.claim(1, "other")
    assert one.text != other.text
    assert Ledger.parse(one.text) == one


def test_superseded_and_deleted_records_are_in_no_output() -> None:
    ledger = LEDGER.model_copy(update={"totals": BatchTotals(written=5, superseded=3, deleted=2)})
    found = reconcile(ledger, SOURCE, SOURCE[:5], [])
    assert (found.holds, found.in_no_output, found.written) == (True, 5, 5)
    assert not reconcile(ledger, SOURCE, SOURCE[:4], []).holds


def test_offsets_without_a_record_are_absent() -> None:
    found = reconcile(LEDGER, SOURCE[3:], SOURCE[3:8], SOURCE[8:])
    assert (found.holds, found.absent, found.quarantined) == (True, 3, 2)


def test_what_the_source_has_deleted_is_unverifiable_and_the_rest_is_looked_at() -> None:
    """Rows of deleted records are no records out of thin air; their repetitions still show."""
    retained = Retained({0: 4, 1: 0})
    found = reconcile(LEDGER, SOURCE[4:], SOURCE, [], retained)
    assert (found.holds, found.past_retention, found.written, found.beyond) == (True, 4, 6, frozenset())
    assert reconcile(LEDGER, SOURCE[4:], SOURCE[:9], [], retained).lost == 1
    assert reconcile(LEDGER, SOURCE[4:], [*SOURCE, (0, 1)], [], retained).twice == 1
    assert reconcile(LEDGER, SOURCE[4:], [*SOURCE, (0, 10)], [], retained).beyond == {(0, 10)}


def test_what_the_quarantine_topic_has_forgotten_is_unverifiable() -> None:
    ledger = LEDGER.model_copy(update={"totals": BatchTotals(written=6, quarantined=4)})
    trimmed = Retained(is_quarantine_whole=False)
    found = reconcile(ledger, SOURCE, SOURCE[:6], SOURCE[8:], trimmed)
    assert (found.holds, found.forgotten, found.unverifiable) == (True, 2, 2)
    assert reconcile(ledger, SOURCE, SOURCE[:5], SOURCE[8:], trimmed).lost == 1
    assert reconcile(ledger, SOURCE, SOURCE[:6], SOURCE[8:]).lost == 2


def test_a_row_of_a_record_that_the_source_never_held_is_named() -> None:
    found = reconcile(LEDGER, SOURCE[1:], SOURCE, [])
    assert (found.holds, found.beyond) == (False, {(0, 0)})


def test_what_a_later_ledger_covers_came_meanwhile_and_is_looked_at_for_repetitions() -> None:
    later = LEDGER.model_copy(update={"begin": {**LEDGER.begin, 2: 4}, "end": {0: 13, 1: 5, 2: 6}})
    meanwhile = [(0, 10), (0, 12), (2, 4)]
    assert reconcile(LEDGER, SOURCE, [*SOURCE, *meanwhile], [], later=later).holds
    assert not reconcile(LEDGER, SOURCE, [*SOURCE, *meanwhile], []).holds
    for beyond in ((0, 13), (1, 5), (2, 3), (2, 6), (3, 0)):
        found = reconcile(LEDGER, SOURCE, [*SOURCE, beyond], [], later=later)
        assert (found.holds, found.beyond) == (False, {beyond})
    assert reconcile(LEDGER, SOURCE, [*SOURCE, (0, 12), (0, 12)], [], later=later).written_twice == {(0, 12)}


def test_a_row_whose_record_was_compacted_since_is_unverifiable() -> None:
    """Three offsets are without a record now, and one was when they were judged."""
    ledger = LEDGER.model_copy(update={"totals": BatchTotals(written=8, dropped=1, absent=1)})
    compacted = Retained(is_source_compacted=True)
    found = reconcile(ledger, SOURCE[3:], SOURCE[1:9], [], compacted)
    assert (found.holds, found.compacted, found.absent, found.beyond) == (True, 2, 1, frozenset())
    assert reconcile(ledger, SOURCE[3:], SOURCE[1:9], []).beyond == {(0, 1), (0, 2)}
    assert reconcile(ledger, SOURCE[3:], [*SOURCE[1:9], (0, 10)], [], compacted).beyond == {(0, 10)}
