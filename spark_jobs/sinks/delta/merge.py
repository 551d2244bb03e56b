"""Merge into a Delta table: the MERGE and the ledger are one commit, and only one successor of a ledger lands.

Delta's own MERGE cannot carry a domain. It carries a version for an application, which is `epoch + n` for the ledger's
name here: Delta leaves a MERGE out whose version is there already, and refuses one that is overtaken by a commit of the
same application. Claims and batches count up by one each, so that any two successors of one ledger have the same version.
The ledger itself is the commit's `userMetadata`, and what became of the staged records is in the commit's metrics.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io import load_file_io
from pyspark.sql.types import BooleanType

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.sinks.merging import Merging, count_tombstones
from tidegate.spark_jobs.worker.part_writer import DELETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGER_DOMAIN: Final = "tidegate.ledger"
_COMMITS_LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True)
class DeltaMerge:
    """Merges the rows of files into the table at a location."""

    spark: SparkSession
    location: str
    merging: Merging

    def told(self, files: Sequence[str], held: Ledger, new: Ledger) -> Ledger:
        """Return the ledger as the commit tells it, before anybody knows how many rows the merge will add.

        Takes `new` with all staged records counted as written.
        """
        staged = new.totals.written - held.totals.written
        totals = new.totals.merged(staged, count_tombstones(files, {}), 0)
        return new.model_copy(update={"totals": totals})

    def commit(self, files: Sequence[str], told: Ledger) -> None:
        """Merge, unless a successor of the same ledger has landed: then nothing happens."""
        # A session of its own: MERGE has no options, and takes what its commit says from the session.
        session = self.spark.newSession()
        session.conf.set("spark.databricks.delta.write.txnAppId", told.name)
        session.conf.set("spark.databricks.delta.write.txnVersion", str(told.epoch + told.n))
        session.conf.set("spark.databricks.delta.commitInfo.userMetadata", told.text)
        table = f"delta.`{self.location}`"
        wanted = session.table(table).schema.add(DELETED, BooleanType())
        self.merging.newest(session.read.schema(wanted).parquet(*files)).createOrReplaceTempView("staged")
        session.sql(self.merging.statement(table, "staged"))


def read_ledger(location: str, snapshot: Any, jvm: Any) -> Ledger | None:
    """Find the ledger as of a snapshot: in the newest commits, or else in its state; None when there is none.

    To build the state takes Spark jobs, and the ledger is in the newest commit unless somebody else has written. Raises
    StreamStopped when the commit that has it was cleaned up, which takes a crash and then weeks.
    """
    io = load_file_io({}, location)
    newest = snapshot.version()
    for version in range(newest, max(-1, newest - _COMMITS_LOOKED_AT), -1):
        try:
            with io.new_input(f"{location}/_delta_log/{version:020d}.json").open() as file:
                actions = [json.loads(line) for line in file.read().splitlines()]
        except FileNotFoundError:
            break  # cleaned up: a checkpoint has it
        if (found := ledger_in_commit(actions)) is not None:
            return found
        if version == 0:
            return None
    return _in_state(location, snapshot, jvm)


def ledger_in_commit(actions: Sequence[dict[str, Any]]) -> Ledger | None:
    """Return the ledger that a commit of the log has moved, in the domain or as the data of a merge."""
    by_kind = {kind: action for each in actions for kind, action in each.items() if kind != "domainMetadata"}
    for each in actions:
        domain = each.get("domainMetadata")
        if domain is not None and domain["domain"] == LEDGER_DOMAIN:
            return Ledger.parse(domain["configuration"])
    info, version = by_kind.get("commitInfo", {}), by_kind.get("txn", {})
    text = info.get("userMetadata")
    if info.get("operation") != "MERGE" or text is None or not version:
        return None
    try:
        told = Ledger.parse(text)
    except StreamStopped:
        return None  # a stranger's MERGE
    if (version["appId"], version["version"]) != (told.name, told.epoch + told.n):
        return None
    metrics = info["operationMetrics"]
    growth = int(metrics["numTargetRowsInserted"]) - int(metrics["numTargetRowsDeleted"])
    return told.model_copy(update={"totals": told.totals.merged(0, 0, growth)})


def _in_state(location: str, snapshot: Any, jvm: Any) -> Ledger | None:
    as_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
    domains = as_java(snapshot.domainMetadata())
    texts = (str(each.configuration()) for each in domains if each.domain() == LEDGER_DOMAIN)
    text = next(texts, None)
    if text is None:
        return None
    found = Ledger.parse(text)
    versions = {str(each.appId()): int(each.version()) for each in as_java(snapshot.setTransactions())}
    if versions.get(found.name, 0) != found.epoch + found.n:
        raise StreamStopped(
            f"{location}: the commit that moved the ledger last was cleaned up before it was noted in the table's state; "
            "restore the table to a version with a ledger of its own, or give the contract another id"
        )
    return found
