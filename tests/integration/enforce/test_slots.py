"""The quarantine's transactional producers: several of them, another number at each start, one of them lost, and those
of an instance that comes back from the dead.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from tests.integration.enforce.line import KNOWN, Line, Sent, row
from tests.integration.enforce.transactions import committed_slots
from tests.marks import full
from tidegate.contracts.errors import Fenced, Unavailable
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers, read_evidence
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.contracts.stream.output_topics import LEDGER_TOPIC, accepted_topic, quarantine_topic
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer, read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import Step

CRASHING_WRITER = Path(__file__).with_name("crashing_writer.py")
PARTITIONS = 4
DEADLINE_SECONDS = 60


def refuse(line: Line, numbers: range) -> None:
    """Produce a refused and an accepted record for each number, over all partitions."""
    line.produce(
        *(
            Sent(row(number, amount).value, b"%d" % number, number % PARTITIONS)
            for number in numbers
            for amount in (999, 1)
        )
    )


def sources(line: Line) -> list[EventPointer]:
    """Where the quarantined records come from, in the order in which they are in the topic's partitions."""
    evidence = [read_evidence(record.headers) for record in line.quarantined()]
    return [each.source for each in evidence if each is not None]


def test_slots_share_the_partitions_and_their_number_may_change(
    make_line: Callable[..., Line], spark: SparkSession
) -> None:
    line = make_line(partitions=PARTITIONS)
    for round_, slots in enumerate((2, 3, 1)):
        refuse(line, range(round_ * 8, round_ * 8 + 8))
        line.enforce(quarantine_slots=slots)
        assert line.ledger().slots == slots
        assert line.reconcile().holds
        assert line.ledger().totals == BatchTotals(written=8 * (round_ + 1), quarantined=8 * (round_ + 1))
        assert committed_slots(line, spark) == set(map(str, range(slots)))
    found = sources(line)
    assert len(found) == 24
    for partition in range(PARTITIONS):
        offsets = [source.offset for source in found if source.partition == partition]
        assert offsets == sorted(offsets)


@pytest.mark.full
@pytest.mark.parametrize("slots_after", [1, 3])
def test_a_batch_with_one_lost_slot_is_completed(line: Line, slots_after: int) -> None:
    """The first slot has committed, the second has not: the records of the first are final for every next instance."""
    line.enforce(quarantine_slots=2)
    line.produce(*(row(n, 999 if n < 6 else 1) for n in range(10)))

    def fence_the_second(_stream: str, step: Step) -> None:
        if step is Step.JUDGE:
            TransactionalProducer(line.settings.kafka, f"tidegate/{line.ledger().name}/1").fence()

    with pytest.raises(Unavailable):  # the ledger is still held, so this is no other instance
        line.enforce(fence_the_second, quarantine_slots=2)
    assert {source.partition for source in sources(line)} == {0}
    assert (len(sources(line)), line.rows()) == (3, [])
    # The next contract would let all of them pass; the first verdict of those three stands.
    line.contracts.plan = line.plan(version="1.0.1", rules=[{**KNOWN, "values": [998]}])
    line.enforce(quarantine_slots=slots_after)
    assert line.reconcile().holds
    assert line.ledger().totals == BatchTotals(written=7, quarantined=3)
    assert len(sources(line)) == 3
    assert line.ledger().slots == slots_after


@contextmanager
def paused_in_a_transaction(line: Line, records: list[OutputRecord]) -> Iterator[Future[int]]:
    """Be an instance that hangs when the broker has its records and the transaction is open, and goes on at the end."""
    topics = Topics(line.settings.kafka)
    before = {topic: topics.latest(topic) for topic, *_ in records}
    paused, go_on = Event(), Event()

    def hang() -> Iterator[OutputRecord]:
        yield from records
        while any(topics.latest(topic) == end for topic, end in before.items()):
            pass
        paused.set()
        assert go_on.wait(DEADLINE_SECONDS)
        yield records[0]

    producer = TransactionalProducer(line.settings.kafka, f"tidegate/{line.ledger().name}/0")
    producer.fence()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(producer.write, hang())
        try:
            assert paused.wait(DEADLINE_SECONDS)
            yield writing
        finally:
            go_on.set()


def copies(line: Line, sink: str) -> list[OutputRecord]:
    """Return what an instance would write about the record at partition 0, offset 1, which is refused."""
    kafka, ledger = line.settings.kafka, line.ledger()
    headers = quarantine_headers(
        EventPointer(line.topic, 0, 1),
        ledger.name,
        f"{line.contract_id}@1.0.0",
        line.contracts.plan.explain(row(0, 999).value),
    )
    refused = (quarantine_topic(line.topic), b"of the dead", None, 0, 1, [*headers])
    if sink == "iceberg":
        return [refused]
    accepted = (accepted_topic(line.topic), b"of the dead", None, 0, 1, [*headers])
    (place,) = {
        message.partition()
        for message in read_committed(kafka, LEDGER_TOPIC, {}, Topics(kafka).latest(LEDGER_TOPIC))
        if message.key() == ledger.name.encode()
    }
    moved = ledger.model_copy(update={"n": 99, "end": {0: 99, 1: 99}})
    return [
        refused,
        accepted,
        (LEDGER_TOPIC, moved.text.encode(), ledger.name.encode(), place or 0, 1, []),
    ]


def require_nothing_of_the_dead(line: Line, sink: str) -> None:
    assert line.reconcile().holds
    assert [record.value for record in line.quarantined()] == [row(2, 999).value, row(1, 999).value]
    if sink == "kafka":
        assert [record.value for record in line.accepted()] == [row(0).value, row(4).value]


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", "kafka"])
def test_an_instance_that_hangs_in_its_transaction_leaves_nothing_and_cannot_commit(
    make_line: Callable[..., Line], sink: str
) -> None:
    line = make_line(sink=sink)
    line.produce(row(0))
    line.enforce()
    line.produce(row(2, 999), row(4), row(1, 999))
    with paused_in_a_transaction(line, copies(line, sink)) as writing:
        line.enforce()
        assert line.ledger().totals == BatchTotals(written=2, quarantined=2)
    with pytest.raises(Fenced):
        writing.result(DEADLINE_SECONDS)
    require_nothing_of_the_dead(line, sink)


@pytest.mark.parametrize("sink", [*full("iceberg"), "kafka"])
def test_an_instance_that_is_killed_in_its_transaction_leaves_nothing(
    make_line: Callable[..., Line], sink: str
) -> None:
    line = make_line(sink=sink)
    line.produce(row(0))
    line.enforce()
    line.produce(row(2, 999), row(4), row(1, 999))
    orders = (
        line.settings.kafka,
        f"tidegate/{line.ledger().name}/0",
        copies(line, sink),
    )
    killed = subprocess.run(
        [sys.executable, CRASHING_WRITER],
        input=pickle.dumps(orders),
        check=False,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    line.enforce()
    require_nothing_of_the_dead(line, sink)
