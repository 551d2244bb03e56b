"""The number that a start gives to its claim."""

from __future__ import annotations

from typing import cast

import pytest

from tests.ledgers import LEDGER
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.spark_jobs.kafka.topics import Topic
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
    plan, source = cast("EnforcementPlan", None), cast("Topic", None)
    start = StreamStart(plan, source, {}, Stopwatch("s", ignore_steps), reported)
    assert start.numbered(LEDGER) == LEDGER.model_copy(update={"epoch": claimed - 1})
    assert start.numbered(LEDGER).claim(1).epoch == claimed
