"""What the index of the quarantine topics costs: size, time of a page, records a second.

`python -m benchmarks.quarantine_index [--smoke] [--out FILE]`. The index holds 10 million refused records of 30 days, in 24
partitions, of 200 problems and 3 contract versions, in SQLite. They are made as columns; what one record costs is measured
on headers and values as the job writes them. The baselines are the limits that the index has to keep.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson

from benchmarks.figures import Figure, benchmark_parser, report_figures
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.quarantine_index import IndexedPartition
from tidegate.gateway.streams.problems import ProblemQuery, ProblemService
from tidegate.gateway.streams.quarantine import Origin
from tidegate.gateway.streams.quarantine_index.columns import IndexColumns
from tidegate.gateway.streams.quarantine_index.facets import ProblemKey, all_records, version_facet
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.merge import RefusalBatch, add_columns
from tidegate.gateway.streams.quarantine_index.partitions import IndexedPartitions, PartitionCommit
from tidegate.gateway.streams.quarantine_index.reading import Dimension, QuarantineIndex
from tidegate.gateway.streams.quarantine_index.refusals import (
    ContractHints,
    RawRefusal,
    RefusalReader,
)

STREAM = "adm"
END = datetime(2026, 7, 31, tzinfo=UTC)
DAYS, PARTITIONS, PROBLEMS, VERSIONS = 30, 24, 200, ("1.0.0", "1.1.0", "1.2.0")
MOST_MILLISECONDS = 300
MOST_MEGABYTES = 300
LEAST_RECORDS_A_SECOND = 20_000
ROUNDS = 5
STEP = 5_000


def main() -> None:
    """Measure and write the figures."""
    arguments = benchmark_parser(__doc__).parse_args()
    records, ingested = (100_000, 5_000) if arguments.smoke else (10_000_000, 100_000)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        path = Path(folder) / "registry.db"
        database = Database(f"sqlite:///{path}")
        database.migrate()
        try:
            fill(database, records)
            figures = [*sizes(path), *pages(database), *ingest(database, ingested)]
        finally:
            database.close()
    report_figures(figures, arguments.out)


def fill(database: Database, records: int) -> None:
    """Write the index: problem n has a share of 1/n, versions follow one another, offsets have gaps."""
    chance = np.random.default_rng(1)
    shares = 1 / np.arange(1, PROBLEMS + 1)
    keys = [
        ProblemKey("rule", f"rule-{n}", f"/field_{n % 40}", "positive integer, below 1,000")
        for n in range(PROBLEMS)
    ]
    facets = [each.facet(STREAM, "is refused") for each in keys]
    versions = [version_facet(STREAM, each) for each in VERSIONS]
    everything = all_records(STREAM)

    with database.writing() as stores:
        stores.contracts.add_contract(STREAM, STREAM, END)
        stores.quarantine.put_facets(STREAM, [*facets, *versions, everything])
    of_partition = records // PARTITIONS
    last_minute = int(END.timestamp()) // 60
    for partition in range(PARTITIONS):
        offsets = np.cumsum(chance.choice((1, 1, 1, 1, 2), of_partition)).astype(np.int64)
        minutes = np.sort(last_minute - chance.integers(1, DAYS * 24 * 60, of_partition))
        problem = chance.choice(PROBLEMS, of_partition, p=shares / shares.sum())
        version = np.minimum(np.arange(of_partition) * 3 // of_partition, 2)
        keys_hash = chance.integers(0, 2**32, of_partition, dtype=np.uint32)
        sources = np.cumsum(chance.integers(1, 40, of_partition)).astype(np.int64)
        for start in range(0, of_partition, 1 << 16):
            rows = slice(start, start + (1 << 16))
            part = IndexColumns(
                offsets[rows],
                minutes[rows],
                np.full_like(offsets[rows], partition),
                sources[rows],
                keys_hash[rows],
            )
            found = {everything.facet: offsets[rows]}
            found |= {each.facet: offsets[rows][problem[rows] == n] for n, each in enumerate(facets)}
            found |= {each.facet: offsets[rows][version[rows] == n] for n, each in enumerate(versions)}
            kept = {facet: each for facet, each in found.items() if len(each)}
            with database.writing() as stores:
                add_columns(stores, STREAM, partition, part, kept)
        end = int(offsets[-1]) + 1
        place = IndexedPartition(STREAM, partition, 0, end, end, 1, None, None, END)
        with database.writing() as stores:
            stores.quarantine.put_partition(place)


def sizes(path: Path) -> list[Figure]:
    """Return the size of the database, without its write-ahead log."""
    size = sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*") if each.suffix != ".db-wal")
    return [Figure.of("quarantine_index_size", size / 1e6, "MB", MOST_MEGABYTES)]


def pages(database: Database) -> list[Figure]:
    """Return the median CPU milliseconds of each kind of page."""

    def now() -> datetime:
        return END

    index, problems = QuarantineIndex(database, now), ProblemService(database, now)
    month, day = END - timedelta(days=DAYS), END - timedelta(days=1)
    first = problems.list(STREAM, ProblemQuery()).problems[0].id
    rare = problems.list(STREAM, ProblemQuery(offset=PROBLEMS - 1)).problems[0].id
    rule = QuarantineFilter(rule="rule-3", version="1.1.0", partition=5, since=month, until=END)
    of_problem = QuarantineFilter(problem=first)
    middle = index.page(STREAM, QuarantineFilter(since=month, until=END - timedelta(days=11)), 1).places[0]
    asked: dict[str, Callable[[], object]] = {
        "problems of a day": lambda: problems.list(STREAM, ProblemQuery(since=day, until=END)),
        "problems of 30 days": lambda: problems.list(STREAM, ProblemQuery(since=month, until=END)),
        "most frequent problem": lambda: problems.get(STREAM, first, ProblemQuery()),
        "its versions": lambda: index.breakdown(STREAM, Dimension.VERSION, of_problem),
        "its newest records": lambda: index.page(STREAM, of_problem, 50),
        "rarest problem": lambda: problems.get(STREAM, rare, ProblemQuery()),
        "rule, version, partition, span": lambda: index.breakdown(STREAM, Dimension.FIELD, rule),
        "rules of 30 days": lambda: index.breakdown(STREAM, Dimension.RULE, QuarantineFilter()),
        "trend of a rule": lambda: index.trend(
            STREAM, QuarantineFilter(rule="rule-0", since=month, until=END), 48
        ),
        "newest records": lambda: index.page(STREAM, QuarantineFilter(), 50),
        "records in the middle": lambda: index.page(STREAM, QuarantineFilter(), 50, after=middle),
        "by key": lambda: index.by_key(STREAM, b"k-1"),
        "by source position": lambda: index.by_source(STREAM, 7, 100_000),
        "status": lambda: index.status(STREAM),
    }
    figures = []
    for name, ask in asked.items():
        walls, cpus = [], []
        for _ in range(ROUNDS):
            wall, cpu = time.perf_counter(), time.process_time()
            ask()
            walls.append((time.perf_counter() - wall) * 1000)
            cpus.append((time.process_time() - cpu) * 1000)
        print(f"{name}: {statistics.median(walls):.0f} ms, CPU {statistics.median(cpus):.0f} ms", flush=True)
        figures.append(
            Figure.of(f"quarantine_index_{_slug(name)}", statistics.median(cpus), "cpu ms", MOST_MILLISECONDS)
        )
    return figures


def _slug(name: str) -> str:
    return name.replace(",", "").replace(" ", "_")


def ingest(database: Database, records: int) -> list[Figure]:
    """Return the refused records that are read and committed per second of CPU time, in steps of STEP records."""
    age = Violation(Stage.RULE, "age-is-known", "/age", Severity.ERROR, "is one of the forbidden values")
    kinds = [
        Verdict(Disposition.QUARANTINED, (replace(age, code=f"rule-{n}"), replace(age, pointer="/lines/0/n")))
        for n in range(PROBLEMS)
    ]
    value = orjson.dumps({"age": 999, "lines": [{"n": 1.5}], **{f"field_{n}": "text" * 3 for n in range(40)}})
    made = [
        RawRefusal(
            0,
            n,
            1_780_000_000_000 + n * 10,
            b"k%d" % n,
            value,
            [
                ("app", b"form"),
                *quarantine_headers(EventPointer("new", 0, n), "ledger", "new@1.0.0", kinds[n % PROBLEMS]),
            ],
        )
        for n in range(records)
    ]
    hints = ContractHints(is_json=True, producer_headers=(("app", True),))
    reader = RefusalReader(Origin("new", "new"), b"s" * 32, lambda _: hints)
    partitions = IndexedPartitions(database, lambda: datetime.now(UTC), "bench")
    claimed = partitions.claim("new", 0, 0, records)
    assert claimed is not None
    wall, cpu = time.perf_counter(), time.process_time()
    for start in range(0, records, STEP):
        batch = RefusalBatch()
        for record in made[start : start + STEP]:
            found = reader.read(record)
            assert found is not None
            batch.add(*found)
        (claimed,) = partitions.commit([PartitionCommit(claimed, batch, start + STEP)])
        assert claimed is not None
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    print(
        f"ingest: {records / seconds:,.0f} records a second, {records / cpu_seconds:,.0f} a second of CPU",
        flush=True,
    )
    index = QuarantineIndex(database, lambda: datetime.now(UTC))
    database.write(lambda stores: stores.contracts.add_contract("new", "new", END))
    assert index.status("new").records == records
    return [
        Figure.of("quarantine_index_records_read", records / cpu_seconds, "1/cpu s", LEAST_RECORDS_A_SECOND)
    ]


if __name__ == "__main__":
    main()
