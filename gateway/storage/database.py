"""The connection to the registry's database: transactions that are durable, and migrations at start."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from contracts.errors import SettingsError, Unavailable
from gateway.storage.sql import Stores

_LOCK_WAIT_SECONDS = 10.0
_MIGRATION_LOCK = 0x71DE_6A7E  # any constant will do: PostgreSQL names advisory locks by number
_WRITES = "tidegate_writes"

T = TypeVar("T")


class Database:
    """Runs pieces of work in transactions of their own.

    A write that returned is on the disk, also after a power cut. Work may run twice, so it touches nothing but its
    stores.
    """

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)

    @property
    def description(self) -> str:
        """The address of the database without its password."""
        return self._engine.url.render_as_string(hide_password=True)

    def read(self, work: Callable[[Stores], T]) -> T:
        """Run `work` in a transaction that sees one state of the database. Raises Unavailable."""
        return self._run(work, writes=False)

    def write(self, work: Callable[[Stores], T]) -> T:
        """Run `work` and commit. Raises Unavailable.

        When another process wrote the same key first, `work` runs once more and finds what that process wrote.
        """
        try:
            return self._run(work, writes=True)
        except IntegrityError:
            return self._run(work, writes=True)

    def migrate(self, revision: str = "head") -> None:
        """Bring the tables to `revision` ("base": none). Processes that start together take turns."""
        with _outages_translated(), self._connect(writes=True) as connection, connection.begin():
            _lock_migrations(connection)
            config = _alembic_config(connection)
            if revision == "base":
                command.downgrade(config, revision)
            else:
                command.upgrade(config, revision)

    def is_current(self) -> bool:
        """Whether the tables are those that this version of the program needs. Raises Unavailable."""
        with _outages_translated(), self._engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
            return found == ScriptDirectory.from_config(_alembic_config(connection)).get_current_head()

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _connect(self, *, writes: bool) -> Connection:
        return self._engine.connect().execution_options(**{_WRITES: writes})

    def _run(self, work: Callable[[Stores], T], *, writes: bool) -> T:
        with (
            _outages_translated(),
            self._connect(writes=writes) as connection,
            Session(bind=connection, expire_on_commit=False) as session,
            session.begin(),
        ):
            return work(Stores(session))


@contextmanager
def _outages_translated() -> Iterator[None]:
    """Turn what a database says when it cannot serve into Unavailable; mistakes of this program pass through."""
    try:
        yield
    except (IntegrityError, ProgrammingError, DataError, NotSupportedError):
        raise
    except DBAPIError as error:
        raise Unavailable(f"the registry's database does not serve: {error.orig}") from error
    except PoolTimeout as error:
        raise Unavailable("the registry's database is busy: no connection came free in time") from error


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() != "sqlite":
            return create_engine(parsed, pool_pre_ping=True)
        if parsed.database in {None, "", ":memory:"}:
            raise SettingsError(
                "the registry needs a database that outlives it: name a file, sqlite:///tidegate.db"
            )
        Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
        # As many connections as the web framework has threads; none waits for another's.
        engine = create_engine(
            parsed, pool_size=40, max_overflow=8, connect_args={"timeout": _LOCK_WAIT_SECONDS}
        )
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise SettingsError(f"database_url is no usable SQLAlchemy URL: {error}") from error
    except OSError as error:
        raise SettingsError(f"the folder of the registry's database cannot be made: {error}") from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    """Make commits durable and readers independent of the writer."""
    connection.isolation_level = None  # transactions begin where _begin_sqlite says, DDL included
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=FULL")
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            # The busy time-out does not cover this one: two processes make the same new file.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    """Take the write lock at the start of a write: a reader that turns writer cannot wait for it."""
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _lock_migrations(connection: Connection) -> None:
    """Wait for the turn to migrate; SQLite's write lock is held already, and is enough."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})


def _alembic_config(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
