"""`tidegate archive`: the output is archived, and the stream begins again with an empty one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from psycopg import sql
from psycopg.rows import dict_row

from tests.integration.enforce.adopting import Adopting, run_command
from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.job import Publish
from tests.integration.enforce.line import KNOWN, Line, row
from tests.integration.enforce.losing import lose_ledger
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.test_rolled_back import append_by_hand, forget_log
from tests.integration.enforce.test_source_changes import PowerCutError, forget, make_anew
from tests.marks import full
from tidegate.contracts.errors import ConflictError, StreamStopped
from tidegate.contracts.stream.adoption import EPOCH_GAP
from tidegate.contracts.stream.ledger import BatchTotals, Ledger
from tidegate.contracts.stream.output_topics import LEDGER_TOPIC, accepted_topic, quarantine_topic
from tidegate.spark_jobs.adopt.archive import Archive, Archiver
from tidegate.spark_jobs.kafka.kafka_ledger import ledger_name
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.delta.merge import DeltaMerge
from tidegate.spark_jobs.sinks.iceberg.catalogs import open_table
from tidegate.spark_jobs.sinks.iceberg.table import LEDGER_PROPERTY, table_name
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name
from tidegate.spark_jobs.sinks.quarantine_table import SUFFIX
from tidegate.spark_jobs.steps import Step


class Archiving:
    """Archives lines with a real registry, which also takes their reports."""

    def __init__(self, registry: Registry) -> None:
        self.url = registry.url
        self.shown: list[Archive] = []

    def settings(self, line: Line) -> JobSettings:
        return line.settings.model_copy(update={"registry_url": self.url})

    def archive(self, line: Line, name: str, *, repeats: bool = False) -> Ledger:
        with Archiver.opened(self.settings(line), line.contract_id) as found:
            return found.archive(name, self.shown.append, repeats=repeats)

    def report(self, line: Line) -> list[int]:
        """Send the reports of a line's batches; return the status of each answer."""
        address = f"{self.url}/api/v1/streams/{line.contract_id}/batches"
        sent = [httpx.post(address, json=each.model_dump(mode="json")).status_code for each in line.reports]
        line.reports.clear()
        return sent

    def noted(self, line: Line) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self.url}/api/v1/streams/{line.contract_id}/adoptions")
        answer.raise_for_status()
        return [each["adoption"] for each in answer.json()["adoptions"]]


@pytest.fixture
def archiving(registry: Registry) -> Archiving:
    return Archiving(registry)


def rows_of_archive(line: Line, name: str) -> list[str]:
    """Ids of the rows of an archived table, read with other tools than those of the job."""
    if line.settings.sink == "postgresql":
        schema, _ = qualified_name(line.contract_id)
        with line.database() as connection:
            query = sql.SQL("SELECT id FROM {} ORDER BY id").format(sql.Identifier(schema, name))
            return [each["id"] for each in connection.cursor(row_factory=dict_row).execute(query)]
    if line.settings.sink == "delta":
        location = f"{line.delta().name.rpartition('/')[0]}/{name}"
        return sorted(each.id for each in line.spark.read.format("delta").load(location).collect())
    namespace = line.contract_id.rpartition(".")[0]
    found = open_table(line.settings, f"{namespace}.{name}" if namespace else name)
    return sorted(found.scan().to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("sink", ["iceberg", *full("delta", "postgresql", "kafka")])
def test_a_stream_begins_again_with_a_topic_that_was_created_again(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving, sink: str
) -> None:
    line = make_line(sink=sink)
    publish(line.document())
    line.produce(*(row(n, 999 if n == 3 else n) for n in range(8)))
    line.enforce()
    assert set(archiving.report(line)) <= {201, 202, 204}
    make_anew(line)
    line.produce(*(row(n, 999 if n in {1, 4} else n) for n in range(20, 24)), row(25, 999))
    with pytest.raises(StreamStopped, match=r"was deleted and created again.*tidegate archive"):
        line.enforce()
    before = line.ledger()
    new = archiving.archive(line, "put_away")
    (shown,) = archiving.shown
    assert (shown.is_recreated, shown.held, shown.begin) == (True, before, {0: 0, 1: 0})
    assert new.epoch >= before.epoch + EPOCH_GAP
    assert new.name != before.name
    line.enforce(accepted_slots=1)
    assert line.ledger().totals == BatchTotals(written=4, quarantined=1)
    assert set(archiving.report(line)) <= {201, 202, 204}
    (noted,) = archiving.noted(line)
    assert (noted["archived"], noted["ledger"], noted["id"]) == ("put_away", before.name, new.adopted)
    assert line.reconcile().holds
    if sink == "kafka":
        assert len(line.accepted()) == 7 + 4
    else:
        assert [each["id"] for each in line.rows()] == ["r20", "r22", "r21", "r23"]
        assert rows_of_archive(line, "put_away") == [f"r{n}" for n in range(8) if n != 3]
    assert len(line.quarantined()) == 2
    line.produce(row(30), row(31, 999))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=5, quarantined=2)
    assert line.reconcile().holds


@pytest.mark.parametrize("sink", full("iceberg", "delta", "postgresql"))
def test_a_table_that_was_appended_to_is_put_away_and_upserted_into(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving, sink: str
) -> None:
    """What the topic still has is read again; nothing of it is lost."""
    line = make_line(sink=sink)
    publish(line.document(primary_key=["id"]))
    line.contracts.plan = line.plan(primary_key=["id"])
    line.produce(*(row(2 * (n % 3), n) for n in range(6)))
    line.enforce()
    assert len(line.rows()) == 6
    line.settings = line.settings.model_copy(update={"write_mode": "upsert"})
    with pytest.raises(StreamStopped, match=r"has rows that were appended.*tidegate archive"):
        line.enforce()
    archiving.archive(line, "appended")
    line.enforce()
    assert sorted((each["id"], each["amount"]) for each in line.rows()) == [("r0", 3), ("r2", 4), ("r4", 5)]
    assert line.ledger().totals == BatchTotals(written=3, superseded=3)
    assert len(rows_of_archive(line, "appended")) == 6
    assert line.reconcile().holds


@pytest.mark.parametrize("sink", full("iceberg", "delta", "postgresql"))
def test_merged_rows_of_a_bad_contract_are_rebuilt_from_the_source(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving, sink: str
) -> None:
    """A rewind cannot bring back rows that others have replaced, and refers to `tidegate archive`."""
    line = make_line(sink=sink, write_mode="upsert")
    publish(line.document(primary_key=["id"]))
    spoilt = [{**KNOWN, "values": [5]}]
    line.contracts.plan = line.plan(primary_key=["id"], version="1.1.0", rules=spoilt)
    line.produce(row(0, 1), row(2, 2), row(0, 999), row(2, 5), row(4, 3))
    line.enforce()
    assert sorted((each["id"], each["amount"]) for each in line.rows()) == [("r0", 999), ("r2", 2), ("r4", 3)]
    line.contracts.plan = line.plan(primary_key=["id"], version="1.2.0")
    archiving.archive(line, "spoilt")
    line.enforce()
    assert sorted((each["id"], each["amount"]) for each in line.rows()) == [("r0", 1), ("r2", 5), ("r4", 3)]
    assert line.ledger().totals == BatchTotals(written=3, superseded=1, quarantined=1)
    assert rows_of_archive(line, "spoilt") == ["r0", "r2", "r4"]
    assert line.reconcile().holds


@pytest.mark.full
def test_an_archive_that_was_cut_off_is_finished_by_the_next(
    make_line: Callable[..., Line],
    publish: Publish,
    archiving: Archiving,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the table was renamed, before there was another one."""
    line = make_line(sink="iceberg")
    publish(line.document())
    line.produce(row(0), row(2))
    line.enforce()
    with Archiver.opened(archiving.settings(line), line.contract_id) as found:
        monkeypatch.setattr(type(found._sink), "prepare", _cut)
        with pytest.raises(KeyboardInterrupt):
            found.archive("first", archiving.shown.append)
    monkeypatch.undo()
    archiving.archive(line, "second")
    assert archiving.shown[1].held is None
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=2)
    assert rows_of_archive(line, "first") == ["r0", "r2"]
    assert [each["archived"] for each in archiving.noted(line)] == ["second", "first"]


def _cut(_sink: object) -> None:
    raise KeyboardInterrupt


def _foreign_iceberg(line: Line) -> None:
    line.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.test")
    line.spark.sql(f"CREATE TABLE lake.{line.contract_id} (id string) USING iceberg")
    line.spark.createDataFrame([("r-old",)], "id string").writeTo(f"lake.{line.contract_id}").append()


def _foreign_delta(line: Line) -> None:
    rows = line.spark.createDataFrame([("r-old",)], "id string")
    rows.write.format("delta").save(line.delta().name)


def _foreign_postgresql(line: Line) -> None:
    schema, table = qualified_name(line.contract_id)
    with line.database() as connection:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        name = sql.Identifier(schema, table)
        connection.execute(sql.SQL("CREATE TABLE {} AS SELECT 'r-old' AS id").format(name))


def _unreadable_ledger(line: Line) -> None:
    line.produce(row(100))
    line.enforce()
    line.spark.sql(f"ALTER TABLE lake.{line.contract_id} SET TBLPROPERTIES ('tidegate.ledger' = '{{}}')")


def _partitioned_delta(line: Line) -> None:
    line.produce(row(100))
    line.enforce()
    rows = line.spark.read.format("delta").load(line.delta().name)
    again = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    again.partitionBy("id").save(line.delta().name)


def _cleaned_up_delta(line: Line) -> None:
    """A job is killed after a merge, before the ledger is where checkpoints keep it, and the log forgets the merge."""
    line.settings = line.settings.model_copy(update={"write_mode": "upsert"})
    line.contracts.plan = line.plan(primary_key=["id"])
    line.produce(row(100))
    merge = DeltaMerge.commit

    def cut_after_merge(*arguments: Any) -> None:
        merge(*arguments)
        raise PowerCutError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaMerge, "commit", cut_after_merge)
        with pytest.raises(PowerCutError):
            line.enforce()
    append_by_hand(line, "by hand")
    append_by_hand(line, "again")
    forget_log(line)


@pytest.mark.parametrize(
    ("sink", "prepare", "message"),
    [
        ("iceberg", _foreign_iceberg, "is not a table of this stream"),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in (
                ("delta", _foreign_delta, "is not a table of this stream"),
                ("postgresql", _foreign_postgresql, "is not a table of this stream"),
                ("iceberg", _unreadable_ledger, "cannot be read by this version"),
                ("delta", _partitioned_delta, "is partitioned"),
                ("delta", _cleaned_up_delta, "was cleaned up"),
            )
        ),
    ],
)
def test_a_table_that_a_stream_cannot_go_on_with_is_put_away(
    make_line: Callable[..., Line],
    publish: Publish,
    archiving: Archiving,
    sink: str,
    prepare: Callable[[Line], None],
    message: str,
) -> None:
    line = make_line(sink=sink)
    publish(line.document(primary_key=["id"]))
    prepare(line)
    line.produce(row(2), row(4, 999))
    with pytest.raises(StreamStopped, match=message):
        line.enforce()
    archiving.archive(line, f"{line.contract_id.rpartition('.')[2]}_put_away")
    line.enforce()
    ids = {each["id"] for each in line.rows()}
    assert ids - {"r100"} == {"r2"}
    assert line.ledger().totals.quarantined == 1
    assert line.reconcile().holds


@pytest.mark.full
def test_a_topic_that_has_lost_judged_records_is_begun_again(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving
) -> None:
    """As after an election of a replica that was behind: the topic ends before the ledger does."""
    line = make_line(sink="iceberg")
    publish(line.document())
    line.produce(row(0), row(2, 999))
    line.enforce()
    ahead = line.ledger().model_copy(update={"end": {0: 9, 1: 0}})
    open_table(line.settings, line.contract_id).transaction().set_properties(
        {LEDGER_PROPERTY: ahead.text}
    ).commit_transaction()
    with pytest.raises(
        StreamStopped, match=r"the broker has lost records that were judged.*tidegate archive"
    ):
        line.enforce()
    archiving.archive(line, "before_the_loss")
    line.enforce()
    assert rows_of_archive(line, "before_the_loss") == ["r0"]
    assert line.ledger().totals == BatchTotals(written=1, quarantined=1)
    assert line.reconcile().holds


@pytest.mark.full
def test_a_contract_about_another_topic_stops_the_stream(
    make_line: Callable[..., Line], make_topic: Callable[..., str], make_registry: Callable[[], Registry]
) -> None:
    """Of another registry: in one, a contract keeps its topic. Its topic continues the stream, an archive begins the other."""
    line, other = make_line(sink="iceberg"), make_topic("rows", partitions=2)
    line.produce(*(row(2 * n) for n in range(6)))

    def change(_stream: str, step: Step) -> None:
        if step is Step.COMMITTED:
            line.contracts.plan = line.plan(topic=other, version="2.0.0")

    message = rf"is about topic {other}, this stream reads {line.topic}.*tidegate archive"
    with pytest.raises(StreamStopped, match=message):
        line.enforce(change, max_offsets=1)
    line.contracts.plan = line.plan(version="2.0.1")
    line.enforce()
    require_exactly_once(line)

    line.topic = other
    line.contracts.plan = line.plan(version="2.0.2")
    line.produce(row(20), row(21, 999))
    with pytest.raises(StreamStopped, match=message):
        line.enforce()
    archiving = Archiving(make_registry())
    httpx.post(
        f"{archiving.url}/api/v1/contracts", json=line.document(version="2.0.2"), timeout=60
    ).raise_for_status()
    name = f"{line.contract_id.rpartition('.')[2]}_put_away"  # all tests share the namespace
    archiving.archive(line, name)
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().totals == BatchTotals(written=1, quarantined=1)
    assert rows_of_archive(line, name) == ["r0", "r10", "r2", "r4", "r6", "r8"]


@pytest.mark.full
def test_a_name_that_is_taken_moves_nothing(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving
) -> None:
    line = make_line(sink="iceberg")
    publish(line.document())
    line.produce(row(0))
    line.enforce()
    table = line.contract_id.rpartition(".")[2]
    with pytest.raises(ConflictError, match="a table of this name is there"):
        archiving.archive(line, table)
    line.produce(row(2))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=2)


@pytest.mark.full
def test_a_table_is_renamed_before_its_quarantine_table(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving
) -> None:
    """If the name is taken, later erasures and starts still find the quarantine table."""
    line = make_line(sink="iceberg", quarantine_table=True)
    publish(line.document())
    line.produce(row(0), row(1, 999))
    line.enforce()
    namespace = table_name(line.contract_id).rpartition(".")[0]
    line.spark.sql(f"CREATE TABLE {namespace}.taken (id string) USING iceberg")
    with pytest.raises(ConflictError, match="a table of this name is there"):
        archiving.archive(line, "taken")
    beside = replace(line, contract_id=line.contract_id + SUFFIX)
    assert len(beside.rows()) == 1


@pytest.mark.full
def test_records_that_retention_deletes_while_somebody_decides_do_not_stop_the_next_start(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving
) -> None:
    line = make_line(sink="iceberg")
    publish(line.document())
    line.produce(*(row(2 * n) for n in range(6)))
    line.enforce()
    with Archiver.opened(archiving.settings(line), line.contract_id) as found:
        found.archive("shortened", lambda _: forget(line, line.topic, 0, 4))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=2)


@pytest.mark.full
def test_readers_of_an_accepted_topic_do_not_get_records_again(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving
) -> None:
    line = make_line(sink="kafka")
    publish(line.document())
    line.produce(row(0), row(2))
    line.enforce()
    before = line.ledger()
    with pytest.raises(ConflictError, match=r"up to 2 records.*--repeat-records.*--starting latest"):
        archiving.archive(line, "away")
    assert line.ledger() == before
    assert archiving.noted(line) == []


@pytest.mark.full
def test_a_person_may_have_an_accepted_topic_get_its_records_again(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving
) -> None:
    line = make_line(sink="kafka")
    publish(line.document())
    line.produce(row(0), row(2), row(4, 999))
    line.enforce()
    archiving.archive(line, "away", repeats=True)
    (shown,) = archiving.shown
    assert (shown.repeated, shown.skipped) == (3, 0)
    line.produce(row(6))
    line.enforce()
    assert len(line.accepted()) == 2 + 3
    assert line.ledger().totals == BatchTotals(written=3, quarantined=1)
    assert line.reconcile().holds


@pytest.mark.full
def test_a_lost_ledger_is_noticed_after_an_archive(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving, adopting: Adopting
) -> None:
    """Only the names of its records have the suffix of the archive, also when the earlier records are deleted."""
    line = make_line(sink="kafka")
    publish(line.document())
    line.produce(*(row(2 * n, 999 if n == 1 else 1) for n in range(4)))
    line.enforce()
    outputs = accepted_topic(line.topic), quarantine_topic(line.topic)
    ends = [Topics(line.settings.kafka).latest(each)[0] for each in outputs]
    archiving.archive(line, "away", repeats=True)
    line.enforce()
    for output, end in zip(outputs, ends, strict=True):
        forget(line, output, 0, end)
    before = line.ledger()
    lose_ledger(line)
    with pytest.raises(StreamStopped, match="tidegate adopt"):
        line.enforce()
    assert adopting.rebuild(line).name == before.name
    line.produce(row(10), row(12, 999))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=4, quarantined=2)
    assert line.reconcile().holds


@pytest.mark.full
@pytest.mark.parametrize("sink", ["kafka", "postgresql"])
def test_a_stream_may_begin_again_at_the_end_of_its_topic(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving, sink: str
) -> None:
    """Readers get nothing again, and what was not judged is named."""
    line = make_line(sink=sink)
    publish(line.document())
    line.produce(row(0), row(2))
    line.enforce()
    line.produce(row(4))
    line.settings = line.settings.model_copy(update={"starting": "latest"})
    archiving.archive(line, "away")
    (shown,) = archiving.shown
    assert (shown.repeated, shown.skipped) == (0, 1)
    line.produce(row(6))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=1)
    assert line.reconcile().holds


@pytest.mark.full
def test_a_ledger_in_kafka_that_cannot_be_read_is_put_away(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving
) -> None:
    line = make_line(sink="kafka")
    publish(line.document())
    line.produce(row(0), row(2))
    line.enforce()
    damaged = {"bootstrap.servers": line.settings.bootstrap_servers}
    producer = Producer(damaged)
    for partition in Topics(line.settings.kafka).latest(LEDGER_TOPIC):
        producer.produce(LEDGER_TOPIC, b"no ledger", ledger_name(line.contract_id).encode(), partition)
    assert producer.flush(30) == 0
    with pytest.raises(StreamStopped, match="cannot be read by this version"):
        line.enforce()
    with pytest.raises(ConflictError, match="--repeat-records"):
        archiving.archive(line, "away")
    archiving.archive(line, "away", repeats=True)
    line.enforce()
    assert len(line.accepted()) == 4
    assert line.reconcile().holds


@pytest.mark.full
def test_tasks_of_a_stream_that_was_archived_write_under_its_new_ledger(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving
) -> None:
    line = make_line(sink="kafka", accepted_slots=2)
    publish(line.document())
    line.produce(*(row(n) for n in range(6)))
    line.enforce()
    make_anew(line)
    archiving.archive(line, "away")
    line.produce(*(row(n, 999 if n == 7 else n) for n in range(6, 12)))
    line.enforce()
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=5, quarantined=1)
    assert len(line.accepted()) == 11
    assert line.reconcile().holds


@pytest.mark.full
def test_the_command_asks_and_says_what_it_did(
    make_line: Callable[..., Line], publish: Publish, archiving: Archiving
) -> None:
    line = make_line(sink="postgresql")
    publish(line.document())
    line.produce(row(0))
    line.enforce()

    def archive(*more: str) -> tuple[int, str]:
        return run_command(line, archiving.url, "archive", *more)

    code, told = archive()
    assert code == 2, told
    assert "there is no terminal to ask on" in told
    assert "1 written, 0 quarantined" in told
    assert archive("--as", "no-such.name", "--yes")[0] == 2
    code, told = archive("--as", "away", "--yes")
    assert code == 0, told
    assert "is archived as away, and begins again" in told
    assert rows_of_archive(line, "away") == ["r0"]
