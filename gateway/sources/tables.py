"""Read rows of Delta, Iceberg and PostgreSQL tables. Their libraries are imported when a table is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from tidegate.contracts.columns.json_rows import json_record
from tidegate.contracts.errors import NotFoundError, SettingsError, TidegateError, Unavailable
from tidegate.gateway.sources.source import BATCH_RECORDS, Chunk, named, table_chunks, value_chunks

_POSTGRESQL_ROWS: Final = 4_096
_CONNECT_SECONDS: Final = 10


class TableSource:
    """A table that is read once. `open_chunks` returns its rows. `size` is None, because it is not known in advance."""

    def __init__(self, title: str, stem: str, open_chunks: Callable[[], Iterator[Chunk]]) -> None:
        self.title = title
        self.stem = stem
        self.avro_schema: Any = None
        self.is_untyped = False
        self.framing = "none"
        self.is_whole = True
        self.size: int | None = None
        self._open_chunks = open_chunks
        self._read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing, because the iterator closes its resources."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows."""
        for chunk in self._open_chunks():
            self._read += len(chunk.positions)
            yield chunk

    def progress(self) -> int:
        """Return the number of rows read."""
        return self._read

    def places(self, positions: Sequence[int]) -> str:
        """Name positions, such as `rows 3, 17`."""
        return named("row", positions)


def is_delta(path: Path) -> bool:
    """Return whether a folder is a Delta table."""
    return (path / "_delta_log").is_dir()


def delta_table(path: Path) -> TableSource:
    """Return a source of the current version of a Delta table."""
    from deltalake import DeltaTable  # noqa: PLC0415 - of the extra `delta`

    def batches() -> Iterator[pa.RecordBatch]:
        with errors_of(f"the Delta table {path}"):
            yield from DeltaTable(path).to_pyarrow_dataset().to_batches(batch_size=BATCH_RECORDS)

    return TableSource(f"Delta table {path.name}", path.name, lambda: table_chunks(batches()))


def is_iceberg(path: Path) -> bool:
    """Return whether a folder is an Iceberg table."""
    return any((path / "metadata").glob("*.metadata.json"))


def iceberg_folder(path: Path) -> TableSource:
    """Return a source of the newest state of an Iceberg table, by the metadata files in its folder."""
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - of the extra `spark`

    newest = newest_metadata(path)
    return _iceberg(path.name, lambda: StaticTable.from_metadata(str(newest.absolute())))


def newest_metadata(path: Path) -> Path:
    """Return the metadata file with the latest modification time in the folder of an Iceberg table."""
    return max(
        (path / "metadata").glob("*.metadata.json"), key=lambda file: (file.stat().st_mtime_ns, file.name)
    )


def iceberg_table(name: str) -> TableSource:
    """Return a source of a table in the default catalog of PyIceberg's configuration."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - of the extra `spark`

    return _iceberg(name, lambda: load_catalog().load_table(name))


def _iceberg(name: str, load: Callable[[], Any]) -> TableSource:
    def batches() -> Iterator[pa.RecordBatch]:
        with errors_of(f"the Iceberg table {name}"):
            yield from load().scan().to_arrow_batch_reader()

    return TableSource(f"Iceberg table {name}", name, lambda: table_chunks(batches()))


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Convert the errors of table libraries, which have no common class, to SettingsError."""
    try:
        yield
    except (GeneratorExit, TidegateError):
        raise
    except Exception as error:  # noqa: BLE001 - every store has classes of its own
        reason = (str(error).splitlines() or [""])[0][:200]
        raise SettingsError(f"{what} cannot be read: {type(error).__name__}: {reason}") from None


def postgresql_table(name: str, url: str) -> TableSource:
    """Return a source of a PostgreSQL table or view, read in one read-only transaction. `name` may begin with a schema."""

    def to_json(row: dict[str, Any]) -> bytes:
        return json_record(row, lambda _pointer: False)

    return TableSource(f"PostgreSQL table {name}", name, PostgresqlRows(name, url, to_json).chunks)


class PostgresqlRows:
    """The rows of a PostgreSQL table or view as records, written by `to_json`. `name` may begin with a schema."""

    def __init__(self, name: str, url: str, to_json: Callable[[dict[str, Any]], bytes]) -> None:
        self._name = name
        self._url = url
        self._to_json = to_json

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows, read in one read-only transaction. Raises NotFoundError, SettingsError, Unavailable."""
        return self._chunks([])

    def chunks_between(self, column: str, after: str | None, highest: str | None) -> Iterator[Chunk]:
        """Yield the rows with a null in `column`, or a value above `after` and at most `highest`. Raises as `chunks` does."""
        bounds = [(">", after), ("<=", highest)]
        return self._chunks([(column, sign, bound) for sign, bound in bounds if bound is not None])

    def highest(self, column: str, after: str | None) -> tuple[str | None, bool]:
        """Return the highest value of a column as text (None without values), and whether it is below `after`."""
        from psycopg import sql  # noqa: PLC0415 - of the extras `registry` and `spark`

        query = sql.SQL("SELECT max({0})::text, coalesce(max({0}) < {1}, false) FROM {2}").format(
            sql.Identifier(column), sql.Literal(after), self._table()
        )
        with _postgresql(self._name, self._url) as connection:
            highest, is_below = connection.execute(query).fetchone()
        return highest, is_below

    def _chunks(self, bounds: Sequence[tuple[str, str, str]]) -> Iterator[Chunk]:
        return value_chunks(self._rows(bounds))

    def _rows(self, bounds: Sequence[tuple[str, str, str]]) -> Iterator[list[bytes]]:
        from psycopg import sql  # noqa: PLC0415 - of the extras `registry` and `spark`
        from psycopg.rows import dict_row  # noqa: PLC0415 - the same

        query = sql.SQL("SELECT * FROM {}").format(self._table())
        if bounds:
            conditions = [
                sql.SQL("({0} {1} {2} OR {0} IS NULL)").format(
                    sql.Identifier(column), sql.SQL(sign), sql.Literal(bound)
                )
                for column, sign, bound in bounds
            ]
            query += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions)
        with (
            _postgresql(self._name, self._url) as connection,
            connection.cursor("tidegate_rows", row_factory=dict_row) as cursor,
        ):
            cursor.itersize = _POSTGRESQL_ROWS
            cursor.execute(query)
            while found := cursor.fetchmany(_POSTGRESQL_ROWS):
                yield [self._to_json(row) for row in found]

    def _table(self) -> Any:
        from psycopg import sql  # noqa: PLC0415 - of the extras `registry` and `spark`

        return sql.Identifier(*self._name.split("."))


@contextmanager
def _postgresql(name: str, url: str) -> Iterator[Any]:
    """Open a read-only connection. Raises NotFoundError, SettingsError or Unavailable."""
    import psycopg  # noqa: PLC0415 - of the extras `registry` and `spark`

    try:
        with psycopg.connect(url, connect_timeout=_CONNECT_SECONDS) as connection:
            connection.read_only = True
            yield connection
    except psycopg.errors.UndefinedTable:
        raise NotFoundError(f"the database has no table {name}") from None
    except psycopg.errors.UndefinedColumn:
        raise SettingsError(f"{name} has no such column: name one with --column") from None
    except (psycopg.errors.UndefinedFunction, psycopg.errors.DataError):
        raise SettingsError(
            f"the column of {name} has no values that rise: name a number or a time with --column"
        ) from None
    except psycopg.errors.InsufficientPrivilege:
        raise SettingsError(f"the user of TIDEGATE_POSTGRESQL_URL may not read {name}") from None
    except psycopg.Error as error:
        # The message of a connection error contains the address.
        raise Unavailable(
            f"the database of TIDEGATE_POSTGRESQL_URL does not answer: {type(error).__name__}"
        ) from None
