"""The arithmetic of reconciling."""

from __future__ import annotations

import pytest

from contracts.fates import Retained
from contracts.ledger import BatchTotals
from tests.ledgers import LEDGER
from tests.reconciling import reconcile

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


def test_what_an_adoption_gave_up_is_unverifiable_and_hides_no_other_loss() -> None:
    ledger = LEDGER.model_copy(update={"totals": BatchTotals(written=8, unproven=2)})
    found = reconcile(ledger, SOURCE, SOURCE[:8], [])
    assert (found.holds, found.lost, found.unverifiable) == (True, 0, 2)
    found = reconcile(ledger, SOURCE, SOURCE[:7], [])
    assert (found.holds, found.lost, found.unverifiable) == (False, 1, 2)


def test_rows_that_no_published_batch_covers() -> None:
    """Refused records of a batch in flight are no fault; rows are."""
    assert reconcile(LEDGER, SOURCE, SOURCE, [(0, 12)]).holds
    found = reconcile(LEDGER, SOURCE, [*SOURCE, (0, 12)], [])
    assert (found.holds, found.beyond) == (False, {(0, 12)})


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
    assert (found.holds, found.past_retention, found.written, found.beyond) == (True, 4, 6, set())
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
    assert (found.holds, found.compacted, found.absent, found.beyond) == (True, 2, 1, set())
    assert reconcile(ledger, SOURCE[3:], SOURCE[1:9], []).beyond == {(0, 1), (0, 2)}
    assert reconcile(ledger, SOURCE[3:], [*SOURCE[1:9], (0, 10)], [], compacted).beyond == {(0, 10)}
