"""A rolled-back table loses records that its ledger counts: the stream stops with a message that says what to do."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.job import DEADLINE_SECONDS, Publish
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import running
from tests.marks import full
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.spark_jobs.sinks.delta.merge import DeltaMerge
from tidegate.spark_jobs.sinks.delta.table import DeltaTable
from tidegate.spark_jobs.sinks.iceberg.history import PROOF_TAGS, PUBLISHED_TAG
from tidegate.spark_jobs.sinks.iceberg.table import IcebergTable, table_name
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name
from tidegate.spark_jobs.steps import Step

Rollback = Callable[[], None]
_CALL = re.compile(r"CALL [^;]+;")


def snapshots(line: Line) -> list[int]:
    """The ids of the table's snapshots, oldest first."""
    found = line.spark.table(f"{table_name(line.contract_id)}.snapshots").orderBy("committed_at")
    return [each["snapshot_id"] for each in found.collect()]


def call(line: Line, procedure: str) -> None:
    line.spark.sql(f"CALL lake.system.{procedure}").collect()


def roll_back(line: Line, to: int) -> None:
    call(line, f"rollback_to_snapshot('{table_name(line.contract_id)}', {to})")


def with_two_batches(line: Line) -> int:
    """Write five rows, then four more; give the snapshot between the two."""
    line.produce(*(row(n) for n in range(5)))
    line.enforce()
    between = snapshots(line)[-1]
    line.produce(*(row(n) for n in range(5, 9)))
    line.enforce()
    return between


def insert_by_hand(line: Line, name: str) -> None:
    by_hand = line.spark.createDataFrame([(name,)], "id string")
    table = line.spark.table(table_name(line.contract_id))
    table.limit(0).unionByName(by_hand, allowMissingColumns=True).writeTo(
        table_name(line.contract_id)
    ).append()


def compact(line: Line) -> None:
    name = table_name(line.contract_id)
    call(line, f"rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")


def expire_all(line: Line) -> None:
    name, moment = table_name(line.contract_id), "TIMESTAMP '2999-01-01 00:00:00'"
    call(line, f"expire_snapshots(table => '{name}', older_than => {moment}, retain_last => 1)")


@pytest.mark.full
def test_a_rolled_back_table_stops_the_stream_when_it_starts(line: Line) -> None:
    """The message names the statement that brings the rows back; with it the stream goes on."""
    roll_back(line, with_two_batches(line))
    assert len(line.rows()) == 5
    line.produce(row(9))
    with pytest.raises(StreamStopped, match="was rolled back") as stopped:
        line.enforce()
    assert line.ledger().totals == BatchTotals(written=9)
    (statement,) = _CALL.findall(str(stopped.value))
    line.spark.sql(statement.removesuffix(";")).collect()
    line.enforce()
    assert len(line.rows()) == 10
    assert line.reconcile().holds


def test_a_table_that_is_rolled_back_while_the_stream_runs_stops_it(line: Line) -> None:
    between = with_two_batches(line)
    line.produce(row(9), row(11))
    done: list[int] = []

    def roll_back_meanwhile(_stream: str, step: Step) -> None:
        if step is Step.DECIDE and not done:
            done.append(between)
            roll_back(line, between)

    with pytest.raises(StreamStopped, match="was rolled back"):
        line.enforce(roll_back_meanwhile)
    assert len(line.rows()) == 5


@pytest.mark.full
def test_rows_of_others_on_top_of_a_rollback_do_not_hide_it(line: Line) -> None:
    roll_back(line, with_two_batches(line))
    insert_by_hand(line, "by hand")
    with pytest.raises(StreamStopped, match="was rolled back"):
        line.enforce()


@pytest.mark.full
def test_a_rollback_whose_traces_are_expired_cannot_be_proven_away(line: Line) -> None:
    roll_back(line, with_two_batches(line))
    for name in ("one", "two", "three"):
        insert_by_hand(line, name)
    expire_all(line)
    with pytest.raises(StreamStopped, match="cannot be proven"):
        line.enforce()


@pytest.mark.full
def test_a_table_of_an_older_version_is_taken_over(line: Line) -> None:
    """It has a ledger and no tag; rolled back before, its own log of snapshots says so."""
    between = with_two_batches(line)
    name = table_name(line.contract_id)
    line.spark.sql(f"ALTER TABLE {name} DROP TAG `{PUBLISHED_TAG}`")
    line.produce(row(9))
    line.enforce()
    assert len(line.rows()) == 10
    assert tags(line) == {PUBLISHED_TAG}
    line.spark.sql(f"ALTER TABLE {name} DROP TAG `{PUBLISHED_TAG}`")
    roll_back(line, between)
    with pytest.raises(StreamStopped, match="was rolled back"):
        line.enforce()


@pytest.mark.full
def test_compaction_and_expiry_by_others_break_no_proof(line: Line) -> None:
    """Others leave one snapshot of their own and the tagged one, with no chain between them."""
    with_two_batches(line)
    compact(line)
    call(line, f"rewrite_manifests('{table_name(line.contract_id)}')")
    expire_all(line)
    line.produce(row(9))
    line.enforce()
    assert line.reconcile().holds
    assert len(line.rows()) == 10


def tags(line: Line) -> set[str]:
    """The tags of the table."""
    refs = line.spark.table(f"{table_name(line.contract_id)}.refs").where("type = 'TAG'")
    return {each["name"] for each in refs.collect()}


def maintain(line: Line) -> None:
    """Do what a stream does every few minutes, also while it has nothing to write."""
    IcebergTable(line.spark, table_name(line.contract_id)).maintain()


@pytest.mark.parametrize("is_maintained", full(True, False))
def test_others_may_compact_and_expire_again_and_again_while_a_stream_is_idle(
    line: Line, is_maintained: bool
) -> None:
    """No parent and no file leads back to the published snapshot: only what was proven in between does."""
    with_two_batches(line)
    for _ in range(3):
        compact(line)
        if is_maintained:
            maintain(line)
        expire_all(line)
    line.produce(row(9))
    if not is_maintained:
        with pytest.raises(StreamStopped, match="cannot be proven"):
            line.enforce()
        return
    assert len(tags(line)) == 2
    line.enforce()
    assert line.reconcile().holds
    assert len(line.rows()) == 10
    maintain(line)
    assert tags(line) == {PUBLISHED_TAG}


@pytest.mark.full
def test_a_rollback_past_what_was_proven_stops_the_stream(line: Line) -> None:
    """One that only takes away what others have done since does not."""
    between = with_two_batches(line)
    published = snapshots(line)[-1]
    compact(line)
    maintain(line)
    assert tags(line) == {PUBLISHED_TAG, f"{PROOF_TAGS}{published}"}
    roll_back(line, published)
    line.produce(row(9))
    line.enforce()
    assert len(line.rows()) == 10
    compact(line)
    maintain(line)
    roll_back(line, between)
    maintain(line)
    with pytest.raises(StreamStopped, match="was rolled back"):
        line.enforce()
    assert len(line.rows()) == 5


def test_the_staged_snapshot_says_where_the_ledger_will_stand(line: Line) -> None:
    line.produce(row(0), row(1), row(2))
    line.enforce()
    ledger = line.ledger()
    newest = (
        line.spark.table(f"{table_name(line.contract_id)}.snapshots").orderBy("committed_at").collect()[-1]
    )
    told = {key: value for key, value in newest["summary"].items() if key.startswith("tidegate.")}
    told.pop("tidegate.staged")
    assert told == {
        "tidegate.ledger": ledger.name,
        "tidegate.epoch": str(ledger.epoch),
        "tidegate.n": str(ledger.n),
        "tidegate.end": '{"0":2,"1":1}',
    }


def test_a_delta_table_that_is_restored_stops_the_stream(make_line: Callable[..., Line]) -> None:
    """RESTORE takes the rows back and leaves the ledger where it is."""
    line = make_line(sink="delta")
    line.produce(*(row(n) for n in range(5)))
    line.enforce()
    name = f"delta.`file://{line.delta().name}`"
    (newest,) = line.spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()
    line.produce(*(row(n) for n in range(5, 9)))
    line.enforce()
    line.spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {newest['version']}").collect()
    assert (len(line.rows()), line.ledger().totals.written) == (5, 9)
    line.produce(row(9))
    with pytest.raises(StreamStopped, match="was restored") as stopped:
        line.enforce()
    line.spark.sql(re.findall(r"RESTORE TABLE [^;]+", str(stopped.value))[0]).collect()
    line.enforce()
    assert len(line.rows()) == 10
    assert line.reconcile().holds


@pytest.mark.full
@pytest.mark.parametrize("moment", full("in the transaction", "before the transaction", "before the merge"))
def test_a_delta_table_that_is_restored_while_a_batch_is_published_stops_the_stream(
    make_line: Callable[..., Line], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """To Delta it is no conflict, and later starts would look no further back than that batch."""
    line = make_line(sink="delta")
    owner, name = DeltaTable, "_added" if moment.startswith("before") else "_actions"
    if moment == "before the merge":
        line = make_line(sink="delta", write_mode="upsert", merge_mode="merge-on-read")
        line.contracts.plan = line.plan(primary_key=["id"])
        owner, name = DeltaMerge, "expected_ledger"
    restore = with_two_delta_batches(line)
    work, restored = getattr(owner, name), []

    def restore_meanwhile(*arguments: Any) -> Any:
        if not restored and (name != "_actions" or len(arguments[1]) > 2):  # the commit with the rows
            restored.append(restore())
        return work(*arguments)

    monkeypatch.setattr(owner, name, restore_meanwhile)
    line.produce(row(9))
    with pytest.raises(StreamStopped, match="was restored"):
        line.enforce()
    assert restored


def forget_log(line: Line) -> None:
    """Write a checkpoint of the table's state, and let the retention of the log delete what is before it."""
    jvm = line.spark._jvm
    assert jvm is not None
    name = line.delta().name
    long_ago = time.time() - 90 * 24 * 3600
    for each in Path(name, "_delta_log").glob("*.json"):
        os.utime(each, (long_ago, long_ago))
    delta = jvm.org.apache.spark.sql.delta
    delta.DeltaLog.clearCache()
    log = delta.DeltaLog.forTable(line.spark._jsparkSession, name)
    snapshot = log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())
    log.checkpoint(snapshot, jvm.scala.Option.empty())
    delta.DeltaLog.clearCache()


def append_by_hand(line: Line, name: str) -> None:
    """Add a row of another writer to a Delta table."""
    rows = line.spark.createDataFrame([(name,)], "id string")
    rows.write.format("delta").mode("append").save(line.delta().name)


def with_two_delta_batches(line: Line) -> Rollback:
    """Write five rows, then four more; return what restores the table to the five."""
    line.produce(*(row(n) for n in range(5)))
    line.enforce()
    name = f"delta.`file://{line.delta().name}`"
    (newest,) = line.spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()
    line.produce(*(row(n) for n in range(5, 9)))
    line.enforce()
    return lambda: line.spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {newest['version']}").collect()


@pytest.mark.full
def test_a_delta_log_that_is_cleaned_up_to_the_ledger_continues(make_line: Callable[..., Line]) -> None:
    """The commit of a checkpoint stays in the log, and it is the one that moved the ledger."""
    line = make_line(sink="delta")
    with_two_delta_batches(line)
    logs = Path(line.delta().name, "_delta_log")
    before = len(list(logs.glob("*.json")))
    forget_log(line)
    assert len(list(logs.glob("*.json"))) < before
    line.produce(row(9))
    line.enforce()
    assert len(line.rows()) == 10
    assert line.reconcile().holds


@contextmanager
def restored_later(line: Line, *, with_rows: bool = True) -> Iterator[None]:
    """Back rows and ledger up in PostgreSQL, and restore the ledger at the end, `with_rows` or alone."""
    rows = sql.Identifier(*qualified_name(line.contract_id))
    with line.database() as connection:
        connection.execute(sql.SQL("CREATE TABLE backup_rows AS TABLE {}").format(rows))
        connection.execute("CREATE TABLE backup_ledger AS TABLE tidegate.ledger")
    yield
    with line.database() as connection:
        if with_rows:
            connection.execute(sql.SQL("DELETE FROM {}").format(rows))
            connection.execute(sql.SQL("INSERT INTO {} TABLE backup_rows").format(rows))
        connection.execute("DELETE FROM tidegate.ledger")
        connection.execute("INSERT INTO tidegate.ledger TABLE backup_ledger")


@pytest.mark.full
def test_a_database_that_is_restored_from_a_backup_continues_from_there(
    make_line: Callable[..., Line],
) -> None:
    """Rows and ledger are restored together; what was quarantined since is found by the scan, and not written again."""
    line = make_line(sink="postgresql")
    line.produce(*(row(n, 999 if n == 1 else 1) for n in range(5)))
    line.enforce()
    with restored_later(line):
        line.produce(*(row(n, 999 if n == 6 else 1) for n in range(5, 9)))
        line.enforce()
        assert line.ledger().totals == BatchTotals(written=7, quarantined=2)
    assert (len(line.rows()), line.ledger().totals) == (4, BatchTotals(written=4, quarantined=1))
    line.produce(row(9, 999), row(11))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=8, quarantined=3)
    require_exactly_once(line)
    assert line.reconcile().holds


@pytest.mark.full
def test_the_registry_takes_the_reports_of_a_restored_ledger(
    make_line: Callable[..., Line], spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    """Epochs that the ledger forgot are not used again: their batches have been reported with other offsets."""
    line = make_line(sink="postgresql")
    publish(line.document())

    def run(*numbers: int) -> list[int]:
        """Run once; return what the registry answers to the reports."""
        line.produce(*map(row, numbers))
        line.reports.clear()
        with running(spark, line, registry.url, available_now=True) as stream:
            stream.join(DEADLINE_SECONDS)
        assert stream.failure is None
        url = f"{registry.url}/api/v1/streams/{line.contract_id}/batches"
        return [httpx.post(url, json=each.model_dump(mode="json")).status_code for each in line.reports]

    first = run(0)
    with restored_later(line):
        assert run(1, 2) == run(3, 4) == first
        reported = line.ledger().epoch
    assert line.ledger().epoch < reported
    assert run(5) == first
    assert line.ledger().epoch == reported + 1
    require_exactly_once(line)
    assert line.reconcile().holds
