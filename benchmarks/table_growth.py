"""Measure whether commits to an Iceberg table stay as fast as they were while the table grows.

The table begins with a backlog of snapshots, as a stream without expiry leaves it behind in a day. Then the sink stages
and publishes real commits of one file each, while it maintains the table in the background. The ratios compare the last
tenth of the commits with the first tenth, both after the first expiry: the median of the time of a commit, and the processor
time of this process and of Java, maintenance included, which means something on a busy machine too.
"""

from __future__ import annotations

import gc
import json
import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.admissions_data import contract
from benchmarks.figures import Figure, benchmark_parser, report_figures
from benchmarks.spark_session import benchmark_session, benchmark_settings
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.sinks.iceberg.history import PUBLISHED_TAG, STAGED
from tidegate.spark_jobs.sinks.iceberg.table import BRANCH, MAIN, IcebergTable, table_name
from tidegate.spark_jobs.sinks.maintenance import MaintenanceRules, SnapshotRetention
from tidegate.spark_jobs.sinks.upkeep import Upkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.contracts.stream.report import TableSize
    from tidegate.spark_jobs.sinks.store import LedgerStore

SNAPSHOTS: Final = 130_000
COMMITS: Final = 2_000
KEPT: Final = 100
_COLLECTIONS: Final = 5
_MOST_LINKS: Final = 30_000
"""The number of hard links to one file; ext4 allows 65,000."""
_TWO_DAYS_MS: Final = 2 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Growth:
    """The results of a run. `heap_bytes` is the used heap of the JVM after garbage collections."""

    relief_seconds: float
    first_seconds: float
    last_seconds: float
    first_processor_seconds: float
    last_processor_seconds: float
    inflated_bytes: int
    heap_bytes: int
    size: TableSize


class GrowingTable:
    """A table with commits as the sink makes them."""

    def __init__(self, spark: SparkSession, kept: int) -> None:
        self._spark = spark
        plan = compile_plan(contract().model_copy(update={"id": "bench.growth"}))
        retention = SnapshotRetention(most=kept, protected_seconds=0)
        self.table = IcebergTable(
            spark, table_name(plan.contract.id), rules=MaintenanceRules(retention=retention)
        )
        self.table.ensure(plan)
        topic = plan.contract.topic
        first = Ledger(
            name="growth", stream=plan.contract.id, topic=topic, topic_id="", epoch=0, n=0,
            begin={0: 0}, end={0: 0}, scan_from={}, slots=1,
        )  # fmt: skip
        self._ledger = first.claim(1, "growth")
        assert self.table.publish(self.table.stage([], self._ledger), None, self._ledger)
        target = self.table.target(plan, f"{plan.contract.id}@1.0.0", "growth")
        self._file = Path(f"{target.location}.parquet".removeprefix("file:").replace("//", "/"))
        self._file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([{}], schema=target.schema), self._file)

    def commit(self) -> float:
        """Stage and publish a file of one row; return the seconds that it took."""
        file = self._file.with_name(f"{uuid4().hex}.parquet")
        shutil.copyfile(self._file, file)
        end = {0: self._ledger.end[0] + 1}
        new = self._ledger.model_copy(update={"n": self._ledger.n + 1, "end": end})
        elapsed, self._ledger = publish_batch(self.table, [f"file://{file}"], self._ledger, new)
        return elapsed

    def inflate(self, count: int) -> int:
        """Add `count` snapshots to the table in one commit; return the size of its metadata in bytes.

        Each is a copy of the head, with its own manifest list, summary, and entry in the snapshot log.
        """
        iceberg = self._spark._jvm.org.apache.iceberg  # type: ignore[union-attr] # noqa: SLF001 - no Python API
        operations = self.table._operations()  # noqa: SLF001 - a backlog has no API
        base = operations.refresh()
        metadata = json.loads(iceberg.TableMetadataParser.toJson(base))
        _append_snapshots(metadata, count)
        location = Path(base.metadataFileLocation().removeprefix("file:").replace("//", "/"))
        scratch = location.with_name("inflated.metadata.json")
        scratch.write_text(json.dumps(metadata))
        size = scratch.stat().st_size
        operations.commit(base, iceberg.TableMetadataParser.read(operations.io(), f"file://{scratch}"))
        scratch.unlink()
        return size

    def heap_bytes(self) -> int:
        """Return the used heap of the JVM, the least of several garbage collections."""
        memory = self._spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()  # type: ignore[union-attr] # noqa: SLF001 - the same
        found: list[int] = []
        for _ in range(_COLLECTIONS):
            gc.collect()  # Python proxies keep JVM objects alive
            memory.gc()  # and Spark removes broadcasts after a collection has found them
            found.append(int(memory.getHeapMemoryUsage().getUsed()))
        return min(found)

    def assert_complete(self, rows: int) -> None:
        """Assert that expiry has not removed rows."""
        assert self._spark.table(self.table.name).count() == rows


def publish_batch(table: LedgerStore, files: list[str], held: Ledger, new: Ledger) -> tuple[float, Ledger]:
    """Publish a batch; return its seconds and the published ledger."""
    begun = time.perf_counter()
    while (published := table.publish(table.stage(files, new), held, new)) is None:
        pass  # a compaction has changed the table; the sink also stages again
    return time.perf_counter() - begun, published


def _append_snapshots(metadata: dict[str, Any], count: int) -> None:
    """Append snapshots to a table's metadata; all are two days old, ten per millisecond."""
    for each in (*metadata["snapshots"], *metadata["snapshot-log"]):
        each["timestamp-ms"] -= _TWO_DAYS_MS
    (head,) = [
        each for each in metadata["snapshots"] if each["snapshot-id"] == metadata["current-snapshot-id"]
    ]
    original = Path(head["manifest-list"].removeprefix("file:").replace("//", "/"))
    parent, sequence = head["snapshot-id"], metadata["last-sequence-number"]
    for index in range(count):
        number = 10**15 + index
        manifests = original.with_name(f"snap-{number}.avro")
        if index % _MOST_LINKS:
            manifests.hardlink_to(original)
        else:
            original = Path(shutil.copyfile(original, manifests))
        moment = head["timestamp-ms"] + index // 10
        sequence += 1
        metadata["snapshots"].append(
            {
                **head,
                "snapshot-id": number,
                "parent-snapshot-id": parent,
                "sequence-number": sequence,
                "timestamp-ms": moment,
                "summary": {**head["summary"], STAGED: uuid4().hex},
                "manifest-list": f"file://{manifests}",
            }
        )
        metadata["snapshot-log"].append({"snapshot-id": number, "timestamp-ms": moment})
        parent = number
    metadata |= {"current-snapshot-id": parent, "last-sequence-number": sequence}
    for name in (MAIN, BRANCH, PUBLISHED_TAG):
        metadata["refs"][name]["snapshot-id"] = parent


def measure(spark: SparkSession, snapshots: int, commits: int, kept: int = KEPT) -> Growth:
    """Inflate a table, expire the backlog, and commit beside maintenance; return the results."""
    growing = GrowingTable(spark, kept)
    inflated = growing.inflate(snapshots)
    upkeep = Upkeep(growing.table, seconds=1.0)
    begun = time.perf_counter()
    assert growing.table.maintain() is not None
    relief = time.perf_counter() - begun
    for _ in range(3):  # the first commits of a process load classes
        growing.commit()
    upkeep.start()
    tenth = max(1, commits // 10)
    first, first_processor = _commit(growing, tenth)
    _commit(growing, commits - 2 * tenth)
    last, last_processor = _commit(growing, tenth)
    upkeep.close()
    left = growing.table.maintain()
    assert left is not None
    growing.assert_complete(commits + 3)
    return Growth(
        relief, first, last, first_processor, last_processor, inflated, growing.heap_bytes(), left.size
    )


def _commit(growing: GrowingTable, count: int) -> tuple[float, float]:
    """Commit `count` times; return the median seconds and the mean CPU seconds of a commit."""
    before = _processor_seconds()
    taken = [growing.commit() for _ in range(count)]
    return statistics.median(taken), (_processor_seconds() - before) / count


def _processor_seconds() -> float:
    """Return the CPU seconds of this process and its children, including Java."""
    process = psutil.Process()
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def main() -> None:
    """Measure, and write the figures."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--snapshots", type=int)
    parser.add_argument("--commits", type=int)
    arguments = parser.parse_args()
    snapshots = arguments.snapshots or (300 if arguments.smoke else SNAPSHOTS)
    commits = arguments.commits or (20 if arguments.smoke else COMMITS)
    settings = benchmark_settings(spark_driver_memory="2g")  # the job's default: the backlog must fit into it
    spark = benchmark_session(settings)
    try:
        found = measure(spark, snapshots, commits)
    finally:
        spark.stop()
        shutil.rmtree(settings.warehouse.parent, ignore_errors=True)
    size, million = found.size, 1_000_000
    assert size.metadata_bytes is not None
    report_figures(
        [
            Figure.of(
                "commit_after_backlog_last_over_first",
                found.last_seconds * 1000,
                "ms",
                found.first_seconds * 1000,
            ),
            Figure.of(
                "commit_after_backlog_last_over_first_processor",
                found.last_processor_seconds * 1000,
                "ms",
                found.first_processor_seconds * 1000,
            ),
            Figure.of("snapshots_after_expiry", size.snapshots, "snapshots", snapshots),
            Figure.of(
                "metadata_after_expiry", size.metadata_bytes / million, "MB", found.inflated_bytes / million
            ),
            Figure.of("heap_after_expiry", found.heap_bytes / million, "MB", 2048.0),
            Figure.of("expiry_of_backlog", found.relief_seconds, "s", 60.0),
        ],
        arguments.out,
    )


if __name__ == "__main__":
    main()
