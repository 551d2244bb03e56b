"""A start looks at what an unpublished batch has left in the quarantine topic of a real broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer

from tests.ledgers import LEDGER
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream import evidence
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.embedded.broker import Broker
from tidegate.spark_jobs.sinks.recovery_scan import quarantined, settled_in

VERDICT = Verdict(Disposition.QUARANTINED, (Violation(Stage.RULE, "r", "", Severity.ERROR, "is refused"),))
NEWER = ("tidegate.format", b"2")


@dataclass(frozen=True)
class Outputs:
    """An output topic of a source, and the ledger of a stream that starts."""

    kafka: KafkaConnection
    output: str
    held: Ledger

    def scan(self) -> int:
        """Return how many positions a start finds in the output topic."""
        return len(settled_in(self.kafka, self.output, self.held, {0: 2}, quarantined))


def written(broker: Broker, make_topic: Callable[..., str], record: tuple[int, str, bool]) -> Outputs:
    """Write one record beside another: its source offset, its ledger, whether it is newer."""
    offset, ledger, is_newer = record
    source, output = make_topic("scan-source"), make_topic("scan-output")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, name, newer in ((LEDGER.end[0], LEDGER.name, False), (offset, ledger, is_newer)):
        ours = quarantine_headers(EventPointer(source, 0, number), name, "s@1.0.0", VERDICT)
        producer.produce(output, b"{}", partition=0, headers=[NEWER, *ours, *([NEWER] if newer else [])])
    assert producer.flush(30) == 0
    held = LEDGER.model_copy(update={"topic": source, "scan_from": {output: {0: 0}}})
    return Outputs(KafkaConnection(broker.bootstrap), output, held)


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ((11, LEDGER.name, False), 2),
        ((9, LEDGER.name, True), 1),  # the ledger covers it, so that nothing depends on it
        ((11, "s@iceberg:other", True), 1),
    ],
    ids=["of this release", "behind the ledger", "of another ledger"],
)
def test_a_start_needs_only_what_it_can_read(
    broker: Broker, make_topic: Callable[..., str], record: tuple[int, str, bool], found: int
) -> None:
    assert written(broker, make_topic, record).scan() == found


def test_a_record_of_its_own_that_a_start_cannot_read_stops_the_stream(
    broker: Broker, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that knows the format of its headers finds it, and goes on."""
    outputs = written(broker, make_topic, (11, LEDGER.name, True))
    with pytest.raises(
        StreamStopped, match=r"partition 0, offset 1 cannot be read by this version: start the job"
    ):
        outputs.scan()
    monkeypatch.setattr(evidence, "_KNOWN_FORMATS", frozenset({b"1", b"2"}))
    found = outputs.scan()
    assert found == 2
