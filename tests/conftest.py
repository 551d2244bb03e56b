"""Fixtures for the whole run: one broker serves every test that needs one."""

from __future__ import annotations

import os
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import current_thread, main_thread

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from tests.jvm import JAVA_OPTIONS
from tests.postgresql import Postgresql
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import Jars, ensure_jars
from tidegate.gateway.embedded.java import Java, find_java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.gateway.storage.database import Database
from tidegate.spark_jobs.session import build_session
from tidegate.spark_jobs.settings import JobSettings

# These options halve the start-up time; no test measures throughput.
QUICK_JAVA = ("-Xms64m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def pytest_configure(config: pytest.Config) -> None:
    """Ignore warnings about unclosed local sockets, because PySpark and Py4J never close them."""
    # A shell starts background runs with SIGINT ignored, and every process that a test starts would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and current_thread() is main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "filterwarnings", r"ignore:unclosed <socket.*(127\.0\.0\.1|\.sock):ResourceWarning"
    )


# Two processes share a run of `make test`. One runs all tests that need the Spark session or the broker; the other runs the
# rest, and tests that start processes of their own. In the long run, the other process also gets a session and a broker,
# and half of the tests that need them: otherwise it would be idle for an hour.
LONGEST_ID = 60
SHARED_FIXTURES = {"broker", "spark", "suite"}
"""The fixtures of one process: the session, the broker, and the compiled JSON-Schema-Test-Suite."""
OTHER_HALF = {
    "test_erase.py",
    "test_faults.py",
    "test_history.py",
    "test_replay.py",
    "test_replay_killed.py",
    "test_replay_schedules.py",
    "test_rewind.py",
    "test_schedules.py",
}
# Tests of behaviour that could differ between the two databases. Others run on PostgreSQL in the long run only.
DATABASE_TESTS = {
    "test_audit_store.py",
    "test_database.py",
    "test_keys.py",
    "test_quarantine_index.py",
    "test_registration.py",
    "test_registry_process.py",
    "test_registry_service.py",
    "test_report_retention.py",
    "test_streams.py",
    "test_access_process.py",
}


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the id of a long text parameter, because documents and hostile records would fill the output."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        text = val if isinstance(val, str) else val.decode("latin-1")
        return f"{ascii(text[:LONGEST_ID])[1 : LONGEST_ID + 1]}..."
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that share a process or belong to the long run. Later hooks are too late: pytest-xdist has read the marks."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    is_chosen = any("database_url" in mark.args[0] for mark in item.iter_markers("parametrize"))
    if (
        parameters.get("database_url") == "postgresql"
        and item.path.name not in DATABASE_TESTS
        and not is_chosen
    ):
        item.add_marker(pytest.mark.full)
    if SHARED_FIXTURES.intersection(getattr(item, "fixturenames", ())):
        is_apart = item.path.name in OTHER_HALF and item.get_closest_marker("full") is not None
        item.add_marker(pytest.mark.xdist_group("other_half" if is_apart else "shared"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Raise UsageError if pytest-xdist lost the groups: each process would start a session and a broker."""
    if getattr(session.config.option, "loadgroup", False):
        apart = [
            each
            for each in session.items
            if each.get_closest_marker("xdist_group") and "@" not in each.nodeid
        ]
        if apart:
            raise pytest.UsageError(
                f"{len(apart)} tests, {apart[0].nodeid} first, have lost their xdist group"
            )


@pytest.fixture(scope="session")
def java() -> Java:
    """The Java of this machine."""
    return find_java()


@pytest.fixture(scope="session")
def jars() -> Jars:
    """The locked jars, resolved on the first run."""
    return ensure_jars()


@pytest.fixture(scope="session")
def broker(java: Java, jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker with the address `broker.bootstrap`. Tests create topics with `make_topic`, because all share the broker."""
    root = tmp_path_factory.mktemp("broker")
    # A free port, because a demo or the tests of another checkout may use the default one.
    options = BrokerOptions(preferred_port=None, java_options=QUICK_JAVA)
    with Broker(root / "broker", RunDirectory(root / "run", root / "logs"), jars, java, options) as running:
        yield running


@pytest.fixture(scope="session")
def make_topic(broker: Broker) -> Callable[..., str]:
    """Return a function that makes a topic: `make_topic("adm", partitions=2, **settings)` returns its unique name."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})

    def make(prefix: str = "topic", *, partitions: int = 1, **settings: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        client.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)
        # On a busy machine, the broker reports a new topic as unknown for a short time.
        while name not in client.list_topics(timeout=30).topics:
            time.sleep(0.02)
        return name

    return make


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of the shared Spark session; other processes may open its catalog too."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(jars: Jars, warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session that all tests share, built as the job builds it."""
    settings = JobSettings(
        bootstrap_servers="none:0",
        registry_url="http://none",
        warehouse=warehouse,
        sink="delta",  # this session serves all sinks: the settings that Delta needs do not affect the others
        checkpoints=tmp_path_factory.mktemp("checkpoints"),
        spark_jars=jars.spark_dir,
        spark_driver_memory="1g",
    )
    with pytest.MonkeyPatch.context() as environment:
        # Tests judge a few records per batch. Without these options, the JIT compiler uses half of the session's CPU time.
        environment.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
        session = build_session(settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    """A real PostgreSQL server that all tests share; each test creates its own databases."""
    with Postgresql.running() as running:
        yield running


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the registry's tables; tests copy it."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    database = Database(f"sqlite:///{path}")
    database.migrate()
    database.close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a new migrated database, once on SQLite and once on PostgreSQL (see `DATABASE_TESTS`).

    For one database only: `@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)`.
    """
    if request.param == "sqlite":
        template: Path = request.getfixturevalue("migrated_sqlite")
        shutil.copy(template, tmp_path / "registry.db")
        yield f"sqlite:///{tmp_path}/registry.db"
    else:
        server: Postgresql = request.getfixturevalue("postgresql")
        with server.database() as url:
            yield url


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run in CI if a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
