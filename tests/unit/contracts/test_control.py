"""What holds for a stream, and how it changes."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from pydantic import ValidationError

from tidegate.contracts.stream.control import Range, StreamControl, StreamState, Trip

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def trip_of(**changes: object) -> Trip:
    fields: dict[str, object] = {
        "id": uuid4(),
        "stream": "s",
        "topic": "t",
        "contract": "s@1.0.0",
        "epoch": 1,
        "at": NOON,
        "start": {0: 10, 1: 5},
        "end": {0: 20, 1: 5},
        "records": 10,
        "refused": 4,
        "allowed": 0.2,
        "action": "pause",
    }
    return Trip.model_validate({**fields, **changes})


@pytest.mark.parametrize(
    ("start", "end", "overlaps"),
    [
        ({0: 0}, {0: 10}, False),
        ({0: 0}, {0: 11}, True),
        ({0: 19}, {0: 20}, True),
        ({0: 20}, {0: 30}, False),
        ({0: 12}, {0: 12}, False),
        ({1: 0, 2: 0}, {1: 9, 2: 9}, False),
        ({}, {0: 11}, True),
        ({}, {}, False),
    ],
)
def test_two_ranges_overlap_when_they_share_an_offset(
    start: dict[int, int],
    end: dict[int, int],
    overlaps: bool,
) -> None:
    accepted = trip_of().range
    assert accepted.overlaps(start, end) is overlaps
    if set(start) == set(end):
        assert Range(start=start, end=end).overlaps(accepted.start, accepted.end) is overlaps


@pytest.mark.parametrize(
    ("start", "end"), [({0: 0}, {0: 2**62}), ({0: 2**62, 1: 0}, {0: 0, 1: 2**62}), ({0: 0}, {0: 20_000_001})]
)
def test_a_trip_is_of_one_batch(start: dict[int, int], end: dict[int, int]) -> None:
    """Who accepts it switches the error budget off for its offsets."""
    with pytest.raises(ValidationError, match="10,000,000 offsets at most"):
        trip_of(start=start, end=end)


def test_a_budget_that_pauses_pauses_and_one_that_fails_only_notes() -> None:
    before = StreamControl(stream="s")
    paused = before.tripped(trip_of(), "job", NOON)
    noted = before.tripped(trip_of(action="fail"), "job", NOON)
    assert (before.is_paused, paused.is_paused, noted.is_paused) == (False, True, False)
    assert (before.revision, paused.revision) == (0, 1)
    assert paused.reason == (
        "error budget spent: 4 of 10 records refused, 20.0% allowed; nothing of the batch is written"
    )


def test_only_an_accepting_resume_accepts_and_what_was_accepted_stays() -> None:
    trip = trip_of()
    paused = StreamControl(stream="s").tripped(trip, "job", NOON)
    assert paused.resumed("me", NOON, accept=False).accepted is None
    accepting = paused.resumed("me", NOON, accept=True)
    assert (accepting.state, accepting.accepted, accepting.trip) == (StreamState.RUNNING, trip.range, trip)
    assert accepting.paused("later", "me", NOON).resumed("me", NOON, accept=False).accepted == trip.range


def test_what_holds_survives_its_json() -> None:
    control = StreamControl(stream="s").tripped(trip_of(), "job", NOON).resumed("me", NOON, accept=True)
    assert StreamControl.model_validate_json(control.model_dump_json()) == control


@pytest.mark.parametrize("wrong", [{"refused": 11}, {"end": {0: 20}}, {"action": "quarantine"}])
def test_a_trip_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        trip_of(**wrong)
