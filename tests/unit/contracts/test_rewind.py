"""A ledger taken back: what its counts lose, which refusals go on counting, and what is refused."""

from __future__ import annotations

import pytest

from tests.ledgers import LEDGER
from tidegate.contracts.errors import ConflictError, SettingsError
from tidegate.contracts.stream.closure import ClosedRefusals, Closure
from tidegate.contracts.stream.evidence import (
    GENERATION_HEADER,
    EventPointer,
    generation_header,
    provenance_headers,
    quarantine_headers,
    read_evidence,
    read_provenance,
)
from tidegate.contracts.stream.generations import (
    MOST_REWINDS,
    Rewound,
    overruling,
    pruned,
    rewound,
)
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, Position
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.rewind import Held, Rewind, points_of, rewind_to
from tidegate.contracts.stream.segments import Segment
from tidegate.contracts.verdict import Disposition, Verdict
from tidegate.spark_jobs.adopt.rewind import RewindTo

HELD = LEDGER.model_copy(
    update={
        "begin": {0: 0, 1: 0},
        "end": {0: 10, 1: 4},
        "totals": BatchTotals(written=9, quarantined=3, absent=2),
        "segments": {
            0: (Segment(0, 4, 3, 1, 0), Segment(4, 10, 4, 1, 0)),
            1: (Segment(0, 4, 2, 1, 0),),
        },
    }
)
WRITTEN = [(0, 0), (0, 1), (0, 2), (0, 4), (0, 5), (0, 6), (0, 7), (1, 0), (1, 1)]
REFUSED = [(0, 3), (0, 8), (1, 3)]


def found(written: list[Position] = WRITTEN, refused: list[Position] = REFUSED, **changes: object) -> Held:
    source = Positions([*WRITTEN, *REFUSED])
    outputs = {"written": Positions(written), "quarantined": Positions(refused), "dropped": Positions()}
    return Held(**{"earliest": {}, "source": source, **outputs, **changes})  # type: ignore[arg-type] # by name


def rewind(point: int, held: Ledger = HELD, **changes: object) -> Rewind:
    return rewind_to({0: point}, held, found(**changes))  # type: ignore[arg-type] # by name


def test_counts_lose_what_is_from_the_point_on() -> None:
    """The point is within a segment, which is cut there."""
    taken = rewind(6)
    assert (taken.rows, taken.rejudged) == (2, 1)
    new = taken.ledger(HELD.claim(1), "ab" * 16, "")
    assert new.end == {0: 6, 1: 4}
    assert new.totals == BatchTotals(written=7, quarantined=2, absent=1)
    assert new.totals.offsets == 10
    assert new.segments == {0: (Segment(0, 4, 3, 1, 0), Segment(4, 6, 2, 0, 0)), 1: HELD.segments[1]}
    assert (new.epoch, new.n, new.generation, new.adopted) == (HELD.epoch + 2, HELD.n, 1, "ab" * 16)
    assert new.instance == "ab" * 4


def test_dropped_records_are_judged_again_but_for_those_that_were_sent_to_the_source() -> None:
    totals = BatchTotals(written=8, quarantined=2, dropped=2, absent=2)
    held = HELD.model_copy(update={"totals": totals, "segments": {}})
    gone = Positions([(0, 7), (0, 8)])
    written = [each for each in WRITTEN if each not in gone]
    refused = [each for each in REFUSED if each not in gone]
    taken = rewind(6, held, written=written, refused=refused, dropped=gone, resent=Positions([(0, 8)]))
    assert taken.dropped_before == 1


def test_replayed_records_are_judged_again_from_the_point_on() -> None:
    replayed = Positions([(0, 3), (0, 8), (1, 3)])
    taken = rewind(6, written=[*WRITTEN, *replayed], refused=[], replayed=replayed)
    assert taken.replayed == Positions([(0, 3), (1, 3)])
    assert (taken.rows, len(taken.fates.accepted), len(taken.fates.quarantined)) == (3, 3, 0)


def test_records_that_were_sent_to_the_source_are_left_out_up_to_where_the_ledger_ended() -> None:
    resent = Positions([(0, 3), (0, 8), (1, 3)])
    taken = rewind(6, resent=resent)
    assert (taken.left_out, taken.rejudged) == (Positions([(0, 8)]), 0)
    assert taken.ledger(HELD, "ab" * 16, "").closed == {}, "the ledger does not name them yet"
    empty = HELD.model_copy(
        update={"end": {0: 0}, "closed": {Closure.RESENT: ClosedRefusals(records=3, digest="d")}}
    )
    assert taken._closed(empty)[Closure.RESENT].until == {0: 0}
    named = {Closure.RESENT: ClosedRefusals(records=3, digest="d")}
    new = taken.ledger(HELD.model_copy(update={"closed": named}), "ab" * 16, "")
    assert new.closed[Closure.RESENT] == ClosedRefusals(records=3, digest="d", until={0: 10})
    assert Ledger.parse(new.text) == new
    # Rewound again before it has come so far again, and once it has gone further.
    early = rewind_to({0: 4}, new, found(resent=resent, written=WRITTEN[:5], refused=REFUSED[:1]))
    assert early.ledger(new, "cd" * 16, "").closed[Closure.RESENT].until == {0: 10}
    further = new.model_copy(update={"end": {0: 12, 1: 4}})
    assert taken.ledger(further, "cd" * 16, "").closed[Closure.RESENT].until == {0: 12}


def test_records_below_the_points_that_were_sent_to_the_source_stay_refused() -> None:
    taken = rewind(6, resent=Positions([(0, 3), (1, 3)]))
    closed = {Closure.RESENT: ClosedRefusals(records=2, digest="d")}
    assert taken.ledger(HELD.model_copy(update={"closed": closed}), "ab" * 16, "").closed == closed


def test_a_partition_that_is_rewound_to_its_begin_has_no_segment() -> None:
    new = rewind(0).ledger(HELD, "ab" * 16, "")
    assert new.segments == {1: HELD.segments[1]}
    assert new.totals == BatchTotals(written=2, quarantined=1, absent=1)


def test_a_segment_that_ends_at_the_point_stays_and_one_that_begins_there_goes() -> None:
    new = rewind(4).ledger(HELD, "ab" * 16, "")
    assert new.segments == {0: (Segment(0, 4, 3, 1, 0),), 1: HELD.segments[1]}


def test_dropped_records_from_the_point_on_leave_their_segment() -> None:
    totals = BatchTotals(written=8, quarantined=3, dropped=1, absent=2)
    segments = {0: (Segment(0, 10, 6, 2, 1),)}
    held = HELD.model_copy(update={"totals": totals, "segments": segments})
    written = [each for each in WRITTEN if each != (0, 7)]
    taken = rewind(6, held, written=written, dropped=Positions([(0, 7)]))
    assert taken.ledger(held, "ab" * 16, "").segments == {0: (Segment(0, 6, 5, 1, 0),)}


def test_rows_beyond_the_ledger_and_refusals_ahead_of_it_go_too() -> None:
    taken = rewind(6, written=[*WRITTEN, (0, 11)], refused=[*REFUSED, (0, 12), (1, 7)])
    assert (taken.rows, taken.settled, taken.rejudged) == (3, 1, 2)
    assert taken.fates.totals["written"] == 2


def test_a_row_that_was_lost_from_the_point_on_was_counted_as_written() -> None:
    taken = rewind(6, written=[each for each in WRITTEN if each != (0, 7)])
    assert (taken.rows, taken.fates.totals["written"]) == (1, 2)


def test_a_refusal_that_was_forgotten_was_counted_as_quarantined() -> None:
    taken = rewind(6, refused=[(0, 3), (1, 3)], is_quarantine_whole=False)
    assert taken.fates.totals["quarantined"] == 1


def test_a_record_at_an_unknown_position_was_counted_as_dropped() -> None:
    totals = BatchTotals(written=8, quarantined=3, dropped=1, absent=2)
    held = HELD.model_copy(update={"totals": totals})
    without = [each for each in WRITTEN if each != (0, 7)]
    assert rewind(6, held, written=without).fates.totals["dropped"] == 1
    # The only one that was dropped is known to be another.
    without = [each for each in without if each != (0, 1)]
    taken = rewind(6, held, written=without, dropped=Positions([(0, 1)]))
    assert (taken.fates.totals["dropped"], taken.fates.totals["written"]) == (0, 2)


def test_what_a_missing_record_was_must_be_clear() -> None:
    held = HELD.model_copy(update={"totals": BatchTotals(written=9, quarantined=3, absent=1, unproven=1)})
    with pytest.raises(ConflictError, match="quarantined or unproven: 0/8"):
        rewind(6, held, refused=[(0, 3), (1, 3)], is_quarantine_whole=False)
    assert rewind(6, held, refused=[(0, 3), (1, 3)]).fates.totals["unproven"] == 1


def test_what_the_source_no_longer_holds_is_not_rewound() -> None:
    with pytest.raises(ConflictError, match=r"begins at 7.*Rewind to 0:7 or later"):
        rewind(6, earliest={0: 7})
    source = Positions(each for each in [*WRITTEN, *REFUSED] if each != (0, 7))
    with pytest.raises(ConflictError, match=r"no longer holds 1 records.*0/7"):
        rewind(6, source=source)
    gone = [(0, offset) for offset in range(9) if offset != 3]
    for some, named in ((gone[:5], r"0/5; nothing"), (gone[:6], r"0/5, \.\.\.; nothing")):
        source = Positions(each for each in [*WRITTEN, *REFUSED] if each not in some)
        with pytest.raises(ConflictError, match=named):
            rewind(0, source=source)


def test_counts_that_do_not_fit_are_refused() -> None:
    held = HELD.model_copy(update={"totals": BatchTotals(written=1, quarantined=3, absent=10)})
    with pytest.raises(ConflictError, match=r"fewer records as written.*tidegate reconcile"):
        rewind(6, held)


def test_points_are_within_the_ledger() -> None:
    for wanted, reason in (
        ({0: 11}, "covers 0 to 9"),
        ({2: 0}, "does not know it"),
        ({0: 10, 1: 4}, "nothing is to be judged again"),
    ):
        with pytest.raises(ConflictError, match=reason):
            points_of(HELD, wanted, is_exact=True)
    assert points_of(HELD, {0: 6, 1: 9, 2: 3}, is_exact=False) == {0: 6, 1: 4}
    without_begin = HELD.model_copy(update={"begin": {}})
    for held in (HELD, without_begin):
        assert points_of(held, {0: 0}, is_exact=True) == {0: 0}


def test_a_later_rewind_keeps_earlier_ones_and_an_earlier_one_swallows_them() -> None:
    once = rewound({}, {0: 4, 1: 2}, 1)
    twice = rewound(once, {0: 6}, 2)
    assert twice == {0: (Rewound(4, 1), Rewound(6, 2)), 1: (Rewound(2, 1),)}
    assert rewound(twice, {0: 4}, 3) == {0: (Rewound(4, 3),), 1: (Rewound(2, 1),)}


@pytest.mark.parametrize(
    ("offset", "counting"), [(3, {0, 1, 2}), (4, {1, 2}), (5, {1, 2}), (6, {2}), (99, {2})]
)
def test_refusals_count_by_the_rewinds_below_them(offset: int, counting: set[int]) -> None:
    rewinds = {0: (Rewound(4, 1), Rewound(6, 2))}
    held = HELD.model_copy(update={"generation": 2, "rewinds": rewinds})
    assert {g for g in range(4) if held.counts(0, offset, g)} == counting
    assert {g for g in range(3) if overruling(rewinds, 0, offset, g) is None} == counting


def test_rewinds_that_no_refusal_needs_are_forgotten() -> None:
    rewinds = {0: (Rewound(4, 1), Rewound(6, 2)), 1: (Rewound(1, 2),)}
    assert pruned(rewinds, [(0, 6)]) == {0: (Rewound(6, 2),)}
    many = {0: tuple(Rewound(10 * n, n) for n in range(1, MOST_REWINDS + 2))}
    with pytest.raises(ConflictError, match=f"offset {10 * MOST_REWINDS} or before"):
        pruned(many, [(0, each.first) for each in many[0]])
    most = {0: many[0][1:]}
    assert pruned(most, [(0, each.first) for each in most[0]]) == most


def test_a_ledger_that_was_never_rewound_has_the_text_of_before() -> None:
    assert "generation" not in HELD.text
    assert "rewinds" not in HELD.text
    new = rewind(6, needed=frozenset({(0, 6)})).ledger(HELD, "ab" * 16, "")
    assert '"generation":1,"rewinds":{"0":[[6,1]]}' in new.text
    assert Ledger.parse(new.text) == new


def test_a_generation_counts_only_behind_our_own_source() -> None:
    """A producer sends such a header, or a refused record is replayed with all its headers."""
    source = EventPointer("rows", 0, 7)
    verdict = Verdict(Disposition.QUARANTINED, ())
    forged = [(GENERATION_HEADER, b"9")]
    for generation in (0, 3):
        ours = [*quarantine_headers(source, "l", "c@1.0.0", verdict), *generation_header(generation)]
        for headers in (ours, [*forged, *ours], [*ours, *ours]):
            evidence = read_evidence(headers)
            assert evidence is not None
            assert evidence.generation == generation
    replayed = [
        *provenance_headers(source, "l", "c@1.0.0"),
        *generation_header(3),
        *quarantine_headers(source, "l", "c@1.0.0", verdict),
    ]
    provenance = read_provenance(replayed)
    assert provenance is not None
    assert provenance.generation == 0


def test_where_to_is_read() -> None:
    assert RewindTo.parse("0:1200,1:1188").offsets == {0: 1200, 1: 1188}
    assert RewindTo.parse("6418326490412341376").snapshot == 6418326490412341376
    time = RewindTo.parse("2026-07-01T12:00:00+02:00").time
    assert time is not None
    assert time.isoformat() == "2026-07-01T12:00:00+02:00"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0:1,0:2", "a partition is named twice"),
        ("1969-12-31T23:59:59.999Z", "a time is not before 1970"),  # -1, the end of the topic to Kafka
        ("2026-07-01T12:00:00", "a time needs its zone"),
        ("0:x", "give offsets by partition"),
    ],
)
def test_other_places_are_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        RewindTo.parse(text)
