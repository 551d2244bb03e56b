"""What the demo counts, where a broker does not answer at once."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidegate.gateway.embedded.demo.outcome import offsets_of

PLACE = TopicPartition("t", 0, 0)


class Broker:
    """Answers about a partition: first the errors, then the offsets."""

    def __init__(self, *codes: int) -> None:
        self.codes = [*codes]

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:  # noqa: ARG002 - the signature of the Kafka client
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return 3, 7


def test_a_new_partition_without_a_leader_is_asked_again() -> None:
    broker: Any = Broker(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    assert offsets_of(broker, PLACE) == (3, 7)


def test_any_other_error_is_raised() -> None:
    broker: Any = Broker(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        offsets_of(broker, PLACE)
