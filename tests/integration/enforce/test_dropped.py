"""Records that a contract drops: their positions are kept, so that no lost record passes as a dropped one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from psycopg import sql

from tests.integration.enforce.line import KNOWN, Line, row
from tests.integration.enforce.test_source_changes import forget
from tests.marks import full
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.output_topics import dropped_topic
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.spark_jobs.kafka import dropped as positions_topic
from tidegate.spark_jobs.kafka.dropped import read_dropped
from tidegate.spark_jobs.steps import Step

DROPS = {"rules": [{**KNOWN, "on_violation": "drop"}]}
KEYED = {"primary_key": ["id"], "tombstones": "delete"}


def dropped(line: Line) -> set[Position]:
    return set(read_dropped(line.settings.kafka, line.ledger()))


def two_batches(line: Line) -> None:
    """Write r1 to r5 in two batches, r1 twice; r0, r6 and r7 are dropped."""
    line.produce(row(0, 999), row(1), row(2), row(3))
    line.enforce()
    line.produce(row(4), row(1, 2), row(5), row(6, 999), row(7, 999))
    line.enforce()


@pytest.mark.parametrize(
    "sink",
    [
        "postgresql",
        "kafka",
        pytest.param("iceberg", marks=pytest.mark.full),
        pytest.param("delta", marks=pytest.mark.full),
    ],
)
def test_positions_of_dropped_records_are_kept_with_every_sink(
    make_line: Callable[..., Line], sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions_topic, "_OFFSETS_AT_A_TIME", 2)  # less than the records of the chain
    line = make_line(sink=sink)
    line.contracts.plan = line.plan(**DROPS)
    two_batches(line)
    assert dropped(line) == {(0, 0), (0, 3), (1, 4)}
    found = line.reconcile()
    assert (found.answer, found.in_no_output, set(found.unaccounted)) == (
        ReconciliationAnswer.HOLDS,
        3,
        set(),
    )


@pytest.mark.parametrize(
    "sink",
    [
        "postgresql",
        pytest.param("iceberg", marks=pytest.mark.full),
        pytest.param("delta", marks=pytest.mark.full),
    ],
)
def test_a_table_that_is_upserted_into_holds_though_its_contract_drops(
    make_line: Callable[..., Line], sink: str
) -> None:
    line = make_line(sink=sink, write_mode="upsert")
    line.contracts.plan = line.plan(**DROPS, **KEYED)
    two_batches(line)
    assert line.ledger().totals.superseded == 1
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS


@pytest.fixture
def upserted(make_line: Callable[..., Line]) -> Line:
    line = make_line(sink="postgresql", write_mode="upsert")
    line.contracts.plan = line.plan(**DROPS, **KEYED)
    two_batches(line)
    return line


def test_a_lost_row_is_not_taken_for_a_dropped_record(upserted: Line) -> None:
    with upserted.database() as connection:
        table = sql.Identifier(*upserted.contract_id.split("."))
        connection.execute(sql.SQL("DELETE FROM {} WHERE id = 'r4'").format(table))
    found = upserted.reconcile()
    assert (found.answer, found.lost, set(found.unaccounted)) == (ReconciliationAnswer.LOST, 1, {(0, 2)})


def test_positions_that_were_deleted_from_their_topic_cannot_be_proven(upserted: Line) -> None:
    # One record for each batch and source partition; behind those of a batch stands the marker of its transaction.
    forget(upserted, dropped_topic(upserted.topic), 0, 3)
    assert dropped(upserted) == {(1, 4)}
    found = upserted.reconcile()
    assert (found.answer, found.lost) == (ReconciliationAnswer.UNPROVEN, 0)


@pytest.mark.parametrize("sink", ["postgresql", *full("kafka")])
def test_what_an_unpublished_attempt_has_dropped_does_not_count(
    make_line: Callable[..., Line], sink: str
) -> None:
    """It failed behind the topic's record and before the ledger; the contract of the next attempt accepts what it dropped."""
    line = make_line(sink=sink)
    line.contracts.plan = line.plan(**DROPS)
    line.produce(row(0, 999), row(1), row(3))
    line.enforce()
    line.produce(row(2, 999), row(4, 998), row(5))

    def fail(_stream: str, step: Step) -> None:
        if step is (Step.QUARANTINE if sink == "postgresql" else Step.DECIDE):
            raise Unavailable("a test")

    with pytest.raises(Unavailable):
        line.enforce(fail)
    rule = {**KNOWN, "values": [998], "on_violation": "drop"}
    line.contracts.plan = line.plan(version="1.1.0", rules=[rule])
    line.enforce()
    assert dropped(line) == {(0, 0), (0, 2)}
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS


def test_a_topic_that_would_not_keep_the_positions_stops_the_stream_at_its_start(
    make_line: Callable[..., Line],
) -> None:
    line = make_line(sink="kafka")
    line.contracts.plan = line.plan(**DROPS)
    line.enforce()
    name = dropped_topic(line.topic)
    client = AdminClient({"bootstrap.servers": line.settings.bootstrap_servers})
    short = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[short])
    client.incremental_alter_configs([resource])[resource].result(30)
    with pytest.raises(
        StreamStopped, match=rf"{name} would not keep what is written to it \(retention.ms is 60000\)"
    ):
        line.enforce()
