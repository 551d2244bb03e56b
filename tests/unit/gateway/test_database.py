from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, select, text

from tests.postgresql import Postgresql, newest_binaries
from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.report import BatchReport, ExpectationResult
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.factory import Factory
from tidegate.gateway.storage import migrations
from tidegate.gateway.storage.database import Database, _alembic_config
from tidegate.gateway.storage.refusal_closures import StoredOffsets
from tidegate.gateway.storage.reports import ExpectationResultRow
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.tables import BatchRow, BatchRuleRow, Table
from tidegate.gateway.streams.quarantine_index.columns import CHUNK_BITS

MakeContract = Callable[..., bytes]
MakeReport = Callable[..., BatchReport]
MIGRATIONS = Path(next(iter(migrations.__path__))) / "versions"


only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
only_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def url(folder: Path) -> str:
    return f"sqlite:///{folder}/registry.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without a table."""
    if request.param == "sqlite":
        yield url(tmp_path)
    else:
        server: Postgresql = request.getfixturevalue("postgresql")
        with server.database(template="template0") as made:
            yield made


def tables(address: str) -> set[str]:
    engine = create_engine(address)
    found = set(inspect(engine).get_table_names())
    engine.dispose()
    return found


def test_migrations_run_up_down_and_up_again(empty_url: str) -> None:
    database = Database(empty_url)
    states = []
    for revision in ("head", "base", "head", "head"):
        database.migrate(revision)
        states.append((database.is_current(), tables(empty_url)))
    database.close()
    ours = {*Table.metadata.tables, "alembic_version"}
    assert states == [(True, ours), (False, {"alembic_version"}), (True, ours), (True, ours)]


def shape(address: str) -> dict[str, Any]:
    """What a database has of tables, with their columns and indexes."""
    engine = create_engine(address)
    found = inspect(engine)
    shown = {
        name: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(name)],
            sorted((index["name"] or "", index["column_names"]) for index in found.get_indexes(name)),
            found.get_pk_constraint(name)["constrained_columns"],
            sorted(key["constrained_columns"] for key in found.get_foreign_keys(name)),
        )
        for name in found.get_table_names()
    }
    engine.dispose()
    return shown


def test_each_migration_goes_down_to_what_was_there_before_it(empty_url: str) -> None:
    database = Database(empty_url)
    revisions = sorted(path.name[:4] for path in MIGRATIONS.glob("0*.py"))
    assert revisions
    before = []
    for revision in revisions:
        before.append(shape(empty_url))
        database.migrate(revision)
        assert database.is_current() is (revision == revisions[-1])
    assert len({str(each) for each in before}) == len(before)  # each changes something
    with database._connect(writes=True) as connection, connection.begin():
        config = _alembic_config(connection)
        script = ScriptDirectory.from_config(config)
        names = [one.revision for one in script.walk_revisions()][::-1]
    assert names == revisions
    for revision, expected in reversed(list(zip(["base", *revisions], before, strict=False))):
        with database._connect(writes=True) as connection, connection.begin():
            command.downgrade(_alembic_config(connection), revision)
        found = shape(empty_url)
        # The first one leaves the table by which Alembic knows where it is.
        assert {name: each for name, each in found.items() if name in expected or expected} == expected
    database.close()


@pytest.mark.parametrize("revision", ["0001", "0012", "0021"])
def test_a_database_of_an_earlier_development_version_is_left_alone(database_url: str, revision: str) -> None:
    database = Database(database_url)
    with database._connect(writes=True) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = :old"), {"old": revision})
    before = shape(database_url)
    with pytest.raises(
        SettingsError, match=f"belongs to another version of tidegate.*'{revision}'.*start that"
    ):
        database.migrate()
    assert not database.is_current()
    assert shape(database_url) == before
    database.close()


def test_migrations_make_exactly_the_mapped_tables(database_url: str) -> None:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []
    engine.dispose()


@only_postgresql
def test_numbers_continue_beyond_32_bits(
    client: Any, factory: Factory, make_contract: MakeContract, make_report: MakeReport
) -> None:
    """SQLite has no columns of 32 bits."""
    factory.registry().publish(make_contract(), "contract.json")
    last = 2**31 - 1
    engine = create_engine(factory.settings.database_url.get_secret_value())
    with engine.begin() as connection:
        connection.execute(text("SELECT setval('batches_id_seq', :last)"), {"last": last})
        connection.execute(text("UPDATE audit_head SET number = :last"), {"last": last})
    rule = RuleCount(stage=Stage.RULE, code="age-is-known", severity=Severity.ERROR, records=1)
    result = ExpectationResult(
        id="mean-stay",
        type="expect_column_mean_to_be_between",
        columns=("length_of_stay",),
        outcome="met",
        judged_by="tidegate",
        considered=100,
        observed=4.25,
    )
    report = make_report(1, quarantined=1, rules=[rule], expectations=[result])
    answer = client.post("/api/v1/streams/hospital.admissions/batches", report.model_dump_json())
    assert answer.status_code == 201, answer.text
    with engine.connect() as connection:
        for row in (BatchRow.id, BatchRuleRow.batch_id, ExpectationResultRow.batch_id):
            assert connection.scalars(select(row)).all() == [2**31]
    engine.dispose()
    factory.registry().publish(make_contract(version="1.3.0"), "contract.json")
    entries = client.get(f"/api/v1/audit?after={last}").json()["entries"]
    assert [each["number"] for each in entries] == [2**31]
    assert client.get(f"/api/v1/audit?after={2**31}").json()["entries"] == []
    assert client.get(f"/desk/audit?before={2**31 + 1}").status_code == 200


def test_the_highest_offset_of_a_topic_has_a_chunk(factory: Factory) -> None:
    stored = StoredOffsets(2**31 - 1, (2**63 - 1) >> CHUNK_BITS, "replayed", b"offsets")
    with factory.database.writing() as stores:
        for store in (stores.closures, stores.reasons):
            store.put("adm", [stored])
            assert store.all("adm") == (stored,)


@only_postgresql
def test_the_driver_need_not_be_named(database_url: str) -> None:
    database = Database(database_url.replace("postgresql+psycopg:", "postgresql:"))
    assert database.is_current()
    database.close()


@only_postgresql
def test_waiting_too_long_for_the_writers_turn_is_an_outage(
    factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.gateway.storage.database._LOCK_WAIT_SECONDS", 1.0)
    other = Database(factory.settings.database_url.get_secret_value())

    def work(stores: Stores) -> None:
        stores.audit.last()  # the turn is taken with the first statement
        with pytest.raises(Unavailable, match="lock timeout"):
            other.write(lambda stores: stores.audit.last())
        assert other.read(lambda stores: stores.audit.last()) is None

    factory.database.write(work)
    other.close()


@only_postgresql
def test_a_migration_down_leaves_no_function_behind(database_url: str) -> None:
    database = Database(database_url)
    database.migrate("base")
    database.close()
    engine = create_engine(database_url)
    with engine.connect() as connection:
        query = text("SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
        assert connection.execute(query).all() == []
    engine.dispose()


def test_data_survives_a_migration_that_has_nothing_to_do(
    factory: Factory, make_contract: MakeContract
) -> None:
    factory.registry().publish(make_contract(), "contract.json")
    factory.database.migrate()
    assert factory.registry().version("hospital.admissions", "1.2.0").registry_id == 1


@pytest.mark.full
def test_processes_that_start_together_take_turns(empty_url: str) -> None:
    program = (
        "import sys; from tidegate.gateway.storage.database import Database; Database(sys.argv[1]).migrate()"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program, empty_url]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    database = Database(empty_url)
    assert database.is_current()
    database.close()


@only_sqlite
def test_commits_are_durable_and_foreign_keys_hold(factory: Factory) -> None:
    def pragmas(stores: Stores) -> tuple[object, ...]:
        connection = stores.contracts._session.connection()
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return tuple(connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names)

    full = 2
    assert factory.database.read(pragmas) == ("wal", full, 1, 10_000)


def test_a_failed_write_leaves_nothing(factory: Factory, make_report: MakeReport) -> None:
    def work(stores: Stores) -> None:
        stores.reports.add_report(make_report(1))
        raise LookupError

    with pytest.raises(LookupError):
        factory.database.write(work)
    assert factory.streams().summaries() == ()


@only_postgresql
def test_commits_are_durable_and_readers_see_one_state_on_postgresql(factory: Factory) -> None:
    def settings(stores: Stores) -> tuple[object, ...]:
        connection = stores.contracts._session.connection()
        names = ("synchronous_commit", "transaction_isolation", "lock_timeout")
        return tuple(connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names)

    assert factory.database.read(settings) == ("on", "repeatable read", "0")
    assert factory.database.write(settings) == ("on", "read committed", "10s")


def test_registry_ids_are_never_given_twice(factory: Factory, make_contract: MakeContract) -> None:
    registry = factory.registry()
    registry.publish(make_contract(), "c.json")
    registry.publish(make_contract(version="1.3.0"), "c.json")
    engine = create_engine(factory.settings.database_url.get_secret_value())
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":  # SQLite asks for foreign keys only where it is told to
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text("DELETE FROM contract_versions WHERE registry_id = 2"))
    engine.dispose()
    assert registry.publish(make_contract(version="1.4.0"), "c.json").version.registry_id == 3


def test_a_database_that_cannot_be_read_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "registry.db").write_text("this is no database, and long enough to be looked at" * 10)
    with pytest.raises(Unavailable, match="the registry's database does not serve: file is not a database"):
        Database(url(tmp_path)).migrate()


@pytest.mark.parametrize(
    "wrong",
    [
        "registry.db",
        "oracle9://x",
        "mysql://x",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////dev/null/x.db",
    ],
)
def test_a_url_that_cannot_work_is_a_wrong_setting(wrong: str) -> None:
    with pytest.raises(SettingsError):
        Database(wrong)


def test_a_process_stays_ready_when_a_newer_one_migrates_the_tables(database_url: str) -> None:
    """In a rolling upgrade the older replicas would answer no request before the newer ones are ready."""
    database = Database(database_url)
    with database._connect(writes=True) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert database.is_current()
    database.close()


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    Database(url(tmp_path)).migrate()
    connection = sqlite3.connect(tmp_path / "registry.db")
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(SettingsError, match="belongs to another version of tidegate"):
        Database(url(tmp_path)).migrate()


def test_a_folder_with_a_percent_sign_is_a_folder(tmp_path: Path) -> None:
    Database(url(tmp_path / "100%(x)s")).migrate()
    assert (tmp_path / "100%(x)s" / "registry.db").exists()


def test_without_postgresql_its_tests_are_left_out_but_not_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="as root: apt-get install postgresql"):
        newest_binaries(tmp_path)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="as root: apt-get install postgresql"):
        newest_binaries(tmp_path)


def test_only_the_owner_reads_a_new_database_and_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "new" / "registry.db"
    database = Database(f"sqlite:///{file}")
    database.migrate()
    with database.reading():  # the log files exist while a connection is open
        modes = {each.name: each.stat().st_mode & 0o777 for each in (file.parent, *file.parent.iterdir())}
    database.close()
    assert modes.pop("new") == 0o700
    assert "registry.db-wal" in modes
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o640, 0o640)])
def test_a_world_readable_database_is_closed_and_a_chosen_mode_stays(
    tmp_path: Path, before: int, after: int
) -> None:
    file = tmp_path / "registry.db"
    file.touch()
    file.chmod(before)
    Database(f"sqlite:///{file}").close()
    assert file.stat().st_mode & 0o777 == after


def test_no_folder_is_made_for_an_address_that_sqlite_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Database(f"sqlite:///file:{tmp_path}/registry.db?uri=true").close()
    assert not (tmp_path / "file:").exists()
