"""The table `tidegate.ledger`, and signs that a ledger and the rows of its table are of different moments.

A commit changes both, so only a restore of one of them can leave rows that the ledger does not cover, or fewer rows
than it counts. In both cases the stream would go on without an error: it would append rows twice, or miss some.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog
from psycopg import sql

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.progress import doing

if TYPE_CHECKING:
    from tidegate.spark_jobs.sinks.postgresql.moves import Connection

log = structlog.get_logger()

_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS tidegate.ledger (
  stream text PRIMARY KEY,
  identity uuid NOT NULL DEFAULT gen_random_uuid(),
  epoch bigint NOT NULL DEFAULT 0,
  n bigint NOT NULL DEFAULT 0,
  ledger text,
  storage text
)"""
_LEDGER_STORAGE: Final = {
    # Each batch updates its row. With free space on the page, the update is heap-only (HOT): it needs no index entry,
    # and the old version is pruned by the next reader without a vacuum.
    "fillfactor": "10",
    # With a coarse server default, dead versions of long ledgers would accumulate in the TOAST table.
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_vacuum_threshold": "200",
    "toast.autovacuum_vacuum_scale_factor": "0",
    "toast.autovacuum_vacuum_threshold": "200",
}
_UNTUNED: Final = """
SELECT true FROM pg_class WHERE oid = 'tidegate.ledger'::regclass AND pg_has_role(relowner, 'USAGE')
AND NOT coalesce(reloptions, '{}') @> ARRAY['fillfactor=10']"""
_NEWEST_PAGES: Final = 200
"""Pages at the end of the table that each start reads: 1.6 MB, where the server puts new rows while no space is free."""
_TID_RANGES: Final = 140_000
"""Version of the server that finds the rows of a page without a scan of the whole table."""
_HAS_STORAGE: Final = """
SELECT FROM pg_attribute WHERE attrelid = 'tidegate.ledger'::regclass AND attname = 'storage' AND NOT attisdropped"""
_OWNS_LEDGERS: Final = (
    "SELECT FROM pg_class WHERE oid = 'tidegate.ledger'::regclass AND pg_has_role(relowner, 'USAGE')"
)
_STORAGE: Final = "SELECT concat_ws('/', pg_relation_filenode(%s), pg_relation_filenode('tidegate.ledger'))"
_FIRST_PAGE: Final = "SELECT greatest(pg_relation_size(%s) / current_setting('block_size')::int - %s, 0)"
_HELD: Final = sql.SQL("SELECT ledger, {} FROM tidegate.ledger WHERE stream = %s FOR UPDATE")


def ensure_ledgers(connection: Connection) -> None:
    """Create the table of ledgers, or bring that of an earlier release up to date if this role owns it."""
    connection.execute(_LEDGER)
    if connection.execute(_UNTUNED).fetchone():
        settings = ", ".join(f"{name} = {value}" for name, value in _LEDGER_STORAGE.items())
        connection.execute(sql.SQL("ALTER TABLE tidegate.ledger SET (" + settings + ")"))
    if not _keeps_storage(connection) and connection.execute(_OWNS_LEDGERS).fetchone() is not None:
        connection.execute("ALTER TABLE tidegate.ledger ADD COLUMN storage text")


def require_same_moment(connection: Connection, stream: str, table: str) -> None:
    """Compare the rows of an append table with its ledger, whose row stays locked until the transaction ends.

    `table` is the quoted name. Every claim looks at the newest pages. If the server has stored the table or the ledgers
    anew since the last claim, as a restore does, all rows are compared. Raises StreamStopped for rows that the ledger
    does not cover. Logs `table_rows_missing` for fewer rows than it counts, which a deletion by others causes too.
    """
    storage = "storage" if _keeps_storage(connection) else "NULL"
    row = connection.execute(_HELD.format(sql.SQL(storage)), (stream,)).fetchone()
    if row is None or row[0] is None:
        return
    held, stored = Ledger.parse(row[0]), row[1]
    beyond = _beyond(held.end)
    if stored is not None and stored != _storage(connection, table):
        doing("comparing the rows of the table with the ledger")
        rows, is_older = _all_rows(connection, table, held.topic, beyond)
        counted = held.totals.written  # with those that a replay has written
        if rows < counted:
            log.warning("table_rows_missing", stream=stream, table=table, rows=rows, counted=counted)
    else:
        is_older = _is_among_newest(connection, table, held.topic, beyond)
    if is_older:
        name = table.replace('"', "")
        raise StreamStopped(
            f"{name} has rows of batches after batch {held.n}, the last of its ledger: the ledger was "
            "restored from an older moment than the table, and these records would be written a second time. Restore both "
            f"from one backup, or build the ledger from the rows: tidegate adopt {stream} --replace"
        )


def remember_storage(connection: Connection, stream: str, table: str) -> None:
    """Store the names of the files of table and ledgers, so that the next claim notices a restore of one of them."""
    if _keeps_storage(connection):
        values = (_storage(connection, table), stream)
        connection.execute("UPDATE tidegate.ledger SET storage = %s WHERE stream = %s", values)


def _keeps_storage(connection: Connection) -> bool:
    return connection.execute(_HAS_STORAGE).fetchone() is not None


def _storage(connection: Connection, table: str) -> str:
    row: Any = connection.execute(_STORAGE, (table,)).fetchone()
    return str(row[0])


def _all_rows(connection: Connection, table: str, topic: str, beyond: sql.Composable) -> tuple[int, bool]:
    """Return the number of rows of the topic, and whether one of them is beyond the ledger. Reads the whole table."""
    counts = "SELECT count(*), coalesce(bool_or({}), false) FROM {} WHERE _source_topic = %s"
    row: Any = connection.execute(sql.SQL(counts).format(beyond, sql.SQL(table)), (topic,)).fetchone()
    return int(row[0]), bool(row[1])


def _is_among_newest(connection: Connection, table: str, topic: str, beyond: sql.Composable) -> bool:
    """Return whether the newest pages of the table have a row beyond the ledger."""
    if connection.info.server_version < _TID_RANGES:
        return False
    row: Any = connection.execute(_FIRST_PAGE, (table, _NEWEST_PAGES)).fetchone()
    found = "SELECT FROM {} WHERE ctid >= %s::tid AND _source_topic = %s AND {} LIMIT 1"
    query = sql.SQL(found).format(sql.SQL(table), beyond)
    return connection.execute(query, (f"({row[0]},0)", topic)).fetchone() is not None


def _beyond(end: Mapping[int, int]) -> sql.Composable:
    """Return the condition that holds for rows at positions that a ledger with this end does not cover."""
    # Safe: the condition consists of our own numbers and column names.
    covered = (f"(_source_partition = {p:d} AND _source_offset < {offset:d})" for p, offset in end.items())
    return sql.SQL(f"NOT ({' OR '.join(covered) or 'false'})")
