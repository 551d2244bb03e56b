"""A PostgreSQL table and its ledger: data and ledger move in one transaction, or not at all.

Staged rows lie in tables of their own (`tidegate.spark_jobs.sinks.postgresql.rows`). `publish` moves them and replaces the row of
the ledger in one transaction, which ends well only if that row is still the one that was compared.
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
from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.sinks.evolution import cannot_follow, is_wider
from tidegate.spark_jobs.sinks.merging import merge_limits, require_mode
from tidegate.spark_jobs.sinks.postgresql.moves import Append, Connection, Merge, Move
from tidegate.spark_jobs.sinks.postgresql.rows import (
    PROVENANCE,
    STAGING_SCHEMA,
    UNFIT,
    UNREACHABLE,
    CopyTarget,
    Staged,
    connect,
    definition,
    first_line,
    sql_type,
)
from tidegate.spark_jobs.sinks.recovery_scan import foreign_table
from tidegate.spark_jobs.worker.part_writer import DELETED

if TYPE_CHECKING:
    from tidegate.spark_jobs.settings import JobSettings

log = structlog.get_logger()

_MAX_NAME_BYTES: Final = 63
ROWS_AT_A_TIME: Final = 50_000
_MAX_KEY_BYTES: Final = 2600
"""An entry of a B-tree has 2,704 bytes at most; the rest is for numbers and dates of the key, and for its header."""
_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS tidegate.ledger (
  stream text PRIMARY KEY,
  identity uuid NOT NULL DEFAULT gen_random_uuid(),
  epoch bigint NOT NULL DEFAULT 0,
  n bigint NOT NULL DEFAULT 0,
  ledger text
)"""
POSITIONS: Final = sql.SQL(
    "SELECT {} FROM {} "
    # Rows that somebody else has written have another source, or none.
    "WHERE _source_topic = %s AND _source_partition IS NOT NULL AND _source_offset IS NOT NULL"
)
"""Selects columns of the rows of a table that came from a topic."""
PRIMARY_KEY: Final = (
    "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
    "WHERE i.indrelid = to_regclass(%s) AND i.indisprimary"
)
"""Names the columns of the primary key of a table."""

_COLUMNS: Final = """
SELECT attname, format_type(atttypid, atttypmod), attnotnull AND NOT atthasdef AND attidentity = ''
FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended('tidegate.ensure', 0))"


def qualified_name(contract_id: str) -> tuple[str, str]:
    """Name a contract's table and its schema: the last part of the id names it, those before name the schema."""
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
        self._quoted = f'"{schema}"."{table}"'  # the names of contracts hold no quotes
        self._is_upsert = settings.write_mode == "upsert"
        self._move: Move | None = None
        self._uuid: str | None = None
        self.name = f"{schema}.{table}"

    @property
    def uuid(self) -> str:
        """Identity of the table: another one after it was dropped and recreated."""
        if self._uuid is None:
            with self._working("read the ledger") as connection:
                (found,) = self._one(connection, "SELECT identity FROM tidegate.ledger WHERE stream = %s")
            self._uuid = str(found)
        return self._uuid

    def ensure(self, plan: EnforcementPlan) -> None:
        """Create the table, or give it the contract's columns. What the contract no longer has stays, and is null.

        Raises StreamStopped when the existing table is not ours, has a column of a type that cannot become the contract's,
        or one that must have a value and that the contract does not fill.
        """
        self._require_fitting(plan)
        wanted = [*plan.columns, *PROVENANCE]
        with self._working("create the table") as connection:
            connection.execute(_ONE_AT_A_TIME)  # two at once would both find nothing there
            for schema in (STAGING_SCHEMA, self._schema):
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            connection.execute(_LEDGER)
            existing = self._columns(connection)
            others = self._others(connection)
            if existing and others:
                raise foreign_table(others[0], self._stream, self.name)
            if not existing:
                fields = sql.SQL(", ").join(definition(field) for field in wanted)
                connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self._table, fields))
                gone = [self._stream, *others]  # their table was dropped
                connection.execute("DELETE FROM tidegate.ledger WHERE stream = ANY(%s)", (gone,))
                existing = self._columns(connection)
            self._require_ours(existing)
            connection.execute(
                "INSERT INTO tidegate.ledger (stream) VALUES (%s) ON CONFLICT DO NOTHING", (self._stream,)
            )
            self._widen(connection, existing, wanted)
            columns = tuple(field.name for field in wanted)
            if self._is_upsert:
                self._move = self._merge(connection, Merge(self._table, columns, plan.contract.primary_key))
            else:
                self._move = Append(self._table, columns)

    def _others(self, connection: Connection) -> list[str]:
        """Return the other streams with a ledger whose contract ids name this table."""
        query = "SELECT stream FROM tidegate.ledger WHERE stream <> %s AND ledger IS NOT NULL ORDER BY stream"
        own = qualified_name(self._stream)
        return [each for (each,) in connection.execute(query, (self._stream,)) if qualified_name(each) == own]

    def read(self) -> Ledger | None:
        """Read the ledger as it is now; None when no one has claimed the table yet."""
        with self._working("read the ledger") as connection:
            (text,) = self._one(connection, "SELECT ledger FROM tidegate.ledger WHERE stream = %s")
        return Ledger.parse(text) if text is not None else None

    def has_rows_of(self, topic: str) -> bool:
        """Return whether the table holds a row that came from this topic; the server stops at the first."""
        with self._working("look for rows") as connection:
            if not self._columns(connection):
                return False
            query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE _source_topic = %s)").format(self._table)
            (found,) = self._one(connection, query, (topic,))
        return bool(found)

    def positions_of(self, topic: str) -> Sightings:
        """Return the source positions of the rows that came from this topic."""
        position = sql.SQL("_source_partition, _source_offset")
        # A cursor on the server: rows come as they are asked for.
        with self._working("read positions") as connection, connection.cursor(name="positions") as cursor:
            cursor.itersize = ROWS_AT_A_TIME
            cursor.execute(POSITIONS.format(position, self._table), (topic,))
            return Sightings(cursor)

    def last_epoch(self, ledger: str) -> int:  # noqa: ARG002 - the ledger is compared as a whole here
        """Return 0: rows have no history."""
        return 0

    def target(self, plan: EnforcementPlan, contract: str, name: str) -> CopyTarget:
        """Return where and how the accepted rows of a batch are staged."""
        return CopyTarget(
            url=self._url,
            # By epoch and attempt: rows of another attempt are in other tables, and nothing names them.
            name=f"{self.uuid[:8]}-{name}-{uuid4().hex[:8]}",
            columns=plan.columns,
            topic=plan.contract.topic,
            contract=contract,
        )

    def limits(self, plan: EnforcementPlan) -> TableLimits:
        """Return what the table asks of its rows."""
        limits = TableLimits(holds_nul=False)
        return (
            replace(merge_limits(plan), holds_nul=False, max_key_bytes=_MAX_KEY_BYTES)
            if self._is_upsert
            else limits
        )

    def stage(self, files: Sequence[str], at: Ledger | None = None) -> str:  # noqa: ARG002 - rows and ledger are restored together
        """Look whether every worker could stage its rows. Raises Unavailable or StreamStopped when one could not."""
        for name in files:
            if name.startswith(UNREACHABLE):
                raise Unavailable(f"{self.name}: {name.removeprefix(UNREACHABLE)}")
            if name.startswith(UNFIT):
                raise StreamStopped(
                    f"{self.name}: the server refuses to take rows: {name.removeprefix(UNFIT)}. Mend the table, or publish "
                    "a contract version with a rule that refuses such records, and start again"
                )
        return json.dumps(list(files))

    def publish(
        self,
        mark: str,
        held: Ledger | None,
        new: Ledger,
        *,
        is_rebuilt: bool = False,  # noqa: ARG002 - the same
    ) -> Ledger | None:
        """Move staged rows into the table and the ledger to `new` if, and only if, it is still `held`.

        Raises Fenced when it is no longer, Unavailable when the transaction failed and nothing moved.
        """
        staged = [Staged.parse(name) for name in json.loads(mark)]
        landed = new
        try:
            with self._working("publish") as connection:
                if staged:
                    assert self._move is not None, "ensure was called"  # noqa: S101 - a programming error
                    landed = new.model_copy(update={"totals": self._move(connection, staged, new.totals)})
                    self._drop(connection, staged)
                # Last, so that the ledger is locked for the length of the commit only.
                self._compare_and_set(connection, held, landed)
        except Fenced:
            raise
        except (Unavailable, StreamStopped):
            # The outcome may be unknown; the ledger says what it was. And a fenced instance finds its staged rows gone.
            found = self.read()
            if found == landed:
                return landed
            if found != held:
                raise Fenced(_fenced(self.name)) from None
            raise
        if held is None or held.epoch != new.epoch:
            self._clean(new.epoch)
        return landed

    def maintain(self, *, beyond: int = 0) -> None:
        """Nothing to do: the server's autovacuum does it."""

    def tidy(self, files: Sequence[str]) -> None:
        """Nothing is left: the staging tables were dropped in the same transaction."""

    def delete_files(self, files: Sequence[str]) -> None:
        """Drop staging tables that will not be published; one that stays behind is dropped at the next claim."""
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
        """Step 10: the row must be the one that this instance left."""
        update = "UPDATE tidegate.ledger SET epoch = %s, n = %s, ledger = %s WHERE stream = %s"
        values: tuple[object, ...] = (new.epoch, new.n, new.text, self._stream)
        if held is None:
            moved = connection.execute(f"{update} AND ledger IS NULL", values)
        else:
            # The text too: an epoch may come again after an adoption, and its ledger is another one.
            condition = "AND epoch = %s AND n = %s AND ledger = %s"
            moved = connection.execute(f"{update} {condition}", (*values, held.epoch, held.n, held.text))
        if moved.rowcount != 1:
            raise Fenced(_fenced(self.name))

    def _require_fitting(self, plan: EnforcementPlan) -> None:
        """Require names that the server keeps whole, and a contract that says what an upsert needs to know."""
        require_mode(plan, is_upsert=self._is_upsert)
        names = (self._schema, self._quoted.split('"')[3], *plan.columns.names)
        for name in names:
            if len(name.encode()) > _MAX_NAME_BYTES:
                raise StreamStopped(
                    f"{self.name}: PostgreSQL's names have {_MAX_NAME_BYTES} bytes at most: {name}"
                )
        if clash := {*plan.columns.names} & {*PROVENANCE.names, DELETED}:
            raise StreamStopped(
                f"{self.name}: columns {sorted(clash)} are ours; name yours otherwise in the contract"
            )

    def _require_ours(self, existing: dict[str, tuple[str, bool]]) -> None:
        if not existing.keys() >= {*PROVENANCE.names}:
            raise StreamStopped(
                f"{self.name} exists and is not a table of this stream (no column _source_offset)"
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
                # Our own words; the server rewrites the table, and locks it meanwhile.
                change = sql.SQL("ALTER TABLE {} ALTER COLUMN {} TYPE " + sql_type(field.type))
                connection.execute(change.format(self._table, sql.Identifier(field.name)))
            elif found != sql_type(field.type):
                raise cannot_follow(self.name, field.name, found, sql_type(field.type))

    def _merge(self, connection: Connection, merge: Merge) -> Merge:
        """Return the table its primary key, unless it has that one."""
        rows = connection.execute(PRIMARY_KEY, (self._quoted,)).fetchall()
        found = {name for (name,) in rows}
        if not found:
            connection.execute(merge.constraint)
        elif found != {*merge.key}:
            raise StreamStopped(
                f"{self.name}: its primary key is {sorted(found)}, the contract's {sorted(merge.key)}; alter the table"
            )
        return merge

    def _columns(self, connection: Connection) -> dict[str, tuple[str, bool]]:
        """Return the type of each column, and whether an INSERT must name it."""
        rows = connection.execute(_COLUMNS, (self._quoted,)).fetchall()
        return {name: (type_name, must_be_given) for name, type_name, must_be_given in rows}

    def _clean(self, epoch: int) -> None:
        """Drop the staging tables that instances before this one have left."""
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

    def _one(
        self, connection: Connection, query: Any, values: tuple[str, ...] | None = None
    ) -> tuple[Any, ...]:
        row = connection.execute(query, (self._stream,) if values is None else values).fetchone()
        if row is None:
            raise StreamStopped(
                f"{self.name}: tidegate.ledger has lost the row of {self._stream}; restore it with the table"
            )
        return row

    @contextmanager
    def _working(self, doing: str) -> Iterator[Connection]:
        """Connect for one transaction. What the server refuses for good is StreamStopped, the rest Unavailable."""
        try:
            with connect(self._url) as connection:
                yield connection
        except (psycopg.OperationalError, psycopg.InternalError) as error:
            raise Unavailable(f"{self.name}: {doing}: {first_line(error)}") from error
        except psycopg.Error as error:
            raise StreamStopped(f"{self.name}: {doing}: {first_line(error)}") from error


def _fenced(name: str) -> str:
    return f"{name}: another instance of this stream holds the ledger now"
