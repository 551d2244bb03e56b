"""A Delta table whose log holds a ledger: data and ledger are committed together, or not at all.

The workers write data files that no commit references. `publish` commits them together with the ledger, which is the
metadata of the domain `tidegate.ledger`. Delta accepts a transaction only if no other has changed that domain since the
compared snapshot. The log's checkpoints keep the domain, regardless of its age. A merge commits the ledger in another
way (`tidegate.spark_jobs.sinks.delta.merge`).
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
from tidegate.contracts.errors import ConflictError, Fenced, StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.settings import MergeMode
from tidegate.spark_jobs.sinks.attempt_files import attempt_prefix
from tidegate.spark_jobs.sinks.delta.history import require_unrestored
from tidegate.spark_jobs.sinks.delta.log_cleanup import DeltaLogCleanup
from tidegate.spark_jobs.sinks.delta.maintenance import DeltaMaintenance
from tidegate.spark_jobs.sinks.delta.merge import (
    LEDGER_DOMAIN,
    DeltaMerge,
    ledger_of_version,
    ledger_session,
    read_ledger,
)
from tidegate.spark_jobs.sinks.evolution import BEGIN_AGAIN, cannot_follow, is_wider
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, first_line, java_class, java_of
from tidegate.spark_jobs.sinks.maintenance import DEFAULT_RULES, Compacted, Expired, MaintenanceRules, Orphans
from tidegate.spark_jobs.sinks.merging import (
    PRIMARY_KEY_PROPERTY,
    Merging,
    merge_limits,
    require_appended,
    require_key,
    require_mode,
)
from tidegate.spark_jobs.sinks.provenance import PROVENANCE, SOURCE
from tidegate.spark_jobs.sinks.sightings import records_present, rows_of, rows_taken, rows_with, sightings
from tidegate.spark_jobs.sinks.store import TableContents, Taken
from tidegate.spark_jobs.worker.judge import column_types
from tidegate.spark_jobs.worker.part_writer import DELETED, FileTarget

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

log = structlog.get_logger()

_CREATE_ATTEMPTS: Final = 3
_DOMAINS: Final = {"delta.feature.domainMetadata": "supported"}
"""The table feature that the ledger needs; Delta accepts it as a property, and stores it as a feature."""
_BOUNDED: Final = (int, date)
"""Types whose bounds are written to the log, because they are exact. Those of long texts, times and NaN are not."""


def table_location(warehouse: Path, contract_id: str) -> str:
    """Return the location of a contract's table: the last part of the id is its name, the others its folder."""
    *namespace, table = contract_id.split(".")
    return f"file://{warehouse.absolute()}/delta/{'_'.join(namespace) or 'tidegate'}/{table}"


class DeltaTable:
    """One table at a location; commits use Delta's own classes."""

    kind = "delta"

    def __init__(
        self,
        spark: SparkSession,
        location: str,
        merge_mode: MergeMode | None = None,
        rules: MaintenanceRules = DEFAULT_RULES,
    ) -> None:
        """Open a table; with a merge mode its rows are merged on the contract's primary key, otherwise appended."""
        self._merge_mode = merge_mode
        self._merge: DeltaMerge | None = None
        self._rules = rules
        self._cleanup = DeltaLogCleanup(location, rules.retention)
        self._identity: str | None = None
        self.name = location.removeprefix("file://")
        self._location = location
        self._spark = spark
        self._jvm = java_of(spark)
        self._delta = self._jvm.org.apache.spark.sql.delta

    @property
    def uuid(self) -> str:
        """Return the identity of the table, which changes when it is dropped and recreated."""
        return str(self._snapshot().metadata().id())

    def exists(self) -> bool:
        """Return whether there is a table at the location."""
        return bool(self._snapshot().version() >= 0)

    def ensure(self, rows: TableContents) -> None:
        """Create the table, or add the contract's columns. Columns that the contract no longer has stay, and are null.

        Raises StreamStopped if the existing table is not ours, is partitioned, has a column of a type that cannot be
        widened to the contract's, or has another primary key.
        """
        require_mode(rows, is_upsert=self._merge_mode is not None)
        wanted = StructType([*column_types(rows.columns).fields, *PROVENANCE.fields])
        key = rows.contract.primary_key
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
        """Read the current ledger; None if no instance has claimed the table yet."""
        return read_ledger(self._location, self._snapshot(), self._jvm)

    def archive(self, name: str) -> str | None:
        """Rename the table's folder and return its new path; None if there is no table."""
        if not self.exists():
            return None
        archived = f"{self._location.rpartition('/')[0]}/{name}"
        hadoop = self._jvm.org.apache.hadoop.fs
        source, target = hadoop.Path(self._location), hadoop.Path(archived)
        files = source.getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 - the session's own file systems
        if files.exists(target):
            raise ConflictError(f"{self.name} cannot be archived as {name}: {archived} is there")
        if not files.rename(source, target):
            raise Unavailable(f"{self.name}: the file system does not rename it to {archived}")
        self._delta.DeltaLog.clearCache()  # the cache is keyed by location
        return archived.removeprefix("file://")

    def has_rows_of(self, topic: str) -> bool:
        """Return whether the table holds a row of this topic; Spark stops at the first."""
        if not self.exists():
            return False
        return not rows_of(self._spark.read.format("delta").load(self._location), topic).isEmpty()

    def positions_of(self, topic: str) -> Sightings:
        """Return the source positions of the rows of this topic."""
        return sightings(rows_of(self._spark.read.format("delta").load(self._location), topic))

    def positions_with(self, topic: str, column: str, values: Sequence[str]) -> Sightings:
        """Return the source positions of the rows of this topic whose column has one of these values, as text."""
        table = self._spark.read.format("delta").load(self._location)
        return sightings(rows_with(table, topic, column, values))

    def records_present(self, keys: pa.Table) -> int:
        """Return the number of records whose primary key is in the table."""
        return records_present(self._spark.read.format("delta").load(self._location), keys)

    def last_epoch(self, ledger: str) -> int:
        """Return the highest transaction version of this ledger name; a rebuilt ledger must be above it.

        Delta skips a MERGE whose version is not higher.
        """
        versions = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(self._snapshot().setTransactions())
        return max((int(each.version()) for each in versions if str(each.appId()) == ledger), default=0)

    def target(self, rows: TableContents, contract: str, name: str) -> FileTarget:
        """Return where and how the accepted rows of a batch are written; file names begin with `name`."""
        fields = [*rows.columns, pa.field("_source", SOURCE), pa.field("_contract", pa.string())]
        if self._merge_mode is not None:
            fields.append(pa.field(DELETED, pa.bool_()))
        self._identity = self._identity or self.uuid  # cached, because it is read from the log
        return FileTarget(
            location=f"{self._location}/{attempt_prefix(self._identity, name)}",
            schema=pa.schema(fields),
            topic=rows.contract.topic,
            contract=contract,
            compression="zstd",
            properties={},
        )

    def limits(self, plan: EnforcementPlan) -> TableLimits:
        """Return the limits that the table sets on its rows."""
        return NO_LIMITS if self._merge_mode is None else merge_limits(plan)

    def stage(self, files: Sequence[str], at: Ledger | None = None) -> str:  # noqa: ARG002 - the commit itself has it
        """Return the file names as the mark. No more is needed: files that no commit references are invisible."""
        return json.dumps(list(files))

    def publish(
        self, mark: str, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False
    ) -> Ledger | None:
        """Commit staged files and update the ledger to `new` if, and only if, it is still `held`.

        Return None if another writer has changed the table's definition meanwhile; then try again. Raises Fenced if
        the ledger is no longer `held`; Unavailable if the commit failed and changed nothing; StreamStopped if the table
        was restored to a version before `held`.
        """
        files = json.loads(mark)
        if files and self._merge is not None and held is not None:
            if not is_rebuilt:
                require_unrestored(self._location, self._snapshot().version(), held)
            return self._publish_merged(self._merge, files, held, new)
        return self._publish_added([self._added(name) for name in files], held, new, is_rebuilt=is_rebuilt)

    def _publish_merged(
        self, merge: DeltaMerge, files: Sequence[str], held: Ledger, new: Ledger
    ) -> Ledger | None:
        """Merge rows in one commit with the ledger; then write the ledger to the domain, which checkpoints keep."""
        self._require_held(self._snapshot(), held)
        written = merge.expected_ledger(files, held, new)
        failure: Exception | None = None
        try:
            merge.commit(files, written)
        except JAVA_ERRORS as error:
            failure = error
        found = self.read()
        if found is None or (found.epoch, found.n, found.instance) != (new.epoch, new.n, new.instance):
            self._require_held(self._snapshot(), held)
            self._require_overtaken(failure)
            return None
        self._require_unrestored_meanwhile(held)
        # Conflicts with other writers do not matter: the merge is committed, and its commit has the ledger meanwhile.
        while self._publish_added([], found, found, is_rebuilt=False) is None:
            log.info("table_changed_meanwhile", table=self.name)
        return found

    def _publish_added(
        self, added: Sequence[dict[str, Any]], held: Ledger | None, new: Ledger, *, is_rebuilt: bool
    ) -> Ledger | None:
        transaction = self._log().startTransaction()
        compared = None if is_rebuilt else held
        if compared is not None:
            require_unrestored(self._location, transaction.readVersion(), compared)
        # A later commit of the ledger conflicts on the domain.
        self._require_held(transaction.snapshot(), held)
        changes = {"domain": LEDGER_DOMAIN, "configuration": new.text, "removed": False}
        version = {"appId": new.name, "version": new.epoch + new.n, "lastUpdated": _now_ms()}
        actions = [*added, {"txn": version}, {"domainMetadata": changes}]
        follows = False
        try:
            landed = transaction.commit(self._actions(actions), self._operation(new.text))
            follows = landed == transaction.readVersion() + 1
        except JAVA_ERRORS as error:
            # The outcome of the commit may be unknown; the ledger shows it.
            if self.read() != new:
                self._require_held(self._snapshot(), held)
                self._require_overtaken(error)
                return None
        if compared is not None and not follows:
            self._require_unrestored_meanwhile(compared)
        return new

    def _require_unrestored_meanwhile(self, held: Ledger) -> None:
        """Raise StreamStopped if the table was restored between its last look and the newest commit of the ledger.

        To Delta, a RESTORE conflicts with no append. Later starts look no further back than this commit.
        """
        for version in range(self._snapshot().version(), 0, -1):
            if ledger_of_version(self._location, version) is not None:
                require_unrestored(self._location, version - 1, held)
                return

    def _require_overtaken(self, error: Exception | None) -> None:
        """Raise Unavailable for an error that is not a conflict with another writer; conflicts may be retried."""
        if (
            error is not None
            and "Concurrent" not in java_class(error)
            and "MetadataChanged" not in java_class(error)
        ):
            raise Unavailable(f"{self.name}: the commit failed: {first_line(error)}") from error

    def retract(self, taken: Taken, held: Ledger, new: Ledger) -> Ledger | None:
        """Delete rows in a commit that has the ledger, as a merge does; then write the ledger to the domain."""
        require_unrestored(self._location, self._snapshot().version(), held)
        self._require_held(self._snapshot(), held)
        failure: Exception | None = None
        try:
            rows = f"delta.`{self._location}` WHERE {rows_taken(held.topic, taken)}"
            ledger_session(self._spark, new).sql(f"DELETE FROM {rows}").collect()  # noqa: S608 - our own words
        except JAVA_ERRORS as error:
            failure = error
        if self.read() != new:
            self._require_held(self._snapshot(), held)
            self._require_overtaken(failure)
            # Another commit came first, or there was no row to delete: then there was no commit.
            return None if failure is not None else self._publish_added([], held, new, is_rebuilt=False)
        while self._publish_added([], new, new, is_rebuilt=False) is None:
            log.info("table_changed_meanwhile", table=self.name)
        return new

    def position_at(self, snapshot: int, held: Ledger) -> Vector:
        """Return the end vector of the ledger that a version of the log has written."""
        found = ledger_of_version(self._location, snapshot)
        if found is None or found.name != held.name:
            raise ConflictError(
                f"{self.name}: version {snapshot} is not in the log, or did not move the ledger {held.name}; nothing was "
                "changed. Give a version whose commit did, offsets, or a time"
            )
        return found.end

    def maintain(self, *, beyond: int = 0) -> Expired | None:
        """Remove old versions of a log that has more than `beyond`; None if there is no table. Raises Unavailable."""
        return self._cleanup.run(self._snapshot(), beyond) if self.exists() else None

    def compact(self) -> Compacted | None:
        """Merge small files if there are enough of them; None if this is disabled. Raises Unavailable."""
        return self._maintenance().compact() if self._rules.compacts else None

    def remove_orphans(self) -> Orphans | None:
        """Delete the files of crashed attempts and, past the table's retention, files that were replaced."""
        if not self._rules.removes_orphans or not self.exists():
            return None
        held = self.read()
        return self._maintenance().remove_orphans(self.uuid, held.epoch) if held else None

    def _maintenance(self) -> DeltaMaintenance:
        return DeltaMaintenance(self._spark, self._location, self._rules, self._snapshot)

    def tidy(self, files: Sequence[str]) -> None:
        """Delete published files whose rows were merged; otherwise the files belong to the table."""
        if self._merge is not None:
            self.delete_files(files)

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete data files that no commit references; VACUUM deletes any that remain."""
        io = load_file_io({}, self._location)
        for name in files:
            try:
                io.delete(name)
            except OSError as error:
                log.warning("data_file_left", file=name, error=str(error))

    def read_with_rows(self) -> tuple[Ledger | None, tuple[str, ...], DataFrame]:
        """Return the ledger, the primary key of merged rows, and the rows of the ledger's topic, of one version."""
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
            raise StreamStopped(
                f"{self.name} exists and is not a table of this stream (no column _source): rename it, or {BEGIN_AGAIN}"
            )
        if metadata["partitionColumns"]:
            raise StreamStopped(
                f"{self.name} is partitioned, and the job writes tables that are not: {BEGIN_AGAIN}, and use clustering"
            )

    def _add_columns(self, metadata: dict[str, Any], wanted: StructType) -> None:
        """Add missing columns to a definition. Types are widened with ALTER TABLE, so Delta records the change."""
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
        """Require that the table has this primary key; store it in the table's configuration."""
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
        """Return the log action for a data file. Source: Delta transaction log protocol, "Add File"."""
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
        """Return the operation for DESCRIBE HISTORY: an append, with the ledger as user metadata."""
        option = self._jvm.scala.Option
        write = getattr(self._delta, "DeltaOperations$Write")
        rest = [option.empty() for _ in range(5)]
        append = self._jvm.org.apache.spark.sql.SaveMode.Append
        return write(append, option.empty(), option.empty(), option.apply(user_metadata), *rest)


def _holds_domains(transaction: Any) -> bool:
    """Return whether the table has the feature that the ledger needs; a table of another writer may lack it."""
    features = json.loads(transaction.protocol().json())["protocol"].get("writerFeatures", ())
    return "domainMetadata" in features


def _created(wanted: StructType) -> dict[str, Any]:
    """Return the definition of a table. Source: Delta transaction log protocol, "Change Metadata"."""
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": wanted.json(),
        "partitionColumns": [],
        # A checkpoint takes longer than a batch: Delta's default of one per 10 commits would be too many.
        "configuration": {**_DOMAINS, "delta.checkpointInterval": "100"},
        "createdTime": _now_ms(),
    }
    return {"metaData": metadata}


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return a file's statistics for the log: the number of rows, and the bounds of columns where they are exact."""
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
