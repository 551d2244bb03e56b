"""Refusals are closed once in every reachable state, and no part of the protocol can be removed."""

from __future__ import annotations

import pytest

from tests.marks import full
from tests.model import staged
from tests.model.closures import ClosurePart, ClosureProtocol
from tests.model.schedules import (
    BOTH,
    CLOSURE_WORLDS,
    DISCARD,
    FIRST,
    ONE_ACCEPTED,
    ONE_TO_CLOSE,
    REPLAY,
    SENT,
    SENT_AND_REWOUND,
    TO_SOURCE,
    TWO_REFUSED,
    ClosureWorld,
)
from tests.model.search import search
from tests.model.world import Bounds

THREE_INSTANCES = Bounds(ONE_TO_CLOSE.verdicts, (1, 1, 1))

LONG = {
    ClosurePart.CHECKS_CLAIM,
    ClosurePart.NAMES_AHEAD,
    ClosurePart.LEFT_OUT,
    ClosurePart.COUNTS_LEFT_OUT,
    ClosurePart.REWIND_FENCES_SENDER,
    ClosurePart.REWIND_LOOKS_AHEAD,
}
"""The parts whose violation takes more than a second to find."""


@pytest.mark.parametrize(
    "world",
    [
        SENT_AND_REWOUND,
        *full(
            ClosureWorld(ONE_TO_CLOSE, (REPLAY, DISCARD, TO_SOURCE), 1, 1, FIRST),
            ClosureWorld(ONE_TO_CLOSE, (REPLAY, DISCARD, TO_SOURCE), 2, 0, FIRST),
            ClosureWorld(ONE_TO_CLOSE, (REPLAY, TO_SOURCE), 2, 1, frozenset()),
            ClosureWorld(ONE_TO_CLOSE, (TO_SOURCE,), 1, 2, FIRST),
            ClosureWorld(ONE_ACCEPTED, (TO_SOURCE,), 1, 1, FIRST),
            ClosureWorld(TWO_REFUSED, (TO_SOURCE,), 1, 1, BOTH),
            ClosureWorld(THREE_INSTANCES, (TO_SOURCE,), 1, 0, FIRST),
        ),
    ],
)
def test_a_refusal_is_closed_once_and_no_row_is_written_of_one_that_was_sent(world: ClosureWorld) -> None:
    found = search(world.protocol())
    assert found.violation is None, str(found)
    assert found.states > 5_000


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.full] if part in LONG else []) for part in ClosurePart]
)
def test_no_part_of_closing_can_be_left_out(part: ClosurePart) -> None:
    found = search(CLOSURE_WORLDS[part].protocol(part))
    print(f"without {part}\n{found}")  # noqa: T201 - the trace is what one wants to see
    assert found.violation is not None


class ClosureRecovery(staged.Recovery, ClosureProtocol):
    """A check that the next instance completes the stream and all requests after a crash of all others."""


@pytest.mark.parametrize(
    "world", [SENT, *full(SENT_AND_REWOUND, ClosureWorld(ONE_TO_CLOSE, (DISCARD, TO_SOURCE), 2, 0, FIRST))]
)
def test_whatever_was_closed_the_next_instance_continues_to_the_end(world: ClosureWorld) -> None:
    found = search(ClosureRecovery(*world[:4], None, world.mended))
    assert found.violation is None, str(found)
