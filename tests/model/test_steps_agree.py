"""Steps have the same names and order in the code, in the models and in docs/explanation/exactly-once.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.model import closures, one_transaction, staged
from tests.model.closures import ClosurePart
from tests.model.parts import Part
from tests.model.replay import STEPS as REPLAY_STEPS
from tests.model.replay import ReplayPart
from tests.model.rewind import STEPS, RewindPart
from tests.model.upserts import UpsertPart
from tidegate.spark_jobs.adopt.rewind import RewindStep
from tidegate.spark_jobs.sinks import staged as staged_sink
from tidegate.spark_jobs.sinks.kafka import sink as kafka
from tidegate.spark_jobs.steps import ReplayStep, Step

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "exactly-once.md").read_text()
STAGED, ONE_TRANSACTION = PAGE.split("## The steps, sinks with a table", 1)[1].split(
    "## The steps, Kafka sink", 1
)
REWIND, REPLAY = PAGE.split("## Rewinding a stream", 1)[1].split("## Replaying refused records", 1)
INSIDE = {Step.CONTRACT: Step.JUDGE, Step.SLOT: Step.QUARANTINE, Step.COMMITTED: Step.PUBLISH}
"""Steps that the code times or reports separately, and the step of the page that includes each."""


def documented(chapter: str) -> list[str]:
    """Return the step names in the tables of a chapter, in order, without numbers."""
    cells = re.findall(r"^\| ([^|]+?) \|", chapter, re.MULTILINE)
    names = [cell.split(" ", 1)[1] if re.match("[\\d\u2013]", cell) else "" for cell in cells]
    return [re.sub(r"^\d+ ", "", name) for name in names if name]


def timed(module: object, method: str) -> list[Step]:
    """Return the steps that a method of the module's sink names, in the order of `ast.walk`."""
    assert isinstance(module.__file__, str)  # type: ignore[attr-defined] # modules have it
    tree = ast.parse(Path(module.__file__).read_text())  # type: ignore[attr-defined] # the same
    (found,) = [
        node
        for scope in ast.walk(tree)
        if isinstance(scope, ast.ClassDef) and scope.name.endswith("Sink")
        for node in scope.body
        if isinstance(node, ast.FunctionDef) and node.name == method
    ]
    return [
        Step[node.attr]
        for node in ast.walk(found)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Step"
    ]


def test_every_step_of_the_code_is_in_the_page() -> None:
    names = documented(STAGED)
    assert [INSIDE.get(step, step) for step in Step if INSIDE.get(step, step) not in names] == []


def test_the_page_has_the_steps_in_the_order_of_the_code() -> None:
    names = [name for name in documented(STAGED) if name in set(Step)]
    assert names == [step for step in Step if step not in INSIDE]


@pytest.mark.parametrize(
    "model", [staged.START + staged.BATCH, one_transaction.START + one_transaction.BATCH]
)
def test_the_models_know_no_other_steps(model: tuple[Step, ...]) -> None:
    assert set(model) <= set(Step)


def test_the_start_is_the_models_start() -> None:
    assert timed(staged_sink, "start") == list(staged.START)
    assert timed(kafka, "start") == list(one_transaction.START)
    assert timed(kafka, "_settle") == list(staged.START[1:])  # of the tasks' slots, after the claim


def test_the_model_has_the_batch_in_the_order_of_the_page() -> None:
    order = documented(STAGED)
    steps = [*staged.START, *staged.BATCH]
    assert sorted(steps, key=order.index) == steps


@pytest.mark.parametrize("part", [*Part, *one_transaction.Part])
def test_every_part_belongs_to_a_step_of_the_page(part: str) -> None:
    assert part.partition(":")[0] in documented(STAGED)


def test_the_steps_of_a_rewind_are_those_of_the_page() -> None:
    assert [name for name in documented(REWIND) if name in set(RewindStep)] == [*RewindStep]
    assert [step for step in RewindStep if step in STEPS] == [*STEPS]


@pytest.mark.parametrize("part", RewindPart)
def test_every_part_of_a_rewind_belongs_to_a_step_of_the_page(part: str) -> None:
    assert part.partition(":")[0] in {*documented(REWIND), *documented(STAGED)}


def test_the_steps_of_a_replay_are_those_of_the_page() -> None:
    assert [name for name in documented(REPLAY) if name in set(ReplayStep)] == [*ReplayStep]
    for steps in (REPLAY_STEPS, closures.STEPS):
        assert [step for step in ReplayStep if step in steps] == [*steps]


@pytest.mark.parametrize("part", [*ReplayPart, *UpsertPart, *ClosurePart])
def test_every_part_of_a_replay_belongs_to_a_step_of_the_page(part: str) -> None:
    assert part.partition(":")[0] in {*documented(REPLAY), *documented(REWIND), *documented(STAGED)}


PARTS = [*Part, *one_transaction.Part, *RewindPart, *ReplayPart, *UpsertPart, *ClosurePart]


def test_the_page_names_every_part_that_cannot_be_left_out() -> None:
    """The other tests of the folder print what happens without each."""
    chapter = PAGE.partition("### Parts of the protocol")[2].partition("\n### ")[0]
    assert re.findall(r"^\* (.+)$", chapter, re.MULTILINE) == PARTS


def test_no_two_parts_are_equal() -> None:
    """Parts are strings, so equal parts of two models would be one dictionary key."""
    assert len({*PARTS}) == len(PARTS)
