"""An Iceberg table whose metadata holds a ledger: data and ledger move in one commit, or not at all.

Rows are staged on a branch, where no reader looks. `publish` then makes one metadata commit that moves `main` to the
staged snapshot and replaces the property `tidegate.ledger`; Iceberg lets it through only if the metadata is still the
one that was compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from contracts.errors import Fenced, StreamStopped, Unavailable
from contracts.ledger import Ledger
from spark_jobs.session import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEDGER_PROPERTY = "tidegate.ledger"
BRANCH = "tidegate"
MAIN = "main"
_MARK = "tidegate.staged"
"""Key in a snapshot's summary: instances share the branch, so each must know what it staged itself."""

PROVENANCE = StructType(
    [
        StructField(
            "_source",
            StructType(
                [
                    StructField("topic", StringType()),
                    StructField("partition", IntegerType()),
                    StructField("offset", LongType()),
                    StructField("timestamp", TimestampType()),
                ]
            ),
        ),
        StructField("_contract", StringType()),
    ]
)
"""What every row carries after its typed columns: where it came from, and which contract version let it in."""

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


class LedgerTable:
    """One table of the catalog `lake`, through Spark for rows and through Iceberg's own classes for commits."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._spark = spark
        self._quoted = ".".join(f"`{part}`" for part in name.split("."))
        jvm = spark._jvm  # noqa: SLF001 - Iceberg's commits have no Python face
        assert jvm is not None  # noqa: S101 - narrows for the type checker
        self._iceberg = jvm.org.apache.iceberg

    def ensure(self, columns: StructType) -> tuple[StructField, ...]:
        """Create the table, or add the columns that it lacks; gives the columns that the contract no longer has.

        Raises StreamStopped when the existing table is not ours, or has a column of another type.
        """
        wanted = StructType([*columns.fields, *PROVENANCE.fields])
        namespace = self._quoted.rpartition(".")[0]
        if not self._spark.catalog.tableExists(self._quoted):
            properties = ", ".join(f"'{key}' = '{value}'" for key, value in _TABLE_PROPERTIES.items())
            fields = ", ".join(_definition(field) for field in wanted)
            self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
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
            elif found.dataType.simpleString() != field.dataType.simpleString():
                raise StreamStopped(
                    f"{self.name}: column {field.name} is {found.dataType.simpleString()}, the contract says "
                    f"{field.dataType.simpleString()}; give the column another name in the contract, or alter the table"
                )
        return tuple(field for name, field in existing.items() if name not in wanted.names)

    @property
    def uuid(self) -> str:
        """Identity of the table: another one after it was dropped and made anew."""
        return str(self._operations().refresh().uuid())

    def read(self) -> Ledger | None:
        """Read the ledger as it is now; None when nobody has claimed the table yet."""
        text = self._operations().refresh().property(LEDGER_PROPERTY, None)
        return Ledger.parse(text) if text is not None else None

    def stage(self, rows: DataFrame | None) -> str:
        """Append rows to the branch, on top of what `main` holds now; gives the mark of the staged snapshot.

        Without rows an empty snapshot is staged, so that every commit moves `main`: a REST catalog asserts only that,
        and a change of properties alone would be no compare-and-set there.
        """
        self._align_branch()
        mark = uuid4().hex
        if rows is None:
            self._load().newFastAppend().toBranch(BRANCH).set(_MARK, mark).commit()
        else:
            to = rows.writeTo(f"{self._quoted}.branch_{BRANCH}")
            to.option(f"snapshot-property.{_MARK}", mark).append()
        return mark

    def publish(self, mark: str, held: Ledger | None, new: Ledger) -> bool:
        """Move `main` to the staged snapshot and the ledger to `new` if, and only if, the ledger is still `held`.

        False when `main` has moved since it was staged (compaction, somebody's append), or when the branch no longer
        holds the snapshot of that mark (a fenced instance staged there last): stage again.
        Raises Fenced when the ledger is no longer `held`, Unavailable when the commit failed and nothing moved.
        """
        operations = self._operations()
        base = operations.refresh()
        self._require_held(base, held)
        staged = base.snapshot(base.ref(BRANCH).snapshotId())
        head = base.currentSnapshot()
        is_on_top = staged.parentId() == (head.snapshotId() if head is not None else None)
        if not is_on_top or staged.summary().get(_MARK) != mark:
            return False
        changed = (
            self._iceberg.TableMetadata.buildFrom(base)
            .setBranchSnapshot(staged.snapshotId(), MAIN)
            .setProperties({LEDGER_PROPERTY: new.text})
            .build()
        )
        try:
            operations.commit(base, changed)
        except Py4JError as error:
            # The outcome may be unknown; the ledger says what it was.
            base = operations.refresh()
            if base.property(LEDGER_PROPERTY, None) == new.text:
                return True
            self._require_held(base, held)
            raise Unavailable(f"{self.name}: the commit failed: {_first_line(error)}") from error
        return True

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


def _definition(field: StructField) -> str:
    return f"`{field.name}` {field.dataType.simpleString()}"


def _first_line(error: Py4JError) -> str:
    return str(getattr(error, "java_exception", error)).partition("\n")[0]
