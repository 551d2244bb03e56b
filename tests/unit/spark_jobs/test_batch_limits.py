"""Where batches end: by the bytes that offsets held lately, and by halves of what has failed."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PythonException

from tidegate.contracts.errors import Fenced, StreamStopped, TidegateError, Unavailable
from tidegate.contracts.stream.ledger import Vector, span
from tidegate.spark_jobs.job.batch_limits import BatchLimits
from tidegate.spark_jobs.job.halving import may_blame_record, reason_to_halve, stopped_by_record
from tidegate.spark_jobs.kafka.topics import TooLarge, TransactionEnded
from tidegate.spark_jobs.worker.judge import worker_errors

MIB = 1024 * 1024


def batches(limits: BatchLimits, start: Vector, end: Vector, record_bytes: int) -> list[Vector]:
    """Take all of a range, of records of one size."""
    ends = []
    while span(start, end):
        until = limits.end_of_batch(start, end)
        read = {each: (until[each] - start.get(each, 0)) * record_bytes for each in until}
        limits.note(start, until, read)
        ends.append(until)
        start = until
    return ends


def test_a_small_batch_of_unknown_records_is_whole() -> None:
    assert BatchLimits(256 * MIB).end_of_batch({0: 0, 1: 5}, {0: 5_000, 1: 5_000}) == {0: 5_000, 1: 5_000}


def test_the_first_of_a_large_backlog_is_small_and_the_next_is_as_large_as_its_records_let_it() -> None:
    start: Vector = {0: 0, 1: 0}
    ends = batches(BatchLimits(256 * MIB), start, {0: 125_000, 1: 125_000}, 5_000)
    spans = [span(a, b) for a, b in zip([start, *ends], ends, strict=False)]
    assert spans[0] * 5_000 < 64 * MIB
    assert all(each * 5_000 <= 256 * MIB for each in spans)
    assert ends[-1] == {0: 125_000, 1: 125_000}
    assert len(ends) == 6


def test_small_records_are_one_batch_once_they_are_known() -> None:
    limits = BatchLimits(256 * MIB)
    limits.note({0: 0}, {0: 1_000}, {0: 300_000})
    assert limits.end_of_batch({0: 1_000}, {0: 251_000}) == {0: 251_000}


def test_a_partition_of_large_records_is_distinguished_from_one_of_small_ones() -> None:
    limits = BatchLimits(10 * MIB)
    limits.note({0: 0, 1: 0}, {0: 10, 1: 10}, {0: 10 * MIB, 1: 10})
    assert limits.end_of_batch({0: 10, 1: 10}, {0: 10, 1: 5_000}) == {0: 10, 1: 5_000}
    assert limits.end_of_batch({0: 10, 1: 10}, {0: 30, 1: 10}) == {0: 20, 1: 10}


def test_large_records_are_not_forgotten_at_once() -> None:
    limits = BatchLimits(MIB)
    limits.note({0: 0}, {0: 1}, {0: MIB})
    limits.note({0: 1}, {0: 2}, {0: 1})
    assert limits.end_of_batch({0: 2}, {0: 100}) == {0: 3}


def test_a_batch_has_one_offset_at_least() -> None:
    assert BatchLimits(1).end_of_batch({0: 7, 1: 3, 2: 0}, {0: 7, 1: 9, 2: 9}) == {0: 7, 1: 4, 2: 0}


@pytest.mark.parametrize("poison", [(0, 0), (0, 4_999), (1, 17), (2, 4_999)])
def test_a_batch_that_fails_is_halved_down_to_the_record(poison: tuple[int, int]) -> None:
    limits, start = BatchLimits(256 * MIB), dict.fromkeys(range(3), 0)
    end, failures = dict.fromkeys(range(3), 3_000), 0
    end[poison[0]] = 5_000
    while True:
        until = limits.end_of_batch(start, end)
        if start[poison[0]] <= poison[1] < until[poison[0]]:
            failures += 1
            if not limits.halve(start, until):
                break
        else:
            start = until
    assert (span(start, until), start[poison[0]]) == (1, poison[1])
    assert failures <= 15  # 11,000 offsets are halved 13 times


def test_a_partition_that_keeps_receiving_records_does_not_delay_the_search() -> None:
    limits, start, end = BatchLimits(256 * MIB), {0: 0, 1: 0}, {0: 5_000, 1: 10}
    for _ in range(30):
        end[0] += 500
        until = limits.end_of_batch(start, end)
        if not start[1] <= 7 < until[1]:
            start = until
        elif not limits.halve(start, until):
            break
    assert (span(start, until), start[1]) == (1, 7)


def test_past_what_has_failed_batches_are_whole() -> None:
    limits = BatchLimits(256 * MIB)
    assert limits.halve({0: 0}, {0: 100})
    assert limits.end_of_batch({0: 0}, {0: 1_000}) == {0: 50}
    assert limits.end_of_batch({0: 99}, {0: 1_000}) == {0: 100}
    assert limits.end_of_batch({0: 100}, {0: 1_000}) == {0: 1_000}


def crash(text: str) -> PythonException:
    return PythonException(f"Traceback:\n  File x\ntidegate.spark_jobs.crashes.WorkerCrash: {text}\n")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        TooLarge("write as t: Broker: Message size too large"),
        TransactionEnded("s.t: the broker has ended a transaction"),
        crash("ValueError at /x/contracts/judge/loop.py:1 judge"),
        crash("MemoryError at /x/contracts/judge/loop.py:1 judge"),
        crash("pyarrow.lib.ArrowInvalid at /x.py:1 f"),
        Py4JError("SparkException: Total size (4 MiB) is bigger than spark.driver.maxResultSize (2 MiB)"),
        Py4JError("SparkException: Python worker exited unexpectedly (crashed)"),
        Py4JError("java.lang.OutOfMemoryError: Java heap space"),
    ],
)
def test_what_a_smaller_batch_may_not_meet(error: BaseException) -> None:
    assert reason_to_halve(error)


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("the broker does not answer"),
        Fenced("another instance"),
        StreamStopped("the budget is spent"),
        crash("OSError (No space left on device) at /x.py:1 write"),
        crash("ConnectionResetError (Connection reset by peer) at /x.py:1 write"),
        crash("FileNotFoundError (No such file or directory) at /x.py:1 write"),
        crash("botocore.exceptions.EndpointConnectionError at /x.py:1 write"),
        crash("SystemExit at /x.py:1 exit"),
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("org.apache.kafka.common.errors.TimeoutException: Timeout expired"),
        RuntimeError("a mistake of ours in the driver"),
    ],
)
def test_an_outage_and_a_mistake_are_not_halved(error: BaseException) -> None:
    assert reason_to_halve(error) is None


@pytest.mark.parametrize("kind", [TooLarge, TransactionEnded])
def test_what_a_task_that_writes_has_met_is_halved_too(kind: type[TidegateError]) -> None:
    told = f"Traceback:\n  File x\n{kind.__module__}.{kind.__name__}: write as t: no more\n"
    with pytest.raises(kind, match=r"^write as t: no more$") as met, worker_errors():
        raise PythonException(told)
    assert reason_to_halve(met.value)


def test_an_ended_transaction_is_no_fault_of_a_record() -> None:
    assert may_blame_record(TooLarge("write as t: Broker: Message size too large"))
    assert not may_blame_record(TransactionEnded("s.t: the broker has ended a transaction"))


def test_what_stops_the_stream_names_the_record_and_what_to_do() -> None:
    stopped = stopped_by_record("s.t", "t", ({0: 4, 1: 7}, {0: 4, 1: 8}), "it is too large")
    assert "topic t, partition 1, offset 7 " in str(stopped)
    assert "tidegate quarantine-record s.t 1 7" in str(stopped)
