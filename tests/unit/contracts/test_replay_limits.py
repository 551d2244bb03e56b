"""Requests to replay at their limits, what each action closes, and what ends a request."""

from __future__ import annotations

import pytest

from tests.ledgers import LEDGER
from tests.unit.contracts.test_replay import evidence, request
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    MOST_RECORDS,
    MOST_REQUEST_RUNS,
    MOST_RUNS,
    Closed,
    ReplayAction,
    ReplayState,
    ReplayTerms,
    StreamReplay,
    positions_of,
    why_untouched,
)
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk


def test_as_many_records_as_a_request_may_have() -> None:
    first = 5_000_000
    assert len(positions_of({0: ((first, first + MOST_RECORDS - 1),)})) == MOST_RECORDS
    with pytest.raises(ValueError, match="at most"):
        positions_of({0: ((first, first + MOST_RECORDS - 1),), 1: ((0, 0),)})


def test_as_many_runs_as_are_read() -> None:
    runs = tuple((each, each) for each in range(0, 2 * MOST_RUNS, 2))
    assert len(positions_of({0: runs})) == MOST_RUNS
    with pytest.raises(ValueError, match="at most"):
        positions_of({0: runs, 1: ((0, 0),)})


def test_as_many_runs_as_a_request_may_have() -> None:
    refusals = Positions([(0, each) for each in range(0, 2 * MOST_REQUEST_RUNS, 2)])
    assert request(refusals).refusals() == refusals


def test_what_each_action_closes_and_writes() -> None:
    assert [each.closure for each in ReplayAction] == [None, Closure.DISCARDED, Closure.RESENT]
    assert [ReplayTerms(each).writes_rows for each in ReplayAction] == [True, False, False]
    asked = request(action="to-source", append_late=True, accept_batches=True)
    assert asked.terms == ReplayTerms(ReplayAction.TO_SOURCE, append_late=True, accept_batches=True)


def test_a_published_chunk_closes_its_records() -> None:
    closed, ended = Closed(), Positions([(0, 3)])
    closed.add(ReplayedChunk(Positions([(0, 1)])))
    closed.add(ReplayedChunk(closed=Positions([(0, 2)]), closure=Closure.DISCARDED))
    closed.add(ReplayedChunk(closed=ended, closure=Closure.RESENT, also=Positions([(0, 4)])))
    assert closed == Closed(Positions([(0, 1)]), Positions([(0, 2)]), Positions([(0, 3), (0, 4)]))


@pytest.mark.parametrize(("offset", "known_since"), [(3, {0: 3}), (0, {1: 2})])
def test_a_record_since_the_oldest_mark_of_its_partition_is_judged(
    offset: int, known_since: dict[int, int]
) -> None:
    held = LEDGER.model_copy(update={"begin": {0: 0}, "end": {0: 10}})
    found = evidence(0, offset, ledger=held.name)
    assert (
        why_untouched(
            found,
            held,
            Closed(),
            is_omitted=False,
            accepts_batches=False,
            deletes_known_since=known_since,
        )
        is None
    )


def test_a_request_has_ended_when_nothing_can_change_it() -> None:
    states = {each: StreamReplay.model_construct(state=each).is_ended for each in ReplayState}
    assert [each for each, is_ended in states.items() if not is_ended] == ["proposed", "open"]
