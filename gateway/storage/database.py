"""The connection to the registry's database: durable transactions, and migrations at start."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg.errors
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
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

from tidegate.contracts.address_secrets import masked
from tidegate.contracts.errors import NotFoundError, SettingsError, TidegateError, Unavailable
from tidegate.gateway.storage.sql import Stores

_LOCK_WAIT_SECONDS = 10.0
_WRITE_LOCK = 0x71DE_6A7E  # any constant: PostgreSQL identifies advisory locks by number
_WRITES = "tidegate_writes"
# PostgreSQL reports tables of another version as a ProgrammingError, SQLite as an OperationalError.
_NO_SUCH_TABLES = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)

T = TypeVar("T")


class UnstorableText(TidegateError):  # noqa: N818 - named after its cause
    """A text with the character U+0000, which PostgreSQL cannot store or compare."""


class Database:
    """The registry's database, which runs functions in separate transactions.

    A committed write survives a power cut. Write transactions run one after another, also those of other processes.
    So data that a write has read does not change until it commits. With `must_exist`, raises NotFoundError instead of
    making a file.
    """

    def __init__(self, url: str, *, must_exist: bool = False) -> None:
        self._engine = _engine(url, must_exist=must_exist)
        # With options in the URL, the file may differ from the path.
        is_file = self._engine.dialect.name == "sqlite" and not self._engine.url.query
        self._watched = str(self._engine.url.database) if is_file else None
        self._watching: sqlite3.Cursor | None = None
        self._watch = threading.Lock()

    @property
    def description(self) -> str:
        """Return the address of the database without its password."""
        return _description(self._engine.url)

    def reading(self) -> AbstractContextManager[Stores]:
        """Open a transaction that sees one state of the database. Raises Unavailable."""
        return self._transaction(writes=False)

    def writing(self) -> AbstractContextManager[Stores]:
        """Open the only write transaction at a time; commit at the end of the block. Raises Unavailable."""
        return self._transaction(writes=True)

    def read(self, work: Callable[[Stores], T]) -> T:
        """Run `work` in a transaction that sees one state of the database. Raises Unavailable."""
        with self.reading() as stores:
            return work(stores)

    def write(self, work: Callable[[Stores], T]) -> T:
        """Run `work` in the only write transaction at a time, and commit. Raises Unavailable."""
        with self.writing() as stores:
            return work(stores)

    def migrate(self, revision: str = "head") -> None:
        """Migrate the tables to `revision` ("base": none). Concurrent processes migrate one after another.

        Raises SettingsError for a database of a newer version of this program, Unavailable.
        """
        with _outages_translated(), self._connect(writes=True) as connection, connection.begin():
            config = _alembic_config(connection)
            try:
                if revision == "base":
                    command.downgrade(config, revision)
                else:
                    command.upgrade(config, revision)
            except CommandError as error:
                raise SettingsError(
                    f"the registry's database belongs to another version of tidegate ({error}); "
                    "start that version, or name another database"
                ) from error

    def require_registry(self) -> None:
        """Raise NotFoundError if no registry has made its tables in the database. Raises Unavailable."""
        with _outages_translated(), self._engine.connect() as connection:
            if MigrationContext.configure(connection).get_current_revision() is None:
                raise _no_registry(self._engine.url, "has no tables of a registry")

    def is_current(self) -> bool:
        """Return whether the tables have the revision that this version of the program needs, or a newer one.

        During a rolling upgrade another process has migrated them; the migrations of a release only add tables and
        columns. Raises Unavailable.
        """
        with _outages_translated(), self._engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
            needed = ScriptDirectory.from_config(_alembic_config(connection)).get_current_head()
            return found is not None and needed is not None and found >= needed

    def change_mark(self) -> int | None:
        """Return a number that changes with every commit, also of other processes; None for PostgreSQL.

        Also None if SQLite's file cannot be watched. On SQLite it takes some microseconds; PostgreSQL would need a query
        over the network.
        """
        if self._watched is None:
            return None
        with self._watch:
            try:
                if self._watching is None:
                    self._watching = sqlite3.connect(self._watched, check_same_thread=False).cursor()
                found: int = self._watching.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:
                return None
        return found

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()
        with self._watch:
            if self._watching is not None:
                self._watching.connection.close()
                self._watching = None

    def _connect(self, *, writes: bool) -> Connection:
        connection = self._engine.connect().execution_options(**{_WRITES: writes})
        if not writes and connection.dialect.name == "postgresql":
            return connection.execution_options(isolation_level="REPEATABLE READ")
        return connection

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Stores]:
        with (
            _outages_translated(),
            self._connect(writes=writes) as connection,
            Session(bind=connection, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield Stores(session)


class Service:
    """A service with access to the registry's database; `now` returns the time of a change."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now


@contextmanager
def _outages_translated() -> Iterator[None]:
    """Convert errors of an unreachable database to Unavailable; bugs of this program are raised unchanged."""
    try:
        yield
    except ProgrammingError as error:
        if isinstance(error.orig, _NO_SUCH_TABLES):
            raise Unavailable(f"the registry's database does not serve: {error.orig}") from error
        raise
    except (IntegrityError, DataError, NotSupportedError):
        raise
    except DBAPIError as error:
        raise Unavailable(f"the registry's database does not serve: {error.orig}") from error
    except PoolTimeout as error:
        raise Unavailable("the registry's database is busy: no connection came free in time") from error


def _description(url: URL) -> str:
    return masked(url.render_as_string(hide_password=True))


def _no_registry(url: URL, reason: str) -> NotFoundError:
    return NotFoundError(
        f"the database {_description(url)} {reason}: name the database of the registry with --database-url or "
        "TIDEGATE_DATABASE_URL"
    )


def _engine(url: str, *, must_exist: bool) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            if parsed.drivername == "postgresql":
                parsed = parsed.set(drivername="postgresql+psycopg")
            # As many connections as the web framework has threads, so that readers do not wait for writers.
            engine = create_engine(parsed, pool_pre_ping=True, pool_size=10, max_overflow=38)
            event.listen(engine, "begin", _begin_postgresql)
            event.listen(engine, "before_cursor_execute", _refuse_nul)
            return engine
        if parsed.get_backend_name() != "sqlite":
            raise SettingsError(
                f"the registry runs on SQLite or PostgreSQL, not on {parsed.get_backend_name()}"
            )
        if parsed.database in {None, "", ":memory:"}:
            raise SettingsError(
                "the registry needs a database that outlives it: name a file, sqlite:///tidegate.db"
            )
        file = Path(str(parsed.database))
        # SQLite itself reads a URI.
        if must_exist and not str(file).startswith("file:") and not file.exists():
            raise _no_registry(parsed, "does not exist")
        _keep_private(file)
        # As many connections as the web framework has threads, so that no thread waits for a connection.
        engine = create_engine(
            parsed, pool_size=40, max_overflow=8, connect_args={"timeout": _LOCK_WAIT_SECONDS}
        )
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise SettingsError(f"database_url is not a usable SQLAlchemy URL: {error}") from error
    except ValueError:
        # It quotes the text of the port, which may be a part of the password.
        raise SettingsError(
            "database_url is not a usable SQLAlchemy URL: what follows the last colon before the database is not a port; in a "
            "password / is written %2F, : is %3A and @ is %40"
        ) from None
    except OSError as error:
        raise SettingsError(f"the folder of the registry's database cannot be made: {error}") from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    event.listen(engine, "before_cursor_execute", _refuse_nul)
    return engine


def _keep_private(file: Path) -> None:
    """Restrict a new database, or one that every user could read, to its owner; its log files get the same mode.

    A narrower mode, such as 0640 for a backup, is kept.
    """
    if str(file).startswith("file:"):  # a URI, which SQLite reads
        return
    file.parent.parent.mkdir(parents=True, exist_ok=True)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        found = file.stat()
        if found.st_mode & 0o007 and found.st_uid == os.geteuid():
            for each in (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
                if each.exists():
                    each.chmod(0o600)
    except OSError:
        return  # SQLite then raises an error that describes the problem


def _refuse_nul(
    _connection: Connection,
    _cursor: Any,
    _statement: str,
    parameters: Any,
    _context: Any,
    is_many: bool,  # noqa: FBT001 - SQLAlchemy passes it by position
) -> None:
    """Refuse text that PostgreSQL cannot store, on every database. Raises UnstorableText."""
    for row in parameters if is_many else (parameters,):
        for value in row.values() if isinstance(row, dict) else row:
            if isinstance(value, str) and "\0" in value:
                raise UnstorableText("a text holds the character U+0000, which cannot be stored or searched")


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    """Make commits durable and readers independent of the writer."""
    connection.isolation_level = None  # _begin_sqlite begins transactions, also for DDL
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=FULL")
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            # SQLite's busy time-out does not apply when two processes create the same file.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    """Take the write lock at the start of a write: SQLite cannot wait for it in a transaction that has read."""
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _begin_postgresql(connection: Connection) -> None:
    """Take the advisory lock of writers at the start of a write, with a time-out; the transaction releases it."""
    if connection.get_execution_options().get(_WRITES, False):
        connection.execute(
            text("SELECT set_config('lock_timeout', :wait, true), pg_advisory_xact_lock(:lock)"),
            {"wait": f"{_LOCK_WAIT_SECONDS:.0f}s", "lock": _WRITE_LOCK},
        )


def _alembic_config(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))  # Alembic interpolates %
    return config
