"""Enforcement into a Delta table: rows and ledger in one commit of its log, compared and set."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from threading import Barrier, Thread

import pytest
from pyspark.sql import SparkSession

from tests.integration.enforce.line import KNOWN, SCHEMA, Line, row
from tidegate.contracts.errors import Fenced, StreamStopped
from tidegate.contracts.stream.ledger import BatchTotals, Ledger
from tidegate.spark_jobs.sinks.delta.table import DeltaTable


@pytest.fixture
def line(make_line: Callable[..., Line]) -> Line:
    """A line into a Delta table."""
    return make_line(sink="delta")


def log_of(line: Line) -> list[dict[str, object]]:
    """Every action of the table's log, in order."""
    files = sorted(Path(line.delta().name, "_delta_log").glob("*.json"))
    return [json.loads(text) for file in files for text in file.read_text().splitlines()]


def data_files(line: Line) -> set[str]:
    return {path.name for path in Path(line.delta().name).glob("*.parquet")}


def test_rows_and_ledger_move_together(line: Line) -> None:
    line.produce(*(row(n, 999 if n == 3 else n, day="2024-02-29") for n in range(20)))
    line.enforce(max_offsets=6)
    found = line.rows()
    assert len(found) == 19
    assert (found[0]["id"], found[0]["amount"], found[0]["day"]) == ("r0", 0, date(2024, 2, 29))
    assert (found[0]["_source"]["topic"], found[0]["_source"]["offset"]) == (line.topic, 0)
    assert found[0]["_contract"] == f"{line.contract_id}@1.0.0"
    ledger = line.ledger()
    assert ledger.totals == BatchTotals(written=19, quarantined=1)
    assert line.reconcile().holds
    log = log_of(line)
    versions = [each["txn"]["version"] for each in log if "txn" in each]  # type: ignore[index,call-overload] # its format
    assert versions == list(range(1, ledger.epoch + ledger.n + 1))
    assert {each["add"]["path"] for each in log if "add" in each} == data_files(line)  # type: ignore[index,call-overload] # the same
    (told,) = [each["commitInfo"] for each in log if "commitInfo" in each][-1:]
    assert Ledger.parse(told["userMetadata"]) == ledger  # type: ignore[index,call-overload] # the same


@pytest.mark.full
def test_the_log_knows_the_bounds_of_files(line: Line) -> None:
    line.produce(row(0, 5, day="2024-02-29"), row(2, 9), row(4, 7))
    line.enforce()
    (stats,) = [json.loads(each["add"]["stats"]) for each in log_of(line) if "add" in each]  # type: ignore[index,call-overload] # its format
    assert stats == {
        "numRecords": 3,
        "minValues": {"amount": 5, "day": "2024-02-29"},
        "maxValues": {"amount": 9, "day": "2024-02-29"},
    }
    assert line.spark.read.format("delta").load(line.delta().name).where("amount > 8").count() == 1


@pytest.mark.full
def test_a_batch_that_must_not_pass_leaves_no_file(line: Line) -> None:
    line.contracts.plan = line.plan(rules=[{**KNOWN, "on_violation": "fail"}])
    line.produce(row(0), row(1), row(2, 999))
    with pytest.raises(StreamStopped):
        line.enforce()
    assert line.rows() == []
    assert data_files(line) == set()


@pytest.mark.full
def test_a_new_contract_version_adds_its_columns(line: Line) -> None:
    line.produce(row(0))
    line.enforce()
    definition = {**SCHEMA, "properties": {**SCHEMA["properties"], "note": {"type": "string"}}}
    line.contracts.plan = line.plan(version="1.1.0", schema={"type": "json-schema", "definition": definition})
    line.produce(row(2, note="seen"))
    line.enforce()
    assert [each["note"] for each in line.rows()] == [None, "seen"]
    other = {**SCHEMA, "properties": {**SCHEMA["properties"], "amount": {"type": "string"}}}
    line.contracts.plan = line.plan(schema={"type": "json-schema", "definition": other}, rules=[])
    with pytest.raises(StreamStopped, match="column amount is bigint, the contract says string"):
        line.enforce()
    assert line.reconcile().holds


@pytest.mark.full
def test_of_two_sessions_that_commit_at_once_one_lands(line: Line, spark: SparkSession) -> None:
    """Raced for real: both have compared the same ledger before either commits."""
    line.enforce()
    held = line.ledger()
    start = Barrier(2)
    outcomes: list[str] = []

    def race(session: SparkSession, name: str) -> None:
        table = DeltaTable(session, f"file://{line.delta().name}")
        start.wait()
        try:
            outcomes.append(f"{name} landed" if table.publish("[]", held, held.claim(1, name)) else "again")
        except Fenced:
            outcomes.append("fenced")

    racers = [Thread(target=race, args=(spark.newSession(), name)) for name in ("one", "other")]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    winner = line.ledger().instance
    assert sorted(outcomes) == sorted(["fenced", f"{winner} landed"])
    assert line.ledger() == held.claim(1, winner)


def test_a_transaction_that_was_overtaken_is_refused_by_delta_itself(line: Line) -> None:
    """The ledger was compared in time, and another instance commits before this one does."""
    line.enforce()
    held, table = line.ledger(), line.delta()

    class Late(DeltaTable):
        def _require_held(self, snapshot: object, held: Ledger | None) -> None:
            super()._require_held(snapshot, held)
            if held is not None and not overtaken:
                overtaken.append(table.publish("[]", held, held.claim(1, "quick")))

    overtaken: list[Ledger | None] = []
    with pytest.raises(Fenced):
        Late(line.spark, f"file://{table.name}").publish("[]", held, held.claim(1, "late"))
    assert line.ledger().instance == "quick"


@pytest.mark.full
def test_rows_that_somebody_else_appends_stay(line: Line) -> None:
    line.produce(row(0))
    line.enforce()
    table = line.delta().name
    by_hand = line.spark.createDataFrame([("by hand",)], "id string")
    by_hand.write.format("delta").mode("append").save(table)
    line.produce(row(2))
    line.enforce()
    ids = line.spark.read.format("delta").load(table).select("id").toArrow().column("id").to_pylist()
    assert sorted(ids) == ["by hand", "r0", "r2"]


@pytest.mark.full
def test_the_ledger_outlives_the_commits_that_wrote_it(line: Line) -> None:
    """Checkpoints of the log keep it: history is cleaned up, and streams may rest for longer."""
    line.produce(row(0))
    line.enforce()
    ledger = line.ledger()
    folder = Path(line.delta().name, "_delta_log")
    spark = line.spark
    jvm = spark._jvm
    assert jvm is not None
    delta_log = jvm.org.apache.spark.sql.delta.DeltaLog
    delta_log.forTable(spark._jsparkSession, line.delta().name).checkpoint()
    newest = max(folder.glob("*.json"))
    for file in folder.glob("*.json"):
        if file != newest:
            file.unlink()
    delta_log.clearCache()
    assert line.ledger() == ledger
    line.produce(row(2))
    line.enforce()
    assert len(line.rows()) == 2
