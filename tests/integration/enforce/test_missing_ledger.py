"""A ledger that is gone beside what the stream has written: nothing may be written a second time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg import sql

from tests.integration.enforce.adopting import Adopting
from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.losing import lose_ledger
from tests.marks import full
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.spark_jobs.sinks.iceberg.table import LEDGER_PROPERTY, table_name
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name
from tidegate.spark_jobs.steps import Step

SINKS = ("iceberg", "kafka", *full("delta", "postgresql"))


@pytest.fixture(params=SINKS)
def any_line(request: pytest.FixtureRequest, make_line: Callable[..., Line]) -> Line:
    """A line into each sink."""
    return make_line(sink=request.param)


def outputs(line: Line) -> tuple[int, int]:
    """Count what is in the sink and in the quarantine topic."""
    written = line.accepted() if line.settings.sink == "kafka" else line.rows()
    return len(written), len(line.quarantined())


def test_rows_without_a_ledger_stop_the_stream(any_line: Line) -> None:
    line = any_line
    line.produce(*(row(n, 999 if n == 3 else n) for n in range(6)))
    line.enforce()
    assert outputs(line) == (5, 1)
    lose_ledger(line)
    line.produce(row(6), row(7, 999))
    with pytest.raises(StreamStopped) as stopped:
        line.enforce()
    assert f"tidegate adopt {line.contract_id}" in str(stopped.value)
    assert line.topic in str(stopped.value)
    assert outputs(line) == (5, 1)


@pytest.mark.full
def test_a_ledger_that_is_lost_while_the_stream_runs_is_rebuilt(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    line = published_line("postgresql")
    line.produce(*(row(n, 999 if n == 3 else n) for n in range(6)))

    def lose(_stream: str, step: Step) -> None:
        if step is Step.COMMITTED:
            lose_ledger(line)

    with pytest.raises(StreamStopped, match=r"tidegate.ledger has lost the row of .* start again"):
        line.enforce(lose, max_offsets=2)
    with pytest.raises(StreamStopped, match=r"no ledger says how far.*tidegate adopt"):
        line.enforce()
    adopting.rebuild(line)
    line.enforce()
    require_exactly_once(line)


@pytest.mark.full
def test_a_row_from_where_no_topic_has_a_record_is_deleted_before_the_ledger_is_rebuilt(
    published_line: Callable[..., Line], adopting: Adopting
) -> None:
    line = published_line("postgresql")
    line.produce(*(row(n, 999 if n == 3 else n) for n in range(6)))
    line.enforce()
    table = sql.Identifier(*qualified_name(line.contract_id))
    copied = "INSERT INTO {0} SELECT * FROM {0} WHERE _source_partition = 0 AND _source_offset = 0"
    with line.database() as connection:
        connection.execute(sql.SQL(copied).format(table))
        moved = "UPDATE {0} SET _source_offset = -1 WHERE ctid = (SELECT max(ctid) FROM {0})"
        connection.execute(sql.SQL(moved).format(table))
    lose_ledger(line)
    with pytest.raises(StreamStopped, match="as if it came from 0/-1, which no topic has: delete it"):
        adopting.rebuild(line)
    with line.database() as connection:
        connection.execute(sql.SQL("DELETE FROM {} WHERE _source_offset < 0").format(table))
    adopting.rebuild(line)
    line.produce(row(6), row(7, 999))
    line.enforce()
    require_exactly_once(line)


@pytest.mark.parametrize("sink", ["iceberg", "kafka"])
def test_quarantined_records_without_a_ledger_stop_the_stream(
    make_line: Callable[..., Line], sink: str
) -> None:
    """All were refused: the sink itself holds nothing that could tell."""
    line = make_line(sink=sink)
    line.produce(*(row(n, 999) for n in range(4)))
    line.enforce()
    if sink == "iceberg":
        name = table_name(line.contract_id)
        line.spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('{LEDGER_PROPERTY}')")
    else:
        lose_ledger(line)
    with pytest.raises(StreamStopped, match=f"{line.topic}.quarantine"):
        line.enforce()
    assert outputs(line) == (0, 4)


@pytest.mark.full
def test_an_empty_table_that_was_made_again_is_a_fresh_start(line: Line) -> None:
    """Its quarantined records name the ledger of the older table: another history."""
    line.produce(*(row(n, 999 if n % 2 else n) for n in range(4)))
    line.enforce()
    line.spark.sql(f"DROP TABLE {table_name(line.contract_id)}")
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=2, quarantined=2)
    assert outputs(line) == (2, 4)


def test_rows_of_others_are_no_reason_to_stop(line: Line) -> None:
    """A table that another program has created and filled: rows without a source, or of another topic."""
    name = table_name(line.contract_id)
    line.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
    line.spark.sql(
        f"CREATE TABLE {name} USING iceberg AS SELECT 'a' AS id, 1L AS amount, DATE'2024-01-01' AS day, "
        "named_struct('topic', 'elsewhere', 'partition', 0, 'offset', 7L, 'timestamp', timestamp'2024-01-01') AS _source, "
        "'x' AS _contract"
    )
    line.spark.sql("SELECT 'b', 2L, NULL, NULL, NULL").write.insertInto(name)
    line.produce(row(0), row(1, 999))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=1, quarantined=1)


@pytest.mark.parametrize("sink", ["postgresql", *full("iceberg", "delta")])
def test_a_table_that_another_stream_writes_is_left_alone(make_line: Callable[..., Line], sink: str) -> None:
    """Two contract ids may name one table: the second stream must not end the first one by claiming its ledger."""
    line, other = make_line(sink=sink), make_line(sink=sink)
    name = line.contract_id.removeprefix("test.")
    line.contract_id, other.contract_id = f"test.a.{name}", f"test_a.{name}"
    for each in (line, other):
        each.contracts.plan = each.plan()
        each.produce(row(0), row(1))
    line.enforce()
    before = line.ledger()
    with pytest.raises(
        StreamStopped, match=f"belongs to the stream {line.contract_id}, .* another id.*tidegate publish FILE"
    ):
        other.enforce()
    assert line.ledger() == before
    assert len(line.rows()) == 2
    other.contract_id = f"test.b.{name}"
    other.contracts.plan = other.plan()
    other.enforce()
    assert (line.ledger(), len(line.rows()), len(other.rows())) == (before, 2, 2)


@pytest.mark.full
def test_a_table_that_was_dropped_belongs_to_the_stream_that_makes_it_again(
    make_line: Callable[..., Line],
) -> None:
    line, other = make_line(sink="postgresql"), make_line(sink="postgresql")
    name = line.contract_id.removeprefix("test.")
    line.contract_id, other.contract_id = f"test.a.{name}", f"test_a.{name}"
    for each in (line, other):
        each.contracts.plan = each.plan()
        each.produce(row(0))
    line.enforce()
    with line.database() as connection:
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier("test_a", name)))
    for _ in range(2):
        other.enforce()
        other.produce(row(2))
    assert other.ledger().totals.written == 2
