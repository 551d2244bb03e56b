"""What happens to the source topic behind the job's back: retention, deletion, new partitions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event, Semaphore
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.transactions import Transactions
from tests.integration.enforce.wire import send_batch
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.stream.evidence import headers_of
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.spark_jobs.job.record_source import ContractTopic
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.source_topic import require_same
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import Step

_CLEANER_SECONDS = 120


@pytest.fixture(params=["iceberg", pytest.param("kafka", marks=pytest.mark.full)])
def either(request: pytest.FixtureRequest, make_line: Callable[..., Line]) -> Line:
    """A line into a table, then one into a topic: what is tested comes before the sink, so one of them is enough."""
    return make_line(sink=request.param)


def client_of(line: Line) -> AdminClient:
    """Return an admin client; its requests are cancelled when it is no longer referenced."""
    return AdminClient({"bootstrap.servers": line.settings.bootstrap_servers})


def forget(line: Line, topic: str, partition: int, before: int) -> None:
    """Delete the records of a partition below an offset, as retention does."""
    client = client_of(line)
    (future,) = client.delete_records([TopicPartition(topic, partition, before)]).values()
    future.result(30)


def add_partitions(line: Line, together: int) -> None:
    client = client_of(line)
    client.create_partitions([NewPartitions(line.topic, together)])[line.topic].result(30)


def make_anew(line: Line, name: str | None = None) -> None:
    """Delete a topic, the source unless another is named, and create it again, under another topic id."""
    name = name or line.topic
    client = client_of(line)
    topics = Topics(line.settings.kafka)
    before = topics.identity(name)
    client.delete_topics([name])[name].result(30)
    while topics.identity(name) is not None:
        pass
    if name != line.topic:  # the job makes its outputs itself
        return
    client.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    while (after := topics.identity(name)) is None:
        pass
    assert after != before


class PowerCutError(Exception):
    """The job ends here, and nothing of it goes on."""


def cut_after_quarantine(_stream: str, step: Step) -> None:
    if step is Step.QUARANTINE:
        raise PowerCutError


def outputs(line: Line) -> tuple[int, int]:
    written = line.rows() if line.settings.sink == "iceberg" else line.accepted()
    return len(written), len(line.quarantined())


def test_records_deleted_before_they_were_judged_stop_the_stream(either: Line) -> None:
    line = either
    line.produce(*(row(n) for n in range(6)))
    line.enforce()
    line.produce(*(row(n, 999 if n % 4 == 1 else 1) for n in range(6, 16)))
    forget(line, line.topic, 1, 5)
    before = line.ledger()
    with pytest.raises(StreamStopped) as stopped:
        line.enforce()
    assert str(stopped.value) == (
        f"{line.topic}: partition 1 begins at 5, the ledger ends at 3: records were deleted before they were judged. "
        f"Lengthen the topic's retention; to go on without them: tidegate adopt {line.contract_id} --partition 1 --from 5 "
        "--accept-loss"
    )
    assert outputs(line) == (6, 0)
    after = line.ledger()
    assert after == before.claim(1, after.instance)


@pytest.mark.full
def test_records_deleted_after_they_were_judged_do_not_matter(either: Line) -> None:
    line = either
    line.produce(*(row(n) for n in range(6)))
    line.enforce()
    forget(line, line.topic, 0, 3)
    forget(line, line.topic, 1, 2)
    line.produce(row(6), row(7, 999))
    line.enforce()
    assert outputs(line) == (7, 1)
    assert line.ledger().totals == BatchTotals(written=7, quarantined=1)


@pytest.mark.full
def test_records_deleted_between_two_batches_stop_the_stream_at_its_restart(line: Line) -> None:
    """Spark notices while it runs, and that may pass; the next attempt says what is gone."""
    # So large that few are fetched at once: how many of those that are deleted the source has read ahead is its own affair.
    large = "x" * 900_000
    line.produce(*(Sent(json.dumps({"id": f"{n}{large}", "amount": 1}).encode()) for n in range(16)))

    def forget_after_first(_stream: str, step: Step) -> None:
        if step is Step.COMMITTED:
            forget(line, line.topic, 0, 15)

    with pytest.raises((PySparkException, Py4JError)):
        line.enforce(forget_after_first, max_offsets=2)
    judged = line.ledger().end[0]
    assert 2 <= judged < 15
    with pytest.raises(StreamStopped, match=f"partition 0 begins at 15, the ledger ends at {judged}:"):
        line.enforce()
    assert outputs(line) == (judged, 0)


def test_quarantined_records_that_a_restart_must_know_and_cannot_stop_the_stream(line: Line) -> None:
    """The batch was not published, its refused records have been deleted since."""
    line.produce(row(0), row(2, 999))
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_quarantine)
    assert outputs(line) == (0, 1)
    output = quarantine_topic(line.topic)
    end = Topics(line.settings.kafka).latest(output)[0]
    forget(line, output, 0, end)
    with pytest.raises(StreamStopped) as stopped:
        line.enforce()
    assert str(stopped.value) == (
        f"{output}: partition 0 begins at {end}, but what was quarantined from 0 on must be known to go on without "
        "doubling it: records were deleted. Lengthen the topic's retention; to go on without knowing them: "
        f"tidegate adopt {line.contract_id} --forget-deleted"
    )
    assert outputs(line) == (0, 0)


@pytest.mark.full
def test_retention_of_the_quarantine_does_not_stop_a_stream_that_settled_all_it_refused(line: Line) -> None:
    """Another ledger of the same topic adds refused records, and so do attempts that are aborted: the mark passes them."""
    line.produce(row(0), row(2, 999))
    line.enforce()
    line.enforce(sink="delta")
    output = quarantine_topic(line.topic)
    marked = line.ledger().scan_from[output]
    end = Topics(line.settings.kafka).latest(output)
    assert marked[0] < end[0]
    line.produce(row(4))
    line.enforce()
    assert line.ledger().scan_from[output] == end
    forget(line, output, 0, end[0])
    line.produce(row(6))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=3, quarantined=1)


@pytest.mark.full
def test_an_aborted_attempt_and_an_empty_quarantine_do_not_stop_a_healthy_stream(line: Line) -> None:
    """The last thing in the topic is an abort marker beyond the mark; then a batch without refused records follows."""
    line.produce(row(0), row(2, 999))
    line.enforce()
    output = quarantine_topic(line.topic)
    assert line.ledger().scan_from[output] == {0: 2, 1: 0}
    attempt = Transactions(line, "attempt", output)
    attempt.begin([replace(row(4, 999), partition=0), replace(row(8, 999), partition=0)])
    attempt.abort()
    line.produce(row(4))
    line.enforce()
    assert line.ledger().scan_from[output] == {0: 5, 1: 0}
    forget(line, output, 0, 5)
    line.produce(row(6))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=3, quarantined=1)


@pytest.mark.full
def test_an_idle_stream_starts_although_retention_has_passed_its_mark(line: Line) -> None:
    """The source holds nothing ahead of the ledger, so no attempt can have refused anything ahead of it."""
    line.produce(row(0), row(2, 999))
    line.enforce()
    line.enforce(sink="delta")
    output = quarantine_topic(line.topic)
    forget(line, output, 0, Topics(line.settings.kafka).latest(output)[0])
    before = line.ledger()
    line.enforce()
    after = line.ledger()
    assert after == before.claim(1, after.instance)


@pytest.mark.full
@pytest.mark.parametrize(
    ("sink", "output", "amount"),
    [("iceberg", quarantine_topic, 999), ("kafka", accepted_topic, 1)],
)
def test_a_mark_is_past_the_transaction_markers_of_its_stream(
    make_line: Callable[..., Line], sink: str, output: Callable[[str], str], amount: int
) -> None:
    """The broker writes them after the commit has returned; a mark before one would be passed by retention."""
    line = make_line(sink=sink, partitions=8, accepted_slots=2)
    line.produce(*(Sent(row(n, amount).value, b"k", n % 8) for n in range(120)))
    topic, marks = output(line.topic), []

    def note_mark(_stream: str, step: Step) -> None:
        if step is Step.COMMITTED:
            marks.append(line.ledger().scan_from[topic])

    line.enforce(note_mark, max_offsets=8)
    kafka, topics = line.settings.kafka, Topics(line.settings.kafka)
    end = topics.latest(topic)
    records = {(each.partition(), each.offset()) for each in read_committed(kafka, topic, {}, end)}
    assert len(marks) >= 15
    assert [mark for mark in marks if not mark.items() <= records | {*end.items()}] == []
    topics.delete_before(topic, end)
    line.produce(row(0))
    line.enforce()
    assert line.ledger().totals.offsets == 121


def test_what_a_stranger_writes_into_the_quarantine_does_not_stop_a_restart(line: Line) -> None:
    """A header name that is not UTF-8 is one that no client reads; after many others it used to end the process."""
    line.produce(row(0), *(row(2 * n, 999) for n in range(1, 41)))
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_quarantine)
    bootstrap = line.settings.bootstrap_servers
    send_batch(bootstrap, quarantine_topic(line.topic), [(Sent(b"a stranger's"), [(b"\xff", b"")])])
    line.enforce()
    assert outputs(line) == (1, 41)
    assert line.ledger().totals == BatchTotals(written=1, quarantined=40, dropped=0, absent=0)


def test_headers_that_are_not_utf8_can_be_asked_for_again(line: Line) -> None:
    """The client keeps the list that it could not finish, and answers with it the second time."""
    send_batch(line.settings.bootstrap_servers, line.topic, [(Sent(b"a"), [(b"good", b"1"), (b"\xff", b"")])])
    (message,) = read_committed(line.settings.kafka, line.topic, {0: 0}, {0: 1})
    assert [headers_of(message) for _ in range(3)] == [[], [], []]


@pytest.mark.full
def test_a_recreated_quarantine_is_read_from_its_beginning(line: Line) -> None:
    """The ledger's offset is beyond the end of the topic; records refused since must still be found."""
    line.produce(*(row(2 * n, 999) for n in range(5)))
    line.enforce()
    make_anew(line, quarantine_topic(line.topic))
    line.produce(row(10, 999), row(12))
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_quarantine)
    line.enforce()
    assert outputs(line) == (1, 1)
    assert line.ledger().totals == BatchTotals(written=1, quarantined=6, dropped=0, absent=0)
    found = line.reconcile()
    assert (found.answer, found.lost, found.quarantined) == (ReconciliationAnswer.LOST, 5, 1)


def test_a_recreated_topic_stops_the_stream(either: Line) -> None:
    """Although it holds more records than were judged of the old one."""
    line = either
    line.produce(*(row(n) for n in range(4)))
    line.enforce()
    make_anew(line)
    line.produce(*(row(n, 999) for n in range(20)))
    with pytest.raises(StreamStopped) as stopped:
        line.enforce()
    assert str(stopped.value) == (
        f"topic {line.topic} was deleted and created again: its offsets are not those of the ledger. To archive the output, and "
        f"begin again with an empty one: tidegate archive {line.contract_id}"
    )
    assert outputs(line) == (4, 0)


def test_a_recreated_topic_between_two_batches_stops_the_stream(line: Line) -> None:
    """Records read from the old topic meanwhile are not written, because their offsets no longer identify them."""
    line.produce(*(row(2 * n) for n in range(4)))
    judged = Semaphore(0)

    def remake_after_first(_stream: str, step: Step) -> None:
        if step is Step.JUDGE:
            judged.release()
        if step is Step.COMMITTED:
            assert all(judged.acquire(timeout=60) for _ in range(2))
            make_anew(line)
            line.produce(*(row(2 * n, 999) for n in range(8)))

    with pytest.raises(StreamStopped, match="was deleted and created again"):
        line.enforce(remake_after_first, max_offsets=2)
    assert outputs(line) == (2, 0)


def test_a_topic_that_the_broker_does_not_know_for_a_moment_is_not_recreated(line: Line) -> None:
    line.produce(row(0))
    line.enforce()
    topics, ledger = Topics(line.settings.kafka), line.ledger()
    source = topics.describe(line.topic)
    assert source is not None
    with pytest.raises(Unavailable, match="does not know topic unknown-to-it"):
        require_same(topics, replace(source, name="unknown-to-it"), ledger)
    require_same(topics, source, ledger)


def test_partitions_added_while_the_job_runs_are_read_from_their_first_record(either: Line) -> None:
    line = either
    line.produce(*(row(n) for n in range(4)))
    stopping = Event()

    def grow(_stream: str, step: Step) -> None:
        if step is not Step.COMMITTED:
            return
        if len(line.ledger().end) == 2:
            add_partitions(line, 4)
            for partition in (2, 3, 2):
                line.produce(Sent(row(7, 999).value, b"k", partition), Sent(row(8).value, b"k", partition))
            line.produce(row(10))
        elif line.ledger().totals.offsets == 11:
            stopping.set()

    line.attempt(grow, available_now=False, trigger_seconds=0.05).run(stopping, Event())
    assert line.ledger().end == {0: 3, 1: 2, 2: 4, 3: 2}
    assert line.ledger().totals == BatchTotals(written=8, quarantined=3)
    assert line.reconcile().holds
    assert outputs(line) == (8, 3)
    # A restart finds the partitions where it left them; the outputs still have two.
    line.produce(Sent(row(9).value, b"k", 3))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=9, quarantined=3)
    assert line.reconcile().holds


def test_an_added_partition_whose_first_records_are_gone_stops_the_stream(either: Line) -> None:
    """It was added and emptied while the job was down: nothing else could tell that records are missing."""
    line = either
    line.produce(*(row(n) for n in range(4)))
    line.enforce()
    add_partitions(line, 3)
    line.produce(*(Sent(row(n).value, b"k", 2) for n in range(5)))
    forget(line, line.topic, 2, 3)
    before = line.ledger()
    with pytest.raises(StreamStopped) as stopped:
        line.enforce()
    assert str(stopped.value) == (
        f"{line.topic}: partition 2 was added since the ledger was written, and begins at 3: its first records were deleted "
        "before they were judged. Lengthen the topic's retention; to go on without them: tidegate adopt "
        f"{line.contract_id} --partition 2 --from 3 --accept-loss"
    )
    assert outputs(line) == (4, 0)
    after = line.ledger()
    assert after == before.claim(1, after.instance)


def test_what_another_instance_judges_during_a_start_is_not_lost(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instance that starts has looked at the topic before the other judges new records, of a new partition too."""
    line.produce(row(0, 1))
    line.enforce()

    def open_slowly(*arguments: Any) -> ContractTopic:
        source = ContractTopic(*arguments)
        monkeypatch.undo()
        add_partitions(line, 3)
        line.produce(row(0, 2), Sent(row(1, 3).value, None, 2))
        line.enforce()
        line.produce(Sent(row(1, 4).value, None, 2))
        return source

    monkeypatch.setattr("tests.integration.enforce.line.ContractTopic", open_slowly)
    line.enforce()
    assert [each["amount"] for each in line.rows()] == [1, 2, 3, 4]
    assert line.reconcile().holds


def test_the_first_start_begins_where_the_topic_begins(either: Line) -> None:
    """A stream without a ledger has judged nothing that could be missing."""
    line = either
    line.produce(*(row(n) for n in range(6)))
    forget(line, line.topic, 1, 2)
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=4)
    assert (line.ledger().begin, line.ledger().end) == ({0: 0, 1: 2}, {0: 3, 1: 3})


@pytest.mark.full
def test_a_partition_added_and_emptied_while_the_job_runs_stops_the_stream(line: Line) -> None:
    """Spark notices when it plans the batch, and that may pass; the next attempt says what is gone."""
    line.produce(*(row(n) for n in range(4)))
    grown = Event()

    def grow(_stream: str, step: Step) -> None:
        # While a batch is judged Spark plans no other: it finds the partition when its first records are gone.
        if step is Step.JUDGE and not grown.is_set():
            grown.set()
            add_partitions(line, 3)
            line.produce(*(Sent(row(n).value, b"k", 2) for n in range(5)))
            forget(line, line.topic, 2, 3)

    with pytest.raises((PySparkException, Py4JError)):
        line.attempt(grow, available_now=False, trigger_seconds=0.05).run(Event(), Event())
    assert line.ledger().end == {0: 2, 1: 2}
    with pytest.raises(
        StreamStopped, match="partition 2 was added since the ledger was written, and begins at 3"
    ):
        line.enforce()
    assert outputs(line) == (4, 0)


def write_until_compacted(line: Line, partition: int) -> int:
    """Write versions of one key until the cleaner has taken the first of them away; return the first offset that is left."""
    deadline = time.monotonic() + _CLEANER_SECONDS
    while True:
        # The cleaner leaves the newest segment alone, and a broker begins a segment by the times of records.
        now = int(time.time() * 1000)
        line.produce(Sent(row(2).value, b"k", partition, timestamp_ms=now))
        end = Topics(line.settings.kafka).latest(line.topic)[partition]
        found = read_committed(line.settings.kafka, line.topic, {}, {partition: end})
        if first := min(message.offset() or 0 for message in found):
            return first
        assert time.monotonic() < deadline, "nothing was compacted"


@pytest.mark.full
@pytest.mark.parametrize("policy", ["compact,delete", "compact"])
def test_a_partition_added_to_a_compacted_topic(
    make_line: Callable[..., Line], make_topic: Callable[..., str], policy: str
) -> None:
    """Compaction never moves the first offset of a partition. Retention beside it does, and that stops the stream."""
    line = make_line()
    settings = {"segment_ms": "100", "min_cleanable_dirty_ratio": "0.001"}
    line.topic = make_topic("rows", partitions=2, cleanup_policy=policy, **settings)
    line.contracts.plan = line.plan()
    line.produce(*(row(n) for n in range(4)))
    line.enforce()
    before = line.ledger()
    add_partitions(line, 3)
    first = write_until_compacted(line, 2)
    if policy == "compact":
        line.enforce()
        assert line.ledger().begin[2] == 0
        assert line.ledger().totals.absent >= first
        assert line.reconcile().holds
        return
    forget(line, line.topic, 2, first)
    with pytest.raises(StreamStopped, match=f"partition 2 was added .* begins at {first}: .*--accept-loss"):
        line.enforce()
    assert line.ledger().end == before.end
