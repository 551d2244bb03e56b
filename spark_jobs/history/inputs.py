"""Inputs of a history: files with size, time and digest; tables with the snapshot or version that is read."""

from __future__ import annotations

import glob
import os
import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.history import HistoryInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATTERN: Final = frozenset("*?[")
_SPECIAL: Final = re.compile(r"([\\*?{}\[\]])")
_REASONS: Final = (
    re.compile(r"\.SettingsError: ([^\n]+)"),  # of our code in a worker
    re.compile(
        r"\[FAILED_READ_FILE\S*\] ([^\n]+)"
    ),  # names the file; the lines of its causes quote the record
)
DELTA: Final = "delta:"


def files_of(names: tuple[str, ...]) -> tuple[HistoryInput, ...]:
    """Return the files of paths, patterns and folders, without digests, sorted by path.

    Names that begin with `.` or `_` are left out of folders and patterns, because Spark does not read them. Raises
    SettingsError if a name matches no file.
    """
    found: dict[str, HistoryInput] = {}
    for name in names:
        for path in _listed(name):
            state = path.stat()
            each = HistoryInput(name=str(path), size=state.st_size, changed_ns=state.st_mtime_ns)
            found[each.name] = each
    return tuple(found[name] for name in sorted(found))


def _listed(name: str) -> list[Path]:
    if "://" in name:
        raise SettingsError(f"{name} is an address: files of a history are read from folders of this machine")
    given = Path(name)
    if given.is_file():
        found = [given]
    elif given.is_dir():
        found = [each for each in given.rglob("*") if not _is_hidden(each.relative_to(given))]
    elif _PATTERN.isdisjoint(name):
        raise SettingsError(f"there is no file or folder {name}")
    else:
        found = [Path(each) for each in glob.glob(name, recursive=True)]  # noqa: PTH207 - absolute patterns too
    files = [
        each
        for each in (each.resolve() for each in found if each.is_file())
        if not _is_hidden(Path(each.name))
    ]
    if not files:
        raise SettingsError(f"{name} has no files, apart from those whose names begin with . or _")
    return files


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def spark_path(name: str) -> str:
    """Return the escaped path of one file for Spark's readers, which treat a path as a pattern."""
    return "file://" + _SPECIAL.sub(r"\\\1", name)


def with_digests(files: tuple[HistoryInput, ...]) -> tuple[HistoryInput, ...]:
    """Return the files with the SHA-256 of their contents."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        digests = pool.map(_digest, [each.name for each in files])
        return tuple(
            each.model_copy(update={"sha256": digest}) for each, digest in zip(files, digests, strict=True)
        )


def _digest(name: str) -> str:
    with Path(name).open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def table_of(spark: SparkSession, name: str) -> HistoryInput:
    """Return a table of Spark's catalogs, or `delta:FOLDER`, with its current snapshot or version, and the time of it.

    A folder gets its absolute path as name. Raises SettingsError for a table that cannot be read, or has no snapshot.
    """
    try:
        if name.startswith(DELTA):
            name = DELTA + str(Path(name.removeprefix(DELTA)).resolve())
            versions = spark.sql(f"DESCRIBE HISTORY delta.{_quoted_path(name)} LIMIT 1")
            rows = versions.selectExpr("version", "unix_micros(timestamp)").collect()
        else:
            head = _head(spark, name)
            snapshots = spark.table(f"{quoted(name)}.snapshots").where(F.col("snapshot_id") == F.lit(head))
            rows = snapshots.selectExpr("snapshot_id", "unix_micros(committed_at)").collect()
    except PySparkException as error:
        raise unreadable(name, error) from None
    if not rows:
        raise SettingsError(f"{name} has no rows yet, so there is nothing to load")
    return HistoryInput(name=name, version=int(rows[0][0]), changed_ns=int(rows[0][1]) * 1_000)


def _head(spark: SparkSession, name: str) -> int | None:
    """Return the id of the current snapshot of an Iceberg table; None if it has none."""
    found = spark.table(f"{quoted(name)}.refs").where(F.col("name") == "main").select("snapshot_id").take(1)
    return int(found[0][0]) if found else None


def appended_since(spark: SparkSession, name: str, before: int) -> bool:
    """Return whether all snapshots of an Iceberg table since `before` have only appended rows or rewritten files."""
    rows = spark.table(f"{quoted(name)}.snapshots").select("snapshot_id", "parent_id", "operation").collect()
    snapshots = {row.snapshot_id: row for row in rows}
    at = _head(spark, name)
    while at != before:
        found = snapshots.get(at)
        if found is None or found.operation not in {"append", "replace"}:
            return False
        at = found.parent_id
    return True


def quoted(name: str) -> str:
    """Return the name of a table, quoted for SQL."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))


def _quoted_path(name: str) -> str:
    path = name.removeprefix(DELTA)
    return f"`{path.replace('`', '``')}`"


def unreadable(name: str, error: Exception) -> SettingsError:
    """Return the error for an input that Spark cannot read, with the reason in one line that quotes no record."""
    text = str(error).strip()
    found = next(filter(None, (each.search(text) for each in _REASONS)), None)
    reason = text.partition("\n")[0] if found is None else found[1]
    return SettingsError(f"{name} cannot be read: {(reason or type(error).__name__)[:300]}")
