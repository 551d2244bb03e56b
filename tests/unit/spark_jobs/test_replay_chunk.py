"""Which refused records a chunk of a replay takes, and which it leaves: what the job does, and a preview shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tests.ledgers import LEDGER
from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.evidence import (
    SENT_BACK_HEADER,
    EventPointer,
    judged_at_header,
    omitted_header,
    quarantine_headers,
    timestamp_header,
)
from tidegate.contracts.stream.ledger import Vector
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import Closed, ReplayAction, ReplayRequest, ReplayTerms, Untouched
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.spark_jobs.job import replay_chunk
from tidegate.spark_jobs.job.replay_chunk import (
    FailedAgain,
    ReplayChunk,
    add_places,
    messages_at,
    most_records,
    read_chunk,
    rows_of,
)
from tidegate.spark_jobs.sinks.kafka.sink import require_order

ERROR = Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "is forbidden")
WARNING = Violation(Stage.RULE, "name-is-short", "/name", Severity.WARNING, "is long")
EXPECTATION = Violation(Stage.EXPECTATION, "ages-are-known", "", Severity.ERROR, "is not met by the batch")
REFUSED = Verdict(Disposition.QUARANTINED, (ERROR,))
REFUSED_WITH_BATCH = Verdict(Disposition.QUARANTINED, (EXPECTATION,))


@dataclass
class Read:
    """A record of the quarantine topic, as a consumer returns it."""

    place: int
    source: int
    is_sent_back: bool = False
    in_partition: int = 0
    identity: bytes | None = b"k"
    content: bytes | None = b"{}"
    ledger: str = LEDGER.name
    batch_end: Vector | None = None
    own: tuple[tuple[str, bytes], ...] = ()
    ours: tuple[tuple[str, bytes], ...] = ()

    def partition(self) -> int:
        return self.in_partition

    def offset(self) -> int:
        return self.place

    def key(self) -> bytes | None:
        return self.identity

    def value(self) -> bytes | None:
        return self.content

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000

    def headers(self) -> list[tuple[str, bytes]]:
        own = [*self.own, *([(SENT_BACK_HEADER, b"t/0/1")] if self.is_sent_back else [])]
        source = EventPointer("t", 0, self.source)
        verdict = REFUSED if self.batch_end is None else REFUSED_WITH_BATCH
        return [
            *own,
            *quarantine_headers(source, self.ledger, "s@1.0.0", verdict, self.batch_end),
            *self.ours,
        ]


def read(
    terms: ReplayTerms, *records: Any, wanted: range = range(4), closed: Closed | None = None
) -> ReplayChunk:
    """Read a chunk of the wanted offsets; all records are of the partition of the first one."""
    partition = records[0].partition() if records else 0
    positions = Positions((partition, place) for place in wanted)
    return read_chunk(terms, LEDGER, closed or Closed(), {0: 3}, positions, iter(records))


@pytest.mark.parametrize(
    ("action", "left"),
    [
        (ReplayAction.REPLAY, {Untouched.UNORDERED: 1}),
        (ReplayAction.TO_SOURCE, {Untouched.SENT_BACK: 1}),
        (ReplayAction.DISCARD, {}),
    ],
)
def test_the_action_decides_what_is_left(action: ReplayAction, left: dict[Untouched, int]) -> None:
    """Marks of deleted keys hold only rows back, and only the source topic gets no record a second time."""
    chunk = read(ReplayTerms(action), Read(0, 2), Read(1, 4), Read(2, 5, is_sent_back=True), wanted=range(3))
    assert chunk.untouched == left
    assert len(chunk.records) == 3 - len(left)


def test_positions_without_a_record_are_missing_and_one_source_counts_once() -> None:
    chunk = read(ReplayTerms(), Read(1, 5), Read(3, 5), wanted=range(6))
    assert (chunk.taken, chunk.untouched) == (6, {Untouched.MISSING: 4, Untouched.REPLAYED: 1})
    assert chunk.places == {(0, 5): (0, 1)}


class WithoutHeaders(Read):
    """A record that Tidegate did not write."""

    def headers(self) -> list[tuple[str, bytes]]:
        return []


OMITTED = omitted_header(b"k", b"{}", ())


@pytest.mark.parametrize(
    ("record", "action", "why"),
    [
        (WithoutHeaders(0, 5), ReplayAction.REPLAY, Untouched.FOREIGN),
        (WithoutHeaders(0, 5), ReplayAction.DISCARD, Untouched.FOREIGN),
        (Read(0, 5, ledger="another@iceberg:1"), ReplayAction.REPLAY, Untouched.FOREIGN),
        (Read(0, 12), ReplayAction.REPLAY, Untouched.AHEAD),
        (Read(0, 5, ours=(OMITTED,)), ReplayAction.REPLAY, Untouched.OMITTED),
        (Read(0, 5, ours=(OMITTED,)), ReplayAction.TO_SOURCE, Untouched.OMITTED),
        (Read(0, 5, ours=(OMITTED,)), ReplayAction.DISCARD, None),
        (Read(0, 5, batch_end={0: 10}), ReplayAction.REPLAY, Untouched.BATCH),
        (Read(0, 5, batch_end={0: 10}), ReplayAction.DISCARD, None),
        (Read(0, 5, is_sent_back=True, batch_end={0: 10}), ReplayAction.TO_SOURCE, Untouched.BATCH),
    ],
)
def test_a_record_that_cannot_be_processed_is_left_with_the_reason(
    record: Read, action: ReplayAction, why: Untouched | None
) -> None:
    """A discard needs no value, and also closes records whose whole batch was refused."""
    chunk = read(ReplayTerms(action), record, wanted=range(1))
    assert chunk.untouched == ({} if why is None else {why: 1})
    assert [*chunk.records] == ([(0, 5)] if why is None else [])
    assert (chunk.taken, chunk.closed) == (1, {})


def test_records_of_refused_batches_are_taken_if_the_request_accepts_them() -> None:
    chunk = read(ReplayTerms(accept_batches=True), Read(0, 5, batch_end={0: 10}), wanted=range(1))
    assert (chunk.untouched, [*chunk.records]) == ({}, [(0, 5)])


def test_places_of_records_that_were_closed_before_are_kept_by_the_kind_of_closure() -> None:
    closed = Closed(Positions([(0, 4)]), Positions([(0, 5), (0, 6)]), Positions([(0, 7)]))
    records = [Read(place, place + 4, in_partition=2) for place in range(5)]
    chunk = read(ReplayTerms(), *records, wanted=range(5), closed=closed)
    assert chunk.closed == {
        Closure.REPLAYED: {(2, 0)},
        Closure.DISCARDED: {(2, 1), (2, 2)},
        Closure.RESENT: {(2, 3)},
    }
    assert chunk.untouched == {Untouched.REPLAYED: 1, Untouched.DISCARDED: 2, Untouched.RESENT: 1}
    assert chunk.places == {(0, 8): (2, 4)}


def test_a_chunk_without_a_record_takes_every_position() -> None:
    chunk = read(ReplayTerms(), wanted=range(3))
    assert (chunk.taken, chunk.untouched, chunk.size) == (3, {Untouched.MISSING: 3}, 0)


def test_a_chunk_counts_the_bytes_of_keys_and_values_and_knows_whether_there_are_keys() -> None:
    without_keys = read(ReplayTerms(), Read(0, 5, identity=None), Read(1, 4, content=b"1234", identity=None))
    assert (without_keys.size, without_keys.has_keys) == (6, False)
    assert without_keys.sources == {(0, 4), (0, 5)}
    with_a_key = read(ReplayTerms(), Read(0, 5, identity=None), Read(1, 4, content=None, identity=b"key"))
    assert (with_a_key.size, with_a_key.has_keys) == (5, True)
    assert not ReplayChunk().has_keys


def test_a_table_of_a_chunk_has_the_records_as_they_were_in_their_source() -> None:
    """Headers are null without any, as in Spark's Kafka source. Times default to those of the quarantine topic."""
    ours = (timestamp_header(1_234), *judged_at_header(77))
    records = [Read(0, 5, own=(("trace", b"1"),), ours=ours), Read(1, 4, content=None, identity=None)]
    table = read(ReplayTerms(), *records, wanted=range(2)).table()
    assert table.schema == rows_of([]).schema
    assert table.column("timestamp").type == pa.timestamp("us", "UTC")
    first, second = table.to_pylist()
    assert first == {
        "partition": 0,
        "offset": 5,
        "timestamp": datetime(1970, 1, 1, 0, 0, 1, 234_000, UTC),
        "key": b"k",
        "value": b"{}",
        "headers": [{"key": "trace", "value": b"1"}],
        replay_chunk.JUDGED_AT: 77,
    }
    assert second == {
        "partition": 0,
        "offset": 4,
        "timestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "key": None,
        "value": None,
        "headers": None,
        replay_chunk.JUDGED_AT: 1_000_000_000,
    }


def test_a_table_of_an_empty_chunk_has_the_columns() -> None:
    table = ReplayChunk().table()
    assert (table.num_rows, table.column_names[:2]) == (0, ["partition", "offset"])


@pytest.mark.parametrize(("rate", "most"), [(None, 5_000), (10, 10), (5_001, 5_000)])
def test_a_chunk_has_at_most_the_records_of_one_second(rate: int | None, most: int) -> None:
    assert most_records(ReplayRequest.model_construct(rate=rate)) == most


def test_records_that_fail_again_are_listed_under_their_errors_and_without_one_under_warnings() -> None:
    failed = FailedAgain()
    failed.add((0, 1), (ERROR, ERROR, WARNING))
    failed.add((0, 2), (WARNING,))
    failed.add((1, 3), (ERROR,))
    error, warning = ((Stage.RULE, each.code, each.severity) for each in (ERROR, WARNING))
    assert failed.reasons == Counter({error: 2, warning: 2})
    assert failed.places == {"age-is-known": {(0, 1), (1, 3)}, "name-is-short": {(0, 2)}}


def test_a_long_code_is_cut_to_the_length_of_a_count() -> None:
    failed = FailedAgain()
    failed.add((0, 1), (Violation(Stage.RULE, "c" * 501, "/age", Severity.ERROR, "is forbidden"),))
    assert failed.places == {"c" * 500: {(0, 1)}}


def test_places_are_added_to_those_that_are_known() -> None:
    known = {"a": Positions([(0, 1)])}
    add_places(known, {"a": Positions([(0, 2)]), "b": Positions([(1, 0)])})
    assert known == {"a": {(0, 1), (0, 2)}, "b": {(1, 0)}}


class Topic:
    """A quarantine topic with records at some offsets of partition 2, as a consumer and `Topics` show it."""

    def __init__(self, *offsets: int, end: int) -> None:
        self.offsets, self.end = offsets, end
        self.is_created = True
        self.read: list[int] = []

    def latest(self, topic: str) -> Vector:
        assert topic == "t.quarantine"
        return {2: self.end} if self.is_created else {}

    def committed(self, _: object, topic: str, start: Vector, end: Vector) -> Iterator[Read]:
        assert (topic, *start, *end) == ("t.quarantine", 2, 2)
        assert end[2] <= (self.end if self.is_created else 0), "a consumer would wait for these records"
        for offset in self.offsets:
            if start[2] <= offset < end[2]:
                self.read.append(offset)
                yield Read(offset, offset, in_partition=2)


def offsets_at(monkeypatch: pytest.MonkeyPatch, topic: Topic, *wanted: int) -> list[int]:
    monkeypatch.setattr(replay_chunk, "read_committed", topic.committed)
    kafka: Any = None
    topics: Any = topic
    found = messages_at(kafka, topics, "t.quarantine", Positions((2, offset) for offset in wanted))
    return [each.offset() or 0 for each in found]


def test_only_the_wanted_records_are_returned_and_none_outside_of_them_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = Topic(*range(10), end=10)
    assert offsets_at(monkeypatch, topic, 2, 5, 6) == [2, 5, 6]
    assert topic.read == [2, 3, 4, 5, 6]


def test_positions_after_the_end_of_the_topic_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = Topic(0, 1, 2, end=3)
    assert offsets_at(monkeypatch, topic, 1, 2, 3, 7) == [1, 2]
    topic.is_created = False
    assert offsets_at(monkeypatch, topic, 0) == []


def test_a_chunk_ends_only_after_more_bytes_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_chunk, "CHUNK_BYTES", 3)
    chunk = read(ReplayTerms(), Read(0, 4), Read(1, 5), Read(2, 6), wanted=range(3))
    assert ([*chunk.records], chunk.taken) == ([(0, 4), (0, 5)], 2)


def test_a_chunk_ends_behind_its_bytes_and_the_next_begins_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_chunk, "CHUNK_BYTES", 1)
    records = [Read(1, 5), Read(3, 6)]
    first = read(ReplayTerms(), *records)
    assert (first.taken, [*first.records], first.untouched) == (2, [(0, 5)], {Untouched.MISSING: 1})
    then = read(ReplayTerms(), *records[1:], wanted=range(first.taken, 4))
    assert (then.taken, [*then.records], then.untouched) == (2, [(0, 6)], {Untouched.MISSING: 1})


@pytest.mark.parametrize(
    ("has_keys", "append_late", "is_taken"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_a_topic_takes_records_with_keys_only_when_the_request_says_so(
    *, has_keys: bool, append_late: bool, is_taken: bool
) -> None:
    if is_taken:
        require_order("t.accepted", has_keys=has_keys, append_late=append_late)
    else:
        with pytest.raises(ConflictError, match="--append-late"):
            require_order("t.accepted", has_keys=has_keys, append_late=append_late)
