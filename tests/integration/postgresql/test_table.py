"""The PostgreSQL table and its ledger: one transaction, compared and set; append and merge."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Thread
from typing import Any

import psycopg
import pytest

from tests.integration.postgresql.staging import NEW, Record, claimed, plan_of, publish, stage
from tidegate.contracts.errors import ConflictError, Fenced, StreamStopped, Unavailable
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.spark_jobs.sinks.maintenance import Orphans
from tidegate.spark_jobs.sinks.postgresql.table import PostgresqlTable

MakeTable = Callable[..., PostgresqlTable]
KEYED: dict[str, Any] = {"primary_key": ["id"]}


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        cursor = connection.execute(query)  # type: ignore[arg-type] # our own literals
        return cursor.fetchall() if cursor.description else []


def staging_tables(url: str) -> int:
    return len(ask(url, "SELECT 1 FROM pg_tables WHERE schemaname = 'tidegate' AND tablename <> 'ledger'"))


def test_rows_and_ledger_move_together(url: str, make_table: MakeTable) -> None:
    table, plan = make_table(), plan_of()
    held = claimed(table, plan)
    landed = publish(table, plan, held, [Record({"id": "a"}, 0), Record({"id": "b", "ward": "icu"}, 0, 1)])
    assert ask(url, "SELECT id, ward, _source_topic, _source_partition, _source_offset, _contract FROM hospital.admissions ORDER BY id") == [
        ("a", None, "adm", 0, 0, "hospital.admissions@1.0.0"),
        ("b", "icu", "adm", 1, 0, "hospital.admissions@1.0.0"),
    ]  # fmt: skip
    assert table.read() == landed
    assert (landed.epoch, landed.n) == (1, 1)
    assert staging_tables(url) == 0


def test_nothing_staged_is_seen(url: str, make_table: MakeTable) -> None:
    table, plan = make_table(), plan_of()
    claimed(table, plan)
    (name,) = stage(table, plan, [Record({"id": "a"}, 0)])
    assert ask(url, "SELECT * FROM hospital.admissions") == []
    table.delete_files([name])
    assert staging_tables(url) == 0


@pytest.mark.parametrize(
    "moved",
    [{"epoch": 2, "n": 0}, {"epoch": 1, "n": 1}, {"epoch": 2, "n": 1}],
    ids=["claimed", "published", "claimed and published"],
)
def test_a_ledger_that_has_moved_lets_nothing_through(
    url: str, make_table: MakeTable, moved: dict[str, int]
) -> None:
    """The compare-and-set itself, by epoch and by n: a zombie with an old epoch writes no row."""
    table, plan = make_table(), plan_of()
    held = claimed(table, plan)
    mark = table.stage(stage(table, plan, [Record({"id": "zombie"}, 0)]))
    newer = held.model_copy(update=moved)
    assert make_table().publish("[]", held, newer)
    with pytest.raises(Fenced):
        table.publish(mark, held, held.model_copy(update={"n": 1}))
    assert ask(url, "SELECT * FROM hospital.admissions") == []
    assert table.read() == newer


def test_rows_are_deleted_with_the_ledger_or_not_at_all(url: str, make_table: MakeTable) -> None:
    """Rows of other topics, other partitions and before the point stay."""
    table, plan = make_table(), plan_of()
    held = claimed(table, plan)
    records = [
        Record({"id": f"{partition}-{offset}"}, offset, partition)
        for partition in (0, 1)
        for offset in range(4)
    ]
    landed = publish(table, plan, held, records)
    ask(url, "UPDATE hospital.admissions SET _source_topic = 'other' WHERE id = '0-3'")
    back = landed.model_copy(update={"epoch": landed.epoch + 1, "generation": 1})
    newer = landed.model_copy(update={"epoch": landed.epoch + 2})
    with pytest.raises(Fenced):
        table.retract({0: 0}, newer.model_copy(update={"topic": "adm"}), back)
    assert len(ask(url, "SELECT * FROM hospital.admissions")) == 8
    held = landed.model_copy(update={"topic": "adm"})
    assert table.publish("[]", landed, held) == held
    assert table.retract({0: 2}, held, back) == back
    assert table.read() == back
    left = ask(url, "SELECT id FROM hospital.admissions ORDER BY id")
    assert left == [("0-0",), ("0-1",), ("0-3",), ("1-0",), ("1-1",), ("1-2",), ("1-3",)]


def test_a_rewind_to_a_snapshot_is_refused_with_what_else_to_give(url: str, make_table: MakeTable) -> None:
    table, plan = make_table(), plan_of()
    held = publish(table, plan, claimed(table, plan), [Record({"id": "a"}, 0)])
    with pytest.raises(ConflictError, match="keeps no snapshots of a table; give offsets or a time"):
        table.position_at(1, held)
    assert table.read() == held
    assert ask(url, "SELECT id FROM hospital.admissions") == [("a",)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_that_a_crash_of_the_server_has_emptied_are_no_rows_that_were_published(
    url: str, make_table: MakeTable, mode: str
) -> None:
    """Staging tables are unlogged: the server comes back without their rows, and with the tables."""
    table, plan = make_table(write_mode=mode), plan_of(**KEYED)
    held = claimed(table, plan)
    mark = table.stage(stage(table, plan, [Record({"id": "a"}, 0), Record({"id": "b"}, 1)]))
    ((name,),) = ask(
        url, "SELECT tablename FROM pg_tables WHERE schemaname = 'tidegate' AND tablename <> 'ledger'"
    )
    ask(url, f'TRUNCATE tidegate."{name}"')
    with pytest.raises(Unavailable, match="2 rows were staged and 0 are there"):
        table.publish(mark, held, held.model_copy(update={"n": 1}))
    assert table.read() == held


def test_of_two_that_publish_at_once_one_lands(url: str, make_table: MakeTable) -> None:
    one, plan = make_table(), plan_of()
    held = claimed(one, plan)
    other = make_table()
    other.ensure(plan)
    outcomes: list[str] = []

    def race(table: PostgresqlTable, name: str, mark: str) -> None:
        new = held.model_copy(update={"n": 1, "contract": name})
        try:
            assert table.publish(mark, held, new) == new
            outcomes.append("landed")
        except Fenced:
            outcomes.append("fenced")

    racers = [
        Thread(target=race, args=(table, name, table.stage(stage(table, plan, [Record({"id": name}, 0)] * 500))))
        for table, name in ((one, "one"), (other, "other"))
    ]  # fmt: skip
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(outcomes) == ["fenced", "landed"]
    ((winner, count),) = ask(url, "SELECT min(id), count(*) FROM hospital.admissions")
    assert count == 500
    found = one.read()
    assert found is not None
    assert found.contract == winner


def test_a_claim_waits_for_a_commit_in_hand_and_then_sees_that_it_is_late(
    url: str, make_table: MakeTable
) -> None:
    """A zombie between its UPDATE and its COMMIT holds the row: a claim meanwhile must not overtake it."""
    table, plan = make_table(), plan_of()
    held = claimed(table, plan)
    with psycopg.connect(url) as zombie:
        zombie.execute("UPDATE tidegate.ledger SET n = 1 WHERE epoch = 1 AND n = 0")
        refused: list[type[Exception]] = []

        def claim() -> None:
            try:
                make_table().publish("[]", held, held.claim(1))
            except Fenced:
                refused.append(Fenced)

        late = Thread(target=claim)
        late.start()
        while not ask(url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            pass
        zombie.commit()
        late.join()
    assert refused == [Fenced]


def test_a_claim_drops_what_earlier_instances_have_staged(url: str, make_table: MakeTable) -> None:
    table, plan = make_table(), plan_of()
    held = claimed(table, plan)
    stage(table, plan, [Record({"id": "a"}, 0)], epoch=1)
    stage(table, plan, [Record({"id": "a"}, 0)], epoch=2)
    assert table.publish("[]", held, held.claim(1))
    assert staging_tables(url) == 1  # the new epoch's own


def test_new_columns_are_added_and_old_ones_stay(url: str, make_table: MakeTable) -> None:
    table, plan = make_table(), plan_of()
    held = publish(table, plan, claimed(table, plan), [Record({"id": "a", "ward": "icu"}, 0)])
    properties = {"id": {"type": "string"}, "beds": {"type": "integer"}}
    schema = {"type": "json-schema", "definition": {"type": "object", "properties": properties}}
    wider = plan_of(version="2.0.0", schema=schema)
    table.ensure(wider)
    publish(table, wider, held, [Record({"id": "b", "beds": 2}, 1)])
    assert ask(url, "SELECT id, ward, beds FROM hospital.admissions ORDER BY id") == [
        ("a", "icu", None), ("b", None, 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("CREATE TABLE hospital.admissions (id text)", "is not a table of this stream"),
        ("ALTER TABLE hospital.admissions ALTER ward TYPE varchar(3)", r"column ward is character varying\(3\), the contract says text"),
        ("ALTER TABLE hospital.admissions ADD beds int NOT NULL", "column beds must have a value"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_stops_the_stream_and_stays_as_it_is(
    url: str, make_table: MakeTable, before: str, message: str
) -> None:
    plan = plan_of()
    if before.startswith("CREATE"):
        ask(url, "CREATE SCHEMA hospital")
    else:
        table = make_table()
        publish(table, plan, claimed(table, plan), [Record({"id": "a"}, 0)])
        ask(url, "DELETE FROM hospital.admissions")
    ask(url, before)
    with pytest.raises(StreamStopped, match=message) as stopped:
        make_table().ensure(plan)
    statement = re.search(r"ALTER TABLE .*", str(stopped.value))
    assert (statement is not None) == ("ADD beds" in before)
    if statement is not None:
        ask(url, statement[0])
        make_table().ensure(plan)


def test_rows_of_a_topic_are_found_without_a_ledger(url: str, make_table: MakeTable) -> None:
    """The claim stops at them: test_missing_ledger.py."""
    table, plan = make_table(), plan_of()
    assert not table.has_rows_of("adm")
    publish(table, plan, claimed(table, plan), [Record({"id": "a"}, 0), Record({"id": "b"}, 3)])
    ask(url, "DELETE FROM tidegate.ledger")
    again = make_table()
    again.ensure(plan)
    assert again.read() is None
    assert again.has_rows_of("adm")
    assert not again.has_rows_of("elsewhere")
    assert again.positions_of("adm").seen == {(0, 0), (0, 3)}


def test_a_table_that_was_dropped_begins_a_ledger_of_its_own(url: str, make_table: MakeTable) -> None:
    table, plan = make_table(), plan_of()
    claimed(table, plan)
    ask(url, "DROP TABLE hospital.admissions")
    again = make_table()
    again.ensure(plan)
    assert again.read() is None
    assert again.uuid != table.uuid


def test_a_server_that_does_not_answer_is_an_outage(make_table: MakeTable) -> None:
    from pydantic import SecretStr  # noqa: PLC0415 - for this one

    table = make_table(postgresql_url=SecretStr("postgresql://127.0.0.1:1/none"))
    with pytest.raises(Unavailable, match="refused"):
        table.ensure(plan_of())


# Upserts.


def test_the_newest_record_of_a_key_is_the_row(url: str, make_table: MakeTable) -> None:
    table, plan = make_table(write_mode="upsert"), plan_of(**KEYED)
    held = claimed(table, plan)
    first = [Record({"id": "a", "ward": "1"}, 0), Record({"id": "a", "ward": "2"}, 1), Record({"id": "b"}, 2)]
    held = publish(table, plan, held, first)
    assert held.totals == BatchTotals(written=2, superseded=1)
    held = publish(table, plan, held, [Record({"id": "a", "ward": "3"}, 3), Record({"id": "c"}, 4)])
    assert ask(url, "SELECT id, ward, _source_offset FROM hospital.admissions ORDER BY id") == [
        ("a", "3", 3), ("b", None, 2), ("c", None, 4),
    ]  # fmt: skip
    assert held.totals == BatchTotals(written=3, superseded=2)


def test_event_order_is_kafkas_within_a_partition_and_time_between_them(
    url: str, make_table: MakeTable
) -> None:
    """A clock that was stepped back does not let an older record win."""
    table, plan = make_table(write_mode="upsert"), plan_of(**KEYED)
    held = publish(table, plan, claimed(table, plan), [
        Record({"id": "a", "ward": "early clock"}, 1, 0, second=5), Record({"id": "a", "ward": "late clock"}, 0, 0, second=9),
        Record({"id": "b", "ward": "one"}, 7, 1, second=3), Record({"id": "b", "ward": "other"}, 2, 0, second=4),
    ])  # fmt: skip
    query = "SELECT ward FROM hospital.admissions ORDER BY id"
    assert ask(url, query) == [("early clock",), ("other",)]
    publish(table, plan, held, [
        Record({"id": "a", "ward": "older elsewhere"}, 0, 1, second=4), Record({"id": "b", "ward": "newest"}, 8, 1, second=5),
    ])  # fmt: skip
    assert ask(url, query) == [("early clock",), ("newest",)]


def test_tombstones_take_rows_away(url: str, make_table: MakeTable) -> None:
    table, plan = make_table(write_mode="upsert"), plan_of(**KEYED, tombstones="delete")
    held = publish(
        table,
        plan,
        claimed(table, plan),
        [Record({"id": "a"}, 0), Record({"id": "b"}, 1), Record({"id": "c"}, 2)],
    )
    held = publish(table, plan, held, [
        Record(None, 3, key=b"a"), Record({"id": "b", "ward": "gone"}, 4), Record(None, 5, key=b'{"id": "b"}'),
        Record(None, 6, key=b"c"), Record({"id": "c", "ward": "back"}, 7), Record(None, 8, key=b"never there"),
    ])  # fmt: skip
    assert ask(url, "SELECT id, ward FROM hospital.admissions") == [("c", "back")]
    assert held.totals == BatchTotals(written=1, superseded=4, deleted=4)
    assert held.totals.offsets == 9


def test_a_tombstone_older_than_the_row_leaves_it(url: str, make_table: MakeTable) -> None:
    table, plan = make_table(write_mode="upsert"), plan_of(**KEYED, tombstones="delete")
    held = publish(table, plan, claimed(table, plan), [Record({"id": "a"}, 5, 0, second=9)])
    held = publish(table, plan, held, [Record(None, 0, 1, key=b"a", second=3)])
    assert ask(url, "SELECT id FROM hospital.admissions") == [("a",)]
    assert held.totals == BatchTotals(written=1, deleted=1)


def with_field(name: str) -> dict[str, Any]:
    """Return the schema of a contract with one field."""
    definition = {"type": "object", "properties": {name: {"type": "string"}}}
    return {"schema": {"type": "json-schema", "definition": definition}}


@pytest.mark.parametrize(
    ("mode", "changes", "message", "corrected"),
    [
        ("upsert", {}, "has no primary_key", KEYED),
        ("append", {"tombstones": "delete"}, "append deletes nothing", {"tombstones": "refuse"}),
        (
            "append",
            with_field("x" * 64),
            "63 bytes at most: x{64}.*tidegate publish FILE",
            with_field("x" * 63),
        ),
    ],
)
def test_a_contract_that_the_sink_cannot_serve_is_refused_until_it_is_corrected(
    make_table: MakeTable, mode: str, changes: dict[str, Any], message: str, corrected: dict[str, Any]
) -> None:
    with pytest.raises(StreamStopped, match=message):
        make_table(write_mode=mode).ensure(plan_of(**changes))
    table = make_table(write_mode=mode)
    claimed(table, plan_of(**corrected))
    assert table.exists()


def test_a_name_that_is_too_long_for_an_archive_is_refused_with_the_option(
    url: str, make_table: MakeTable
) -> None:
    table, plan = make_table(), plan_of()
    publish(table, plan, claimed(table, plan), [Record({"id": "a"}, 0)])
    with pytest.raises(ConflictError, match=r"63 bytes at most: x{64}\. Give a shorter name: --as NAME"):
        table.archive("x" * 64)
    assert table.archive("x" * 63) == f"hospital.{'x' * 63}"
    assert ask(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'hospital'") == [("x" * 63,)]


def test_another_primary_key_is_not_taken_silently(make_table: MakeTable) -> None:
    make_table(write_mode="upsert").ensure(plan_of(**KEYED))
    with pytest.raises(StreamStopped, match=r"its primary key is \['id'\], the contract's \['ward'\]"):
        make_table(write_mode="upsert").ensure(plan_of(primary_key=["ward"]))


def test_an_unclaimed_ledger_is_compared_too(make_table: MakeTable) -> None:
    table, plan = make_table(), plan_of()
    table.ensure(plan)
    assert table.publish("[]", None, NEW.claim(1))
    with pytest.raises(Fenced):
        table.publish("[]", None, NEW.claim(1))


def test_a_ledger_that_is_lost_while_the_stream_runs_stops_it(url: str, make_table: MakeTable) -> None:
    """The next start finds rows without a ledger, and says how to rebuild it."""
    table = make_table()
    table.ensure(plan_of())
    ask(url, "DELETE FROM tidegate.ledger RETURNING stream")
    with pytest.raises(StreamStopped, match=r"has lost the row of .*: restore it, or start again"):
        table.read()


def test_rows_that_the_server_does_not_take_stop_the_stream_until_the_server_is_corrected(
    url: str, make_table: MakeTable
) -> None:
    """The driver reports a worker's failure with the message of the server."""
    table, plan, records = make_table(), plan_of(), [Record({"id": "a", "ward": "icu"}, 0)]
    held = claimed(table, plan)
    ask(url, "ALTER TABLE hospital.admissions ADD CONSTRAINT open CHECK (ward <> 'icu')")
    with pytest.raises(StreamStopped, match=r"the server refuses to publish: .*violates check constraint"):
        publish(table, plan, held, records)
    ask(url, "ALTER TABLE hospital.admissions DROP CONSTRAINT open")
    ask(url, "ALTER SCHEMA tidegate RENAME TO away")
    names = stage(table, plan, records)
    with pytest.raises(StreamStopped, match=r"the server refuses to take rows: schema .* does not exist"):
        table.stage(names)
    ask(url, "ALTER SCHEMA away RENAME TO tidegate")
    publish(table, plan, held, records)
    assert ask(url, "SELECT id, ward FROM hospital.admissions") == [("a", "icu")]


def test_staged_rows_that_a_failover_has_lost_are_staged_again(url: str, make_table: MakeTable) -> None:
    """The server that takes over may lack what the old one has acknowledged last."""
    table, plan, records = make_table(), plan_of(), [Record({"id": "a"}, 0)]
    held = claimed(table, plan)
    staged = table.stage(stage(table, plan, records))
    for (name,) in ask(
        url, "SELECT tablename FROM pg_tables WHERE schemaname = 'tidegate' AND tablename <> 'ledger'"
    ):
        ask(url, f'DROP TABLE tidegate."{name}"')
    with pytest.raises(Unavailable, match=r"does not exist.* The next attempt stages its rows again"):
        table.publish(staged, held, held.model_copy(update={"n": 1}))
    publish(table, plan, held, records)
    assert ask(url, "SELECT id FROM hospital.admissions") == [("a",)]


@pytest.mark.full
def test_the_ledger_table_does_not_grow_with_batches(url: str, make_table: MakeTable) -> None:
    """Each batch updates a row: the dead versions are pruned where they are, also between a thousand other streams."""
    table, plan = make_table(), plan_of()
    held = claimed(table, plan)
    others = "SELECT 's' || n, repeat(md5(n::text), 20) FROM generate_series(1, 1000) AS n"
    ask(url, f"INSERT INTO tidegate.ledger (stream, ledger) {others}")
    sizes = []
    for _ in range(2):
        for n in range(300):
            # As long as the ledger of a stream with some dozens of partitions.
            scan_from = {"adm.quarantine": {p: n * 1000 + p for p in range(60)}}
            new = held.model_copy(update={"n": held.n + 1, "scan_from": scan_from})
            assert table.publish("[]", held, new) == new
            held = new
        sizes.append(
            ask(url, "SELECT pg_relation_size('tidegate.ledger'), pg_indexes_size('tidegate.ledger')")
        )
    assert sizes[0] == sizes[1]


def test_a_ledger_table_of_an_older_version_is_tuned_by_its_owner(url: str, make_table: MakeTable) -> None:
    claimed(make_table(), plan_of())
    ask(url, "ALTER TABLE tidegate.ledger RESET (fillfactor, autovacuum_vacuum_threshold)")
    make_table().ensure(plan_of())
    options = "SELECT reloptions @> ARRAY['fillfactor=10', 'autovacuum_vacuum_threshold=200'] FROM pg_class WHERE oid = 'tidegate.ledger'::regclass"
    assert ask(url, options) == [(True,)]


def test_staging_tables_of_a_fenced_attempt_are_dropped_between_claims(
    url: str, make_table: MakeTable
) -> None:
    """A zombie makes them after the claim that dropped those of before; those of other attempts and streams stay."""
    table, plan = make_table(), plan_of()
    held = claimed(table, plan)
    newer = held.claim(1)
    assert table.publish("[]", held, newer) == newer
    stage(table, plan, [Record({"id": "zombie"}, 0)], held.epoch)
    live = stage(table, plan, [Record({"id": "a"}, 0)], newer.epoch)
    of_another_stream = f"{'0' * 8}-tidegate-0-{'0' * 8}-0"
    ask(url, f'CREATE TABLE tidegate."{of_another_stream}" ()')
    assert make_table(orphan_removal=False).remove_orphans() is None
    assert table.remove_orphans() == Orphans(1)
    assert staging_tables(url) == 2
    table.delete_files(live)
