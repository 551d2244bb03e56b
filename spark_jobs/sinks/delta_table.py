"""A Delta table whose log holds a ledger: data and ledger move in one commit, or not at all.

The workers write data files that no commit names. `publish` commits them together with the ledger, as the metadata of
the domain `tidegate.ledger`: Delta lets a transaction through only if no other has changed that domain since the snapshot
that was compared. The log's checkpoints keep it, however old it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import structlog
from py4j.protocol import Py4JError
from pyiceberg.io import load_file_io
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from contracts.errors import Fenced, StreamStopped, Unavailable
from contracts.ledger import Ledger, Position
from contracts.plan import EnforcementPlan
from spark_jobs.data_files import FileTarget
from spark_jobs.judge import column_types
from spark_jobs.sinks.iceberg_table import PROVENANCE, SOURCE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

log = structlog.get_logger()

LEDGER_DOMAIN: Final = "tidegate.ledger"
_CREATE_ATTEMPTS: Final = 3
_COMMITS_LOOKED_AT: Final = 20
_BOUNDED: Final = (int, date)
"""Types whose bounds are written to the log: they are exact there. Long texts, times and NaN are not."""


def table_location(warehouse: Path, contract_id: str) -> str:
    """Where a contract's table lies: the last part of the id names it, those before name its folder."""
    *namespace, table = contract_id.split(".")
    return f"file://{warehouse.absolute()}/delta/{'_'.join(namespace) or 'tidegate'}/{table}"


class DeltaTable:
    """One table by its location; its commits through Delta's own classes."""

    kind = "delta"

    def __init__(self, spark: SparkSession, location: str) -> None:
        self.name = location.removeprefix("file://")
        self._location = location
        self._spark = spark
        jvm = spark._jvm  # noqa: SLF001 - Delta's transactions have no Python face
        assert jvm is not None  # noqa: S101 - narrows for the type checker
        self._jvm: Any = jvm
        self._delta: Any = jvm.org.apache.spark.sql.delta

    @property
    def uuid(self) -> str:
        """Identity of the table: another one after it was dropped and made anew."""
        return str(self._snapshot().metadata().id())

    def ensure(self, plan: EnforcementPlan) -> None:
        """Create the table, or add the columns that it lacks. What the contract no longer has stays, and is null.

        Raises StreamStopped when the existing table is not ours, is partitioned, or has a column of another type.
        """
        wanted = StructType([*column_types(plan).fields, *PROVENANCE.fields])
        for _ in range(_CREATE_ATTEMPTS):
            transaction = self._log().startTransaction()
            changed = (
                _created(wanted) if transaction.readVersion() < 0 else self._widened(transaction, wanted)
            )
            if changed is None:
                return
            try:
                transaction.updateMetadata(self._action(changed), False)
                transaction.commit(self._actions([]), self._operation("tidegate: columns"))
            except (Py4JError, PySparkException) as error:
                log.info("table_changed_meanwhile", table=self.name, error=_first_line(error))
            else:
                return
        raise Unavailable(f"{self.name}: others kept changing the table while its columns were made")

    def read(self) -> Ledger | None:
        """Read the ledger as it is now; None when nobody has claimed the table yet."""
        text = self._ledger_text(self._snapshot())
        return Ledger.parse(text) if text is not None else None

    def target(self, plan: EnforcementPlan, contract: str, name: str) -> FileTarget:
        """Say where and how the accepted rows of a batch are written; the files' names begin with `name`."""
        fields = [*plan.columns, pa.field("_source", SOURCE), pa.field("_contract", pa.string())]
        return FileTarget(
            location=f"{self._location}/{name}-{uuid4().hex[:8]}",
            schema=pa.schema(fields),
            topic=plan.contract.topic,
            contract=contract,
            compression="zstd",
            properties={},
        )

    def stage(self, files: Sequence[str]) -> str:
        """Nothing to do: a file that no commit names is not there."""
        return json.dumps(list(files))

    def publish(self, mark: str, held: Ledger | None, new: Ledger) -> Ledger | None:
        """Commit staged files and move the ledger to `new` if, and only if, it is still `held`.

        None when somebody else has changed the table's definition meanwhile: to be tried again. Raises Fenced when the
        ledger is no longer `held`, Unavailable when the commit failed and nothing moved.
        """
        files = json.loads(mark)
        added = [self._added(name) for name in files]
        transaction = self._log().startTransaction()
        self._require_held(
            transaction.snapshot(), held
        )  # and what lands from here on is a conflict of domains
        changes = {"domain": LEDGER_DOMAIN, "configuration": new.text, "removed": False}
        # Claims and batches count up by one each, so that two successors of one ledger have the same version.
        version = {"appId": new.name, "version": new.epoch + new.n, "lastUpdated": _now_ms()}
        actions = [*added, {"txn": version}, {"domainMetadata": changes}]
        try:
            transaction.commit(self._actions(actions), self._operation(new.text))
        except (Py4JError, PySparkException) as error:
            # The outcome may be unknown; the ledger says what it was.
            found = self._snapshot()
            if self._ledger_text(found) == new.text:
                return new
            self._require_held(found, held)
            if "Concurrent" in _kind(error) or "MetadataChanged" in _kind(error):
                return None
            raise Unavailable(f"{self.name}: the commit failed: {_first_line(error)}") from error
        return new

    def tidy(self, files: Sequence[str]) -> None:
        """Nothing is left: the files themselves are the table's."""

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete data files that no commit names; VACUUM takes away one that stays behind."""
        io = load_file_io({}, self._location)
        for name in files:
            try:
                io.delete(name)
            except OSError as error:
                log.warning("data_file_left", file=name, error=str(error))

    def positions(self) -> Iterator[Position]:
        """Give the source position of every row, as Delta's own reader finds them."""
        rows = self._spark.read.format("delta").load(self._location)
        for batch in rows.select("_source.partition", "_source.offset").toArrow().to_batches():
            yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)

    def _widened(self, transaction: Any, wanted: StructType) -> dict[str, Any] | None:
        """Give the definition with all columns; None when it has them."""
        definition: dict[str, Any] = json.loads(transaction.metadata().json())
        metadata = definition["metaData"]
        schema = StructType.fromJson(json.loads(metadata["schemaString"]))
        existing = {field.name: field for field in schema}
        if "_source" not in existing:
            raise StreamStopped(f"{self.name} exists and is not a table of this stream (no column _source)")
        if metadata["partitionColumns"]:
            raise StreamStopped(
                f"{self.name} is partitioned, and the job writes tables that are not; use clustering"
            )
        for field in wanted:
            found = existing.get(field.name)
            if found is None:
                schema = schema.add(field)
            elif found.dataType != field.dataType:
                raise StreamStopped(
                    f"{self.name}: column {field.name} is {found.dataType.simpleString()}, the contract says "
                    f"{field.dataType.simpleString()}; give the column another name in the contract, or alter the table"
                )
        if len(schema) == len(existing):
            return None
        metadata["schemaString"] = schema.json()
        return definition

    def _require_held(self, snapshot: Any, held: Ledger | None) -> None:
        if self._ledger_text(snapshot) != (held.text if held else None):
            raise Fenced(f"{self.name}: another instance of this stream holds the ledger now")

    def _ledger_text(self, snapshot: Any) -> str | None:
        """Find the ledger as of a snapshot: in the newest commits, or else in its state.

        To build the state takes Spark jobs, and the ledger is in the newest commit unless somebody else has written.
        """
        io = load_file_io({}, self._location)
        newest = snapshot.version()
        for version in range(newest, max(-1, newest - _COMMITS_LOOKED_AT), -1):
            try:
                with io.new_input(f"{self._location}/_delta_log/{version:020d}.json").open() as file:
                    actions = file.read().splitlines()
            except FileNotFoundError:
                break  # cleaned up: a checkpoint has it
            for action in actions:
                found = json.loads(action).get("domainMetadata")
                if found is not None and found["domain"] == LEDGER_DOMAIN:
                    return str(found["configuration"])
            if version == 0:
                return None
        domains = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(snapshot.domainMetadata())
        texts = (str(each.configuration()) for each in domains if each.domain() == LEDGER_DOMAIN)
        return next(texts, None)

    def _added(self, name: str) -> dict[str, Any]:
        """Describe a data file as the log wants it. Source: Delta transaction log protocol, "Add File"."""
        with load_file_io({}, name).new_input(name).open() as file:
            metadata = pq.read_metadata(file)
            size = file.seek(0, 2)
        added = {
            "path": name.removeprefix(f"{self._location}/"),
            "partitionValues": {},
            "size": size,
            "modificationTime": _now_ms(),
            "dataChange": True,
            "stats": json.dumps(_statistics(metadata)),
        }
        return {"add": added}

    def _log(self) -> Any:
        return self._delta.DeltaLog.forTable(self._spark._jsparkSession, self._location)  # noqa: SLF001 - as above

    def _snapshot(self) -> Any:
        none = self._jvm.scala.Option.empty
        return self._log().update(False, none(), none())

    def _action(self, action: dict[str, Any]) -> Any:
        return self._delta.actions.Action.fromJson(json.dumps(action))

    def _actions(self, actions: Sequence[dict[str, Any]]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for action in actions:
            found.add(self._action(action))
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()

    def _operation(self, user_metadata: str) -> Any:
        """Say what DESCRIBE HISTORY shows of a commit: an append, with the ledger as the user's metadata."""
        option = self._jvm.scala.Option
        write = getattr(self._delta, "DeltaOperations$Write")
        rest = [option.empty() for _ in range(5)]
        append = self._jvm.org.apache.spark.sql.SaveMode.Append
        return write(append, option.empty(), option.empty(), option.apply(user_metadata), *rest)


def _created(wanted: StructType) -> dict[str, Any]:
    """Define a table. Source: Delta transaction log protocol, "Change Metadata"."""
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": wanted.json(),
        "partitionColumns": [],
        # A checkpoint takes longer than a batch: not after every tenth.
        "configuration": {"delta.feature.domainMetadata": "supported", "delta.checkpointInterval": "100"},
        "createdTime": _now_ms(),
    }
    return {"metaData": metadata}


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Give a file's number of rows, and the bounds of the columns that have exact ones."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    for index in range(metadata.num_columns):
        groups = [metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)]
        bounds = [group.statistics for group in groups]
        name = groups[0].path_in_schema if groups else ""
        if "." in name or not all(each is not None and each.has_min_max for each in bounds):
            continue
        if all(type(value) in _BOUNDED for each in bounds for value in (each.min, each.max)):
            lowest[name] = min(each.min for each in bounds)
            highest[name] = max(each.max for each in bounds)
    written = {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest}
    found: dict[str, Any] = json.loads(json.dumps(written, default=date.isoformat))
    return found


def _now_ms() -> int:
    return int(time.time() * 1000)


def _kind(error: Exception) -> str:
    """Name the Java class of what was thrown, which pyspark may have wrapped."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    return str(java.getClass().getName()) if java is not None else type(error).__name__


def _first_line(error: Exception) -> str:
    return str(getattr(error, "java_exception", error)).partition("\n")[0]
