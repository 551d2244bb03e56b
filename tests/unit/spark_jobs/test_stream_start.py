"""What a start claims: a number above those that were reported, and the newest load of a history."""

from __future__ import annotations

from typing import cast

import pytest

from tests.ledgers import LEDGER
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.history import HistoryMark
from tidegate.spark_jobs.kafka.topics import TopicDescription
from tidegate.spark_jobs.sinks.sink import StreamStart
from tidegate.spark_jobs.steps import Stopwatch, ignore_steps


@pytest.mark.parametrize(
    ("reported", "claimed"),
    [
        (0, LEDGER.epoch + 1),
        (LEDGER.epoch, LEDGER.epoch + 1),
        (LEDGER.epoch + 7, LEDGER.epoch + 8),
        (LEDGER.epoch + 1_000_000, LEDGER.epoch + 1_000_001),
        (2**63 - 1, LEDGER.epoch + 1),
    ],
)
def test_a_claim_is_above_every_epoch_that_can_have_been_reported(reported: int, claimed: int) -> None:
    plan, source = cast("EnforcementPlan", None), cast("TopicDescription", None)
    start = StreamStart(plan, source, {}, Stopwatch("s", ignore_steps), reported)
    assert start.numbered(LEDGER) == LEDGER.model_copy(update={"epoch": claimed - 1})
    assert start.numbered(LEDGER).claim(1).epoch == claimed


FIRST, SECOND = HistoryMark(load="h/load-0", end=4), HistoryMark(load="h/load-1", end=10)


def test_a_claim_names_the_newest_load_of_a_history() -> None:
    plan, source = cast("EnforcementPlan", None), cast("TopicDescription", None)
    start = StreamStart(plan, source, {}, Stopwatch("s", ignore_steps), history=(FIRST, SECOND))
    assert start.claimable(LEDGER).history == SECOND
    held = LEDGER.model_copy(update={"history": FIRST})
    assert start.claimable(held).history == SECOND
    of_topic = StreamStart(plan, source, {}, Stopwatch("s", ignore_steps))
    assert of_topic.claimable(held) == held
    for other in (HistoryMark(load="other/load-0", end=4), HistoryMark(load="h/load-2", end=12)):
        with pytest.raises(StreamStopped, match=f"lacks load {other.load}.*tidegate archive"):
            start.claimable(LEDGER.model_copy(update={"history": other}))
