"""Every schedule of the models can be read: its steps are those of the code, or are listed as known to the models alone."""

from __future__ import annotations

import pytest

from tests.model import one_transaction
from tests.model.parts import Part
from tests.model.schedules import READ, REPLACE, UNTOLD, counterexample, moves
from tidegate.spark_jobs.steps import Step

EVERY_PART = [*Part, *one_transaction.Part]


@pytest.mark.full
def test_no_other_step_of_a_model_is_unknown_to_the_code() -> None:
    """Each of them is used, so that the list grows and shrinks with the models."""
    found = {move.untold for part in EVERY_PART for move in moves(counterexample(part))}
    assert found - {None} == {*UNTOLD}


def test_the_code_reports_every_other_step() -> None:
    told = {move.step for part in EVERY_PART for move in moves(counterexample(part)) if move.untold is None}
    assert told <= {*Step}
    assert {READ, REPLACE}.isdisjoint(told)


def test_what_is_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="no step of a model: A dances"):
        moves(["A dances"])
