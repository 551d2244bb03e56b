from __future__ import annotations

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.health import BrokerProbe


def test_a_broker_that_answers_is_reachable(broker: Broker) -> None:
    assert BrokerProbe(KafkaConnection(broker.bootstrap)).answers()
