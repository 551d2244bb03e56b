"""The ledger that follows from what outputs hold."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.adoption import (
    Adoption,
    Ahead,
    OutputPositions,
    PartitionFound,
    ProposedLedger,
    SourceRange,
    bounds,
    propose,
)
from tidegate.contracts.stream.ledger import BatchTotals, Position, span
from tidegate.contracts.stream.positions import Positions, Sightings

WHOLE = SourceRange({0: 0}, {0: 20})


def at(*offsets: int) -> list[Position]:
    return [(0, offset) for offset in offsets]


def found(
    written: Iterable[Position],
    quarantined: Iterable[Position] = (),
    ahead: Ahead | None = "quarantined",
    window: int | None = 100,
) -> OutputPositions:
    return OutputPositions(Sightings(written), Sightings(quarantined), ahead, window)


def proposed(
    outputs: OutputPositions,
    source: SourceRange = WHOLE,
    records: Iterable[Position] = (),
    *,
    from_earliest: bool = True,
) -> ProposedLedger:
    limits = bounds(outputs, source, from_earliest=from_earliest)
    return propose(outputs, source, limits, Positions(records) & limits.holes)


def test_a_table_ends_after_its_last_row() -> None:
    """What is quarantined beyond is found by the next start, and left out."""
    proposal = proposed(found(at(0, 1, 3), at(2, 4, 7)))
    assert (proposal.begin, proposal.end) == ({0: 0}, {0: 4})
    assert proposal.totals == BatchTotals(written=3, quarantined=1)
    assert (proposal.holes, len(proposal.twice)) == (0, 0)
    assert proposal.partitions == (PartitionFound(0, 0, 4, (0, 3), (2, 7), 0, 0, 0),)


def test_quarantined_records_are_ahead_by_one_batch_at_most() -> None:
    """A stream that accepts nothing must not keep all its refusals in memory."""
    proposal = proposed(found([], at(*range(10)), window=4))
    assert proposal.end == {0: 6}
    assert proposal.totals == BatchTotals(quarantined=6)


def test_quarantined_records_are_ahead_of_a_rolled_back_table_by_any_number() -> None:
    """The quarantine topic is not rolled back: a bound would give up accepted records among these."""
    proposal = proposed(found(at(0, 1), at(2, 3, 9), window=None), records=at(*range(20)))
    assert (proposal.end, proposal.holes) == ({0: 2}, 0)


def test_a_topic_written_with_its_ledger_ends_after_the_last_of_both() -> None:
    proposal = proposed(found(at(0, 1, 3), at(2, 4), ahead=None))
    assert proposal.end == {0: 5}
    assert proposal.totals == BatchTotals(written=3, quarantined=2)


def test_a_topic_that_tasks_write_ends_at_the_first_offset_that_is_missing() -> None:
    """The refused records of a batch in flight are still to come: 5 is judged again, 6 and 7 are left out."""
    proposal = proposed(found(at(0, 1, 3, 4, 6, 7), at(2), ahead="written"))
    assert proposal.end == {0: 5}
    assert proposal.totals == BatchTotals(written=4, quarantined=1)


def test_a_topic_that_tasks_write_is_ahead_by_one_batch_at_most() -> None:
    """The hole at 2 is older than any batch in flight: a dropped record, which cannot be distinguished from a lost one."""
    records = at(0, 1, *range(3, 12))
    proposal = proposed(found(records, ahead="written", window=4), records=at(2))
    assert proposal.end == {0: 12}
    assert (proposal.totals.unproven, proposal.unanswered) == (1, {(0, 2)})


def test_a_topic_whose_ledger_is_lost_with_its_window_ends_at_the_first_offset_that_is_missing() -> None:
    outputs = found(at(0, 1, 3), ahead="written", window=None)
    assert proposed(outputs, records=at(2)).end == {0: 2}


def test_a_topic_that_tasks_write_without_a_hole_ends_after_its_last_record() -> None:
    assert proposed(found(at(0, 1, 2), ahead="written")).end == {0: 3}


def test_holes_are_distinguished_by_what_the_source_says() -> None:
    """2 and 3 are past retention, 5 holds a record, 6 holds none."""
    source = SourceRange({0: 4}, {0: 20})
    proposal = proposed(found(at(0, 1, 4, 7)), source, at(5, 9))
    assert proposal.totals == BatchTotals(written=4, absent=1, unproven=3)
    assert proposal.holes == 3
    assert proposal.unanswered == {(0, 5)}
    (row,) = proposal.partitions
    assert (row.absent, row.unanswered, row.past_retention) == (1, 1, 2)


def test_records_before_the_first_one_found_are_holes_of_a_stream_that_began_with_the_first() -> None:
    outputs = found(at(3, 4))
    assert proposed(outputs, records=at(0, 1, 2)).totals == BatchTotals(written=2, unproven=3)
    later = proposed(outputs, records=at(0, 1, 2), from_earliest=False)
    assert (later.begin, later.totals) == ({0: 3}, BatchTotals(written=2))


def test_a_partition_without_findings_is_read_from_its_beginning() -> None:
    source = SourceRange({0: 0, 1: 5}, {0: 20, 1: 9})
    proposal = proposed(found(at(0, 1)), source)
    assert (proposal.begin[1], proposal.end[1]) == (5, 5)


def test_what_retention_has_passed_since_has_to_be_accepted() -> None:
    """Else the start would stop at it."""
    proposal = proposed(found(at(0, 1)), SourceRange({0: 6}, {0: 20}))
    assert proposal.end == {0: 6}
    assert proposal.totals == BatchTotals(written=2, unproven=4)


def test_records_that_are_there_twice_are_named_and_counted_once() -> None:
    proposal = proposed(found(at(0, 1, 1, 2), at(2, 0, 0)))
    assert proposal.twice == {(0, 0), (0, 1), (0, 2)}
    assert proposal.totals == BatchTotals(written=3)


@pytest.mark.parametrize(("latest", "partition"), [({0: 3}, 0), ({}, 0)])
def test_positions_that_the_source_does_not_have_stop(latest: dict[int, int], partition: int) -> None:
    with pytest.raises(StreamStopped, match=f"partition {partition} of the source ends at"):
        bounds(found(at(3)), SourceRange(dict.fromkeys(latest, 0), latest), from_earliest=True)


def test_a_first_offset_of_a_partition_that_the_source_lacks_stops_too() -> None:
    with pytest.raises(
        StreamStopped, match="partition 0 of the source ends at 0, and an output holds its offset 0"
    ):
        bounds(found(at(0)), SourceRange({}, {}), from_earliest=True)


def test_an_adoption_is_sent_without_fields_that_an_earlier_registry_does_not_know() -> None:
    plain = Adoption(
        id="ab" * 16, stream="s", topic="t", sink="iceberg:t", ledger="l", at=datetime(2026, 7, 1, tzinfo=UTC), epoch=1,
        begin={0: 0}, end={0: 0}, written=0, quarantined=0, absent=0, accepted_loss=0,
    )  # fmt: skip
    later = {"kind", "forgotten", "archived", "generation", "rewound_from", "deleted", "rejudged", "erased"}
    told = plain.model_dump()
    assert told.keys() & later == set()
    assert told["written"] == 0
    told = plain.model_copy(update={"kind": "rewind", "deleted": 3}).model_dump()
    assert {name: told[name] for name in told.keys() & later} == {"kind": "rewind", "deleted": 3}


OFFSETS = st.sets(st.integers(0, 19))


@given(OFFSETS, OFFSETS, st.sampled_from(["written", "quarantined", None]), st.integers(0, 25), st.booleans())
def test_nothing_is_lost_or_doubled(
    written: set[int], quarantined: set[int], ahead: Ahead | None, window: int, from_earliest: bool
) -> None:
    """Whatever was written with the ledger lies below its end, and every offset below it is counted once."""
    outputs = found(at(*written), at(*quarantined), ahead, window)
    proposal = proposed(outputs, records=at(*range(20)), from_earliest=from_earliest)
    committed = {"written": quarantined, "quarantined": written, None: written | quarantined}[ahead]
    end = proposal.end[0]
    assert all(offset < end for offset in committed)
    assert proposal.totals.offsets == span(proposal.begin, proposal.end)
    below = set(range(proposal.begin[0], end))
    assert proposal.unanswered == Positions(at(*(below - written - quarantined)))
    # What is beyond the end is only in the output that the next start looks through.
    beyond = {offset for offset in written | quarantined if offset >= end}
    assert beyond <= {"written": written, "quarantined": quarantined, None: set()}[ahead]
    assert all(offset >= max(beyond) + 1 - window for offset in beyond)
