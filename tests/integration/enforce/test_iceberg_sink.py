"""Enforcement into an Iceberg table: what is where afterwards, byte for byte and row for row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from itertools import count
from typing import Any

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.integration.enforce.line import KNOWN, SCHEMA, Line, Sent, row
from tidegate.contracts.errors import Fenced, StreamStopped
from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.evidence import read_evidence
from tidegate.contracts.stream.ledger import BatchTotals, span
from tidegate.contracts.verdict import Severity, Stage
from tidegate.spark_jobs.sinks.iceberg.catalogs import open_table
from tidegate.spark_jobs.sinks.iceberg.history import STAGED
from tidegate.spark_jobs.sinks.iceberg.retraction import Retraction
from tidegate.spark_jobs.sinks.iceberg.table import IcebergTable, table_name
from tidegate.spark_jobs.steps import Step

WARNED = {"id": "amount-is-small", "kind": "range", "field": "/amount", "maximum": 100, "severity": "warning"}


def test_accepted_records_become_typed_rows_that_say_where_they_came_from(line: Line) -> None:
    line.produce(row(0, 7, day="2024-02-29"), row(1, 8))
    line.enforce()
    moment = datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)

    def source(partition: int) -> dict[str, object]:
        return {"topic": line.topic, "partition": partition, "offset": 0, "timestamp": moment}

    contract = f"{line.contract_id}@1.0.0"
    assert line.rows() == [
        {"id": "r0", "amount": 7, "day": date(2024, 2, 29), "_source": source(0), "_contract": contract},
        {"id": "r1", "amount": 8, "day": None, "_source": source(1), "_contract": contract},
    ]


def test_refused_records_keep_every_byte_and_say_why(line: Line) -> None:
    records = [
        Sent(b'{"id": "a", "amount": 999}', b"key", 0, (("trace", b"\x00\xff"), ("trace", None)), 1),
        Sent(b"\xff not json", None, 1, (), 1_700_000_000_123),
        Sent(b"", b"", 0, (("empty", b""),), 1_700_000_000_124),
        Sent(None, b"gone", 1, (), 1_700_000_000_125),
    ]
    line.produce(*records)
    line.enforce()
    found = line.quarantined()
    assert [(r.value, r.key, r.partition, r.timestamp_ms) for r in found] == [
        (r.value, r.key, r.partition, r.timestamp_ms) for r in sorted(records, key=lambda r: r.partition)
    ]
    assert [r.headers[: len(o.headers)] for r, o in zip(found, (records[0], records[2]), strict=False)] == [
        records[0].headers,
        records[2].headers,
    ]
    evidence = [read_evidence(record.headers) for record in found]
    assert [(str(e.source), e.rules) for e in evidence if e] == [
        (f"{line.topic}/0/0", ("amount-is-known",)),
        (f"{line.topic}/0/1", ("json.empty",)),
        (f"{line.topic}/1/0", ("json.invalid-utf8",)),
        (f"{line.topic}/1/1", ("value.null",)),
    ]
    assert line.rows() == []


def test_a_value_that_its_column_cannot_hold_is_refused_and_says_so(line: Line) -> None:
    line.produce(row(0, 2**63), row(2, 2**63 - 1))
    line.enforce()
    assert [each["amount"] for each in line.rows()] == [2**63 - 1]
    (refused,) = line.quarantined()
    evidence = read_evidence(refused.headers)
    assert evidence is not None
    assert [(v.stage, v.code, v.pointer) for v in evidence.violations] == [
        (Stage.COLUMN, "amount", "/amount")
    ]
    (report,) = line.reports
    counted = RuleCount(stage=Stage.COLUMN, code="amount", severity=Severity.ERROR, records=1)
    assert report.rules == (counted,)


def test_every_offset_is_accounted_for(line: Line) -> None:
    dropped = {
        "id": "no-zero",
        "kind": "forbidden",
        "field": "/amount",
        "values": [0],
        "on_violation": "drop",
    }
    line.contracts.plan = line.plan(rules=[KNOWN, dropped, WARNED])
    line.produce(*(row(n, {3: 999, 5: 0, 7: 500}.get(n, 1)) for n in range(20)))
    line.enforce(max_offsets=6)
    assert line.ledger().totals == BatchTotals(written=18, quarantined=1, dropped=1, absent=0)
    assert line.reconcile().holds
    # A backlog is taken in batches of that many offsets, however long it is.
    assert max(span(report.start, report.end) for report in line.reports) == 6
    assert sum(report.warned for report in line.reports) == 1
    counts: dict[str, int] = {}
    for report in line.reports:
        for rule in report.rules:
            counts[rule.code] = counts.get(rule.code, 0) + rule.records
    assert counts == {"amount-is-known": 1, "no-zero": 1, "amount-is-small": 2}
    assert [report.n for report in line.reports] == list(range(1, len(line.reports) + 1))
    assert line.reports[-1].lag_records == 0
    assert set(line.reports[0].timings_ms) == {
        "contract",
        "judge",
        "decide",
        "quarantine",
        "stage",
        "publish",
    }


def test_alerted_records_are_written_and_counted(line: Line) -> None:
    line.contracts.plan = line.plan(rules=[{**KNOWN, "on_violation": "alert"}])
    line.produce(row(0, 999), row(1))
    with capture_logs() as events:
        line.enforce()
    (alert,) = (event for event in events if event["event"] == "alert_raised")
    assert (alert["records"], alert["rules"]) == (1, {"amount-is-known": 1})
    assert [each["amount"] for each in line.rows()] == [999, 1]
    (report,) = line.reports
    assert (report.written, report.alerted, report.quarantined) == (2, 1, 0)
    alerted = RuleCount(stage=Stage.RULE, code="amount-is-known", severity=Severity.ERROR, records=1)
    assert report.rules == report.alerts == (alerted,)


@pytest.mark.parametrize("budget", [None, {"ratio": 0.1, "min_records": 4}])
def test_a_batch_that_must_not_pass_leaves_no_trace(line: Line, budget: dict[str, object] | None) -> None:
    """With a rule of on_violation fail, and with an error budget."""
    rule = KNOWN if budget else {**KNOWN, "on_violation": "fail"}
    line.contracts.plan = line.plan(rules=[rule], error_budget=budget)
    line.produce(row(0), row(1), row(2, 999), row(3), row(4, 999))
    first = f"the first is at topic {line.topic}, partition 0, offset 1 and violates amount-is-known"
    with pytest.raises(StreamStopped, match="error budget spent" if budget else first):
        line.enforce()
    assert line.rows() == []
    assert line.quarantined() == []
    assert line.ledger().totals == BatchTotals()
    # A version with which the batch may pass goes on from the same place.
    line.contracts.plan = line.plan(version="1.0.1")
    line.enforce()
    assert line.reconcile().holds
    assert line.ledger().totals == BatchTotals(written=3, quarantined=2)


def test_a_batch_without_a_row_still_moves_the_ledger(line: Line) -> None:
    line.produce(row(0, 999), row(1, 999))
    line.enforce()
    assert line.rows() == []
    assert line.ledger().end == {0: 1, 1: 1}
    line.enforce()
    assert len(line.quarantined()) == 2


def test_tombstones_pass_when_the_contract_says_so(line: Line) -> None:
    line.contracts.plan = line.plan(tombstones="pass")
    line.produce(Sent(None, b"gone"), row(2))
    line.enforce()
    assert [(each["id"], each["_source"]["offset"]) for each in line.rows()] == [(None, 0), ("r2", 1)]


def test_a_new_contract_version_takes_effect_between_two_batches(line: Line) -> None:
    """And adds its columns; a column that the next version leaves out stays, and is null."""
    properties = {**SCHEMA["properties"], "note": {"type": "string"}}
    wider = line.plan(
        version="1.1.0",
        schema={"type": "json-schema", "definition": {**SCHEMA, "properties": properties}},
        rules=[],
    )
    line.produce(*(row(2 * n, 999) for n in range(4)))

    def publish_meanwhile(_stream: str, step: Step) -> None:
        # Not when the first is committed: the second may be under way by then.
        if step is Step.DECIDE:
            line.contracts.plan = wider

    line.enforce(publish_meanwhile, max_offsets=2)
    assert [report.contract.partition("@")[2] for report in line.reports] == ["1.0.0", "1.1.0"]
    assert len(line.quarantined()) == 2
    assert [(each["_contract"][-5:], each["note"]) for each in line.rows()] == [("1.1.0", None)] * 2
    line.contracts.plan = line.plan(version="2.0.0", rules=[])
    line.produce(row(8, 1))
    line.enforce()
    assert line.rows()[-1]["note"] is None
    assert line.reconcile().holds


def test_a_column_of_another_type_stops_the_stream(line: Line) -> None:
    line.enforce()
    properties = {**SCHEMA["properties"], "amount": {"type": "string"}}
    definition = {**SCHEMA, "properties": properties}
    line.contracts.plan = line.plan(schema={"type": "json-schema", "definition": definition}, rules=[])
    with pytest.raises(StreamStopped, match="column amount is bigint, the contract says string"):
        line.enforce()


@pytest.mark.full
def test_rows_that_somebody_else_appends_stay(line: Line, spark: SparkSession) -> None:
    """Compaction, or a person's INSERT, moves the table's head while a batch is staged: it is staged again."""
    line.produce(row(0))
    inserted = []

    def insert_meanwhile(_stream: str, step: Step) -> None:
        if step is Step.STAGE and not inserted:
            by_hand = spark.createDataFrame([("by hand",)], "id string")
            table = spark.table(table_name(line.contract_id))
            table.limit(0).unionByName(by_hand, allowMissingColumns=True).writeTo(
                table_name(line.contract_id)
            ).append()
            inserted.append(by_hand)

    line.enforce(insert_meanwhile)
    found = open_table(line.settings, line.contract_id).scan().to_arrow().column("id").to_pylist()
    assert sorted(found) == ["by hand", "r0"]


def test_what_a_fenced_instance_stages_is_not_published(line: Line, spark: SparkSession) -> None:
    """Instances share the branch: one that was fenced may still stage there, after the owner has."""
    line.produce(row(0), row(1))
    staged = []

    def stage_meanwhile(_stream: str, step: Step) -> None:
        if step is Step.STAGE and not staged:
            staged.append(IcebergTable(spark, table_name(line.contract_id)).stage([]))

    line.enforce(stage_meanwhile)
    assert len(line.rows()) == 2
    assert line.reconcile().holds


def test_compare_and_set_lets_one_of_two_through(line: Line, spark: SparkSession) -> None:
    line.enforce()
    held = line.ledger()
    one, other = (
        IcebergTable(spark, table_name(line.contract_id)),
        IcebergTable(spark, table_name(line.contract_id)),
    )
    assert one.publish(one.stage([]), held, held.claim(1))
    with pytest.raises(Fenced):
        other.publish(other.stage([]), held, held.claim(2))
    assert one.read() == held.claim(1)


def test_a_recreated_topic_stops_the_stream(line: Line) -> None:
    line.produce(row(0))
    line.enforce()
    stolen = line.ledger().model_copy(update={"topic_id": "another"})
    table = IcebergTable(line.spark, table_name(line.contract_id))
    assert table.publish(table.stage([]), line.ledger(), stolen)
    with pytest.raises(StreamStopped, match="was deleted and created again"):
        line.enforce()


def test_a_stream_may_start_at_the_latest_record(line: Line) -> None:
    line.produce(row(0))
    line.enforce(starting="latest")
    line.produce(row(2))
    line.enforce(starting="latest")
    assert [each["id"] for each in line.rows()] == ["r2"]
    assert line.ledger().begin == {0: 1, 1: 0}
    assert line.reconcile().holds


class _Overtaken:
    """A change of branches that another commit comes before."""

    def __init__(self, change: Any, commit_another: Callable[[], object]) -> None:
        self._change, self._commit_another = change, commit_another

    def removeBranch(self, name: str) -> _Overtaken:  # noqa: N802 - as Iceberg names it
        self._change.removeBranch(name)
        return self

    def createBranch(self, name: str, snapshot: int) -> _Overtaken:  # noqa: N802 - as Iceberg names it
        self._change.createBranch(name, snapshot)
        return self

    def commit(self) -> None:
        self._commit_another()
        self._change.commit()


def test_another_commit_while_the_branch_is_moved_is_no_failure(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.produce(row(0))
    line.enforce()
    name = table_name(line.contract_id)
    line.spark.table(name).limit(0).writeTo(name).append()  # the branch must follow
    table, changes = IcebergTable(line.spark, name), count()

    def changed() -> Any:
        change = load().manageSnapshots()
        if next(changes):
            return change
        return _Overtaken(
            change, lambda: line.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('other' = '1')")
        )

    load = table._load
    held = table.read()
    assert held is not None
    monkeypatch.setattr(table, "_branches", changed)
    assert table.publish(table.stage([]), held, held) is not None
    assert next(changes) == 2


def test_another_commit_while_a_deletion_makes_its_branch_is_no_failure(
    line: Line,
) -> None:
    line.produce(row(0), row(2))
    line.enforce()
    name = table_name(line.contract_id)
    table, changes = IcebergTable(line.spark, name)._load(), count()

    class Overtaken:
        """The table of Iceberg, whose first change of branches another commit comes before."""

        def __getattr__(self, called: str) -> Any:
            return getattr(table, called)

        def manageSnapshots(self) -> Any:  # noqa: N802 - as Iceberg names it
            change = table.manageSnapshots()
            if next(changes):
                return change
            other = f"ALTER TABLE {name} SET TBLPROPERTIES ('other' = '1')"
            return _Overtaken(change, lambda: line.spark.sql(other))

    retraction = Retraction(line.spark, name, Overtaken())
    retraction.stage("id = 'r0'", {STAGED: "one"})
    assert next(changes) == 2
    assert retraction.on_head(IcebergTable(line.spark, name)._operations().refresh()) is not None
    retraction.clean()
    assert len(line.rows()) == 2
