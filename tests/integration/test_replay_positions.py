"""Which records of a real broker a replay reads at the positions of its request."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Producer

from tests.ledgers import LEDGER
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import Closed, ReplayTerms, Untouched
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.embedded.broker import Broker
from tidegate.spark_jobs.job.replay_chunk import messages_at, read_chunk
from tidegate.spark_jobs.kafka.topics import Topics

VERDICT = Verdict(Disposition.QUARANTINED, (Violation(Stage.RULE, "r", "", Severity.ERROR, "is refused"),))


def test_an_aborted_record_at_a_position_of_a_request_is_missing(
    broker: Broker, make_topic: Callable[..., str]
) -> None:
    """Each of the transactions ends with a marker, which takes an offset: the records are at 0, 2 and 4."""
    topic, kafka = make_topic("replay-positions"), KafkaConnection(broker.bootstrap)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for source in (0, 1, 2):
        producer.begin_transaction()
        headers = quarantine_headers(EventPointer(LEDGER.topic, 0, source), LEDGER.name, "s@1.0.0", VERDICT)
        producer.produce(topic, b"{}", partition=0, headers=[*headers])
        assert producer.flush(30) == 0
        if source == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    wanted = Positions((0, place) for place in (0, 2, 4))
    messages = messages_at(kafka, Topics(kafka), topic, wanted)
    chunk = read_chunk(ReplayTerms(), LEDGER, Closed(), {}, wanted, messages)
    assert chunk.places == {(0, 0): (0, 0), (0, 2): (0, 4)}
    assert (chunk.taken, chunk.untouched) == (3, {Untouched.MISSING: 1})
