"""All schedules of the models can be parsed; their steps are steps of the code, or are listed as steps of the models only."""

from __future__ import annotations

import pytest

from tests.model import one_transaction
from tests.model.closures import ClosurePart
from tests.model.parts import Part
from tests.model.replay import ReplayPart
from tests.model.rewind import RewindPart
from tests.model.schedules import (
    OF_KAFKA,
    READ,
    REPLACE,
    REWINDS_TO,
    UNTOLD,
    UNTOLD_OF_REPLAYS,
    AnyPart,
    counterexample,
    kafka_counterexample,
    moves,
    replay_counterexample,
)
from tidegate.spark_jobs.adopt.rewind import RewindStep
from tidegate.spark_jobs.steps import ReplayStep, Step

EVERY_PART = [*Part, *one_transaction.Part]


@pytest.mark.full
def test_no_other_step_of_a_model_is_unknown_to_the_code() -> None:
    """Every entry of `UNTOLD` is used, so that the list follows the models."""
    found = {move.untold for part in EVERY_PART for move in moves(counterexample(part))}
    assert found - {None} == {*UNTOLD}


def test_the_code_reports_every_other_step() -> None:
    told = {move.step for part in EVERY_PART for move in moves(counterexample(part)) if move.untold is None}
    assert told <= {*Step}
    assert {READ, REPLACE}.isdisjoint(told)


OF_HALVES = {
    ReplayPart.POSITIONS_FIRST,
    ReplayPart.ONE_COMMIT_ROWS_FIRST,
    ReplayPart.ONE_COMMIT_LEDGER_FIRST,
    ClosurePart.ONE_TRANSACTION_RECORDS_FIRST,
    ClosurePart.ONE_TRANSACTION_POSITIONS_FIRST,
    RewindPart.DELETE,
    RewindPart.ONE_COMMIT_ROWS_FIRST,
    RewindPart.ONE_COMMIT_LEDGER_FIRST,
}
"""Parts without which a step has two halves; the code has no such halves."""


@pytest.mark.full
@pytest.mark.parametrize(
    "part",
    [part for part in (*ReplayPart, *ClosurePart, *RewindPart) if part not in OF_HALVES],
    ids=lambda part: f"{type(part).__name__}-{part.name}",
)
def test_the_steps_of_replays_and_rewinds_are_those_of_the_code(part: AnyPart) -> None:
    require_known(replay_counterexample(part))


@pytest.mark.parametrize("part", [part for part in OF_KAFKA if part not in OF_HALVES])
def test_the_steps_of_replays_into_topics_are_those_of_the_code(part: ReplayPart) -> None:
    require_known(kafka_counterexample(part))


def require_known(schedule: tuple[str, ...]) -> None:
    """Assert that each step of a schedule is a step of the code, or is listed as a step of the models only."""
    found = moves(schedule)
    assert {move.untold for move in found} - {None} <= {*UNTOLD, *UNTOLD_OF_REPLAYS}
    assert {move.step for move in found if move.untold is None} <= {
        *Step,
        *ReplayStep,
        *RewindStep,
        REWINDS_TO,
    }


def test_what_is_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="no step of a model: A dances"):
        moves(["A dances"])
