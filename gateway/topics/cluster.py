"""The topics of a Kafka cluster, through its admin API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._metadata import TopicMetadata
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.topics.plan import ActualTopic, AddPartitions, Change, ChangeSetting, CreateTopic

_TIMEOUT_SECONDS: Final = 30.0
_REACH_SECONDS: Final = 10.0  # shorter for the first request: a person waits for it if there is no broker
_CLUSTERS_OWN: Final = -1
_REFUSALS: Final = {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_REQUEST,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_ALREADY_EXISTS,
}


class Cluster:
    """A client for the topics of a Kafka cluster.

    Its methods raise SettingsError if the cluster rejects the request, and Unavailable for other errors.
    """

    def __init__(self, kafka: KafkaConnection) -> None:
        self._servers = str(kafka)
        # librdkafka would log to stderr, between the lines of our output.
        self._admin = AdminClient({**kafka.for_admin(), "log_level": 0})

    def names(self) -> tuple[str, ...]:
        """Return the names of all topics, sorted."""
        with self._errors("list topics"):
            return tuple(sorted(self._admin.list_topics(timeout=_REACH_SECONDS).topics))

    def topics(self, names: Iterable[str]) -> dict[str, ActualTopic]:
        """Return the state of the named topics by name, without those that do not exist."""
        wanted = list(names)
        with self._errors("describe topics"):
            known = self._admin.list_topics(timeout=_REACH_SECONDS).topics
            found = [name for name in wanted if name in known]
            if not found:
                return {}
            described = self._admin.describe_topics(TopicCollection(found), request_timeout=_TIMEOUT_SECONDS)
            resources = {name: ConfigResource(ConfigResource.Type.TOPIC, name) for name in found}
            settings = self._admin.describe_configs(
                list(resources.values()), request_timeout=_TIMEOUT_SECONDS
            )
            return {
                name: _actual(name, described[name].result(), settings[resources[name]].result())
                for name in found
            }

    def apply(self, change: Change) -> None:
        """Apply one change to the cluster, and wait until the brokers have accepted it."""
        match change:
            case CreateTopic(topic):
                replication = _CLUSTERS_OWN if topic.replication is None else topic.replication
                new = NewTopic(topic.name, topic.partitions, replication, config=dict(topic.config))
                with self._errors(f"create topic {topic.name}"):
                    self._admin.create_topics([new], request_timeout=_TIMEOUT_SECONDS)[topic.name].result()
            case AddPartitions(name, _, after):
                with self._errors(f"add partitions to topic {name}"):
                    more = [NewPartitions(name, after)]
                    self._admin.create_partitions(more, request_timeout=_TIMEOUT_SECONDS)[name].result()
            case ChangeSetting(name, key, _, after):
                entry = ConfigEntry(key, after, incremental_operation=AlterConfigOpType.SET)
                resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
                with self._errors(f"set {key} of topic {name}"):
                    self._admin.incremental_alter_configs([resource], request_timeout=_TIMEOUT_SECONDS)[
                        resource
                    ].result()

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            cause = error.args[0]
            if isinstance(cause, KafkaError) and cause.code() in _REFUSALS:
                raise SettingsError(f"{doing}: the cluster refuses: {cause.str()}") from error
            reason = cause.str() if isinstance(cause, KafkaError) else str(cause)
            raise Unavailable(f"{doing}: no answer from {self._servers}: {reason}") from error


def _actual(name: str, described: TopicMetadata, settings: dict[str, ConfigEntry]) -> ActualTopic:
    partitions = described.partitions
    return ActualTopic(
        name,
        len(partitions),
        len(partitions[0].replicas),
        {key: str(entry.value) for key, entry in settings.items()},
    )
