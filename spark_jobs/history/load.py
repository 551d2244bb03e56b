"""Loading of a history: the records of files and tables are copied into Parquet files that never change.

The copy fixes the offset of each record for all later reads. A file or table may change or vanish after its load:
records that a crashed run has not judged yet are in the copy.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from tidegate.contracts.columns.json_rows import json_cells, json_rows
from tidegate.contracts.compiled import schema_fields
from tidegate.contracts.document.fields import refuses_null, types_of
from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.errors import ConflictError, SettingsError
from tidegate.contracts.stream.history import (
    HistoryInput,
    HistoryLoad,
    HistoryManifest,
    HistoryPart,
)
from tidegate.spark_jobs.history.folder import HistoryFolder
from tidegate.spark_jobs.history.inputs import (
    DELTA,
    appended_since,
    files_of,
    quoted,
    spark_path,
    table_of,
    unreadable,
    with_digests,
)
from tidegate.spark_jobs.history.request import HistoryRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = structlog.get_logger()

_PART_RECORDS: Final = 250_000
"""Maximum records of a part. A batch reads whole parts, so this bounds the records that it reads in excess."""
_MOST_INPUTS: Final = 100_000
"""Maximum files and tables of a history: each load writes the list of all."""
_MOST_NAMED: Final = 5
"""Maximum inputs named in a message."""
_COPIED: Final = "value binary, changed timestamp, origin string"
_OURS: Final = ("_source", "_contract")
"""Columns that Tidegate adds to its tables. They are not part of a record."""
FileFormat = Literal["lines", "csv", "parquet"]
_FORMATS: Final[dict[str, FileFormat]] = {
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".json": "lines",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
Convert = Callable[[pa.RecordBatch], pa.Array]
"""Converts rows to records, as JSON in an array of large_binary."""


def load_history(
    spark: SparkSession, folder: HistoryFolder, contract: DataContract, request: HistoryRequest
) -> HistoryManifest:
    """Copy the requested inputs that are not loaded yet; return the resulting manifest.

    Raises SettingsError for an input that cannot be read, or a contract that a history does not support. Raises
    ConflictError for an input that changed since it was loaded, or while it was copied. Raises Unavailable if another
    run loads at the same time.
    """
    _require_json(contract)
    manifest = folder.read_or_new()
    files = files_of(request.files) if request.files else ()
    tables = tuple(dict.fromkeys(table_of(spark, name) for name in request.tables))
    since = _require_unchanged(spark, folder, manifest, files, tables)
    new_files = with_digests(manifest.unread(files))
    new_tables = tuple(each for each in tables if each.name in since or each in manifest.unread(tables))
    if not new_files and not new_tables:
        return manifest
    _require_few(manifest, len(new_files) + len(new_tables))
    target = folder.new_load()
    try:
        parts = _copied(target, _frames(spark, contract, request.nulls, new_files, new_tables, since))
        _require_still(folder, new_files)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    if not parts:
        shutil.rmtree(target, ignore_errors=True)
        if not manifest.loads:
            raise SettingsError("the files and tables hold no record")
        return manifest
    load = HistoryLoad(id=target.name, at=datetime.now(UTC), inputs=(*new_files, *new_tables), parts=parts)
    log.info(
        "history_loaded", stream=contract.id, load=load.id, records=load.records, inputs=len(load.inputs)
    )
    return folder.add(manifest, load)


def _require_json(contract: DataContract) -> None:
    if isinstance(contract.schema_, AvroSchema) or contract.framing != "none":
        raise SettingsError(
            f"{contract.id} describes {'Avro records' if isinstance(contract.schema_, AvroSchema) else 'framed records'}: "
            "a history is loaded for contracts of JSON Schema without a frame"
        )


def _require_few(manifest: HistoryManifest, more: int) -> None:
    known = sum(len(load.inputs) for load in manifest.loads)
    if known + more > _MOST_INPUTS:
        raise SettingsError(
            f"{more:,} files were not loaded: a history has {_MOST_INPUTS:,} at most, and {known:,} are loaded. Join them into "
            "larger files"
        )


def _require_unchanged(
    spark: SparkSession,
    folder: HistoryFolder,
    manifest: HistoryManifest,
    files: tuple[HistoryInput, ...],
    tables: tuple[HistoryInput, ...],
) -> dict[str, int]:
    """Return the last loaded snapshot of each table with appended rows. Raises ConflictError for other changes."""
    touched = manifest.touched(files)
    content = with_digests(tuple(new for _, new in touched))
    bad = [new.name for (old, _), new in zip(touched, content, strict=True) if old.sha256 != new.sha256]
    since: dict[str, int] = {}
    for old, new in manifest.touched(tables):
        if new.name.startswith(DELTA) or not appended_since(spark, new.name, old.version or 0):
            bad.append(new.name)
        else:
            since[new.name] = old.version or 0
    if bad:
        raise _changed(folder, bad)
    return since


def _changed(folder: HistoryFolder, names: list[str]) -> ConflictError:
    named = ", ".join(names[:_MOST_NAMED]) + (" and others" if len(names) > _MOST_NAMED else "")
    return ConflictError(
        f"{named} changed after {folder.stream} had loaded it: some of its records may be written already, so nothing was "
        "read. Put added or corrected records into a new file. To load all again into an empty output: delete "
        f"{folder.path}, and tidegate archive {folder.stream}"
    )


def _require_still(folder: HistoryFolder, files: tuple[HistoryInput, ...]) -> None:
    """Raise ConflictError for files that changed while they were copied."""
    again = files_of(tuple(each.name for each in files)) if files else ()
    moved = [old.name for old, new in zip(files, again, strict=True) if not old.is_like(new)]
    if moved:
        raise _changed(folder, moved)


def _frames(
    spark: SparkSession,
    contract: DataContract,
    nulls: tuple[str, ...],
    files: tuple[HistoryInput, ...],
    tables: tuple[HistoryInput, ...],
    since: dict[str, int],
) -> Iterator[DataFrame]:
    """Yield data frames with the columns of _COPIED: one per format, distinct CSV header, and table."""
    groups: dict[tuple[FileFormat, str], list[str]] = {}
    for each in files:
        kind, header = kind_of_file(Path(each.name))
        groups.setdefault((kind, header), []).append(spark_path(each.name))
    places = F.col("_metadata.file_modification_time"), F.col("_metadata.file_path")
    for (kind, header), paths in groups.items():
        match kind:
            case "lines":
                lines = spark.read.option("lineSep", "\n").text(paths)
                yield lines.select(F.col("value").cast("binary"), *_named(*places))
            case "csv":
                rows = spark.read.option("mode", "FAILFAST").csv(
                    paths, sep=_separator(header), header=True, quote='"', escape='"', multiLine=True
                )
                yield _converted(rows, places, partial(_of_cells, contract, nulls))
            case "parquet":
                yield _converted(spark.read.parquet(*paths), places, partial(_of_rows, contract))
            case _:
                assert_never(kind)
    for table in tables:
        at = F.timestamp_micros(F.lit(table.changed_ns // 1_000)), F.lit(table.name)
        yield _converted(_table(spark, table, since.get(table.name)), at, partial(_of_rows, contract))


def _table(spark: SparkSession, table: HistoryInput, since: int | None) -> DataFrame:
    if table.name.startswith(DELTA):
        path = table.name.removeprefix(DELTA)
        rows = spark.read.format("delta").option("versionAsOf", table.version).load(path)
    elif since is None:
        rows = spark.read.option("versionAsOf", str(table.version)).table(quoted(table.name))
    else:
        ends = {"start-snapshot-id": since, "end-snapshot-id": table.version}
        rows = spark.read.format("iceberg").options(**ends).load(table.name)
    return rows.drop(*_OURS)


def _named(changed_at: Column, origin: Column) -> tuple[Column, Column]:
    return changed_at.alias("changed"), origin.alias("origin")


def _converted(
    rows: DataFrame,
    places: tuple[Column, Column],
    make: Callable[[], Convert],
) -> DataFrame:
    """Return a data frame of rows converted to values in Python workers; `make` is called once per task."""
    record = F.struct("*").alias("record")

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        convert = make()
        for batch in batches:
            values = convert(pa.RecordBatch.from_struct_array(batch.column("record")))
            columns = [values.cast(pa.binary()), batch.column("changed"), batch.column("origin")]
            yield pa.record_batch(columns, names=["value", "changed", "origin"])

    return rows.select(record, *_named(*places)).mapInArrow(work, _COPIED)


def _of_rows(contract: DataContract) -> Convert:
    may_be_absent = partial(refuses_null, schema_fields(contract))
    return lambda rows: json_rows(rows, may_be_absent)


def _of_cells(contract: DataContract, nulls: tuple[str, ...]) -> Convert:
    fields = schema_fields(contract)
    may_be_absent = partial(refuses_null, fields)
    empty = pa.array(["", *nulls])

    def convert(rows: pa.RecordBatch) -> pa.Array:
        cells = [pc.if_else(pc.is_in(each, value_set=empty), None, each) for each in rows.columns]
        return json_cells(
            pa.record_batch(cells, names=rows.schema.names), partial(types_of, fields), may_be_absent
        )

    return convert


def _copied(target: Path, frames: Iterable[DataFrame]) -> tuple[HistoryPart, ...]:
    """Write data frames below a folder; return the parts with records, sorted by path."""
    parts: list[HistoryPart] = []
    for number, frame in enumerate(frames):
        path = target / f"{number:04}"
        try:
            writer = frame.write.option("maxRecordsPerFile", _PART_RECORDS)
            writer.parquet(f"file://{path}", compression="zstd")
        except (PySparkException, Py4JJavaError) as error:
            raise unreadable("a file or table of the history", error) from None
        for file in sorted(path.glob("*.parquet")):
            records = pq.read_metadata(file).num_rows
            if records:
                place = str(file.relative_to(target.parent))
                parts.append(HistoryPart(path=place, records=records, size=file.stat().st_size))
    return tuple(parts)


def kind_of_file(path: Path) -> tuple[FileFormat, str]:
    """Return the format of a file, and the first line of a CSV file, else "".

    Raises SettingsError for unknown formats, and if the file cannot be read.
    """
    suffixes = [each.lower() for each in path.suffixes]
    is_packed = suffixes[-1:] == [".gz"]
    suffix = (suffixes[:-1] if is_packed else suffixes)[-1:]
    kind = _FORMATS.get(suffix[0]) if suffix else None
    if kind is None or (kind == "parquet" and is_packed):
        raise SettingsError(
            f"{path} is not loaded: a history has files .jsonl, .ndjson, .json (a record in each line), .csv, .tsv, all also "
            "with .gz, and .parquet"
        )
    if kind == "parquet":
        return kind, ""
    try:
        with pa.input_stream(str(path), compression="gzip" if is_packed else None) as file:
            start = file.read(65_536)
    except OSError as error:
        raise unreadable(str(path), error) from None
    if kind == "lines":
        if start.lstrip().startswith(b"["):
            raise SettingsError(f"{path} is a JSON array: write a record in each line, as `jq -c '.[]'` does")
        return kind, ""
    return kind, start.split(b"\n", 1)[0].decode("utf-8", "replace").lstrip("\ufeff").rstrip("\r")


def _separator(header: str) -> str:
    return max(",;\t|", key=header.count)
