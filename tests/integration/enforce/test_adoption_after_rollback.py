"""`tidegate adopt --replace`: the ledger or the table is from an older moment, and the stream continues without loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg import sql

from tests.integration.enforce.adopting import Adopting
from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.test_rolled_back import (
    append_by_hand,
    forget_log,
    restored_later,
    roll_back,
    snapshots,
    with_two_delta_batches,
)
from tests.integration.enforce.test_source_changes import add_partitions, forget
from tests.marks import full
from tidegate.contracts.errors import ConflictError, StreamStopped
from tidegate.contracts.stream.adoption import EPOCH_GAP
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.spark_jobs.adopt.adopt import Look
from tidegate.spark_jobs.kafka.kafka_ledger import ledger_record
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name


@pytest.mark.full
@pytest.mark.parametrize("accepted_slots", [1, *full(2)])
def test_a_ledger_topic_that_was_restored_from_an_older_moment_stops_the_stream(
    published_line: Callable[..., Line], adopting: Adopting, accepted_slots: int
) -> None:
    line = published_line("kafka", accepted_slots=accepted_slots)
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(8)))
    line.enforce()
    older = line.ledger()
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(8, 16)))
    line.enforce()
    restored = TransactionalProducer(line.settings.kafka, "restored")
    restored.fence()
    restored.write([ledger_record(older)])
    outputs = (len(line.accepted()), len(line.quarantined()))
    with pytest.raises(StreamStopped, match=r"restored from an older moment.*adopt .* --replace"):
        line.enforce()
    assert (len(line.accepted()), len(line.quarantined())) == outputs
    adopting.rebuild(line, replace=True)
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(16, 20)))
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().totals.offsets == 20


@pytest.mark.full
def test_a_ledger_in_postgresql_that_is_older_than_its_rows_stops_the_stream(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    line = published_line("postgresql")
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(8)))
    line.enforce()
    with restored_later(line, with_rows=False):
        line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(8, 16)))
        line.enforce()
    before = line.rows()
    with pytest.raises(StreamStopped, match=r"restored from an older moment.*adopt .* --replace"):
        line.enforce()
    assert line.rows() == before
    adopting.rebuild(line, replace=True)
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(16, 20)))
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().totals.offsets == 20


@pytest.mark.full
def test_a_table_that_was_rolled_back_gets_the_ledger_of_its_rows(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    """What it lost at its end is read again; refused records of then are not quarantined twice."""
    line = published_line("postgresql")
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(20)))
    line.enforce()
    with line.database() as connection:
        table = sql.Identifier(*qualified_name(line.contract_id))
        connection.execute(sql.SQL("DELETE FROM {} WHERE _source_offset >= 6").format(table))
    assert not line.reconcile().holds
    before = line.ledger()
    with pytest.raises(ConflictError, match="--replace"):
        adopting.rebuild(line)
    adopted = adopting.rebuild(line, replace=True)
    assert (adopted.name, adopted.end) == (before.name, {0: 6, 1: 6})
    assert adopted.epoch == before.epoch + EPOCH_GAP
    line.enforce()
    require_exactly_once(line)


@pytest.mark.full
@pytest.mark.parametrize("kept", [4, *full(0)])
@pytest.mark.parametrize("sink", ["iceberg", *full("delta")])
def test_a_rolled_back_table_of_many_batches_is_replaced_without_loss(
    published_line: Callable[..., Line], adopting: Adopting, sink: str, kept: int
) -> None:
    """The quarantine topic is ahead by more than one batch, because it is not rolled back with the table."""
    line = published_line(sink, max_offsets=4)
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(kept)))
    line.enforce()
    back = _to_now(line)
    line.produce(*(row(n, 999 if n % 4 == 1 else n) for n in range(kept, 24)))
    line.enforce()
    back()
    assert len(line.rows()) == kept * 3 // 4
    with pytest.raises(StreamStopped, match=r"(was rolled back|was restored).*adopt .* --replace"):
        line.enforce()
    before = line.ledger()
    adopted = adopting.rebuild(line, replace=True)
    assert adopted.name == before.name
    assert adopted.epoch >= before.epoch + EPOCH_GAP
    assert adopted.end == {0: kept // 2, 1: kept // 2}
    assert adopted.totals.unproven == 0
    (look,) = adopting.shown
    assert isinstance(look, Look)
    assert look.held == before
    line.enforce()
    require_exactly_once(line)
    assert line.reconcile().holds


def _to_now(line: Line) -> Callable[[], None]:
    """Return a function that takes the table back to what it holds now."""
    if line.settings.sink == "delta":
        name = f"delta.`file://{line.delta().name}`"
        (newest,) = line.spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()
        return lambda: line.spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {newest['version']}").collect()
    now = snapshots(line)[-1]
    return lambda: roll_back(line, now)


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", *full("delta")])
def test_a_partition_of_a_rolled_back_table_cannot_be_skipped(
    published_line: Callable[..., Line], adopting: Adopting, sink: str
) -> None:
    """Only a ledger that is rebuilt from the rows passes the check of the table's history."""
    line = published_line(sink)
    line.enforce()
    back = _to_now(line)
    line.produce(row(0), row(1))
    line.enforce()
    add_partitions(line, 3)
    line.produce(*(Sent(row(n).value, b"k", 2) for n in range(5)))
    forget(line, line.topic, 2, 3)
    back()
    before = line.ledger()
    with pytest.raises(StreamStopped, match="--replace"):
        adopting.skip(line, 2, 3)
    assert line.ledger() == before
    adopting.rebuild(line, replace=True)
    line.enforce()
    assert len(line.rows()) == 4
    assert line.ledger().totals == BatchTotals(written=4)


@pytest.mark.parametrize("is_restored", full(False, True))
def test_a_delta_log_that_has_lost_the_ledgers_commit_cannot_be_proven(
    published_line: Callable[..., Line], adopting: Adopting, is_restored: bool
) -> None:
    """Whether the table was restored, the log no longer says: the ledger is rebuilt from the rows, with nothing lost."""
    line = published_line("delta")
    restore = with_two_delta_batches(line)
    if is_restored:
        restore()
    append_by_hand(line, "by hand")
    append_by_hand(line, "again")
    forget_log(line)
    before = line.ledger()
    line.produce(row(9))
    with pytest.raises(StreamStopped, match=r"cannot be proven.*adopt .* --replace"):
        line.enforce()
    adopted = adopting.rebuild(line, replace=True)
    assert (adopted.name, adopted.totals.unproven) == (before.name, 0)
    assert adopted.totals.written == (5 if is_restored else 9)
    line.enforce()
    assert len(line.rows()) == 12
    assert line.ledger().totals.written == 10
    assert line.reconcile().holds
