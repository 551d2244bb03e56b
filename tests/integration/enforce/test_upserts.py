"""Upserts into a table of each kind: the newest record of a key is the row, and the ledger tells what became of the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from tests.integration.enforce.line import SCHEMA, Line, Sent, row
from tidegate.contracts.errors import Fenced, NotFoundError, StreamStopped
from tidegate.contracts.stream.evidence import read_evidence
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, PublishedBatch
from tidegate.contracts.verdict import Stage
from tidegate.spark_jobs.sinks.delta import merge
from tidegate.spark_jobs.sinks.delta.table import DeltaTable
from tidegate.spark_jobs.sinks.iceberg.catalogs import open_table
from tidegate.spark_jobs.sinks.iceberg.table import LEDGER_PROPERTY

KEYED = {"primary_key": ["id"], "tombstones": "delete"}
COPYING = pytest.param(("iceberg", "copy-on-write"), id="iceberg-cow")
ICEBERG = [COPYING, pytest.param(("iceberg", "merge-on-read"), id="iceberg-mor", marks=pytest.mark.full)]
DELTA = [
    pytest.param(("delta", "copy-on-write"), id="delta-cow", marks=pytest.mark.full),
    pytest.param(("delta", "merge-on-read"), id="delta-mor", marks=pytest.mark.full),
]
POSTGRESQL = pytest.param(("postgresql", "copy-on-write"), id="postgresql")
TABLES = [*ICEBERG, *DELTA, POSTGRESQL]


@pytest.fixture
def upserting(request: pytest.FixtureRequest, make_line: Callable[..., Line]) -> Line:
    """A line into the table of the parameter, whose rows are merged on `id`."""
    sink, merge_mode = request.param
    line = make_line(sink=sink, merge_mode=merge_mode, write_mode="upsert")
    line.contracts.plan = line.plan(**KEYED)
    return line


def gone(number: int) -> Sent:
    """A tombstone for the key of a row."""
    return Sent(None, f"r{number}".encode(), number % 2)


@pytest.mark.parametrize("upserting", TABLES, indirect=True)
def test_the_newest_of_a_key_is_its_row_and_tombstones_take_it_away(upserting: Line) -> None:
    line = upserting
    line.produce(row(0, 1), row(1, 1), row(0, 2), row(2, 999), gone(1), row(4, 1), row(6, 1))
    line.enforce()
    assert [(each["id"], each["amount"]) for each in line.rows()] == [("r0", 2), ("r4", 1), ("r6", 1)]
    assert line.ledger().totals == BatchTotals(written=3, superseded=2, deleted=1, quarantined=1)
    line.produce(row(0, 3), gone(4), row(3, 7), gone(8), row(6, 5), gone(6), row(6, 6))
    line.enforce()
    assert [(each["id"], each["amount"]) for each in line.rows()] == [("r0", 3), ("r6", 6), ("r3", 7)]
    assert line.ledger().totals == BatchTotals(written=3, superseded=6, deleted=4, quarantined=1)
    found = line.reconcile()
    assert found.holds, found
    assert found.in_no_output == 10


@pytest.mark.parametrize("upserting", ICEBERG, indirect=True)
def test_iceberg_moves_merged_rows_and_ledger_in_one_commit(upserting: Line) -> None:
    """In every state that the table ever had, `main` holds as many rows as the ledger of that state says."""
    line = upserting
    for numbers in (range(6), range(3, 9), (3, 3, 4)):
        line.produce(*(row(n, 2) for n in numbers), gone(5))
        line.enforce()
    table = open_table(line.settings, line.contract_id)
    states = [*(entry.metadata_file for entry in table.metadata.metadata_log), table.metadata_location]
    seen = []
    for state in states:
        found = StaticTable.from_metadata(state)
        if (text := found.properties.get(LEDGER_PROPERTY)) is not None:
            rows = found.scan().to_arrow().num_rows if found.current_snapshot() else 0
            assert rows == Ledger.parse(text).totals.written, state
            seen.append(rows)
    assert {5, 8} <= {*seen}
    summary = table.current_snapshot().summary  # type: ignore[union-attr] # there is one
    assert summary is not None
    is_copied = line.settings.merge_mode == "copy-on-write"
    assert (summary["total-position-deletes"] == "0") is is_copied


@pytest.mark.parametrize("upserting", DELTA, indirect=True)
def test_delta_moves_merged_rows_and_ledger_in_one_commit(upserting: Line) -> None:
    """At every version of the table that tells a ledger there are as many rows as it says."""
    line = upserting
    for numbers in (range(6), range(3, 9), (3, 3, 4)):
        line.produce(*(row(n, 2) for n in numbers), gone(5))
        line.enforce()
    folder = Path(line.delta().name, "_delta_log")
    logs = {int(file.stem): file.read_text() for file in folder.glob("*.json")}
    merged = [version for version, text in logs.items() if '"operation":"MERGE"' in text]
    assert len(merged) == 3
    for version in merged:
        rows = line.spark.read.format("delta").option("versionAsOf", version).load(line.delta().name).count()
        (after,) = [
            each["domainMetadata"]["configuration"]
            for each in map(json.loads, logs[version + 1].splitlines())
            if "domainMetadata" in each
        ]
        assert rows == Ledger.parse(after).totals.written
    has_vectors = any('"deletionVector":{' in logs[version] for version in merged)
    assert has_vectors is (line.settings.merge_mode == "merge-on-read")


@pytest.mark.parametrize("commits", [0, 3])
@pytest.mark.parametrize("upserting", DELTA[:1], indirect=True)
def test_delta_knows_a_merge_that_was_killed_before_its_ledger_was_noted(
    upserting: Line, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """What the merge's own commit says is enough, also behind more commits of others than are looked at first."""
    monkeypatch.setattr(merge, "_COMMITS_LOOKED_AT", 2)
    line = upserting
    line.produce(row(0), row(2), row(0, 2))
    line.enforce()
    expected = line.ledger()
    folder = Path(line.delta().name, "_delta_log")
    newest = max(folder.glob("*.json")).stem
    for file in (*folder.glob(f"{newest}.*"), *folder.glob(f".{newest}.*")):  # with what was summed up of it
        file.unlink()
    jvm = line.spark._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    for number in range(commits):
        line.spark.sql(f"ALTER TABLE delta.`{line.delta().name}` SET TBLPROPERTIES ('by.hand' = '{number}')")
    assert line.ledger() == expected
    line.produce(row(2, 2))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=2, superseded=2)
    assert line.reconcile().holds


@pytest.mark.parametrize("upserting", DELTA, indirect=True)
def test_a_merge_that_is_overtaken_after_it_compared_is_left_out_by_delta_itself(upserting: Line) -> None:
    """Another instance claims the ledger between the comparison and the MERGE."""
    line = upserting
    line.enforce()
    held = line.ledger()
    plan = line.contracts.plan
    moving = line.delta()

    class Overtaken(DeltaTable):
        def _require_held(self, snapshot: object, held: Ledger | None) -> None:
            super()._require_held(snapshot, held)
            if not overtaken:
                overtaken.append(moving.publish("[]", held, held.claim(1, "quick")))

    overtaken: list[Ledger | None] = []
    table = Overtaken(line.spark, f"file://{line.delta().name}", line.settings.merge_mode)
    table.ensure(plan)
    values = pa.array([row(0).value], pa.binary())
    batch = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0], pa.int32()),
            "offset": pa.array([0], pa.int64()),
            "timestamp": pa.array([0], pa.timestamp("us", "UTC")),
            "value": values,
        }
    )
    with table.target(plan, "c", "tidegate-1").open("0") as part:
        part.write(plan.judge_typed(values).field(2), batch, None)
    new = held.publish(PublishedBatch({}, {0: 1}, {}, BatchTotals(written=1), "c", 1))
    with pytest.raises(Fenced):
        table.publish(json.dumps(part.written), held, new)
    assert line.rows() == []
    assert line.ledger() == held.claim(1, "quick")


@pytest.mark.parametrize("upserting", [COPYING, DELTA[0], POSTGRESQL], indirect=True)
def test_a_record_without_a_primary_key_is_quarantined_with_the_reason(upserting: Line) -> None:
    line = upserting
    optional = {**SCHEMA, "required": ["amount"]}
    line.contracts.plan = line.plan(schema={"type": "json-schema", "definition": optional}, **KEYED)
    line.produce(row(0), Sent(b'{"amount": 1}'), Sent(None, b"\xff"), row(2))
    line.enforce()
    assert [each["id"] for each in line.rows()] == ["r0", "r2"]
    evidence = [read_evidence(record.headers) for record in line.quarantined()]
    assert [[(v.stage, v.code, v.message) for v in each.violations] for each in evidence if each] == [
        [(Stage.COLUMN, "id", "column id is null, and it tells the table's rows apart (primary_key)")]
    ] * 2
    assert line.reconcile().holds


@pytest.mark.parametrize("sink", ["iceberg", "delta", "postgresql"])
def test_what_a_table_cannot_do_is_refused_at_the_start(make_line: Callable[..., Line], sink: str) -> None:
    """Before anything is claimed: there is no ledger, and no table."""
    line = make_line(sink=sink)
    line.contracts.plan = line.plan(**KEYED)
    with pytest.raises(
        StreamStopped, match="lets tombstones delete, and --write-mode append deletes nothing"
    ):
        line.enforce()
    line.contracts.plan = line.plan(tombstones="delete")
    with pytest.raises(StreamStopped, match="has no primary_key, which --write-mode upsert needs"):
        line.enforce(write_mode="upsert")
    with pytest.raises(NotFoundError):
        line.reconcile()
    if sink == "postgresql":  # the quickest of them
        line.contracts.plan = line.plan(**KEYED)
        line.produce(row(0), row(0, 2))
        line.enforce(write_mode="upsert")
        assert [each["amount"] for each in line.rows()] == [2]


@pytest.mark.full
@pytest.mark.parametrize("upserting", [COPYING, DELTA[0]], indirect=True)
def test_the_key_of_rows_stays_the_same_for_the_life_of_the_table(
    upserting: Line, make_line: Callable[..., Line]
) -> None:
    line = upserting
    line.produce(row(0))
    line.enforce()
    line.contracts.plan = line.plan(primary_key=["day"])
    with pytest.raises(StreamStopped, match=r"its primary key is \['id'\], the contract's \['day'\]"):
        line.enforce()
    line.contracts.plan = line.plan()
    with pytest.raises(StreamStopped, match="its rows have the primary key"):
        line.enforce(write_mode="append")
    line.contracts.plan = line.plan(**KEYED)
    line.produce(row(0, 2))
    line.enforce()
    assert [each["amount"] for each in line.rows()] == [2]
    appended = make_line(sink=line.settings.sink)
    appended.produce(row(0), row(0))
    appended.enforce()
    appended.contracts.plan = appended.plan(primary_key=["id"])
    with pytest.raises(StreamStopped, match="has rows that were appended"):
        appended.enforce(write_mode="upsert")
