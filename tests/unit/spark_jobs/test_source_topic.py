"""Where a stream goes on in its topic, and when it cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.documents import plan_with
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.stream.history import HISTORY_PARTITION
from tidegate.contracts.stream.ledger import Ledger, require_contiguous
from tidegate.spark_jobs.kafka.source_topic import find_source, require_same, resume
from tidegate.spark_jobs.kafka.topics import TopicDescription

LEDGER = Ledger(
    name="h.a@iceberg:1",
    stream="h.a",
    topic="t",
    topic_id="id-1",
    epoch=1,
    n=1,
    begin={0: 0, 1: 0},
    end={0: 10, 1: 5},
    scan_from={},
    slots=1,
)
SOURCE = TopicDescription("t", "id-1", 2, 1_000_000)
PLAN = plan_with({"type": "object"}, id="h.a", topic="t")


class KnownTopics:
    """The topics that a broker knows. Those of a real one are in test_source_changes.py and test_supervisor.py."""

    def __init__(self, *topics: TopicDescription) -> None:
        self._topics = {each.name: each for each in topics}

    def describe(self, name: str) -> TopicDescription | None:
        return self._topics.get(name)

    def identity(self, name: str) -> tuple[str, int] | None:
        found = self._topics.get(name)
        return (found.topic_id, found.partitions) if found else None


def broker_with(*topics: TopicDescription) -> Any:
    return KnownTopics(*topics)


def test_each_partition_continues_where_the_ledger_ends() -> None:
    assert resume(LEDGER, SOURCE, {0: 3, 1: 0, 2: 0}, {0: 20, 1: 5, 2: 7}) == {0: 10, 1: 5, 2: 0}


def test_a_start_begins_where_a_batch_that_left_a_gap_should_have_begun() -> None:
    with pytest.raises(StreamStopped, match="leaves a gap: partition 0 starts at 11, the ledger ends at 10"):
        require_contiguous(LEDGER.end, {0: 11, 1: 5})
    require_contiguous(LEDGER.end, resume(LEDGER, SOURCE, {0: 3, 1: 0}, {0: 20, 1: 5}))


def test_a_start_says_how_to_continue_without_the_first_records_of_a_new_partition() -> None:
    with pytest.raises(StreamStopped, match=r"leaves a gap: partition 2 was added .*restart the stream"):
        require_contiguous(LEDGER.end, {0: 10, 1: 5, 2: 3})
    with pytest.raises(StreamStopped, match=r"tidegate adopt h\.a --partition 2 --from 3 --accept-loss"):
        resume(LEDGER, SOURCE, {0: 0, 1: 0, 2: 3}, {0: 10, 1: 5, 2: 4})
    adopted = LEDGER.skip_to(2, 3, "0" * 32)
    start = resume(adopted, SOURCE, {0: 0, 1: 0, 2: 3}, {0: 10, 1: 5, 2: 4})
    require_contiguous(adopted.end, start)
    assert start == {0: 10, 1: 5, 2: 3}


def test_the_partition_of_a_history_is_not_looked_for_in_the_topic() -> None:
    with_history = LEDGER.model_copy(update={"end": {**LEDGER.end, HISTORY_PARTITION: 9}})
    assert resume(with_history, SOURCE, {0: 3, 1: 0}, {0: 20, 1: 5}) == {0: 10, 1: 5}


def test_a_partition_whose_records_were_judged_is_waited_for_and_must_not_be_shorter() -> None:
    """A broker that lags behind the controller does not know a new partition for a moment."""
    unjudged, judged = (LEDGER.model_copy(update={"end": {0: 10, 1: end}}) for end in (0, 1))
    assert resume(unjudged, SOURCE, {0: 3}, {0: 20}) == {0: 10}
    with pytest.raises(Unavailable, match=r"does not know partition 1 yet.*tidegate archive h\.a"):
        resume(judged, SOURCE, {0: 3}, {0: 20})
    with pytest.raises(
        StreamStopped, match="partition 1 ends at 0, before the ledger's 1: the broker has lost"
    ):
        resume(judged, SOURCE, {0: 3, 1: 0}, {0: 20, 1: 0})


def test_the_topic_of_a_contract_is_found_or_named_with_what_to_do() -> None:
    assert find_source(broker_with(SOURCE), PLAN) == SOURCE
    with pytest.raises(Unavailable, match=r"topic t of contract h\.a does not exist; create it"):
        find_source(broker_with(), PLAN)


def test_a_topic_is_the_one_of_the_ledger_by_its_id() -> None:
    require_same(broker_with(SOURCE), SOURCE, LEDGER)
    with pytest.raises(
        Unavailable, match="the broker does not know topic t any more; the stream tries again"
    ):
        require_same(broker_with(), SOURCE, LEDGER)
    with pytest.raises(StreamStopped, match=r"topic t was deleted and created again.*tidegate archive h\.a"):
        require_same(broker_with(replace(SOURCE, topic_id="id-2")), SOURCE, LEDGER)


@pytest.mark.parametrize(
    ("source", "earliest", "latest", "message"),
    [
        (TopicDescription("t", "id-2", 2, 1), {0: 0, 1: 0}, {0: 10, 1: 5}, "topic t was deleted and created again"),
        (TopicDescription("u", "id-2", 2, 1), {0: 0, 1: 0}, {0: 10, 1: 5}, "is about topic u, this stream reads t"),
        (SOURCE, {0: 11, 1: 0}, {0: 20, 1: 5}, "partition 0 begins at 11, the ledger ends at 10"),
        (SOURCE, {0: 0, 1: 0}, {0: 9, 1: 5}, "the broker has lost records that were judged"),
        (SOURCE, {0: 0, 1: 0, 2: 3}, {0: 10, 1: 5, 2: 4}, "partition 2 was added since the ledger was written"),
        (SOURCE, {0: 0, 1: 0, 2: 1}, {0: 10, 1: 5, 2: 4}, "partition 2 was added since the ledger was written"),
    ],
)  # fmt: skip
def test_a_topic_that_has_lost_something_stops_the_stream_with_a_way_out(
    source: TopicDescription, earliest: dict[int, int], latest: dict[int, int], message: str
) -> None:
    with pytest.raises(StreamStopped, match=f"{message}.*tidegate (adopt|archive) h.a"):
        resume(LEDGER, source, earliest, latest)
