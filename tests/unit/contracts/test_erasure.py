"""A ledger after an erasure: what its counts say, and what is refused."""

from __future__ import annotations

import pytest

from tests.ledgers import LEDGER
from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.erasure import MOST_ROWS, erase_from
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.segments import Segment

HELD = LEDGER.model_copy(
    update={
        "begin": {0: 0, 1: 0},
        "end": {0: 10, 1: 4},
        "scan_from": {"a.quarantine": {0: 2}},
        "totals": BatchTotals(written=9, quarantined=3, absent=2),
        "segments": {
            0: (Segment(0, 4, 3, 1, 0), Segment(4, 10, 4, 1, 0)),
            1: (Segment(0, 4, 2, 1, 0),),
        },
    }
)
NONE = Positions()


def test_erased_records_count_as_dropped() -> None:
    found = erase_from(HELD, Positions([(0, 1), (0, 5), (1, 0)]), Positions([(0, 3)]), 2, NONE)
    assert found.dropped == Positions([(0, 1), (0, 3), (0, 5), (1, 0)])
    new = found.ledger(HELD.claim(1), "ab" * 16, "d1", {"a.quarantine": {0: 7}})
    assert new.totals == BatchTotals(written=6, quarantined=2, dropped=4, absent=2)
    assert new.totals.offsets == HELD.totals.offsets
    assert new.segments == {
        0: (Segment(0, 4, 2, 0, 2), Segment(4, 10, 3, 1, 1)),
        1: (Segment(0, 4, 1, 1, 1),),
    }
    assert (new.epoch, new.end, new.dropped_digest) == (HELD.epoch + 2, HELD.end, "d1")
    assert (new.adopted, new.instance) == ("ab" * 16, "ab" * 4)
    assert new.scan_from == {"a.quarantine": {0: 7}}


def test_what_an_erasure_has_counted_is_not_counted_twice() -> None:
    """It was cut off before the topic was rewritten."""
    found = erase_from(HELD, NONE, Positions([(0, 3)]), 1, Positions([(0, 3)]))
    assert (found.dropped, bool(found)) == (NONE, True)
    assert found.ledger(HELD.claim(1), "ab" * 16, "", {}).totals == HELD.totals


def test_nothing_is_found() -> None:
    assert not erase_from(HELD, NONE, NONE, 0, NONE)


@pytest.mark.parametrize(
    ("rows", "refused", "message"),
    [
        (Positions((0, n) for n in range(MOST_ROWS + 1)), NONE, "more than the 50,000 of one erasure"),
        (NONE, Positions([(0, 10)]), "a batch that was not published"),
        (Positions((0, n) for n in range(10)), NONE, "counts fewer records than the outputs hold"),
    ],
)
def test_what_is_refused(rows: Positions, refused: Positions, message: str) -> None:
    with pytest.raises(ConflictError, match=message):
        erase_from(HELD, rows, refused, len(refused), NONE)


def test_all_that_the_ledger_counts_may_be_erased() -> None:
    refused = Positions([(0, 3), (0, 8), (1, 3)])
    rows = Positions([*((0, n) for n in (0, 1, 2, 4, 5, 6, 7)), (1, 0), (1, 1)])
    assert len(erase_from(HELD, rows, refused, 3, NONE).dropped) == 12
    held = HELD.model_copy(update={"totals": BatchTotals(written=MOST_ROWS)})
    most = Positions((0, n) for n in range(MOST_ROWS))
    assert len(erase_from(held, most, NONE, 0, NONE).rows) == MOST_ROWS
