from __future__ import annotations

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.broker import BrokerProbe
from tidegate.gateway.embedded.broker import Broker


def test_a_broker_that_answers_is_reachable(broker: Broker) -> None:
    assert BrokerProbe(KafkaConnection(broker.bootstrap)).answers()
