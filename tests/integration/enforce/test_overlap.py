"""A batch is judged while the one before it is written, and written only if that one was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Event

import pytest

from tests.integration.enforce.line import KNOWN, Line, row
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.spark_jobs.steps import Step

RECORDS = 40
A_BATCH = 10
PATIENCE_SECONDS = 60


@pytest.mark.parametrize("sink", ["iceberg", "kafka"])
def test_the_next_batch_is_judged_while_one_is_written(make_line: Callable[..., Line], sink: str) -> None:
    line = make_line(sink=sink, max_offsets=A_BATCH)
    line.produce(*(row(n, 999 if n % 4 == 0 else 1) for n in range(RECORDS)))
    judged, is_second_judged = Counter[Step](), Event()

    def observe(_stream: str, step: Step) -> None:
        judged[step] += 1
        if step is Step.JUDGE and judged[step] == 2:
            is_second_judged.set()
        if step is Step.PUBLISH and judged[step] == 1:
            assert is_second_judged.wait(PATIENCE_SECONDS)

    line.enforce(observe)
    assert line.ledger().n == RECORDS // A_BATCH
    assert line.reconcile().holds


def test_a_batch_behind_one_that_could_not_be_written_is_not_written(make_line: Callable[..., Line]) -> None:
    line = make_line(max_offsets=A_BATCH)
    line.produce(*(row(n) for n in range(RECORDS)))
    is_second_judged = Event()
    judged = Counter[Step]()

    def observe(_stream: str, step: Step) -> None:
        judged[step] += 1
        if step is Step.JUDGE and judged[step] == 2:
            is_second_judged.set()
        if step is Step.STAGE and judged[step] == 1:
            assert is_second_judged.wait(PATIENCE_SECONDS)
            raise Unavailable("the store is away")

    with pytest.raises(Unavailable, match="the store is away"):
        line.enforce(observe)
    assert line.ledger().n == 0
    assert judged[Step.COMMITTED] == 0
    line.enforce()
    assert line.reconcile().holds
    assert len(line.rows()) == RECORDS


def test_a_batch_that_stops_the_stream_lets_the_one_before_it_be_written(
    make_line: Callable[..., Line],
) -> None:
    line = make_line(max_offsets=A_BATCH)
    line.contracts.plan = line.plan(rules=[{**KNOWN, "on_violation": "fail"}])
    line.produce(*(row(n, 999 if n == A_BATCH else 1) for n in range(RECORDS)))
    with pytest.raises(StreamStopped, match="amount-is-known"):
        line.enforce()
    assert line.ledger().n == 1
    assert len(line.rows()) == A_BATCH


@pytest.mark.full
@pytest.mark.parametrize(
    "settings", [{"sink": "kafka", "accepted_slots": 2}, {"sink": "iceberg", "write_mode": "upsert"}]
)
def test_a_stop_lets_a_batch_be_written_by_jobs_of_spark(
    make_line: Callable[..., Line], settings: dict[str, object]
) -> None:
    """A query that stops cancels the jobs of its threads, so it is stopped when they are over."""
    line = make_line(**settings)
    line.contracts.plan = line.plan(primary_key=["id"])
    line.produce(*(row(n) for n in range(RECORDS)))
    stopping, is_stopped = Event(), Event()

    def stop(_stream: str, step: Step) -> None:
        if step is Step.DECIDE:
            stopping.set()

    attempt = line.attempt(stop, available_now=False)
    attempt.run(stopping, is_stopped)
    assert line.ledger().totals.written == RECORDS
    assert line.reconcile().holds
