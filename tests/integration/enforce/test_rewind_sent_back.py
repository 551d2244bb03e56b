"""A rewind past records that were sent back to the source: their copies are judged again, and they are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.enforce.line import Line
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import MENDED, Killed, kill_at, request, sent_back
from tests.integration.enforce.test_rewind import Rewinding, mended, record, require_mended, spoilt
from tidegate.contracts.errors import Fenced, StreamStopped
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.contracts.stream.output_topics import replayed_topic
from tidegate.spark_jobs.adopt.adopt import Adopter
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import ReplayStep


@pytest.fixture
def rewinding(registry: Registry) -> Rewinding:
    return Rewinding(registry)


def long_to_source() -> list[Any]:
    """Return the sinks, and the steps after which the instance that sends records back ends, of the long run."""
    places = [(sink, None) for sink in ("delta", "postgresql")]
    steps = (ReplayStep.SEND, ReplayStep.POSITIONS, ReplayStep.PUBLISH)
    return [
        pytest.param(*each, marks=pytest.mark.full) for each in [*places, *(("iceberg", s) for s in steps)]
    ]


def with_records_to_send_back(line: Line) -> None:
    """Write 8 records by the bad contract, and request that the two that it refuses are corrected and sent back."""
    spoilt(line)
    line.produce(*map(record, range(8)))
    line.enforce()
    request(line, fix=MENDED, action="to-source")


def require_copies_alone(line: Line) -> None:
    """Require that the mended contract has written the corrected copies, and not the records that it accepts now."""
    kept = [number for number in range(8) if number % 4 != 2]
    assert sorted((each["id"], each["amount"]) for each in line.rows()) == [(f"r{n}", 1) for n in kept]
    assert len(sent_back(line)) == 2
    ledger = line.ledger()
    assert ledger.end == Topics(line.settings.kafka).latest(line.topic)
    assert (
        ledger.totals.model_dump()
        == BatchTotals(written=6, quarantined=2, dropped=2, absent=ledger.totals.absent).model_dump()
    )
    answer = line.reconcile()
    assert answer.holds, answer
    assert answer.closed == 0


@pytest.mark.full
@pytest.mark.parametrize(("sink", "step"), [("iceberg", None), *long_to_source()])
def test_a_record_that_was_sent_back_is_not_written_beside_its_copy(
    published_line: Callable[..., Line], rewinding: Rewinding, sink: str, step: ReplayStep | None
) -> None:
    """Also if the instance that sent it ended before the ledger named it, and after every further rewind."""
    line = published_line(sink)
    with_records_to_send_back(line)
    if step is None:
        line.enforce()
        line.enforce()  # the copies
    else:
        with pytest.raises(Killed):
            line.enforce(kill_at(step))
    line.replays.open.clear()
    mended(line)
    rewinding.to(line, "0:0,1:0")
    assert len(rewinding.shown[-1].rewind.left_out) == 2
    line.enforce()
    require_copies_alone(line)
    rewinding.to(line, "0:0,1:2")
    assert len(rewinding.shown[-1].rewind.left_out) == 1
    line.enforce()
    require_copies_alone(line)


def test_an_instance_that_a_rewind_has_overtaken_sends_nothing_back(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    line = published_line("iceberg")
    with_records_to_send_back(line)

    def rewind_meanwhile(_stream: str, step: object) -> None:
        if step is ReplayStep.JUDGE and not rewinding.shown:
            mended(line)
            rewinding.to(line, "0:0,1:0")

    with pytest.raises(Fenced):
        line.enforce(rewind_meanwhile)
    assert sent_back(line) == []
    line.replays.open.clear()
    line.enforce()
    require_mended(line, 8, point=0)


@pytest.mark.full
def test_a_rewound_stream_does_not_start_when_it_is_lost_which_records_were_sent_back(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    """Until it has come to where it was: after that, nothing is left out."""
    line = published_line("iceberg")
    with_records_to_send_back(line)
    line.enforce()
    line.enforce()
    mended(line)
    rewinding.to(line, "0:0,1:0")
    topics, topic = Topics(line.settings.kafka), replayed_topic(line.topic)
    kept = [each.value() for each in read_committed(line.settings.kafka, topic, {}, topics.latest(topic))]
    topics.delete_before(topic, topics.latest(topic))
    with pytest.raises(StreamStopped, match=r"holds 0 of the 2 positions .* Restore the topic"):
        line.enforce()
    producer = Producer({"bootstrap.servers": line.settings.bootstrap_servers})
    for text in kept:
        producer.produce(topic, text)
    producer.flush()
    line.enforce()
    require_copies_alone(line)
    topics.delete_before(topic, topics.latest(topic))
    line.enforce()


@pytest.mark.full
def test_a_rewound_ledger_that_is_rebuilt_leaves_the_same_records_out(
    published_line: Callable[..., Line], rewinding: Rewinding
) -> None:
    line = published_line("postgresql")
    with_records_to_send_back(line)
    line.enforce()
    line.enforce()
    mended(line)
    rewinding.to(line, "0:2,1:1")
    with Adopter.opened(rewinding.settings(line), line.contract_id) as found:
        rebuilt = found.rebuild(None, lambda _: None, replace=True)
    assert rebuilt.closed[Closure.RESENT].records == 2
    line.enforce()
    assert sorted((each["id"], each["amount"]) for each in line.rows()) == [
        *((f"r{number}", 1) for number in (0, 1)),
        ("r2", 7),
        *((f"r{number}", 1) for number in (3, 4, 5, 7)),
    ]
    assert line.ledger().totals.dropped == 1
    assert line.reconcile().holds
