"""Replays: requests with a fixed set of positions, which refusals they leave, and the ledger after a chunk."""

from __future__ import annotations

from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.ledgers import LEDGER
from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.closure import ClosedRefusals, Closure, chain_of
from tidegate.contracts.stream.evidence import EventPointer, Evidence
from tidegate.contracts.stream.generations import Rewound
from tidegate.contracts.stream.ledger import BatchRefusal, BatchTotals, Ledger, MarkedKeys
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    MOST_FIX,
    MOST_RECORDS,
    MOST_REQUEST_BYTES,
    MOST_REQUEST_RUNS,
    Closed,
    ReplayRequest,
    Untouched,
    digest_of_refusals,
    positions_of,
    runs_of,
    why_untouched,
)
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk, done_well, is_over_budget
from tidegate.contracts.stream.segments import Segment

HELD = LEDGER.model_copy(
    update={
        "begin": {0: 0, 1: 0},
        "end": {0: 10, 1: 4},
        "totals": BatchTotals(written=7, quarantined=5, absent=2),
        "segments": {
            0: (Segment(0, 4, 2, 2, 0), Segment(4, 10, 3, 2, 0)),
            1: (Segment(0, 4, 2, 1, 0),),
        },
    }
)
REFUSALS = Positions([(0, 3), (0, 4), (0, 5), (2, 7)])


def request(refusals: Positions = REFUSALS, **changes: Any) -> ReplayRequest:
    return ReplayRequest.model_validate(
        {
            "id": UUID(int=1),
            "stream": "s",
            "topic": "t.quarantine",
            "topic_id": "id",
            "positions": runs_of(refusals),
            "records": len(refusals),
            "digest": digest_of_refusals("t.quarantine", refusals),
            **changes,
        }
    )


def test_a_request_keeps_its_positions_as_runs() -> None:
    asked = request()
    assert asked.positions == {0: ((3, 5),), 2: ((7, 7),)}
    assert ReplayRequest.model_validate_json(asked.model_dump_json()).refusals() == REFUSALS


def test_the_largest_request_fits_into_its_bytes() -> None:
    last = 2**63 - 1
    runs = ((last, last),) * MOST_REQUEST_RUNS
    asked = request(positions={2**31 - 1: runs}, fix="\U0001f600" * MOST_FIX, fingerprint="0" * 64)
    assert MOST_REQUEST_BYTES > len(asked.model_dump_json().encode()) > 10 * 2**20


def test_a_request_of_too_many_runs_says_what_to_do() -> None:
    runs = tuple((each, each) for each in range(0, 2 * MOST_REQUEST_RUNS + 2, 2))
    with pytest.raises(ValueError, match=r"in 250,001 runs .* --where partition=0"):
        request(positions={0: runs}).refusals()


@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 300)), min_size=1))
def test_runs_give_back_the_positions(positions: set[tuple[int, int]]) -> None:
    assert positions_of(runs_of(Positions(sorted(positions)))) == positions


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"digest": "0" * 64}, "do not have the digest"),
        ({"topic": "other"}, "do not have the digest"),
        ({"positions": {0: ((3, 5),), 2: ((8, 8),)}}, "do not have the digest"),
        ({"positions": {0: ((3, 5), (5, 5))}}, "do not overlap"),
        ({"positions": {0: ((5, 3),)}}, "ascending order"),
        ({"positions": {0: ((0, MOST_RECORDS),)}}, "at most"),
    ],
)
def test_positions_that_are_not_those_of_the_digest_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        request(**changes).refusals()


def test_the_digest_is_the_documented_one() -> None:
    parts = [(4, 0), (8, 3), (8, 3), (8, 4), (8, 5), (4, 2), (8, 1), (8, 7)]
    written = b"t.quarantine\0" + b"".join(number.to_bytes(size, "big") for size, number in parts)
    assert request().digest == sha256(written).hexdigest()


def test_a_fix_comes_with_its_fingerprint() -> None:
    with pytest.raises(ValidationError, match="comes with its fingerprint"):
        request(fix="{}")


def evidence(partition: int, offset: int, **changes: Any) -> Evidence:
    found: dict[str, Any] = {"ledger": HELD.name, "contract": "s@1.0.0", "rules": (), "violations": ()}
    return Evidence(source=EventPointer("t", partition, offset), **(found | changes))


BATCH = BatchRefusal({0: 10}, ())


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (evidence(0, 3), None),
        (None, Untouched.FOREIGN),
        (evidence(0, 3, ledger="another"), Untouched.FOREIGN),
        (evidence(0, 6), Untouched.OVERRULED),
        (evidence(0, 6, generation=1), None),
        (evidence(0, 10, generation=1), Untouched.AHEAD),
        (evidence(3, 0), Untouched.AHEAD),
        (evidence(1, 2), Untouched.REPLAYED),
        (evidence(0, 2), Untouched.DISCARDED),
        (evidence(0, 4), Untouched.RESENT),
        (evidence(1, 1), Untouched.UNORDERED),
        (evidence(0, 3, refusal=BATCH), Untouched.BATCH),
    ],
)
def test_some_refusals_are_left(found: Evidence | None, why: Untouched | None) -> None:
    held = HELD.model_copy(update={"generation": 1, "rewinds": {0: (Rewound(5, 1),)}})
    closed = Closed(Positions([(1, 2)]), Positions([(0, 2)]), Positions([(0, 4)]))
    why_found = why_untouched(
        found, held, closed, is_omitted=False, accepts_batches=False, deletes_known_since={1: 2}
    )
    assert why_found is why


def test_records_of_a_refused_batch_are_taken_when_the_request_says_so() -> None:
    found = evidence(0, 3, refusal=BATCH)
    assert why_untouched(found, HELD, Closed(), is_omitted=False, accepts_batches=True) is None
    assert why_untouched(found, HELD, Closed(), is_omitted=True, accepts_batches=True) is Untouched.OMITTED


def test_records_whose_key_was_deleted_since_are_superseded() -> None:
    asked = request()
    chunk = ReplayedChunk(Positions([(0, 1), (0, 5)]), deleted_since=Positions([(0, 5)]))
    after = chunk.ledger(HELD, asked.begun(HELD), "d1", "m1")
    totals, before = after.totals, HELD.totals
    assert (totals.written, totals.superseded) == (before.written + 1, before.superseded + 1)
    assert totals.quarantined == before.quarantined - 2
    assert totals.offsets == before.offsets
    assert after.replayed == HELD.replayed + 2
    assert after.marks == MarkedKeys(digest="m1", since={}, until=HELD.end)


def test_a_chunk_moves_records_from_refused_to_written() -> None:
    asked = request()
    chunk = ReplayedChunk(Positions([(0, 1), (0, 5), (1, 3)]), refused=1)
    first = chunk.ledger(HELD, asked.begun(HELD), "d1")
    assert first.totals == BatchTotals(written=10, quarantined=2, absent=2)
    assert first.totals.offsets == HELD.totals.offsets
    assert first.segments == {
        0: (Segment(0, 4, 3, 1, 0), Segment(4, 10, 4, 1, 0)),
        1: (Segment(0, 4, 3, 0, 0),),
    }
    assert (first.n, first.end, first.scan_from, first.epoch) == (
        HELD.n + 1,
        HELD.end,
        HELD.scan_from,
        HELD.epoch,
    )
    assert (first.replayed, first.replayed_digest) == (3, "d1")
    progress = asked.begun(first)
    assert (progress.written, progress.refused, progress.left, progress.is_finished) == (3, 1, 0, True)
    assert Ledger.parse(first.text) == first


def test_a_chunk_that_writes_nothing_keeps_the_positions_of_before() -> None:
    held = HELD.model_copy(update={"replayed": 2, "replayed_digest": "d0"})
    after = ReplayedChunk(left=2, refused=1).ledger(held, request().begun(held), "")
    assert (after.replayed, after.replayed_digest, after.totals) == (2, "d0", HELD.totals)
    assert after.replay == ReplayProgress(
        request=UUID(int=1).hex, digest=request().digest, records=4, refused=1, left=2
    )


def test_discarded_records_stay_refused_and_are_named_in_a_chain_of_their_own() -> None:
    asked = request(action="discard", reason="the ward was closed")
    chunk = ReplayedChunk(left=1, closed=Positions([(0, 1), (0, 5)]), closure=Closure.DISCARDED)
    first = chunk.ledger(HELD, asked.begun(HELD), "d1")
    assert (first.totals, first.segments) == (HELD.totals, HELD.segments)
    assert first.closed == {Closure.DISCARDED: ClosedRefusals(records=2, digest="d1")}
    assert (first.replayed, first.replayed_digest) == (0, "")
    progress = asked.begun(first)
    assert (progress.closed, progress.left, progress.done) == (2, 1, 3)
    assert Ledger.parse(first.text) == first
    assert '"until"' not in first.text
    last = ReplayedChunk(left=1, closure=Closure.DISCARDED).ledger(first, progress, "")
    assert last.closed == first.closed
    assert asked.begun(last).is_finished


def test_a_replay_that_closes_nothing_is_written_as_the_first_release_wrote_it() -> None:
    progress = ReplayProgress(request=UUID(int=1).hex, digest="d", records=1, written=1)
    assert "closed" not in progress.model_dump()
    assert progress.is_finished
    with pytest.raises(ValidationError, match="more refusals were processed than the request has"):
        ReplayProgress(request=UUID(int=1).hex, digest="d", records=1, written=1, left=1)


def test_each_way_to_close_records_has_a_chain_of_its_own() -> None:
    assert chain_of("l", None) == "l"
    assert [chain_of("l", closure) for closure in Closure] == [f"l#{closure}" for closure in Closure]


def test_what_an_ended_attempt_has_sent_counts_in_the_ledger_and_not_in_the_request() -> None:
    asked = request(action="to-source")
    chunk = ReplayedChunk(closed=Positions([(0, 1)]), closure=Closure.RESENT, also=Positions([(0, 5)]))
    after = chunk.ledger(HELD, asked.begun(HELD), "d1")
    assert after.closed == {Closure.RESENT: ClosedRefusals(records=2, digest="d1")}
    rewound = {Closure.RESENT: ClosedRefusals(records=3, digest="d0", until={0: 9})}
    after = chunk.ledger(HELD.model_copy(update={"closed": rewound}), asked.begun(HELD), "d1")
    assert after.closed == {Closure.RESENT: ClosedRefusals(records=5, digest="d1", until={0: 9})}
    assert Ledger.parse(after.text) == after
    assert asked.begun(after).closed == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action": "discard"}, "a discard has a reason"),
        ({"reason": "because"}, "a replay has none"),
        ({"action": "discard", "reason": ""}, "at least 1 character"),
        ({"action": "discard", "reason": " \t\n"}, "it is blank: say why the records are discarded"),
        ({"action": "discard", "reason": "x", "fix": "{}", "fingerprint": "0" * 64}, "are not fixed"),
    ],
)
def test_a_discard_has_a_reason_and_no_fix(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        request(**changes)


def test_the_next_request_begins_at_its_beginning() -> None:
    held = ReplayedChunk(left=4).ledger(HELD, request().begun(HELD), "")
    other = request(id=UUID(int=2))
    assert request().begun(held).is_finished
    assert other.begun(held).done == 0


@pytest.mark.parametrize("written", [[(0, n) for n in range(6)], [(0, 10)]])
def test_more_than_the_ledger_counts_is_never_written(written: list[tuple[int, int]]) -> None:
    with pytest.raises(ConflictError, match="counts fewer refused records than are replayed"):
        ReplayedChunk(Positions(written)).ledger(HELD, request().begun(HELD), "d1")


def test_all_refusals_of_the_ledger_are_written() -> None:
    every = Positions([(0, 1), (0, 2), (0, 4), (0, 5), (1, 3)])
    after = ReplayedChunk(every).ledger(HELD, request(every).begun(HELD), "d1")
    assert (after.totals.quarantined, after.totals.written) == (0, 12)


def test_segments_that_do_not_fit_begin_again() -> None:
    after = ReplayedChunk(Positions([(1, 0), (1, 1)])).ledger(HELD, request().begun(HELD), "d1")
    assert after.segments == {0: HELD.segments[0]}


def test_the_budget_of_a_replay_counts_from_its_beginning() -> None:
    progress = ReplayProgress(request="0" * 32, digest="", records=1000, written=60, refused=15, left=500)
    written = Positions((0, n) for n in range(20))
    assert not is_over_budget(progress, ReplayedChunk(written, refused=4), 0.1)
    assert not is_over_budget(progress, ReplayedChunk(written, refused=5), 0.2)
    assert is_over_budget(progress, ReplayedChunk(written, refused=6), 0.2)


def test_the_budget_of_a_replay_applies_from_100_judged_records_on() -> None:
    progress = ReplayProgress(request="0" * 32, digest="", records=1000, written=40, closed=20, left=500)
    written, closed = Positions((0, n) for n in range(10)), Positions((0, n) for n in range(20, 28))
    assert done_well(progress, ReplayedChunk(written, closed=closed)) == 78
    assert not is_over_budget(progress, ReplayedChunk(written, closed=closed, refused=21), 0.2)
    assert is_over_budget(progress, ReplayedChunk(written, closed=closed, refused=22), 0.2)


def test_a_ledger_without_replays_says_nothing_of_them() -> None:
    assert "replay" not in HELD.text
