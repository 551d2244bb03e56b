"""Measure a small judged batch with PySpark's own way to its workers and with ours.

A batch of 8 tasks of 100 records each, judged to a noop sink; the median of many runs, a process for each way. Two
sessions that differ in two settings alone: our daemon starts the workers, and they are reached by Unix sockets.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

from pyspark.sql import DataFrame, SparkSession

from benchmarks.admissions_data import contract, values
from benchmarks.figures import Figure, benchmark_parser, report_figures
from benchmarks.judge_in_spark import REFUSED, judging
from tidegate.contracts.judge.plan import compile_plan

WAYS = {
    "stock": {"spark.python.daemon.module": "pyspark.daemon"},
    "ours": {
        "spark.python.daemon.module": "tidegate.spark_jobs.worker.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
    },
}
TASKS, RECORDS_A_TASK = 8, 100


def main() -> None:
    """Measure both ways alternately, and write the figure."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--way", choices=WAYS, help="measure this one only and print its seconds as JSON")
    parser.add_argument("--runs", type=int, default=16)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(batch_seconds(WAYS[arguments.way], arguments.runs)))
        return
    rounds, runs = (1, 3) if arguments.smoke else (2, 16)
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name in WAYS:
            command = [
                sys.executable,
                "-m",
                "benchmarks.batch_fixed_cost",
                "--way",
                name,
                "--runs",
                str(runs),
            ]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            taken[name] += json.loads(printed.splitlines()[-1])
    stock, ours = (statistics.median(taken[name]) * 1000 for name in ("stock", "ours"))
    print(f"  stock {stock:,.0f} ms, ours {ours:,.0f} ms a batch of {TASKS} tasks")
    report_figures([Figure.of("batch_fixed_cost_over_stock", ours, "ms", stock)], arguments.out)


def batch_seconds(settings: dict[str, str], runs: int) -> list[float]:
    """Return the seconds of each of `runs` batches, after the same number of warm-up batches."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    quiet = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master("local[2]")
    for key, value in {**quiet, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        plan = compile_plan(contract())
        rows = [(value,) for value in values(TASKS * RECORDS_A_TASK)]
        batch = spark.createDataFrame(rows, "value binary").repartition(TASKS).cache()
        judged = batch.mapInArrow(judging(plan), REFUSED)
        assert 0 < judged.count() < batch.count() == TASKS * RECORDS_A_TASK
        return [_timed(judged) for _ in range(2 * runs)][runs:]
    finally:
        spark.stop()


def _timed(judged: DataFrame) -> float:
    start = time.perf_counter()
    judged.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
