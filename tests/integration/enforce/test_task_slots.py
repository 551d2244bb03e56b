"""Accepted records that tasks write: several slots, another number at each start, one of them lost or taken over."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.integration.enforce.line import KNOWN, Line, Sent, row
from tests.integration.enforce.test_source_changes import forget
from tests.integration.enforce.transactions import Transactions, committed_slots
from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.stream.evidence import EventPointer, provenance_headers, read_provenance
from tidegate.contracts.stream.ledger import BatchTotals, Ledger
from tidegate.contracts.stream.output_topics import accepted_topic
from tidegate.spark_jobs.kafka.kafka_ledger import transactional_id
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import Step
from tidegate.spark_jobs.worker.judge import worker_errors
from tidegate.spark_jobs.worker.record_spool import RECORDS
from tidegate.spark_jobs.worker.records import Destination
from tidegate.spark_jobs.worker.task_slots import WRITTEN_DDL, SlotTarget, write_packed

PARTITIONS = 4
MANY = 60
RETRIED_TASK = Path(__file__).with_name("retried_task.py")


class PowerCutError(Exception):
    """The job ends here, and nothing of it goes on."""


@pytest.fixture
def tasks_line(make_line: Callable[..., Line]) -> Line:
    return make_line(sink="kafka", accepted_slots=2)


def produce(line: Line, numbers: range) -> None:
    """Produce an accepted and a refused record for each number, over all partitions."""
    line.produce(
        *(
            Sent(row(number, amount).value, b"%d" % number, number % PARTITIONS)
            for number in numbers
            for amount in (1, 999)
        )
    )


def sources(line: Line) -> list[tuple[int, int]]:
    """Where the accepted records come from, in the order in which they are in the topic's partitions."""
    found = [read_provenance(record.headers) for record in line.accepted()]
    return [(each.source.partition, each.source.offset) for each in found if each is not None]


def test_tasks_write_what_is_accepted_in_order_and_their_number_may_change(
    make_line: Callable[..., Line], spark: SparkSession
) -> None:
    line = make_line(sink="kafka", partitions=PARTITIONS)
    for round_, slots in enumerate((2, 3, 1, 2)):
        produce(line, range(round_ * 16, round_ * 16 + 16))
        line.enforce(
            accepted_slots=slots, max_offsets=16
        )  # two batches, so that the second finds its producers
        assert line.ledger().totals == BatchTotals(written=16 * (round_ + 1), quarantined=16 * (round_ + 1))
        assert line.ledger().slots == (1 if slots == 1 else 1 + slots)
        assert committed_slots(line, spark) >= set(map(str, range(1 if slots == 1 else 1 + slots)))
        assert line.reconcile().holds
    found = sources(line)
    assert len(found) == len(set(found)) == 64
    for partition in range(PARTITIONS):
        offsets = [offset for of, offset in found if of == partition]
        assert offsets == sorted(offsets)


@pytest.mark.full
@pytest.mark.parametrize("slots_after", [3, pytest.param(1, marks=pytest.mark.full)])
def test_a_batch_with_one_written_task_is_completed(tasks_line: Line, slots_after: int) -> None:
    """The records of the task of partition 0, written before its job was killed, are final for every next instance."""
    line = tasks_line
    line.produce(row(0), row(1))
    line.enforce()
    records = [row(n) for n in range(2, 12)]
    line.produce(*records)
    ledger = line.ledger()
    dead = TransactionalProducer(line.settings.kafka, f"tidegate/{ledger.name}/1")
    dead.fence()
    of_the_task = [each for each in records if each.partition == 0]
    for offset, record in enumerate(of_the_task, ledger.end[0]):
        headers = provenance_headers(
            EventPointer(line.topic, 0, offset), ledger.name, f"{line.contract_id}@1.0.0"
        )
        dead.write([(accepted_topic(line.topic), record.value, record.key, 0, 1, [*headers])])
    assert line.reconcile().holds  # what tasks have written ahead of the ledger is no fault
    # The next contract refuses all of them; the first verdict of those that are written stands.
    line.contracts.plan = line.plan(version="1.0.1", rules=[{**KNOWN, "values": [1, 999]}])
    line.enforce(accepted_slots=slots_after, max_offsets=4)
    assert line.reconcile().holds
    assert [source for source in sources(line) if source[0] == 0] == [(0, offset) for offset in range(6)]
    assert line.ledger().totals == BatchTotals(written=7, quarantined=5)
    assert line.ledger().slots == (1 if slots_after == 1 else 1 + slots_after)


@pytest.mark.full
@pytest.mark.parametrize("slots_after", [1, 2])
def test_what_all_tasks_have_written_is_not_written_again(tasks_line: Line, slots_after: int) -> None:
    line = tasks_line
    line.produce(*(row(n, 999 if n == 3 else 1) for n in range(10)))

    def end_after_the_tasks(_stream: str, step: Step) -> None:
        if step is Step.SLOT:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        line.enforce(end_after_the_tasks)
    assert (len(line.accepted()), len(line.quarantined()), line.ledger().n) == (9, 0, 0)
    line.produce(row(10), row(11))
    line.enforce(accepted_slots=slots_after)
    assert line.reconcile().holds
    assert line.ledger().totals == BatchTotals(written=11, quarantined=1)
    assert line.ledger().scan_from.keys() == (set() if slots_after == 1 else {accepted_topic(line.topic)})


@pytest.mark.full
def test_a_task_of_a_zombie_writes_nothing(tasks_line: Line) -> None:
    """It takes its slots over after all others have fenced them, and finds another epoch in the ledger."""
    line = tasks_line
    line.produce(row(0), row(1))

    def claim_meanwhile(_stream: str, finished: Step) -> None:
        if finished is Step.DECIDE and not line.reports:
            line.enforce()

    with pytest.raises(Fenced):
        line.enforce(claim_meanwhile)
    assert len(line.accepted()) == 2
    assert line.reconcile().holds


@pytest.mark.full
def test_a_zombie_that_takes_a_slot_over_does_not_end_who_holds_the_ledger(tasks_line: Line) -> None:
    """Its task fences the slot before it reads the ledger; if that ended the other instance, none would remain."""
    line = tasks_line
    line.produce(
        *(row(number) for number in range(MANY))
    )  # it takes longer to write them than to take a slot over
    done = Event()

    def take_over_again_and_again() -> None:
        while not done.is_set():
            with suppress(Fenced, Unavailable):
                TransactionalProducer(line.settings.kafka, transactional_id(line.ledger().name, 1)).fence()

    def begin(_stream: str, finished: Step) -> None:
        if finished is Step.DECIDE and not zombie.is_alive():
            zombie.start()

    zombie = Thread(target=take_over_again_and_again)
    try:
        with pytest.raises(Unavailable):  # in one of thirty batches
            line.enforce(begin, max_offsets=2)
    finally:
        done.set()
        zombie.join()
    line.enforce()
    assert len(line.accepted()) == MANY
    assert line.reconcile().holds


def test_a_batch_that_must_not_pass_leaves_no_trace(tasks_line: Line) -> None:
    line = tasks_line
    line.contracts.plan = line.plan(rules=[{**KNOWN, "on_violation": "fail"}])
    line.produce(row(0), row(1), row(3, 999))
    with pytest.raises(StreamStopped, match="partition 1, offset 1"):
        line.enforce()
    assert (line.accepted(), line.quarantined()) == ([], [])
    assert line.ledger().end == {0: 0, 1: 0}


def test_a_batch_that_is_refused_as_a_whole_is_quarantined(tasks_line: Line) -> None:
    line = tasks_line
    budget = {"ratio": 0.1, "min_records": 1, "action": "quarantine"}
    line.contracts.plan = line.plan(error_budget=budget)
    line.produce(*(row(n, 999 if n == 2 else 1) for n in range(6)))
    line.enforce()
    assert line.accepted() == []
    assert len(line.quarantined()) == 6
    assert line.ledger().totals == BatchTotals(quarantined=6)
    assert line.reconcile().holds


def test_retention_does_not_stop_a_stream_whose_last_batch_was_refused_as_a_whole(tasks_line: Line) -> None:
    """No task writes such a batch; the mark still passes what others have written into the accepted topic."""
    line, output = tasks_line, accepted_topic(tasks_line.topic)
    line.contracts.plan = line.plan(error_budget={"ratio": 0.1, "min_records": 1, "action": "quarantine"})
    line.produce(row(0))
    line.enforce()
    marked = line.ledger().scan_from[output]
    line.produce(row(4, 999), row(6))

    def write_meanwhile(_stream: str, step: Step) -> None:
        if step is Step.JUDGE:
            others = Transactions(line, "others", output)
            others.begin([row(2)])
            others.commit()

    line.enforce(write_meanwhile)
    end = Topics(line.settings.kafka).latest(output)
    assert marked[0] < end[0]
    assert line.ledger().scan_from[output] == end
    forget(line, output, 0, end[0])
    line.produce(row(8))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=2, quarantined=2)


@pytest.mark.full
def test_bytes_headers_and_masks_are_as_with_one_slot(make_line: Callable[..., Line]) -> None:
    records = (
        Sent(b'{"id": "a", "amount": 1}', None, 0, (("trace", b"\x00\xff"), ("trace", None), ("e", b"")), 1),
        Sent(b'{"amount": 2, "id": "b"}', b"", 0, (), 0),
        Sent(b'{"id":"d","amount":4}', b"\xff", 1),
    )
    found = []
    for slots in (1, 2):
        line = make_line(sink="kafka", accepted_slots=slots)
        line.produce(*records)
        line.enforce()
        found.append(
            [
                (
                    each.value,
                    each.key,
                    each.partition,
                    [h for h in each.headers if h[0] in {"trace", "e", "tidegate.timestamp"}],
                )
                for each in line.accepted()
            ]
        )
    assert found[0] == found[1]
    assert [each[0] for each in found[0]] == [each.value for each in records]


def slot_target(line: Line, ledger: Ledger) -> SlotTarget:
    """Return where the tasks of the first batch of an instance write that holds this ledger."""
    topics = Topics(line.settings.kafka)
    topic = topics.describe(accepted_topic(line.topic))
    assert topic is not None
    to = Destination(topic, ledger, line.contracts.plan)
    return SlotTarget(to, line.settings.kafka, 1, (0, 0), topics.latest(topic.name))


def packed_records() -> bytes:
    """Return the first three records of partition 0, packed for a task."""
    common = {"partition": 0, "key": None, "headers": None, "timestamp_ms": 5}
    records = [{**common, "offset": offset, "value": row(offset).value} for offset in range(3)]
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, RECORDS) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist(records, RECORDS))
    return bytes(buffer.getvalue())


def test_a_task_that_takes_a_slot_over_looks_at_the_ledger(tasks_line: Line, spark: SparkSession) -> None:
    """Its instance has been overtaken: the slot is fenced for the task, but the ledger names another epoch."""
    line = tasks_line
    line.enforce()
    outdated = slot_target(line, line.ledger())
    line.enforce()
    packed = spark.createDataFrame([(packed_records(),)], "kept binary").coalesce(1)

    def write(target: SlotTarget) -> None:
        with worker_errors():
            packed.mapInArrow(write_packed(target), WRITTEN_DDL).collect()

    with pytest.raises(Fenced, match="another instance of this stream holds the ledger now"):
        write(outdated)
    assert line.accepted() == []
    write(slot_target(line, line.ledger()))
    assert sources(line) == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.full
def test_a_task_that_is_run_again_leaves_out_what_it_has_written(tasks_line: Line) -> None:
    """Its executor was lost between its commit and its answer: Spark knows of no commit."""
    line = tasks_line
    line.enforce()
    target = slot_target(line, line.ledger())
    done = subprocess.run(
        [sys.executable, RETRIED_TASK],
        input=pickle.dumps((target, packed_records())),
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert done.stdout.decode().split() == ["0"], (
        done.stderr.decode()
    )  # the second attempt had nothing to write
    assert sources(line) == [(0, 0), (0, 1), (0, 2)]
