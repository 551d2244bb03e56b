"""A Delta table whose log holds a ledger: data and ledger move in one commit, or not at all.

The workers write data files that no commit names. `publish` commits them together with the ledger, as the metadata of
the domain `tidegate.ledger`: Delta lets a transaction through only if no other has changed that domain since the snapshot
that was compared. The log's checkpoints keep it, however old it is. Rows that are merged are another commit of the same
kind (`tidegate.spark_jobs.sinks.delta.merge`).
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import structlog
from pyiceberg.io import load_file_io
from pyspark.sql.types import StructType

from tidegate.contracts.columns.table_limits import NO_LIMITS, TableLimits
from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.settings import MergeMode
from tidegate.spark_jobs.sinks.delta.history import require_unrestored
from tidegate.spark_jobs.sinks.delta.merge import LEDGER_DOMAIN, DeltaMerge, read_ledger
from tidegate.spark_jobs.sinks.evolution import cannot_follow, is_wider
from tidegate.spark_jobs.sinks.java_errors import JAVA_ERRORS, first_line, java_class
from tidegate.spark_jobs.sinks.merging import (
    PRIMARY_KEY_PROPERTY,
    Merging,
    merge_limits,
    require_appended,
    require_key,
    require_mode,
)
from tidegate.spark_jobs.sinks.provenance import PROVENANCE, SOURCE
from tidegate.spark_jobs.sinks.sightings import rows_of, sightings
from tidegate.spark_jobs.worker.judge import column_types
from tidegate.spark_jobs.worker.part_writer import DELETED, FileTarget

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

log = structlog.get_logger()

_CREATE_ATTEMPTS: Final = 3
_DOMAINS: Final = {"delta.feature.domainMetadata": "supported"}
"""What a table must be able to do to hold the ledger; Delta takes it as a property, and keeps it as a feature."""
_BOUNDED: Final = (int, date)
"""Types whose bounds are written to the log: they are exact there. Long texts, times and NaN are not."""


def table_location(warehouse: Path, contract_id: str) -> str:
    """Where a contract's table lies: the last part of the id names it, those before name its folder."""
    *namespace, table = contract_id.split(".")
    return f"file://{warehouse.absolute()}/delta/{'_'.join(namespace) or 'tidegate'}/{table}"


class DeltaTable:
    """One table by its location; its commits through Delta's own classes."""

    kind = "delta"

    def __init__(self, spark: SparkSession, location: str, merge_mode: MergeMode | None = None) -> None:
        """Open a table; with a merge mode its rows are merged on the contract's primary key, else appended."""
        self._merge_mode = merge_mode
        self._merge: DeltaMerge | None = None
        self.name = location.removeprefix("file://")
        self._location = location
        self._spark = spark
        jvm = spark._jvm  # noqa: SLF001 - Delta's transactions have no Python face
        assert jvm is not None  # noqa: S101 - narrows for the type checker
        self._jvm: Any = jvm
        self._delta: Any = jvm.org.apache.spark.sql.delta

    @property
    def uuid(self) -> str:
        """Identity of the table: another one after it was dropped and recreated."""
        return str(self._snapshot().metadata().id())

    def ensure(self, plan: EnforcementPlan) -> None:
        """Create the table, or give it the contract's columns. What the contract no longer has stays, and is null.

        Raises StreamStopped when the existing table is not ours, is partitioned, has a column of a type that cannot become
        the contract's, or rows that are not told apart as the contract says.
        """
        require_mode(plan, is_upsert=self._merge_mode is not None)
        wanted = StructType([*column_types(plan).fields, *PROVENANCE.fields])
        key = plan.contract.primary_key
        if self._merge_mode is not None:
            merging = Merging(key, tuple(field.name for field in wanted))
            self._merge = DeltaMerge(self._spark, self._location, merging)
        for _ in range(_CREATE_ATTEMPTS):
            transaction = self._log().startTransaction()
            is_new = transaction.readVersion() < 0
            definition = _created(wanted) if is_new else json.loads(transaction.metadata().json())
            changed = copy.deepcopy(definition)
            if not is_new:
                self._require_ours(definition)
                self._add_columns(changed["metaData"], wanted)
                if not _holds_domains(transaction):
                    changed["metaData"]["configuration"] |= _DOMAINS
            self._follow_key(changed["metaData"]["configuration"], key, transaction)
            if changed == definition and not is_new:
                return
            try:
                transaction.updateMetadata(self._action(changed), False)
                transaction.commit(self._actions([]), self._operation("tidegate: columns"))
            except JAVA_ERRORS as error:
                log.info("table_changed_meanwhile", table=self.name, error=first_line(error))
            else:
                return
        raise Unavailable(f"{self.name}: others kept changing the table while its columns were made")

    def read(self) -> Ledger | None:
        """Read the ledger as it is now; None when no one has claimed the table yet."""
        return read_ledger(self._location, self._snapshot(), self._jvm)

    def has_rows_of(self, topic: str) -> bool:
        """Return whether the table holds a row that came from this topic; Spark stops at the first."""
        if self._snapshot().version() < 0:
            return False
        return not rows_of(self._spark.read.format("delta").load(self._location), topic).isEmpty()

    def positions_of(self, topic: str) -> Sightings:
        """Return the source positions of the rows that came from this topic."""
        return sightings(rows_of(self._spark.read.format("delta").load(self._location), topic))

    def last_epoch(self, ledger: str) -> int:
        """Return the highest version that the log has of this ledger: Delta leaves a merge out whose version is there."""
        versions = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(self._snapshot().setTransactions())
        return max((int(each.version()) for each in versions if str(each.appId()) == ledger), default=0)

    def target(self, plan: EnforcementPlan, contract: str, name: str) -> FileTarget:
        """Return where and how the accepted rows of a batch are written; the files' names begin with `name`."""
        fields = [*plan.columns, pa.field("_source", SOURCE), pa.field("_contract", pa.string())]
        if self._merge_mode is not None:
            fields.append(pa.field(DELETED, pa.bool_()))
        return FileTarget(
            location=f"{self._location}/{name}-{uuid4().hex[:8]}",
            schema=pa.schema(fields),
            topic=plan.contract.topic,
            contract=contract,
            compression="zstd",
            properties={},
        )

    def limits(self, plan: EnforcementPlan) -> TableLimits:
        """Return what the table asks of its rows."""
        return NO_LIMITS if self._merge_mode is None else merge_limits(plan)

    def stage(self, files: Sequence[str], at: Ledger | None = None) -> str:  # noqa: ARG002 - the log's commit says it
        """Nothing to do: a file that no commit names is not there."""
        return json.dumps(list(files))

    def publish(
        self, mark: str, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False
    ) -> Ledger | None:
        """Commit staged files and move the ledger to `new` if, and only if, it is still `held`.

        None when somebody else has changed the table's definition meanwhile: to be tried again. Raises Fenced when the
        ledger is no longer `held`, Unavailable when the commit failed and nothing moved, StreamStopped when the table was
        restored to before `held`.
        """
        files = json.loads(mark)
        if held is not None and not is_rebuilt:
            require_unrestored(self._location, self._snapshot().version(), held)
        if files and self._merge is not None and held is not None:
            return self._publish_merged(self._merge, files, held, new)
        return self._publish_added([self._added(name) for name in files], held, new)

    def _publish_merged(
        self, merge: DeltaMerge, files: Sequence[str], held: Ledger, new: Ledger
    ) -> Ledger | None:
        """Merge the rows, in one commit with the ledger; then write the ledger where the log's checkpoints keep it."""
        self._require_held(self._snapshot(), held)
        told = merge.told(files, held, new)
        failure: Exception | None = None
        try:
            merge.commit(files, told)
        except JAVA_ERRORS as error:
            failure = error
        found = self.read()
        if found is None or (found.epoch, found.n, found.instance) != (new.epoch, new.n, new.instance):
            self._require_held(self._snapshot(), held)
            self._require_overtaken(failure)
            return None
        # What others change meanwhile does not matter: the merge has landed, and its commit says so until this one does.
        while self._publish_added([], found, found) is None:
            log.info("table_changed_meanwhile", table=self.name)
        return found

    def _publish_added(
        self, added: Sequence[dict[str, Any]], held: Ledger | None, new: Ledger
    ) -> Ledger | None:
        transaction = self._log().startTransaction()
        # What lands from here on is a conflict of domains.
        self._require_held(transaction.snapshot(), held)
        changes = {"domain": LEDGER_DOMAIN, "configuration": new.text, "removed": False}
        version = {"appId": new.name, "version": new.epoch + new.n, "lastUpdated": _now_ms()}
        actions = [*added, {"txn": version}, {"domainMetadata": changes}]
        try:
            transaction.commit(self._actions(actions), self._operation(new.text))
        except JAVA_ERRORS as error:
            # The outcome may be unknown; the ledger says what it was.
            if self.read() == new:
                return new
            self._require_held(self._snapshot(), held)
            self._require_overtaken(error)
            return None
        return new

    def _require_overtaken(self, error: Exception | None) -> None:
        """Raise Unavailable unless a commit failed because somebody else has changed the table: then another may do."""
        if (
            error is not None
            and "Concurrent" not in java_class(error)
            and "MetadataChanged" not in java_class(error)
        ):
            raise Unavailable(f"{self.name}: the commit failed: {first_line(error)}") from error

    def maintain(self, *, beyond: int = 0) -> None:
        """Nothing to do: Delta cleans its log up at each checkpoint."""

    def tidy(self, files: Sequence[str]) -> None:
        """Delete published files whose rows were merged; else the files themselves are the table's."""
        if self._merge is not None:
            self.delete_files(files)

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete data files that no commit names; VACUUM takes away one that stays behind."""
        io = load_file_io({}, self._location)
        for name in files:
            try:
                io.delete(name)
            except OSError as error:
                log.warning("data_file_left", file=name, error=str(error))

    def read_with_rows(self) -> tuple[Ledger | None, tuple[str, ...], DataFrame]:
        """Read the ledger, the primary key of merged rows, and the rows of the ledger's topic, all of one version."""
        snapshot = self._snapshot()
        ledger = read_ledger(self._location, snapshot, self._jvm)
        rows = self._spark.read.format("delta").option("versionAsOf", snapshot.version()).load(self._location)
        if ledger is not None:
            rows = rows.where(rows["_source.topic"] == ledger.topic)
        configuration = json.loads(snapshot.metadata().json())["metaData"]["configuration"]
        return ledger, tuple(json.loads(configuration.get(PRIMARY_KEY_PROPERTY, "[]"))), rows

    def _require_ours(self, definition: dict[str, Any]) -> None:
        metadata = definition["metaData"]
        if "_source" not in StructType.fromJson(json.loads(metadata["schemaString"])).fieldNames():
            raise StreamStopped(f"{self.name} exists and is not a table of this stream (no column _source)")
        if metadata["partitionColumns"]:
            raise StreamStopped(
                f"{self.name} is partitioned, and the job writes tables that are not; use clustering"
            )

    def _add_columns(self, metadata: dict[str, Any], wanted: StructType) -> None:
        """Add all columns to a definition. Those that are too narrow are changed by Delta itself, which notes since when."""
        schema = StructType.fromJson(json.loads(metadata["schemaString"]))
        existing = {field.name: field.dataType for field in schema}
        for field in wanted:
            if field.name not in existing:
                schema = schema.add(field)
            elif existing[field.name] != field.dataType:
                found, type_name = existing[field.name].simpleString(), field.dataType.simpleString()
                if not is_wider(type_name, found):
                    raise cannot_follow(self.name, field.name, found, type_name)
                table = f"delta.`{self._location}`"
                self._spark.sql(
                    f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
                )
                self._spark.sql(f"ALTER TABLE {table} ALTER COLUMN `{field.name}` TYPE {type_name}")
        if len(schema) > len(existing):
            metadata["schemaString"] = schema.json()

    def _follow_key(self, configuration: dict[str, str], key: tuple[str, ...], transaction: Any) -> None:
        """Require that the table's rows are told apart as they will be written, and note it where they are new."""
        found = configuration.get(PRIMARY_KEY_PROPERTY)
        if self._merge_mode is None:
            require_appended(self.name, found)
            return
        has_rows = transaction.readVersion() >= 0 and transaction.snapshot().numOfFiles() > 0
        require_key(self.name, found, key, has_rows=has_rows)
        configuration[PRIMARY_KEY_PROPERTY] = json.dumps(key)
        configuration["delta.enableDeletionVectors"] = str(self._merge_mode == "merge-on-read").lower()

    def _require_held(self, snapshot: Any, held: Ledger | None) -> None:
        if read_ledger(self._location, snapshot, self._jvm) != held:
            raise Fenced(f"{self.name}: another instance of this stream holds the ledger now")

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
        """Return what DESCRIBE HISTORY shows of a commit: an append, with the ledger as the user's metadata."""
        option = self._jvm.scala.Option
        write = getattr(self._delta, "DeltaOperations$Write")
        rest = [option.empty() for _ in range(5)]
        append = self._jvm.org.apache.spark.sql.SaveMode.Append
        return write(append, option.empty(), option.empty(), option.apply(user_metadata), *rest)


def _holds_domains(transaction: Any) -> bool:
    """Return whether the ledger can be written: a table that somebody else has made may lack the feature."""
    features = json.loads(transaction.protocol().json())["protocol"].get("writerFeatures", ())
    return "domainMetadata" in features


def _created(wanted: StructType) -> dict[str, Any]:
    """Define a table. Source: Delta transaction log protocol, "Change Metadata"."""
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": wanted.json(),
        "partitionColumns": [],
        # A checkpoint takes longer than a batch: not after every tenth.
        "configuration": {**_DOMAINS, "delta.checkpointInterval": "100"},
        "createdTime": _now_ms(),
    }
    return {"metaData": metadata}


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return a file's number of rows, and the bounds of the columns that have exact ones."""
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
