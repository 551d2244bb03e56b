"""A producer that writes its records in transactions, and leaves markers and aborted records between them."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.integration.enforce.line import Line, Sent


class Transactions:
    """A transactional producer of a line's source topic, or of another topic."""

    def __init__(self, line: Line, name: str, topic: str | None = None) -> None:
        self._topic = topic or line.topic
        self._producer = Producer(
            {
                "bootstrap.servers": line.settings.bootstrap_servers,
                "transactional.id": f"{line.topic}/{name}",
            }
        )
        self._producer.init_transactions(30)

    def begin(self, records: Sequence[Sent]) -> None:
        """Let the broker have the records of a transaction that stays open."""
        self._producer.begin_transaction()
        for record in records:
            self._producer.produce(self._topic, record.value, record.key, record.partition)
        assert self._producer.flush(30) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)


def committed_slots(line: Line, spark: SparkSession) -> set[str]:
    """Ask the broker which slots of this ledger have committed a transaction since they were last fenced."""
    jvm = spark._jvm  # the Python client cannot list transactions
    assert jvm is not None
    settings = jvm.java.util.Properties()
    settings.put("bootstrap.servers", line.settings.bootstrap_servers)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        found = admin.listTransactions().all().get()
        prefix = f"tidegate/{line.ledger().name}/"
        return {
            each.transactionalId().removeprefix(prefix)
            for each in found
            if each.transactionalId().startswith(prefix) and each.state().toString() == "CompleteCommit"
        }
    finally:
        admin.close()
