"""The arithmetic of reconciling."""

from __future__ import annotations

import pytest

from tests import ledgers
from tests.reconciling import reconcile
from tidegate.contracts.stream.ledger import BatchTotals, Ledger
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.reconcile import Retained, Upserts
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer

SOURCE = [(0, offset) for offset in range(10)]


def counted(**totals: int) -> Ledger:
    """Return the ledger of ten records with these totals."""
    assert sum(totals.values()) == len(SOURCE)
    return ledgers.LEDGER.model_copy(update={"totals": BatchTotals(**totals)})


LEDGER = counted(written=10)
SOME_REFUSED = counted(written=7, quarantined=3)


def test_all_is_well() -> None:
    found = reconcile(SOME_REFUSED, [*SOURCE, (0, 10), (1, 4)], SOURCE[:7], SOURCE[7:])
    assert (found.holds, found.lost, found.twice) == (True, 0, 0)


@pytest.mark.parametrize(
    ("written", "quarantined", "lost", "twice"),
    [
        (SOURCE[:6], SOURCE[7:], 1, 0),
        (SOURCE[:7], SOURCE[8:], 1, 0),
        ([*SOURCE, (0, 3)], [], 0, 1),
        (SOURCE[:7], [*SOURCE[7:], (0, 9)], 0, 1),
        (SOURCE, [(0, 9)], 0, 1),
        (SOURCE[:5], [(0, 4), (0, 4)], 5, 1),
    ],
)
def test_what_is_lost_or_twice(
    written: list[tuple[int, int]], quarantined: list[tuple[int, int]], lost: int, twice: int
) -> None:
    found = reconcile(SOME_REFUSED, SOURCE, written, quarantined)
    assert (found.answer, found.lost, found.twice) == (ReconciliationAnswer.LOST, lost, twice)


def test_dropped_records_are_in_no_output() -> None:
    ledger = counted(written=8, dropped=2)
    assert reconcile(ledger, SOURCE, SOURCE[:8], []).holds
    assert not reconcile(ledger, SOURCE, SOURCE[:9], []).holds
    assert reconcile(ledger, SOURCE, SOURCE[:9], []).surplus == 1


def test_records_at_offsets_without_a_record_are_surplus_in_both_outputs() -> None:
    ledger = counted(written=6, quarantined=2, absent=2)
    found = reconcile(ledger, SOURCE[:8], [*SOURCE[:6], (0, 8)], [*SOURCE[6:8], (0, 9)])
    assert (found.lost, found.surplus, found.beyond) == (0, 2, {(0, 8)})


def test_a_missing_refusal_is_not_among_the_records_that_an_accepted_topic_may_have_deleted() -> None:
    ledger = counted(written=9, quarantined=1)
    found = reconcile(ledger, SOURCE, SOURCE[:9], [], Retained(is_written_whole=False))
    assert (found.answer, found.lost, found.unverifiable) == (ReconciliationAnswer.LOST, 1, 0)


def test_what_an_adoption_gave_up_is_unverifiable_and_hides_no_other_loss() -> None:
    ledger = LEDGER.model_copy(update={"totals": BatchTotals(written=8, unproven=2)})
    found = reconcile(ledger, SOURCE, SOURCE[:8], [])
    assert (found.answer, found.lost, found.unverifiable) == (ReconciliationAnswer.UNPROVEN, 0, 2)
    found = reconcile(ledger, SOURCE, SOURCE[:7], [])
    assert (found.holds, found.lost, found.unverifiable) == (False, 1, 2)


@pytest.mark.parametrize(
    ("unknown", "answer", "twice"),
    [
        (3, ReconciliationAnswer.UNPROVEN, 0),
        (2, ReconciliationAnswer.UNPROVEN, 0),
        (1, ReconciliationAnswer.LOST, 2),
    ],
)
def test_replayed_records_whose_positions_are_gone_prove_nothing(
    unknown: int, answer: ReconciliationAnswer, twice: int
) -> None:
    """They are in both outputs: at most as many as the ledger counts are permitted."""
    ledger = counted(written=9, quarantined=1)
    retained = Retained(unknown_replays=unknown)
    found = reconcile(ledger, SOURCE, SOURCE[:9], SOURCE[7:], retained)
    assert (found.answer, found.twice) == (answer, twice)


def test_closed_records_whose_positions_are_gone_prove_nothing() -> None:
    ledger = counted(written=7, quarantined=3)
    for unknown, answer in ((0, ReconciliationAnswer.HOLDS), (2, ReconciliationAnswer.UNPROVEN)):
        found = reconcile(ledger, SOURCE, SOURCE[:7], SOURCE[7:], Retained(unknown_closed=unknown))
        assert (found.answer, found.unverifiable) == (answer, unknown)
    found = reconcile(ledger, SOURCE, SOURCE[:8], SOURCE[7:], Retained(unknown_closed=2))
    assert found.answer is ReconciliationAnswer.LOST


def test_rows_that_no_published_batch_covers() -> None:
    """Refused records of a batch in flight are no fault; rows are."""
    assert reconcile(LEDGER, SOURCE, SOURCE, [(0, 12)]).holds
    found = reconcile(LEDGER, SOURCE, [*SOURCE, (0, 12)], [])
    assert (found.holds, found.beyond) == (False, {(0, 12)})


def test_superseded_and_deleted_records_are_in_no_output() -> None:
    ledger = counted(written=5, superseded=3, deleted=2)
    replaced = Upserts(replaced=Positions(SOURCE[5:]))
    found = reconcile(ledger, SOURCE, SOURCE[:5], [], upserts=replaced)
    assert (found.holds, found.in_no_output, found.written) == (True, 5, 5)
    rowless = Upserts(replaced=Positions(SOURCE[5:]), rowless=Positions(SOURCE[4:5]))
    assert reconcile(ledger, SOURCE, SOURCE[:4], [], upserts=rowless).lost == 1
    # Without the keys the counts fit, also when rows are others than they should be.
    unknown = reconcile(ledger, SOURCE, SOURCE[:5], [])
    assert (unknown.answer, unknown.unverifiable) == (ReconciliationAnswer.UNPROVEN, 5)
    assert reconcile(ledger, SOURCE, SOURCE[:4], []).lost == 1


def test_a_row_that_is_older_than_its_record_is_lost_and_an_unclear_one_is_unverifiable() -> None:
    ledger = counted(written=5, superseded=5)
    rolled_back = Upserts(replaced=Positions(SOURCE[5:8]), unclear=Positions(SOURCE[8:9]))
    found = reconcile(ledger, SOURCE, SOURCE[:5], [], upserts=rolled_back)
    assert (found.answer, found.lost, found.unverifiable) == (ReconciliationAnswer.LOST, 1, 1)
    assert found.unaccounted == set(SOURCE[8:])


def test_offsets_without_a_record_are_absent() -> None:
    ledger = counted(written=5, quarantined=2, absent=3)
    found = reconcile(ledger, SOURCE[3:], SOURCE[3:8], SOURCE[8:])
    assert (found.holds, found.absent, found.quarantined) == (True, 3, 2)


def test_rows_of_what_the_source_has_deleted_are_counted_and_the_rest_is_looked_at() -> None:
    """Rows of deleted records are no records out of thin air; their repetitions still show."""
    retained = Retained({0: 4, 1: 0})
    found = reconcile(LEDGER, SOURCE[4:], SOURCE, [], retained)
    assert (found.holds, found.past_retention, found.written, found.beyond) == (True, 4, 6, set())
    assert reconcile(LEDGER, SOURCE[4:], SOURCE[:9], [], retained).lost == 1
    assert reconcile(LEDGER, SOURCE[4:], [*SOURCE, (0, 1)], [], retained).twice == 1
    assert reconcile(LEDGER, SOURCE[4:], [*SOURCE, (0, 10)], [], retained).beyond == {(0, 10)}
    # They are old enough to have been deleted.
    missing = reconcile(LEDGER, SOURCE[4:], SOURCE[2:], [], retained)
    assert (missing.answer, missing.lost, missing.unverifiable) == (ReconciliationAnswer.UNPROVEN, 0, 2)


def test_what_the_quarantine_topic_has_forgotten_is_unverifiable() -> None:
    ledger = counted(written=6, quarantined=4)
    trimmed = Retained(is_quarantine_whole=False)
    found = reconcile(ledger, SOURCE, SOURCE[:6], SOURCE[8:], trimmed)
    assert (found.answer, found.forgotten, found.unverifiable) == (ReconciliationAnswer.UNPROVEN, 2, 2)
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
    ledger = counted(written=8, dropped=1, absent=1)
    compacted = Retained(is_source_compacted=True)
    found = reconcile(ledger, SOURCE[3:], SOURCE[1:9], [], compacted)
    assert (found.holds, found.compacted, found.absent, found.beyond) == (True, 2, 1, set())
    assert reconcile(ledger, SOURCE[3:], SOURCE[1:9], []).beyond == {(0, 1), (0, 2)}
    assert reconcile(ledger, SOURCE[3:], [*SOURCE[1:9], (0, 10)], [], compacted).beyond == {(0, 10)}
