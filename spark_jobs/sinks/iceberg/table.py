"""An Iceberg table whose metadata holds a ledger: data and ledger are committed together, or not at all.

Rows are staged on a branch that readers do not use. `publish` then makes one metadata commit that moves `main` to the
staged snapshot and replaces the property `tidegate.ledger`. Iceberg accepts the commit only if the metadata has not
changed since the comparison. Merged rows are staged in the same way: MERGE writes to the branch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import structlog
from pyspark.sql.types import BooleanType, StructField, StructType

from tidegate.contracts.columns.table_limits import NO_LIMITS, TableLimits
from tidegate.contracts.errors import ConflictError, Fenced, StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.session import CATALOG
from tidegate.spark_jobs.settings import MergeMode
from tidegate.spark_jobs.sinks.attempt_files import attempt_prefix
from tidegate.spark_jobs.sinks.evolution import BEGIN_AGAIN, cannot_follow, is_wider
from tidegate.spark_jobs.sinks.iceberg.compaction import Compaction
from tidegate.spark_jobs.sinks.iceberg.expiry import SnapshotExpiry
from tidegate.spark_jobs.sinks.iceberg.field_ids import field_ids, with_ids
from tidegate.spark_jobs.sinks.iceberg.history import (
    FOREVER_MS,
    PUBLISHED_TAG,
    STAGED,
    TableHistory,
    contains,
    position_in,
    position_summary,
    published_snapshot,
)
from tidegate.spark_jobs.sinks.iceberg.orphans import remove_orphans
from tidegate.spark_jobs.sinks.iceberg.retraction import Retraction
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, first_line, java_class, java_of, strings_of
from tidegate.spark_jobs.sinks.maintenance import DEFAULT_RULES, Compacted, Expired, MaintenanceRules, Orphans
from tidegate.spark_jobs.sinks.merging import (
    PRIMARY_KEY_PROPERTY,
    Merging,
    count_tombstones,
    merge_limits,
    require_appended,
    require_key,
    require_mode,
)
from tidegate.spark_jobs.sinks.provenance import PROVENANCE, SOURCE
from tidegate.spark_jobs.sinks.sightings import records_present, rows_of, rows_taken, rows_with, sightings
from tidegate.spark_jobs.sinks.store import STAGE_ATTEMPTS, TableContents, Taken
from tidegate.spark_jobs.worker.judge import column_types
from tidegate.spark_jobs.worker.part_writer import DELETED, FileTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()

LEDGER_PROPERTY = "tidegate.ledger"
BRANCH = "tidegate"
MAIN = "main"
_TOMBSTONES = "tidegate.tombstones"
"""Key in the summary of merged snapshots: the number of tombstones among the staged records."""
_SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property"
_MERGED = "spark.merge-into.num-target-rows"
_COMMIT_ATTEMPTS = 10

_TABLE_PROPERTIES = {
    "format-version": "2",
    # Rows arrive by source partition; shuffling them costs more than it helps.
    "write.distribution-mode": "none",
    # Each batch writes two metadata files: keep enough for diagnosis, but not all of them.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


def table_name(contract_id: str) -> str:
    """Return the full name of a contract's table: the last part of the id is its name, the others its namespace."""
    *namespace, table = contract_id.split(".")
    return f"{CATALOG}.{'_'.join(namespace) or 'tidegate'}.{table}"


class IcebergTable:
    """One table of the catalog `lake`; definitions use Spark, commits use Iceberg's own classes."""

    kind = "iceberg"

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        merge_mode: MergeMode | None = None,
        rules: MaintenanceRules = DEFAULT_RULES,
    ) -> None:
        """Open a table; with a merge mode its rows are merged on the contract's primary key, otherwise appended."""
        self.name = name
        self._merge_mode = merge_mode
        self._merging: Merging | None = None
        self._is_copied = False
        self._spark = spark
        self._merge_session: SparkSession | None = None
        self._quoted = ".".join(f"`{part}`" for part in name.split("."))
        self._iceberg = java_of(spark).org.apache.iceberg
        self._history = TableHistory(spark, name, self._quoted)
        self._expiry = SnapshotExpiry(spark, name, rules.retention)
        self._rules = rules

    def exists(self) -> bool:
        """Return whether the catalog has the table."""
        return bool(self._spark.catalog.tableExists(self._quoted))

    def ensure(self, rows: TableContents) -> None:
        """Create the table, or add the contract's columns. Columns that the contract no longer has stay, and are null.

        Raises StreamStopped if the existing table is not ours, has another primary key, or has a column whose type
        cannot be widened to the contract's.
        """
        require_mode(rows, is_upsert=self._merge_mode is not None)
        wanted = StructType([*column_types(rows.columns).fields, *PROVENANCE.fields])
        namespace = self._quoted.rpartition(".")[0]
        if not self.exists():
            properties = ", ".join(f"'{key}' = '{value}'" for key, value in _TABLE_PROPERTIES.items())
            fields = ", ".join(_definition(field) for field in wanted)
            self._ensure_namespace(namespace)
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._quoted} ({fields}) USING iceberg TBLPROPERTIES ({properties})"
            )
        existing = {field.name: field for field in self._spark.table(self._quoted).schema}
        if "_source" not in existing:
            raise StreamStopped(
                f"{self.name} exists and is not a table of this stream (it has no column _source): rename it, or {BEGIN_AGAIN}"
            )
        for field in wanted:
            found = existing.get(field.name)
            if found is None:
                self._spark.sql(f"ALTER TABLE {self._quoted} ADD COLUMN {_definition(field)}")
            else:
                self._widen(field.name, found.dataType.simpleString(), field.dataType.simpleString())
        self._follow_key(rows.contract.primary_key)
        if self._merge_mode is not None:
            self._merging = Merging(rows.contract.primary_key, tuple(field.name for field in wanted))

    def _widen(self, column: str, found: str, wanted: str) -> None:
        if found == wanted:
            return
        if not is_wider(wanted, found):
            raise cannot_follow(self.name, column, found, wanted)
        self._spark.sql(f"ALTER TABLE {self._quoted} ALTER COLUMN `{column}` TYPE {wanted}")

    def _follow_key(self, key: tuple[str, ...]) -> None:
        """Require that the table has this primary key; store it in a table without one."""
        base = self._operations().refresh()
        found = base.property(PRIMARY_KEY_PROPERTY, None)
        if self._merge_mode is None:
            require_appended(self.name, found)
            return
        head = base.currentSnapshot()
        has_rows = head is not None and head.summary().get("total-records") != "0"
        require_key(self.name, found, key, has_rows=has_rows)
        properties = {PRIMARY_KEY_PROPERTY: json.dumps(key), "write.merge.mode": self._merge_mode}
        if any(base.property(name, None) != value for name, value in properties.items()):
            assignments = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
            self._spark.sql(f"ALTER TABLE {self._quoted} SET TBLPROPERTIES ({assignments})")

    def _ensure_namespace(self, namespace: str) -> None:
        try:
            self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        except JAVA_ERRORS:
            # Spark checks before it creates; if two streams start concurrently, the catalog refuses the later one.
            if not self._spark.catalog.databaseExists(namespace):
                raise

    @property
    def uuid(self) -> str:
        """Return the identity of the table, which changes when it is dropped and recreated."""
        return str(self._operations().refresh().uuid())

    def read(self) -> Ledger | None:
        """Read the current ledger; None if no instance has claimed the table yet."""
        text = self._operations().refresh().property(LEDGER_PROPERTY, None)
        return Ledger.parse(text) if text is not None else None

    def archive(self, name: str) -> str | None:
        """Rename the table and return its new name; None if there is no table. Its files stay where they are."""
        if not self.exists():
            return None
        namespace = self._quoted.rpartition(".")[0]
        archived = f"{namespace}.`{name}`"
        if self._spark.catalog.tableExists(archived):
            raise ConflictError(f"{self.name} cannot be archived as {name}: a table of this name is there")
        try:
            # The new name is without the catalog, which Spark would take for a namespace.
            self._spark.sql(f"ALTER TABLE {self._quoted} RENAME TO {archived.partition('.')[2]}")
        except JAVA_ERRORS as error:
            raise Unavailable(f"{self.name}: the catalog does not rename it: {first_line(error)}") from error
        return archived.replace("`", "")

    def has_rows_of(self, topic: str) -> bool:
        """Return whether the table holds a row of this topic; Spark stops at the first."""
        if not self.exists():
            return False
        return not rows_of(self._spark.table(self._quoted), topic).isEmpty()

    def positions_of(self, topic: str) -> Sightings:
        """Return the source positions of the rows of this topic."""
        return sightings(rows_of(self._spark.table(self._quoted), topic))

    def positions_with(self, topic: str, column: str, values: Sequence[str]) -> Sightings:
        """Return the source positions of the rows of this topic whose column has one of these values, as text."""
        return sightings(rows_with(self._spark.table(self._quoted), topic, column, values))

    def records_present(self, keys: pa.Table) -> int:
        """Return the number of records whose primary key is in the table."""
        return records_present(self._spark.table(self._quoted), keys)

    def last_epoch(self, ledger: str) -> int:  # noqa: ARG002 - commits compare the whole ledger, so epochs may repeat
        """Return 0: properties have no history."""
        return 0

    def target(self, rows: TableContents, contract: str, name: str) -> FileTarget:
        """Return where and how the accepted rows of a batch are written; file names begin with `name`."""
        table = self._load()
        ids = field_ids(json.loads(self._iceberg.SchemaParser.toJson(table.schema())))
        fields = [*rows.columns, pa.field("_source", SOURCE), pa.field("_contract", pa.string())]
        of_table = [with_ids(field, ids[field.name], ids) for field in fields]
        return FileTarget(
            location=str(table.locationProvider().newDataLocation(attempt_prefix(str(table.uuid()), name))),
            schema=pa.schema(of_table if self._merge_mode is None else [*of_table, (DELETED, pa.bool_())]),
            topic=rows.contract.topic,
            contract=contract,
            compression=str(table.properties().getOrDefault("write.parquet.compression-codec", "zstd")),
            properties=strings_of(self._spark, table.io().properties()),
        )

    def limits(self, plan: EnforcementPlan) -> TableLimits:
        """Return the limits that the table sets on its rows."""
        return NO_LIMITS if self._merge_mode is None else merge_limits(plan)

    def stage(self, files: Sequence[str], at: Ledger | None = None) -> str:
        """Append or merge data files to the branch, based on the head of `main`; return the mark of the staged snapshot.

        The snapshot's summary has the position of the ledger `at`. Without files an empty snapshot is staged, so that
        every commit moves `main`. A REST catalog asserts only the head of `main`, so a change of properties alone would
        not be a compare-and-set there.
        """
        self._align_branch()
        mark = uuid4().hex
        summary = {STAGED: mark, **(position_summary(at) if at is not None else {})}
        table = self._load()
        self._is_copied = bool(files) and (self._merging is not None or _arranges(table))
        if files and self._merging is not None:
            self._stage_merged(self._merging, files, summary)
            return mark
        if self._is_copied:
            self._stage_arranged(files, summary)
            return mark
        append = table.newAppend() if files else table.newFastAppend()
        for name in files:
            append.appendFile(self._described(table, name))
        for key, value in summary.items():
            append.set(key, value)
        try:
            append.toBranch(BRANCH).commit()
        except JAVA_ERRORS as error:
            raise Unavailable(f"{self.name}: nothing could be staged: {first_line(error)}") from error
        return mark

    def tidy(self, files: Sequence[str]) -> None:
        """Delete published files whose rows the table stores in other files, merged or sorted.

        The last `stage` decides it: somebody may have partitioned or sorted the table since.
        """
        if self._is_copied:
            self.delete_files(files)

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete data files that no snapshot references; one that remains does no harm."""
        io = self._load().io()
        for name in files:
            try:
                io.deleteFile(name)
            except JAVA_ERRORS as error:
                log.warning("data_file_left", file=name, error=first_line(error))

    def _described(self, table: Any, name: str) -> Any:
        """Return Iceberg's description of a data file, with the bounds of its columns."""
        file = table.io().newInputFile(name)
        metrics = self._iceberg.parquet.ParquetUtil.fileMetrics(
            file, self._iceberg.MetricsConfig.forTable(table)
        )
        builder = self._iceberg.DataFiles.builder(table.spec()).withInputFile(file)
        return builder.withFormat("PARQUET").withMetrics(metrics).build()

    def _stage_arranged(self, files: Sequence[str], summary: dict[str, str]) -> None:
        """Append the rows of the files to a partitioned or sorted table. Spark partitions and sorts them."""
        wanted = self._spark.table(self._quoted).schema
        rows = self._spark.read.schema(wanted).parquet(*files)
        to = rows.writeTo(f"{self._quoted}.branch_{BRANCH}")
        to.options(**{f"snapshot-property.{key}": value for key, value in summary.items()}).append()

    def _stage_merged(self, merging: Merging, files: Sequence[str], summary: dict[str, str]) -> None:
        """Merge the rows of the files on the branch, in one snapshot."""
        # A separate session, because MERGE takes the properties of its snapshot from the session.
        session = self._merge_session = self._merge_session or self._spark.newSession()
        wanted = session.table(self._quoted).schema.add(DELETED, BooleanType())
        merging.newest(session.read.schema(wanted).parquet(*files)).createOrReplaceTempView("staged")
        properties = strings_of(self._spark, self._load().io().properties())
        all_properties = {**summary, _TOMBSTONES: str(count_tombstones(files, properties))}
        for key, value in all_properties.items():
            session.conf.set(f"{_SNAPSHOT_PROPERTY}.{key}", value)
        session.sql(merging.statement(f"{self._quoted}.`branch_{BRANCH}`", "staged"))

    def publish(
        self, mark: str, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False
    ) -> Ledger | None:
        """Move `main` to the staged snapshot and the ledger to `new` if, and only if, the ledger is still `held`.

        Return None if `main` has moved since staging (compaction, an append of another writer). Return None too if
        the branch no longer has the snapshot of that mark (a fenced instance staged there last). Then stage again.
        For merged rows, the totals of the returned ledger are corrected by the counts of the merge.

        Raises Fenced if the ledger is no longer `held`, and Unavailable if the commit failed and changed nothing.
        Raises StreamStopped if `main` does not contain the snapshot of `held`, unless the ledger `is_rebuilt`.
        """
        return self._land(lambda base: _staged_on_head(base, mark), held, new, is_rebuilt=is_rebuilt)

    def _land(
        self, find_staged: Callable[[Any], Any | None], held: Ledger | None, new: Ledger, *, is_rebuilt: bool
    ) -> Ledger | None:
        operations = self._operations()
        for _ in range(_COMMIT_ATTEMPTS):
            base = operations.refresh()
            self._require_held(base, held)
            if held is not None and not is_rebuilt:
                self._history.require_published(base, held)
            staged = find_staged(base)
            if staged is None:
                return None
            landed = new
            if self._merging is not None and held is not None:
                landed = _with_outcome(new, held, strings_of(self._spark, staged.summary()))
            if self._commit(operations, base, staged, held, landed):
                return landed
        raise Unavailable(f"{self.name}: other commits kept changing the table's metadata during the commit")

    def _commit(self, operations: Any, base: Any, staged: Any, held: Ledger | None, landed: Ledger) -> bool:
        """Move `main`, the tag and the ledger in one commit; return False if another commit came first.

        That is usually an expiry, which does not move `main`; then the staged snapshot is still valid.
        """
        tag = self._iceberg.SnapshotRef.tagBuilder(staged.snapshotId()).maxRefAgeMs(FOREVER_MS).build()
        changed = (
            self._iceberg.TableMetadata.buildFrom(base)
            .setBranchSnapshot(staged.snapshotId(), MAIN)
            .setRef(PUBLISHED_TAG, tag)
            .setProperties({LEDGER_PROPERTY: landed.text})
            .build()
        )
        try:
            operations.commit(base, changed)
        except JAVA_ERRORS as error:
            # The outcome of the commit may be unknown; the ledger shows it.
            base = operations.refresh()
            if base.property(LEDGER_PROPERTY, None) == landed.text:
                return True
            self._require_held(base, held)
            if java_class(error).endswith(".CommitFailedException"):
                return False
            raise Unavailable(f"{self.name}: the commit failed: {first_line(error)}") from error
        return True

    def retract(self, taken: Taken, held: Ledger, new: Ledger) -> Ledger | None:
        """Delete rows on a branch, then move `main` to it and the ledger to `new` in one commit."""
        retraction = Retraction(self._spark, self._quoted, self._load())
        try:
            summary = {STAGED: uuid4().hex, **position_summary(new)}
            retraction.stage(rows_taken(held.topic, taken), summary)
            return self._land(retraction.on_head, held, new, is_rebuilt=False)
        finally:
            retraction.clean()

    def position_at(self, snapshot: int, held: Ledger) -> Vector:
        """Return the end vector of the ledger at a snapshot, from the snapshot's summary."""
        found = self._operations().refresh().snapshot(snapshot)
        end = None if found is None else position_in(strings_of(self._spark, found.summary()), held)
        if end is None:
            raise ConflictError(
                f"{self.name}: snapshot {snapshot} has expired, or was not published with the ledger {held.name}; nothing "
                "was changed. Give a snapshot whose summary has tidegate.end, offsets, or a time"
            )
        return end

    def maintain(self, *, beyond: int = 0) -> Expired | None:
        """Expire old snapshots of the stream if the table has more than `beyond` snapshots; return what is left.

        First renews the proof that `main` contains the published snapshot. Returns None if there is no table yet.
        Raises Unavailable.
        """
        if not self.exists():
            return None
        self._history.keep_proof(self._operations())
        return self._expiry.run(self._load(), beyond)

    def compact(self) -> Compacted | None:
        """Compact a bounded number of small files, but never in a rolled-back table. Raises Unavailable."""
        if not self._rules.compacts or not self.exists():
            return None
        base = self._operations().refresh()
        published = published_snapshot(base)
        if published is None or contains(base, published) is not True:
            return None
        return self._compaction().run(self._load)

    def _compaction(self) -> Compaction:
        return Compaction(self._spark, self.name, self._quoted, self._rules)

    def remove_orphans(self) -> Orphans | None:
        """Delete the files of crashed attempts of earlier epochs. Raises Unavailable."""
        if not self._rules.removes_orphans or not self.exists():
            return None
        held, age = self.read(), self._rules.orphan_age_seconds
        return remove_orphans(self._spark, self.name, self._load, held.epoch, age) if held else None

    def _require_held(self, metadata: Any, held: Ledger | None) -> None:
        found = metadata.property(LEDGER_PROPERTY, None)
        if found != (held.text if held else None):
            raise Fenced(f"{self.name}: another instance of this stream holds the ledger now")

    def _align_branch(self) -> None:
        """Move the branch to the head of `main`; it is there already unless another writer has committed.

        Iceberg does not retry a change of branches after a conflict, so this does. Raises Unavailable.
        """
        for _ in range(STAGE_ATTEMPTS):
            try:
                return self._move_branch()
            except JAVA_ERRORS as error:
                if not java_class(error).endswith(".CommitFailedException"):
                    raise
        raise Unavailable(f"{self.name}: other commits kept moving the table meanwhile; try again")

    def _move_branch(self) -> None:
        base = self._operations().refresh()
        head, branch = base.currentSnapshot(), base.ref(BRANCH)
        if head is None:
            # The first snapshot on a missing branch creates the branch, and has no parent.
            if branch is not None:
                self._branches().removeBranch(BRANCH).commit()
        elif branch is None:
            self._branches().createBranch(BRANCH, head.snapshotId()).commit()
        elif branch.snapshotId() != head.snapshotId():
            self._branches().removeBranch(BRANCH).createBranch(BRANCH, head.snapshotId()).commit()

    def _branches(self) -> Any:
        return self._load().manageSnapshots()

    def _load(self) -> Any:
        return self._iceberg.spark.Spark3Util.loadIcebergTable(self._spark._jsparkSession, self._quoted)  # noqa: SLF001 - as above

    def _operations(self) -> Any:
        return self._load().operations()


def _staged_on_head(metadata: Any, mark: str) -> Any | None:
    """Return the snapshot of a mark if the branch holds it and its parent is the head of `main`."""
    branch, head = metadata.ref(BRANCH), metadata.currentSnapshot()
    staged = metadata.snapshot(branch.snapshotId()) if branch is not None else None
    if staged is None or staged.summary().get(STAGED) != mark:
        return None
    is_on_top = staged.parentId() == (head.snapshotId() if head is not None else None)
    return staged if is_on_top else None


def _with_outcome(new: Ledger, held: Ledger, summary: dict[str, str]) -> Ledger:
    """Return `new` with totals corrected by the counts of the MERGE, which are in its snapshot's summary.

    The totals of `new` count all staged records as written.
    """
    if _TOMBSTONES not in summary:  # nothing was staged
        return new
    staged = new.totals.written - held.totals.written
    growth = int(summary[f"{_MERGED}-inserted"]) - int(summary[f"{_MERGED}-deleted"])
    totals = new.totals.merged(staged, int(summary[_TOMBSTONES]), growth)
    return new.model_copy(update={"totals": totals})


def _arranges(table: Any) -> bool:
    """Return whether the table is partitioned or sorted."""
    return not (table.spec().isUnpartitioned() and table.sortOrder().isUnsorted())


def _definition(field: StructField) -> str:
    return f"`{field.name}` {field.dataType.simpleString()}"
