"""Find the rows added to a table since a version: by Iceberg snapshots, Delta's log, or a PostgreSQL column."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from tidegate.contracts.columns.json_rows import json_record
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources.source import BATCH_RECORDS, Chunk, table_chunks
from tidegate.gateway.sources.tables import (
    PostgresqlRows,
    TableSource,
    errors_of,
    is_delta,
    is_iceberg,
    newest_metadata,
)

DELTA: Final = "delta:"
ICEBERG: Final = "iceberg:"
POSTGRESQL: Final = "postgresql:"
_OURS: Final = (
    "_source",
    "_contract",
    "_source_topic",
    "_source_partition",
    "_source_offset",
    "_source_timestamp",
)
"""Columns that Tidegate adds to its tables, which are not part of a record."""
_Added = tuple[set[str] | None, str | None]
"""Paths of added data files; None if all rows must be read, with the reason if there is one."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table: an Iceberg snapshot, a Delta version, or the highest value of a PostgreSQL column.

    `origin` is the id of the table, which differs for a later table of the same name; for PostgreSQL, the column.
    """

    name: str
    origin: str


@dataclass(frozen=True, slots=True)
class AddedRows:
    """The rows of a version of a table; `version` is None for a table without versions, or without rows.

    `is_whole`: all rows are read; `reason` says why, if only added rows were requested. `since` names the version whose
    rows are left out, and `until` the version that is read. Both are None for PostgreSQL, because they are row values.
    """

    source: TableSource
    version: TableVersion | None
    is_whole: bool = True
    reason: str | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class PostgresqlOptions:
    """The options for PostgreSQL: the address, and a column whose values rise with each row, if any."""

    url: str | None = None
    column: str | None = None


def added_rows(
    name: str, since: TableVersion | None, may_be_absent: Callable[[str], bool], options: PostgresqlOptions
) -> AddedRows:
    """Return the rows of a table that were added after the version `since`; all rows if they cannot be determined.

    `name` is `iceberg:NAMESPACE.TABLE`, `postgresql:TABLE`, or the folder of a Delta or Iceberg table. For PostgreSQL,
    `may_be_absent` decides by JSON Pointer which nulls are left out of a record. Without a column, all its rows are read.

    Raises SettingsError for a table that cannot be read, NotFoundError, Unavailable.
    """
    if name.startswith(POSTGRESQL):
        return _of_postgresql(name.removeprefix(POSTGRESQL), since, may_be_absent, options)
    if options.column is not None:
        raise SettingsError("--column concerns tables of PostgreSQL; others have versions")
    if name.startswith(ICEBERG):
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - of the extra `spark`

        table = name.removeprefix(ICEBERG)
        return _of_iceberg(table, lambda: load_catalog().load_table(table), since)
    path = Path(name.removeprefix(DELTA))
    if is_delta(path):
        return _of_delta(path, since)
    if is_iceberg(path):
        from pyiceberg.table import StaticTable  # noqa: PLC0415 - of the extra `spark`

        at = str(newest_metadata(path).absolute())
        return _of_iceberg(path.name, lambda: StaticTable.from_metadata(at), since)
    raise SettingsError(
        f"{name} is no table: name iceberg:NAMESPACE.TABLE, postgresql:TABLE, or the folder of a Delta or Iceberg table"
    )


class _FilesOfTable(TableSource):
    """The rows of data files, one file after the other. Positions are named by file and row."""

    def __init__(
        self, title: str, stem: str, files: Sequence[tuple[str, Callable[[], Iterable[pa.RecordBatch]]]]
    ) -> None:
        super().__init__(title, stem, self._chunks)
        self._files = files
        self._ends: list[int] = []

    def _chunks(self) -> Iterator[Chunk]:
        before = 0
        for _, read in self._files:
            rows = 0
            for chunk in table_chunks(map(_of_record, read())):
                rows += len(chunk.positions)
                yield chunk.moved(before)
            before += rows
            self._ends.append(before)

    def places(self, positions: Sequence[int]) -> str:
        """Name positions, such as `00001-a.parquet row 12`."""
        return ", ".join(map(self._place, positions)) or "no position is known"

    def _place(self, position: int) -> str:
        index = bisect_left(self._ends, position)
        first = self._ends[index - 1] if index else 0
        return f"{self._files[index][0].rpartition('/')[2]} row {position - first:,}"


def _of_record(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name not in _OURS])


def _of_iceberg(name: str, load: Callable[[], Any], since: TableVersion | None) -> AddedRows:
    from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - of the extra `spark`
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - the same

    title, what = f"Iceberg table {name}", f"the Iceberg table {name}"
    with errors_of(what):
        table = load()
        head = table.current_snapshot()
        if head is None:
            return AddedRows(_FilesOfTable(title, name, ()), None)
        scan = table.scan(snapshot_id=head.snapshot_id)
        tasks = list(scan.plan_files())
        version = TableVersion(str(head.snapshot_id), str(table.metadata.table_uuid))
        added, reason = _unless_replaced(since, version, partial(_added_files, table, head))
        if added is not None:
            tasks = [task for task in tasks if task.file.file_path in added]
        projection = scan.projection()

    def reader(task: Any) -> Callable[[], Iterable[pa.RecordBatch]]:
        def read() -> Iterator[pa.RecordBatch]:
            with errors_of(what):
                yield from ArrowScan(table.metadata, table.io, projection, AlwaysTrue()).to_record_batches(
                    [task]
                )

        return read

    files = [(task.file.file_path, reader(task)) for task in tasks]
    return _of_files(_FilesOfTable(title, name, files), version, None if added is None else since, reason)


def _unless_replaced(
    since: TableVersion | None, version: TableVersion, added_after: Callable[[int], _Added]
) -> _Added:
    """Return the files added after a version; None without `since`, or, with a reason, if the table was replaced."""
    if since is None:
        return None, None
    if since.origin != version.origin:
        return None, "the table was replaced by another of its name"
    return added_after(int(since.name))


def _of_files(
    source: TableSource, version: TableVersion, since: TableVersion | None, reason: str | None
) -> AddedRows:
    left_out = None if since is None else since.name
    return AddedRows(source, version, since is None, reason, left_out, version.name)


def _added_files(table: Any, head: Any, since: int) -> _Added:
    """Return the data files appended after a snapshot; None, with the reason, if they cannot be determined."""
    new: set[int] = set()
    at = head
    while at is None or at.snapshot_id != since:
        if at is None:
            return None, f"snapshot {since} is no longer in the history of the table"
        if at.summary is None or at.summary.operation.value != "append":
            kind = "changed" if at.summary is None else at.summary.operation.value
            return None, f"snapshot {at.snapshot_id} did more than add rows ({kind})"
        new.add(at.snapshot_id)
        at = None if at.parent_snapshot_id is None else table.snapshot_by_id(at.parent_snapshot_id)
    manifests = [each for each in head.manifests(table.io) if each.added_snapshot_id in new]
    entries = (
        entry for each in manifests for entry in each.fetch_manifest_entry(table.io, discard_deleted=True)
    )
    return {entry.data_file.file_path for entry in entries if entry.snapshot_id in new}, None


def _of_delta(path: Path, since: TableVersion | None) -> AddedRows:
    from deltalake import DeltaTable  # noqa: PLC0415 - of the extra `delta`

    with errors_of(f"the Delta table {path}"):
        table = DeltaTable(path)
        version = TableVersion(str(table.version()), str(table.metadata().id))
        dataset = table.to_pyarrow_dataset()
        fragments = list(dataset.get_fragments())
        added, reason = _unless_replaced(since, version, partial(_added_to_log, path, table.version()))
        if added is not None:
            fragments = [each for each in fragments if each.path.lstrip("/") in added]
            if len(fragments) < len(added):
                added, reason = None, "files that were added are no longer in the table"
                fragments = list(dataset.get_fragments())

    def reader(fragment: Any) -> Callable[[], Iterable[pa.RecordBatch]]:
        def read() -> Iterator[pa.RecordBatch]:
            with errors_of(f"the Delta table {path}"):
                scanner = type(dataset)(
                    [fragment], dataset.schema, dataset.format, dataset.filesystem
                ).scanner(batch_size=BATCH_RECORDS, batch_readahead=1, fragment_readahead=1)
                yield from scanner.to_batches()

        return read

    files = [(each.path, reader(each)) for each in fragments]
    rows = _FilesOfTable(f"Delta table {path.name}", path.name, files)
    return _of_files(rows, version, None if added is None else since, reason)


def _added_to_log(path: Path, version: int, since: int) -> _Added:
    """Return the files that commits after a version added; None, with the reason, if they cannot be determined."""
    if since > version:
        return None, f"the table is at version {version}, before the one that was audited"
    added: set[str] = set()
    for number in range(since + 1, version + 1):
        commit = path / "_delta_log" / f"{number:020}.json"
        if not commit.is_file():
            return None, f"version {number} is no longer in the log"
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "remove" in action or (add := action.get("add") or {}).get("dataChange") is False:
                return None, f"version {number} did more than add rows"
            if add:
                added.add(unquote(add["path"]))
    return added, None


def _of_postgresql(
    name: str, since: TableVersion | None, may_be_absent: Callable[[str], bool], options: PostgresqlOptions
) -> AddedRows:
    if options.url is None:
        raise SettingsError("a table of PostgreSQL needs its database: set TIDEGATE_POSTGRESQL_URL")

    def to_json(row: dict[str, Any]) -> bytes:
        return json_record({key: value for key, value in row.items() if key not in _OURS}, may_be_absent)

    read, title, column = (
        PostgresqlRows(name, options.url, to_json),
        f"PostgreSQL table {name}",
        options.column,
    )
    if column is None:
        return AddedRows(TableSource(title, name, read.chunks), None)
    after, reason = None if since is None else since.name, None
    if since is not None and since.origin != column:
        after, reason = None, f"the last audit went by the column {since.origin}"
    highest, is_below = read.highest(column, after)
    if is_below:
        after, reason = None, f"the highest {column} is below the one of the last audit"
    version = None if highest is None else TableVersion(highest, column)
    source = TableSource(title, name, partial(read.chunks_between, column, after, highest))
    return AddedRows(source, version, after is None, reason)
