"""Measure whether commits after a long history take as long as those of the first hour, for each sink with a table.

A table is committed to for an hour's worth of batches, one file each, while the sink maintains it in the background. Then a
history of 130,000 batches is simulated, about a week of one batch every five seconds, and as many commits are timed
again. The ratio compares the medians: 1.5 is the limit. The Kafka sink has no table, and its ledger is one record.
All simulated batches of Iceberg and Delta name one data file, so a table of many files is not measured: compaction leaves few.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import sql
from pydantic import SecretStr

from benchmarks.admissions_data import contract
from benchmarks.figures import Figure, benchmark_parser, report_figures
from benchmarks.spark_session import benchmark_session, benchmark_settings
from benchmarks.table_growth import GrowingTable, publish_batch
from tests.postgresql import Postgresql, for_psycopg
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.stream.ledger import BatchTotals, Ledger
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.delta.table import DeltaTable, table_location
from tidegate.spark_jobs.sinks.postgresql.rows import Staged
from tidegate.spark_jobs.sinks.postgresql.table import PostgresqlTable
from tidegate.spark_jobs.sinks.upkeep import Upkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark_jobs.sinks.store import LedgerStore

HISTORY: Final = 130_000
COMMITS: Final = 720
_KEPT: Final = 500
_MOST_LINKS: Final = 30_000
"""The number of hard links to one file; ext4 allows 65,000."""


class History(Protocol):
    """A table of one sink, with commits as the sink makes them."""

    @property
    def table(self) -> LedgerStore:
        """Return the table object of the sink."""
        ...

    def commit(self) -> float:
        """Stage and publish one row; return the seconds that it took."""
        ...

    def inflate(self, count: int) -> int:
        """Add a history of `count` batches; return its size in bytes."""
        ...


class DeltaHistory:
    """A Delta table; a batch of its history is a version of the log, with a file."""

    def __init__(self, spark: SparkSession, warehouse: Path) -> None:
        plan = compile_plan(contract().model_copy(update={"id": "bench.history"}))
        location = table_location(warehouse, plan.contract.id)
        self.table = DeltaTable(spark, location)
        self.table.ensure(plan)
        self._folder = Path(location.removeprefix("file://"))
        self._ledger = _claimed(self.table, plan.contract.id)
        target = self.table.target(plan, f"{plan.contract.id}@1.0.0", "history")
        self._file = self._folder / "one.parquet"
        pq.write_table(pa.Table.from_pylist([{}], schema=target.schema), self._file)

    def commit(self) -> float:
        """Stage and publish a file of one row; return the seconds that it took."""
        file = self._file.with_name(f"{uuid4().hex}.parquet")
        shutil.copyfile(self._file, file)
        elapsed, self._ledger = _published(self.table, [f"file://{file}"], self._ledger)
        return elapsed

    def inflate(self, count: int) -> int:
        """Repeat the newest commit of the log `count` times, an hour ago, and return the size of the log.

        Delta writes a checkpoint before the last _KEPT of them; in a real history there is one per 100 commits.
        """
        log = self._folder / "_delta_log"
        newest = int(self.table._snapshot().version())  # noqa: SLF001 - a history has no API
        original = log / f"{newest:020d}.json"
        for index in range(1, count + 1):
            version = log / f"{newest + index:020d}.json"
            if index % _MOST_LINKS:
                version.hardlink_to(original)
            else:
                original = Path(shutil.copyfile(original, version))
            if index == count - _KEPT:
                self.table._snapshot()  # noqa: SLF001 - the same
                self.table._log().checkpoint()  # noqa: SLF001 - the same
        before = time.time() - 3600
        for each in log.iterdir():
            os.utime(each, (before, before))
        return sum(each.stat().st_size for each in log.iterdir())


class PostgresqlHistory:
    """A table in PostgreSQL; a batch of its history is an update of the ledger, and a row."""

    def __init__(self, settings: JobSettings) -> None:
        plan = compile_plan(contract().model_copy(update={"id": "bench.history"}))
        self.table = PostgresqlTable(settings, plan.contract.id)
        self.table.ensure(plan)
        self._url = settings.postgresql_address
        self._ledger = _claimed(self.table, plan.contract.id)

    def commit(self) -> float:
        """Stage and publish a row; return the seconds that it took."""
        name = f"{self.table.uuid[:8]}-tidegate-1-{uuid4().hex[:8]}-0"
        with psycopg.connect(self._url) as connection:
            connection.execute(f'CREATE UNLOGGED TABLE tidegate."{name}" (LIKE bench.history)')
            connection.execute(f'INSERT INTO tidegate."{name}" DEFAULT VALUES')
        elapsed, self._ledger = _published(self.table, [str(Staged(1, name))], self._ledger)
        return elapsed

    def inflate(self, count: int) -> int:
        """Update the ledger and insert a row in `count` transactions; return the size of the ledger's table."""
        statement = sql.SQL(
            "DO $$ BEGIN FOR n IN 1..{} LOOP UPDATE tidegate.ledger SET ledger = ledger; "
            "INSERT INTO bench.history DEFAULT VALUES; COMMIT; END LOOP; END $$"
        ).format(sql.Literal(count))
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = off")
            connection.execute(statement)
            row = connection.execute("SELECT pg_total_relation_size('tidegate.ledger')").fetchone()
        assert row is not None
        return int(row[0])


def _claimed(table: LedgerStore, stream: str) -> Ledger:
    first = Ledger(
        name="history", stream=stream, topic="history", topic_id="", epoch=0, n=0,
        begin={0: 0}, end={0: 0}, scan_from={}, slots=1,
    )  # fmt: skip
    claimed = first.claim(1, "history")
    assert table.publish(table.stage([], claimed), None, claimed)
    return claimed


def _published(table: LedgerStore, files: list[str], held: Ledger) -> tuple[float, Ledger]:
    """Publish a batch; return its seconds and the published ledger."""
    totals = BatchTotals(written=held.totals.written + 1)
    new = held.model_copy(update={"n": held.n + 1, "end": {0: held.end[0] + 1}, "totals": totals})
    return publish_batch(table, files, held, new)


def measure(history: History, batches: int, commits: int) -> tuple[float, float, int]:
    """Return the median seconds of a commit before and after the history, and the size of the history in bytes."""
    upkeep = Upkeep(history.table, seconds=5.0)
    for _ in range(3):  # the first commits of a process load classes
        history.commit()
    with _kept_up(upkeep):
        first = statistics.median([history.commit() for _ in range(commits)])
    size = history.inflate(batches)
    later = Upkeep(history.table, seconds=5.0)
    later.run()  # as the job does before it claims a table with a backlog
    assert later.error is None, later.error
    with _kept_up(later):
        last = statistics.median([history.commit() for _ in range(commits)])
    return first, last, size


@contextmanager
def _kept_up(upkeep: Upkeep) -> Iterator[None]:
    upkeep.start()
    try:
        yield
    finally:
        upkeep.close()
        for each in threading.enumerate():
            if each.name.startswith("upkeep-"):
                each.join()  # a round that goes on would meet the history half made


def main() -> None:
    """Measure each sink, and write the figures."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--batches", type=int)
    parser.add_argument("--commits", type=int)
    parser.add_argument("--sink", action="append", help="one of the sinks, may be repeated; all by default")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    with ExitStack() as stack:
        settings = benchmark_settings(spark_driver_memory="2g")
        stack.callback(shutil.rmtree, settings.warehouse.parent, ignore_errors=True)
        server = stack.enter_context(Postgresql.running())
        url = SecretStr(for_psycopg(stack.enter_context(server.database(template="template0"))))
        # The session of this sink has what Iceberg and Delta need.
        spark = benchmark_session(settings.model_copy(update={"sink": "delta"}))
        stack.callback(spark.stop)
        in_database = settings.model_copy(update={"sink": "postgresql", "postgresql_url": url})
        makers: dict[str, Callable[[], History]] = {
            "iceberg": lambda: GrowingTable(spark, _KEPT),
            "delta": lambda: DeltaHistory(spark, settings.warehouse),
            "postgresql": lambda: PostgresqlHistory(in_database),
        }
        for sink in arguments.sink or makers:
            figures += _figures(sink, makers[sink](), arguments)
    report_figures(figures, arguments.out)


def _figures(sink: str, history: History, arguments: argparse.Namespace) -> list[Figure]:
    batches = arguments.batches or (800 if arguments.smoke else HISTORY)
    commits = arguments.commits or (10 if arguments.smoke else COMMITS)
    first, last, size = measure(history, batches, commits)
    print(json.dumps({"sink": sink, "batches": batches, "bytes": size}))
    name = f"commit_after_history_over_first_hour_{sink}"
    return [Figure.of(name, last * 1000, "ms", first * 1000)]


if __name__ == "__main__":
    main()
