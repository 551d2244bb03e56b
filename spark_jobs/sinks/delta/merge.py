"""Merging into a Delta table: the MERGE and the ledger are one commit, and only one successor of a ledger can commit.

Delta's MERGE cannot write a metadata domain. But it takes a transaction version of an application: here `epoch + n`,
with the ledger's name as application id. Delta skips a MERGE whose version exists already, and refuses a MERGE that
conflicts with a commit of the same application. Claims and batches each add one, so any two successors of a ledger have
the same version. The ledger itself is the commit's `userMetadata`; the counts of staged records are in its metrics.
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
from tidegate.spark_jobs.sinks.evolution import BEGIN_AGAIN
from tidegate.spark_jobs.sinks.merging import Merging, count_tombstones
from tidegate.spark_jobs.worker.part_writer import DELETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGER_DOMAIN: Final = "tidegate.ledger"
_COMMITS_LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True)
class DeltaMerge:
    """The merge of the rows of files into the table at a location."""

    spark: SparkSession
    location: str
    merging: Merging

    def expected_ledger(self, files: Sequence[str], held: Ledger, new: Ledger) -> Ledger:
        """Return the ledger for the commit; the number of rows that the merge will add is not known yet.

        `new` counts all staged records as written.
        """
        staged = new.totals.written - held.totals.written
        totals = new.totals.merged(staged, count_tombstones(files, {}), 0)
        return new.model_copy(update={"totals": totals})

    def commit(self, files: Sequence[str], ledger: Ledger) -> None:
        """Merge, unless a successor of the same ledger has been committed; then Delta skips the MERGE."""
        session = ledger_session(self.spark, ledger)
        table = f"delta.`{self.location}`"
        wanted = session.table(table).schema.add(DELETED, BooleanType())
        self.merging.newest(session.read.schema(wanted).parquet(*files)).createOrReplaceTempView("staged")
        session.sql(self.merging.statement(table, "staged"))


def ledger_session(spark: SparkSession, ledger: Ledger) -> SparkSession:
    """Return a session whose next MERGE or DELETE commits a ledger: these take the metadata from the session."""
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.write.txnAppId", ledger.name)
    session.conf.set("spark.databricks.delta.write.txnVersion", str(ledger.epoch + ledger.n))
    session.conf.set("spark.databricks.delta.commitInfo.userMetadata", ledger.text)
    return session


def read_ledger(location: str, snapshot: Any, jvm: Any) -> Ledger | None:
    """Return the ledger of a snapshot, from the newest commits or else from its state; None if there is none.

    Building the state takes Spark jobs, and the ledger is in the newest commit unless another writer has committed
    since. Raises StreamStopped if the commit with the ledger was cleaned up; this needs a crash, and then weeks.
    """
    newest = snapshot.version()
    return _in_log(location, newest, newest - _COMMITS_LOOKED_AT) or _in_state(location, snapshot, jvm)


def _in_log(location: str, newest: int, before: int) -> Ledger | None:
    """Return the newest ledger of the commits in (before, newest]; None if none of those that are left has one."""
    io = load_file_io({}, location)
    for version in range(newest, max(-1, before), -1):
        try:
            with io.new_input(f"{location}/_delta_log/{version:020d}.json").open() as file:
                actions = [json.loads(line) for line in file.read().splitlines()]
        except FileNotFoundError:
            return None  # cleaned up: a checkpoint has the state
        if (found := ledger_in_commit(actions)) is not None:
            return found
    return None


def ledger_of_version(location: str, version: int) -> Ledger | None:
    """Return the ledger that a version of the log has written; None if it has none, or is no longer in the log."""
    try:
        with (
            load_file_io({}, location).new_input(f"{location}/_delta_log/{version:020d}.json").open() as file
        ):
            return ledger_in_commit([json.loads(line) for line in file.read().splitlines()])
    except FileNotFoundError:
        return None


def ledger_in_commit(actions: Sequence[dict[str, Any]]) -> Ledger | None:
    """Return the ledger of a commit, from the domain or the `userMetadata` of a MERGE or DELETE; None without one."""
    by_kind = {kind: action for each in actions for kind, action in each.items() if kind != "domainMetadata"}
    for each in actions:
        domain = each.get("domainMetadata")
        if domain is not None and domain["domain"] == LEDGER_DOMAIN:
            return Ledger.parse(domain["configuration"])
    info, version = by_kind.get("commitInfo", {}), by_kind.get("txn", {})
    text = info.get("userMetadata")
    operation = info.get("operation")
    if operation not in {"MERGE", "DELETE"} or text is None or not version:
        return None
    try:
        ledger = Ledger.parse(text)
    except StreamStopped:
        return None  # a MERGE of another writer
    if (version["appId"], version["version"]) != (ledger.name, ledger.epoch + ledger.n):
        return None
    if operation == "DELETE":  # by a rewind: the totals need no correction
        return ledger
    metrics = info["operationMetrics"]
    growth = int(metrics["numTargetRowsInserted"]) - int(metrics["numTargetRowsDeleted"])
    return ledger.model_copy(update={"totals": ledger.totals.merged(0, 0, growth)})


def _in_state(location: str, snapshot: Any, jvm: Any) -> Ledger | None:
    as_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
    domains = as_java(snapshot.domainMetadata())
    texts = (str(each.configuration()) for each in domains if each.domain() == LEDGER_DOMAIN)
    text = next(texts, None)
    if text is None:
        return None
    found = Ledger.parse(text)
    versions = {str(each.appId()): int(each.version()) for each in as_java(snapshot.setTransactions())}
    if versions.get(found.name, 0) == found.epoch + found.n:
        return found
    # A crash came between a MERGE and the commit that notes its ledger in the state, and other commits followed.
    if (moved := _in_log(location, snapshot.version(), -1)) is not None:
        return moved
    raise StreamStopped(
        f"{location}: the commit that moved the ledger last was cleaned up before it was noted in the table's state; "
        f"restore the table to a version with a ledger of its own, or {BEGIN_AGAIN}"
    )
