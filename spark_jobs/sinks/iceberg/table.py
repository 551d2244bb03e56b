"""An Iceberg table whose metadata holds a ledger: data and ledger move in one commit, or not at all.

Rows are staged on a branch, where no reader looks. `publish` then makes one metadata commit that moves `main` to the
staged snapshot and replaces the property `tidegate.ledger`; Iceberg lets it through only if the metadata is still the
one that was compared. Rows that are merged are staged likewise: MERGE writes to the branch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import structlog
from pyspark.sql.types import BooleanType, StructField, StructType

from tidegate.contracts.columns.table_limits import NO_LIMITS, TableLimits
from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.positions import Sightings
from tidegate.contracts.stream.report import TableSize
from tidegate.spark_jobs.session import CATALOG
from tidegate.spark_jobs.settings import MergeMode
from tidegate.spark_jobs.sinks.evolution import cannot_follow, is_wider
from tidegate.spark_jobs.sinks.iceberg.expiry import DEFAULT_RETENTION, SnapshotExpiry, SnapshotRetention
from tidegate.spark_jobs.sinks.iceberg.history import (
    FOREVER_MS,
    PUBLISHED_TAG,
    STAGED,
    TableHistory,
    position_summary,
)
from tidegate.spark_jobs.sinks.java_errors import JAVA_ERRORS, first_line, java_class
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
from tidegate.spark_jobs.sinks.sightings import rows_of, sightings
from tidegate.spark_jobs.worker.judge import column_types
from tidegate.spark_jobs.worker.part_writer import DELETED, FileTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()

LEDGER_PROPERTY = "tidegate.ledger"
BRANCH = "tidegate"
MAIN = "main"
_TOMBSTONES = "tidegate.tombstones"
"""The same, of merged snapshots: how many of the staged records were tombstones."""
_SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property"
_MERGED = "spark.merge-into.num-target-rows"
_COMMIT_ATTEMPTS = 10

_TABLE_PROPERTIES = {
    "format-version": "2",
    # Rows arrive by source partition; shuffling them costs more than it helps.
    "write.distribution-mode": "none",
    # Two metadata files are written for each batch: keep those that help to look back, not all for ever.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


def table_name(contract_id: str) -> str:
    """Full name of a contract's table: the last part of the id names it, those before name its namespace."""
    *namespace, table = contract_id.split(".")
    return f"{CATALOG}.{'_'.join(namespace) or 'tidegate'}.{table}"


class IcebergTable:
    """One table of the catalog `lake`: its definition through Spark, its commits through Iceberg's own classes."""

    kind = "iceberg"

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        merge_mode: MergeMode | None = None,
        retention: SnapshotRetention = DEFAULT_RETENTION,
    ) -> None:
        """Open a table; with a merge mode its rows are merged on the contract's primary key, else appended."""
        self.name = name
        self._merge_mode = merge_mode
        self._merging: Merging | None = None
        self._spark = spark
        self._merge_session: SparkSession | None = None
        self._quoted = ".".join(f"`{part}`" for part in name.split("."))
        jvm = spark._jvm  # noqa: SLF001 - Iceberg's commits have no Python face
        assert jvm is not None  # noqa: S101 - narrows for the type checker
        self._iceberg = jvm.org.apache.iceberg
        self._history = TableHistory(spark, name, self._quoted)
        self._expiry = SnapshotExpiry(spark, name, self._quoted, retention)

    def ensure(self, plan: EnforcementPlan) -> None:
        """Create the table, or give it the contract's columns. What the contract no longer has stays, and is null.

        Raises StreamStopped when the existing table is not ours, has a column of a type that cannot become the contract's,
        or rows that are not told apart as the contract says.
        """
        require_mode(plan, is_upsert=self._merge_mode is not None)
        wanted = StructType([*column_types(plan).fields, *PROVENANCE.fields])
        namespace = self._quoted.rpartition(".")[0]
        if not self._spark.catalog.tableExists(self._quoted):
            properties = ", ".join(f"'{key}' = '{value}'" for key, value in _TABLE_PROPERTIES.items())
            fields = ", ".join(_definition(field) for field in wanted)
            self._ensure_namespace(namespace)
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._quoted} ({fields}) USING iceberg TBLPROPERTIES ({properties})"
            )
        existing = {field.name: field for field in self._spark.table(self._quoted).schema}
        if "_source" not in existing:
            raise StreamStopped(
                f"{self.name} exists and is not a table of this stream (it has no column _source)"
            )
        for field in wanted:
            found = existing.get(field.name)
            if found is None:
                self._spark.sql(f"ALTER TABLE {self._quoted} ADD COLUMN {_definition(field)}")
            else:
                self._widen(field.name, found.dataType.simpleString(), field.dataType.simpleString())
        self._follow_key(plan.contract.primary_key)
        if self._merge_mode is not None:
            self._merging = Merging(plan.contract.primary_key, tuple(field.name for field in wanted))

    def _widen(self, column: str, found: str, wanted: str) -> None:
        if found == wanted:
            return
        if not is_wider(wanted, found):
            raise cannot_follow(self.name, column, found, wanted)
        self._spark.sql(f"ALTER TABLE {self._quoted} ALTER COLUMN `{column}` TYPE {wanted}")

    def _follow_key(self, key: tuple[str, ...]) -> None:
        """Require that the table's rows are told apart as they will be written, and note it where they are new."""
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
            # Spark looks before it creates; of two streams that start at once, the catalog fails the later one.
            if not self._spark.catalog.databaseExists(namespace):
                raise

    @property
    def uuid(self) -> str:
        """Identity of the table: another one after it was dropped and recreated."""
        return str(self._operations().refresh().uuid())

    def read(self) -> Ledger | None:
        """Read the ledger as it is now; None when no one has claimed the table yet."""
        text = self._operations().refresh().property(LEDGER_PROPERTY, None)
        return Ledger.parse(text) if text is not None else None

    def has_rows_of(self, topic: str) -> bool:
        """Return whether the table holds a row that came from this topic; Spark stops at the first."""
        if not self._spark.catalog.tableExists(self._quoted):
            return False
        return not rows_of(self._spark.table(self._quoted), topic).isEmpty()

    def positions_of(self, topic: str) -> Sightings:
        """Return the source positions of the rows that came from this topic."""
        return sightings(rows_of(self._spark.table(self._quoted), topic))

    def last_epoch(self, ledger: str) -> int:  # noqa: ARG002 - the ledger is compared as a whole here
        """Return 0: properties have no history."""
        return 0

    def target(self, plan: EnforcementPlan, contract: str, name: str) -> FileTarget:
        """Return where and how the accepted rows of a batch are written; the files' names begin with `name`."""
        table = self._load()
        ids = _field_ids(json.loads(self._iceberg.SchemaParser.toJson(table.schema())))
        fields = [*plan.columns, pa.field("_source", SOURCE), pa.field("_contract", pa.string())]
        of_table = [_with_ids(field, ids[field.name], ids) for field in fields]
        return FileTarget(
            location=str(table.locationProvider().newDataLocation(f"{name}-{uuid4().hex[:8]}")),
            schema=pa.schema(of_table if self._merge_mode is None else [*of_table, (DELETED, pa.bool_())]),
            topic=plan.contract.topic,
            contract=contract,
            compression=str(table.properties().getOrDefault("write.parquet.compression-codec", "zstd")),
            properties={str(key): str(value) for key, value in dict(table.io().properties()).items()},
        )

    def limits(self, plan: EnforcementPlan) -> TableLimits:
        """Return what the table asks of its rows."""
        return NO_LIMITS if self._merge_mode is None else merge_limits(plan)

    def stage(self, files: Sequence[str], at: Ledger | None = None) -> str:
        """Append or merge data files to the branch, on top of what `main` holds now; return the mark of the staged snapshot.

        The snapshot's summary says where the ledger `at` stands, as far as that is known before it is published. Without files an empty snapshot is staged, so that every commit moves `main`: a REST catalog asserts only that,
        and a change of properties alone would be no compare-and-set there.
        """
        self._align_branch()
        mark = uuid4().hex
        summary = {STAGED: mark, **(position_summary(at) if at is not None else {})}
        table = self._load()
        if files and self._merging is not None:
            self._stage_merged(self._merging, files, summary)
            return mark
        if files and _arranges(table):
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
        """Delete published files whose rows the table has in others, merged or arranged again."""
        if files and (self._merging is not None or _arranges(self._load())):
            self.delete_files(files)

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete data files that no snapshot names; one that stays behind does no harm."""
        io = self._load().io()
        for name in files:
            try:
                io.deleteFile(name)
            except JAVA_ERRORS as error:
                log.warning("data_file_left", file=name, error=first_line(error))

    def _described(self, table: Any, name: str) -> Any:
        """Describe a data file as the table's metadata wants it, with the bounds of its columns."""
        file = table.io().newInputFile(name)
        metrics = self._iceberg.parquet.ParquetUtil.fileMetrics(
            file, self._iceberg.MetricsConfig.forTable(table)
        )
        builder = self._iceberg.DataFiles.builder(table.spec()).withInputFile(file)
        return builder.withFormat("PARQUET").withMetrics(metrics).build()

    def _stage_arranged(self, files: Sequence[str], summary: dict[str, str]) -> None:
        """Append the rows of the files as a partitioned or sorted table wants them: Spark arranges them again."""
        wanted = self._spark.table(self._quoted).schema
        rows = self._spark.read.schema(wanted).parquet(*files)
        to = rows.writeTo(f"{self._quoted}.branch_{BRANCH}")
        to.options(**{f"snapshot-property.{key}": value for key, value in summary.items()}).append()

    def _stage_merged(self, merging: Merging, files: Sequence[str], summary: dict[str, str]) -> None:
        """Merge the rows of the files on the branch, in one snapshot."""
        # A session of its own: MERGE has no options, and takes the properties of its snapshot from the session.
        session = self._merge_session = self._merge_session or self._spark.newSession()
        wanted = session.table(self._quoted).schema.add(DELETED, BooleanType())
        merging.newest(session.read.schema(wanted).parquet(*files)).createOrReplaceTempView("staged")
        properties = {str(key): str(value) for key, value in dict(self._load().io().properties()).items()}
        told = {**summary, _TOMBSTONES: str(count_tombstones(files, properties))}
        for key, value in told.items():
            session.conf.set(f"{_SNAPSHOT_PROPERTY}.{key}", value)
        session.sql(merging.statement(f"{self._quoted}.`branch_{BRANCH}`", "staged"))

    def publish(
        self, mark: str, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False
    ) -> Ledger | None:
        """Move `main` to the staged snapshot and the ledger to `new` if, and only if, the ledger is still `held`.

        None when `main` has moved since it was staged (compaction, somebody's append), or when the branch no longer
        holds the snapshot of that mark (a fenced instance staged there last): stage again. Of merged rows the ledger's
        totals say what became of each.
        Raises Fenced when the ledger is no longer `held`, Unavailable when the commit failed and nothing moved,
        StreamStopped when `main` does not contain what `held` was published with, unless the ledger `is_rebuilt`.
        """
        operations = self._operations()
        for _ in range(_COMMIT_ATTEMPTS):
            base = operations.refresh()
            self._require_held(base, held)
            if held is not None and not is_rebuilt:
                self._history.require_published(base, held)
            staged = _staged_on_head(base, mark)
            if staged is None:
                return None
            landed = new
            if self._merging is not None and held is not None:
                landed = _with_outcome(new, held, dict(staged.summary()))
            if self._commit(operations, base, staged, held, landed):
                return landed
        raise Unavailable(f"{self.name}: other commits kept changing the table's metadata during the commit")

    def _commit(self, operations: Any, base: Any, staged: Any, held: Ledger | None, landed: Ledger) -> bool:
        """Move `main`, the tag and the ledger in one commit; False when another commit has changed the metadata first.

        Most often that is an expiry, which moves nothing: then the staged snapshot is still good.
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
            # The outcome may be unknown; the ledger says what it was.
            base = operations.refresh()
            if base.property(LEDGER_PROPERTY, None) == landed.text:
                return True
            self._require_held(base, held)
            if java_class(error).endswith(".CommitFailedException"):
                return False
            raise Unavailable(f"{self.name}: the commit failed: {first_line(error)}") from error
        return True

    def maintain(self, *, beyond: int = 0) -> TableSize | None:
        """Expire the stream's old snapshots of a table that has more than `beyond`; return its size.

        Keeps the proof that `main` contains what was published. None when there is no table yet. Raises Unavailable.
        """
        if not self._spark.catalog.tableExists(self._quoted):
            return None
        self._history.keep_proof(self._operations())
        return self._expiry.run(self._load(), beyond)

    def _require_held(self, metadata: Any, held: Ledger | None) -> None:
        found = metadata.property(LEDGER_PROPERTY, None)
        if found != (held.text if held else None):
            raise Fenced(f"{self.name}: another instance of this stream holds the ledger now")

    def _align_branch(self) -> None:
        """Let the branch begin where `main` is; it already does unless somebody else has written."""
        base = self._operations().refresh()
        head, branch = base.currentSnapshot(), base.ref(BRANCH)
        if head is None:
            # The first snapshot on a branch that is not there makes it, without a parent.
            if branch is not None:
                self._load().manageSnapshots().removeBranch(BRANCH).commit()
        elif branch is None:
            self._load().manageSnapshots().createBranch(BRANCH, head.snapshotId()).commit()
        elif branch.snapshotId() != head.snapshotId():
            self._load().manageSnapshots().removeBranch(BRANCH).createBranch(
                BRANCH, head.snapshotId()
            ).commit()

    def _load(self) -> Any:
        return self._iceberg.spark.Spark3Util.loadIcebergTable(self._spark._jsparkSession, self._quoted)  # noqa: SLF001 - as above

    def _operations(self) -> Any:
        return self._load().operations()


def _staged_on_head(metadata: Any, mark: str) -> Any | None:
    """Return the snapshot of a mark if the branch holds it and it stands on the head of `main`."""
    branch, head = metadata.ref(BRANCH), metadata.currentSnapshot()
    staged = metadata.snapshot(branch.snapshotId()) if branch is not None else None
    if staged is None or staged.summary().get(STAGED) != mark:
        return None
    is_on_top = staged.parentId() == (head.snapshotId() if head is not None else None)
    return staged if is_on_top else None


def _with_outcome(new: Ledger, held: Ledger, summary: dict[str, str]) -> Ledger:
    """Put what a MERGE has counted in its snapshot's summary into the totals, which count all records as written."""
    if _TOMBSTONES not in summary:  # nothing was staged
        return new
    staged = new.totals.written - held.totals.written
    growth = int(summary[f"{_MERGED}-inserted"]) - int(summary[f"{_MERGED}-deleted"])
    totals = new.totals.merged(staged, int(summary[_TOMBSTONES]), growth)
    return new.model_copy(update={"totals": totals})


def _arranges(table: Any) -> bool:
    """Return whether the table wants its rows by partition or in an order."""
    return not (table.spec().isUnpartitioned() and table.sortOrder().isUnsorted())


def _field_ids(node: dict[str, Any], prefix: str = "") -> dict[str, int]:
    """Return the id of each field of a struct of the table's schema, by its dotted name."""
    ids: dict[str, int] = {}
    for field in node["fields"]:
        name = prefix + field["name"]
        ids[name] = field["id"]
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            ids |= _field_ids(field["type"], f"{name}.")
    return ids


def _with_ids(field: pa.Field, identity: int, ids: dict[str, int], prefix: str = "") -> pa.Field:
    """Mark a field of a data file with its id in the table: readers know columns by nothing else."""
    name = prefix + field.name
    if pa.types.is_struct(field.type):
        members = [_with_ids(member, ids[f"{name}.{member.name}"], ids, f"{name}.") for member in field.type]
        field = pa.field(field.name, pa.struct(members))
    return field.with_nullable(True).with_metadata({"PARQUET:field_id": str(identity)})


def _definition(field: StructField) -> str:
    return f"`{field.name}` {field.dataType.simpleString()}"
