"""A PostgreSQL table and its ledger: data and ledger are committed together, or not at all.

Rows are staged in separate tables (`tidegate.spark_jobs.sinks.postgresql.rows`). `publish` moves them and updates the
ledger's row in one transaction, which succeeds only if that row is unchanged since the comparison.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import psycopg
import pyarrow as pa
import structlog
from psycopg import sql

from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.errors import ConflictError, Fenced, StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.spark_jobs.progress import doing
from tidegate.spark_jobs.sinks.evolution import BEGIN_AGAIN, cannot_follow, is_wider
from tidegate.spark_jobs.sinks.maintenance import Orphans
from tidegate.spark_jobs.sinks.merging import merge_limits, require_mode
from tidegate.spark_jobs.sinks.postgresql.ledgers import ensure_ledgers, remember_storage, require_same_moment
from tidegate.spark_jobs.sinks.postgresql.moves import Append, Connection, Merge, Move
from tidegate.spark_jobs.sinks.postgresql.rows import (
    POSITIONS,
    PRIMARY_KEY,
    PROVENANCE,
    ROWS_AT_A_TIME,
    STAGING_SCHEMA,
    UNFIT,
    UNREACHABLE,
    CopyTarget,
    Staged,
    connect,
    definition,
    first_line,
    records_present,
    sql_type,
)
from tidegate.spark_jobs.sinks.quarantine_rows import Outdated
from tidegate.spark_jobs.sinks.recovery_scan import foreign_table
from tidegate.spark_jobs.sinks.store import TableContents, Taken

if TYPE_CHECKING:
    from tidegate.spark_jobs.settings import JobSettings

log = structlog.get_logger()

_MAX_NAME_BYTES: Final = 63
_MAX_KEY_BYTES: Final = 2600
"""A B-tree entry has at most 2,704 bytes; the remainder is for numbers and dates in the key, and for the header."""
_FAILED_OVER: Final = (psycopg.errors.UndefinedTable, psycopg.errors.FeatureNotSupported)
"""Errors of a server that has taken over without the staged rows, or of a replica that cannot read them."""
_HAS_LEDGERS: Final = "SELECT 1 FROM pg_tables WHERE schemaname = 'tidegate' AND tablename = 'ledger'"
_COLUMNS: Final = """
SELECT attname, format_type(atttypid, atttypmod), attnotnull AND NOT atthasdef AND attidentity = ''
FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended('tidegate.ensure', 0))"


def qualified_name(contract_id: str) -> tuple[str, str]:
    """Return schema and name of a contract's table: the last part of the id is the name, the others the schema."""
    *namespace, table = contract_id.split(".")
    return "_".join(namespace) or "public", table


class PostgresqlTable:
    """A table `<namespace>.<table>` of one database, and its row in `tidegate.ledger`."""

    kind = "postgresql"

    def __init__(self, settings: JobSettings, contract_id: str) -> None:
        schema, table = qualified_name(contract_id)
        self._url = settings.postgresql_address
        self._stream = contract_id
        self._schema = schema
        self._table = sql.Identifier(schema, table)
        self._quoted = f'"{schema}"."{table}"'  # contract ids contain no quotes
        self._removes_orphans = settings.orphan_removal
        self._is_upsert = settings.write_mode == "upsert"
        self._move: Move | None = None
        self._uuid: str | None = None
        self.name = f"{schema}.{table}"

    @property
    def uuid(self) -> str:
        """Return the identity of the table, which changes when it is dropped and recreated."""
        if self._uuid is None:
            with self._working("read the ledger") as connection:
                (found,) = self._one(connection, "SELECT identity FROM tidegate.ledger WHERE stream = %s")
            self._uuid = str(found)
        return self._uuid

    def exists(self) -> bool:
        """Return whether the table and its row in `tidegate.ledger` exist."""
        with self._working("look for the table") as connection:
            if not self._columns(connection) or not connection.execute(_HAS_LEDGERS).fetchone():
                return False
            query = "SELECT FROM tidegate.ledger WHERE stream = %s"
            return connection.execute(query, (self._stream,)).fetchone() is not None

    def ensure(self, rows: TableContents) -> None:
        """Create the table, or add the contract's columns. Columns that the contract no longer has stay, and are null.

        Raises StreamStopped if the existing table is not ours, has a required column that the contract does not fill,
        has another primary key, or has a column whose type cannot be widened to the contract's.
        """
        self._require_fitting(rows)
        wanted = [*rows.columns, *PROVENANCE]
        with self._working("create the table") as connection:
            connection.execute(_ONE_AT_A_TIME)  # two concurrent starts would both find no table
            for schema in (STAGING_SCHEMA, self._schema):
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            ensure_ledgers(connection)
            existing = self._columns(connection)
            others = self._others(connection)
            if existing and others:
                raise foreign_table(others[0], self._stream, self.name)
            if not existing:
                fields = sql.SQL(", ").join(definition(field) for field in wanted)
                connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self._table, fields))
                gone = [self._stream, *others]  # the table of these ledgers was dropped
                connection.execute("DELETE FROM tidegate.ledger WHERE stream = ANY(%s)", (gone,))
                existing = self._columns(connection)
            self._require_ours(existing)
            connection.execute(
                "INSERT INTO tidegate.ledger (stream) VALUES (%s) ON CONFLICT DO NOTHING", (self._stream,)
            )
            self._widen(connection, existing, wanted)
            columns = tuple(field.name for field in wanted)
            if self._is_upsert:
                self._move = self._merge(connection, Merge(self._table, columns, rows.contract.primary_key))
            else:
                self._move = Append(self._table, columns)

    def _others(self, connection: Connection) -> list[str]:
        """Return the other streams with a ledger whose contract ids name this table."""
        query = "SELECT stream FROM tidegate.ledger WHERE stream <> %s AND ledger IS NOT NULL ORDER BY stream"
        own = qualified_name(self._stream)
        return [each for (each,) in connection.execute(query, (self._stream,)) if qualified_name(each) == own]

    def read(self) -> Ledger | None:
        """Read the current ledger; None if no instance has claimed the table yet."""
        with self._working("read the ledger") as connection:
            (text,) = self._one(connection, "SELECT ledger FROM tidegate.ledger WHERE stream = %s")
        return Ledger.parse(text) if text is not None else None

    def archive(self, name: str) -> str | None:
        """Rename the table and return its new name; None if there is no table.

        The row of its ledger is deleted when the next table is created.
        """
        archived = f"{self._schema}.{name}"
        if len(name.encode()) > _MAX_NAME_BYTES:
            raise ConflictError(
                f"{self.name}: PostgreSQL's names have {_MAX_NAME_BYTES} bytes at most: {name}. Give a shorter name: --as NAME"
            )
        with self._working(f"rename it to {archived}") as connection:
            if not self._columns(connection):
                return None
            quoted = sql.Identifier(self._schema, name).as_string(connection)
            if connection.execute("SELECT to_regclass(%s)", (quoted,)).fetchone() != (None,):
                raise ConflictError(f"{self.name} cannot be archived as {name}: {archived} is there")
            connection.execute(
                sql.SQL("ALTER TABLE {} RENAME TO {}").format(self._table, sql.Identifier(name))
            )
        self._uuid = None
        return archived

    def has_rows_of(self, topic: str) -> bool:
        """Return whether the table holds a row of this topic; the server stops at the first."""
        with self._working("look for rows") as connection:
            if not self._columns(connection):
                return False
            query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE _source_topic = %s)").format(self._table)
            (found,) = self._one(connection, query, (topic,))
        return bool(found)

    def positions_of(self, topic: str) -> Sightings:
        """Return the source positions of the rows of this topic."""
        doing("reading the rows of the table")
        position = sql.SQL("_source_partition, _source_offset")
        # A server-side cursor streams the rows.
        with self._working("read positions") as connection, connection.cursor(name="positions") as cursor:
            cursor.itersize = ROWS_AT_A_TIME
            cursor.execute(POSITIONS.format(position, self._table), (topic,))
            return Sightings(cursor)

    def positions_with(self, topic: str, column: str, values: Sequence[str]) -> Sightings:
        """Return the source positions of the rows of this topic whose column has one of these values, as text."""
        position = sql.SQL("_source_partition, _source_offset")
        where = sql.SQL(" AND {}::text = ANY(%s)").format(sql.Identifier(column))
        with self._working("read positions") as connection:
            query = POSITIONS.format(position, self._table) + where
            found = connection.execute(query, (topic, list(values)))
            return Sightings(found)

    def records_present(self, keys: pa.Table) -> int:
        """Return the number of records whose primary key is in the table."""
        with self._working("look for keys") as connection:
            if not {*keys.column_names[:-1]} <= self._columns(connection).keys():
                return 0  # the contract's key is newer than the table
            return records_present(connection, self._table, keys)

    def last_epoch(self, ledger: str) -> int:  # noqa: ARG002 - commits compare the whole ledger, so epochs may repeat
        """Return 0: rows have no history."""
        return 0

    def target(self, rows: TableContents, contract: str, name: str) -> CopyTarget:
        """Return where and how the accepted rows of a batch are staged."""
        return CopyTarget(
            url=self._url,
            # Named by epoch and attempt, so that attempts never share a staging table.
            name=f"{self.uuid[:8]}-{name}-{uuid4().hex[:8]}",
            columns=rows.columns,
            topic=rows.contract.topic,
            contract=contract,
        )

    def limits(self, plan: EnforcementPlan) -> TableLimits:
        """Return the limits that the table sets on its rows."""
        limits = TableLimits(holds_nul=False)
        return (
            replace(merge_limits(plan), holds_nul=False, max_key_bytes=_MAX_KEY_BYTES)
            if self._is_upsert
            else limits
        )

    def stage(self, files: Sequence[str], at: Ledger | None = None) -> str:  # noqa: ARG002 - rows and ledger are restored together
        """Return the parts as the mark. Raises Unavailable or StreamStopped if a worker could not stage its rows."""
        for name in files:
            if name.startswith(UNREACHABLE):
                raise Unavailable(f"{self.name}: {name.removeprefix(UNREACHABLE)}")
            if name.startswith(UNFIT):
                raise self._refused("take rows", name.removeprefix(UNFIT))
        return json.dumps(list(files))

    def publish(
        self,
        mark: str,
        held: Ledger | None,
        new: Ledger,
        *,
        is_rebuilt: bool = False,
    ) -> Ledger | None:
        """Move staged rows into the table and update the ledger to `new` if, and only if, it is still `held`.

        Raises Fenced if it is not, Unavailable if the transaction failed and changed nothing.
        """
        staged = [Staged.parse(name) for name in json.loads(mark)]
        landed = new
        is_claim = held is None or held.epoch != new.epoch
        try:
            with self._working("publish") as connection:
                if is_claim and not is_rebuilt and not self._is_upsert:
                    require_same_moment(connection, self._stream, self._quoted)
                if staged:
                    assert self._move is not None, "ensure was called"  # noqa: S101 - a programming error
                    landed = new.model_copy(update={"totals": self._move(connection, staged, new.totals)})
                    self._drop(connection, staged)
                # Last, so that the ledger's row is locked only for the duration of the commit.
                self._compare_and_set(connection, held, landed)
                if is_claim:
                    remember_storage(connection, self._stream, self._quoted)
        except Fenced:
            raise
        except (Unavailable, StreamStopped) as error:
            # The outcome of the commit may be unknown; the ledger shows it. The staged rows of a fenced instance may
            # have been dropped, which causes the same errors.
            found = self.read()
            if found == landed:
                return landed
            if found != held:
                raise Fenced(_fenced(self.name)) from None
            if isinstance(error.__cause__, _FAILED_OVER):
                raise Unavailable(f"{error}. The next attempt stages its rows again") from error
            raise
        if is_claim:
            self._clean(new.epoch)
        return landed

    def retract(self, taken: Taken, held: Ledger, new: Ledger) -> Ledger | None:
        """Delete rows and update the ledger in one transaction."""
        places: sql.Composable
        bounds: list[tuple[int, Any]]
        if isinstance(taken, Outdated):
            # Safe: the condition consists of our own numbers and column names.
            places, bounds = sql.SQL(taken.condition("_source_partition", "_source_offset")), []
        elif isinstance(taken, Positions):
            place = sql.SQL("(_source_partition = %s AND _source_offset = ANY(%s))")
            bounds = [(p, list(offsets)) for p, offsets in taken.bitmaps().items()]
            places = sql.SQL(" OR ").join([place] * len(bounds))
        else:
            place = sql.SQL("(_source_partition = %s AND _source_offset >= %s)")
            bounds = list(taken.items())
            places = sql.SQL(" OR ").join([place] * len(bounds))
        query = sql.SQL("DELETE FROM {} WHERE _source_topic = %s AND ({})").format(self._table, places)
        values = [value for bound in bounds for value in bound]
        try:
            with self._working("delete rows") as connection:
                connection.execute(query, (held.topic, *values))
                self._compare_and_set(connection, held, new)
        except (Unavailable, StreamStopped):
            if self.read() == new:  # the outcome of the commit may be unknown; the ledger shows it
                return new
            raise
        return new

    def position_at(self, snapshot: int, held: Ledger) -> Vector:  # noqa: ARG002 - required by the protocol
        """Raise ConflictError: the server keeps no snapshots of a table."""
        raise ConflictError(
            f"{self.name}: PostgreSQL keeps no snapshots of a table; give offsets or a time. Nothing was changed"
        )

    def maintain(self, *, beyond: int = 0) -> None:
        """Do nothing: the server's autovacuum maintains the table."""

    def compact(self) -> None:
        """Do nothing: the server stores rows in its own files."""

    def remove_orphans(self) -> Orphans | None:
        """Drop the staging tables that attempts of earlier epochs have left; None if this is disabled.

        Raises Unavailable.
        """
        if not self._removes_orphans:
            return None
        held = self.read()
        return Orphans(self._clean(held.epoch)) if held else None

    def tidy(self, files: Sequence[str]) -> None:
        """Do nothing: the staging tables were dropped in the same transaction."""

    def delete_files(self, files: Sequence[str]) -> None:
        """Drop staging tables that will not be published; the next claim drops any that remain."""
        try:
            with self._working("drop staging tables") as connection:
                parts = [Staged.parse(name) for name in files if not name.startswith((UNREACHABLE, UNFIT))]
                self._drop(connection, parts)
        except (Unavailable, StreamStopped) as error:
            log.warning("staging_tables_left", stream=self._stream, error=str(error))

    @staticmethod
    def _drop(connection: Connection, staged: Sequence[Staged]) -> None:
        if staged:
            tables = sql.SQL(", ").join(each.identifier for each in staged)
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(tables))

    def _compare_and_set(self, connection: Connection, held: Ledger | None, new: Ledger) -> None:
        """Run step 10: update the ledger's row. Raises Fenced if it is no longer the one that this instance wrote."""
        update = "UPDATE tidegate.ledger SET epoch = %s, n = %s, ledger = %s WHERE stream = %s"
        values: tuple[object, ...] = (new.epoch, new.n, new.text, self._stream)
        if held is None:
            moved = connection.execute(f"{update} AND ledger IS NULL", values)
        else:
            # The text is compared too: after an adoption, the same epoch may occur again with another ledger.
            condition = "AND epoch = %s AND n = %s AND ledger = %s"
            moved = connection.execute(f"{update} {condition}", (*values, held.epoch, held.n, held.text))
        if moved.rowcount != 1:
            raise Fenced(_fenced(self.name))

    def _require_fitting(self, rows: TableContents) -> None:
        """Raise StreamStopped if the server would truncate a name, or the contract does not fit the write mode."""
        require_mode(rows, is_upsert=self._is_upsert)
        names = (self._schema, self._quoted.split('"')[3], *rows.columns.names)
        for name in names:
            if len(name.encode()) > _MAX_NAME_BYTES:
                raise StreamStopped(
                    f"{self.name}: PostgreSQL's names have {_MAX_NAME_BYTES} bytes at most: {name}. Shorten this name in the "
                    "contract, and publish it: tidegate publish FILE"
                )

    def _require_ours(self, existing: dict[str, tuple[str, bool]]) -> None:
        if not existing.keys() >= {*PROVENANCE.names}:
            raise StreamStopped(
                f"{self.name} exists and is not a table of this stream (no column _source_offset): rename it, or {BEGIN_AGAIN}"
            )

    def _widen(
        self, connection: Connection, existing: dict[str, tuple[str, bool]], wanted: Sequence[pa.Field]
    ) -> None:
        names = {field.name for field in wanted}
        for name, (_, must_be_given) in existing.items():
            if must_be_given and name not in names:
                raise StreamStopped(
                    f"{self.name}: column {name} must have a value, and the contract has no such column; "
                    f"ALTER TABLE {self._quoted} ALTER COLUMN {name} DROP NOT NULL"
                )
        for field in wanted:
            found, _ = existing.get(field.name, (None, False))
            if found is None:
                addition = sql.SQL("ALTER TABLE {} ADD COLUMN {}").format(self._table, definition(field))
                connection.execute(addition)
            elif is_wider(sql_type(field.type), found):
                # The types come from our own code. The server rewrites the table, and locks it meanwhile.
                change = sql.SQL("ALTER TABLE {} ALTER COLUMN {} TYPE " + sql_type(field.type))
                connection.execute(change.format(self._table, sql.Identifier(field.name)))
            elif found != sql_type(field.type):
                raise cannot_follow(self.name, field.name, found, sql_type(field.type))

    def _merge(self, connection: Connection, merge: Merge) -> Merge:
        """Return the merge, after adding the primary key to a table without one.

        Raises StreamStopped if the table has another primary key, or several rows of one key.
        """
        rows = connection.execute(PRIMARY_KEY, (self._quoted,)).fetchall()
        found = {name for (name,) in rows}
        if not found:
            try:
                connection.execute(merge.constraint)
            except psycopg.errors.UniqueViolation as error:
                raise StreamStopped(
                    f"{self.name} has rows that were appended, several of one key, and --write-mode upsert merges; go on "
                    f"with append, or {BEGIN_AGAIN}"
                ) from error
        elif found != {*merge.key}:
            raise StreamStopped(
                f"{self.name}: its primary key is {sorted(found)}, the contract's {sorted(merge.key)}; alter the table, or {BEGIN_AGAIN}"
            )
        return merge

    def _columns(self, connection: Connection) -> dict[str, tuple[str, bool]]:
        """Return the type of each column, and whether an INSERT must give it a value; empty if there is no table."""
        rows = connection.execute(_COLUMNS, (self._quoted,)).fetchall()
        return {name: (type_name, must_be_given) for name, type_name, must_be_given in rows}

    def _clean(self, epoch: int) -> int:
        """Drop the staging tables of epochs before `epoch`; return how many there were."""
        prefix = f"{self.uuid[:8]}-tidegate-"
        with self._working("look for staging tables") as connection:
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s AND starts_with(tablename, %s)",
                (STAGING_SCHEMA, prefix),
            ).fetchall()
        left = [
            str(Staged(0, name))
            for (name,) in names
            if int(name.removeprefix(prefix).partition("-")[0]) < epoch
        ]
        if left:
            self.delete_files(left)
        return len(left)

    def _one(
        self, connection: Connection, query: Any, values: tuple[str, ...] | None = None
    ) -> tuple[Any, ...]:
        row = connection.execute(query, (self._stream,) if values is None else values).fetchone()
        if row is None:
            raise StreamStopped(
                f"{self.name}: tidegate.ledger has lost the row of {self._stream}: restore it, or start again, which "
                "says how to go on without it"
            )
        return row

    @contextmanager
    def _working(self, doing: str) -> Iterator[Connection]:
        """Connect for one transaction. Permanent server errors become StreamStopped, others Unavailable."""
        try:
            with connect(self._url) as connection:
                yield connection
        except (psycopg.OperationalError, psycopg.InternalError) as error:
            raise Unavailable(f"{self.name}: {doing}: {first_line(error)}") from error
        except psycopg.Error as error:
            raise self._refused(doing, first_line(error)) from error

    def _refused(self, doing: str, why: str) -> StreamStopped:
        return StreamStopped(
            f"{self.name}: the server refuses to {doing}: {why}. Correct it on the server, or publish a contract version "
            "with a rule that refuses such records, and start again"
        )


def _fenced(name: str) -> str:
    return f"{name}: another instance of this stream holds the ledger now"
