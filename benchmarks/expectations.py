"""Measure what ten expectations add to a batch: judged, written to Parquet files and decided, with and without them.

The pass is the job's own (`tidegate.spark_jobs.worker.part_writer`), and so is what the driver makes of its notes. Reading from Kafka,
the quarantine and the commit are left out of both, so that the share of the expectations is larger here than in a job.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.admissions_data import contract, values
from benchmarks.figures import Figure, benchmark_parser, interleaved_seconds, report_figures
from benchmarks.spark_session import benchmark_session
from tidegate.contracts.document.model import Expectation
from tidegate.contracts.expectations.checks import CheckedExpectation
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.spark_jobs.worker.part_writer import INPUT, FileTarget, judge_and_write
from tidegate.spark_jobs.worker.record_spool import Packing
from tidegate.spark_jobs.worker.request import read_partials
from tidegate.spark_jobs.worker.result_kinds import (
    RESULT_TYPE,
    AcceptedPart,
    ExpectationPartials,
    read_results,
)

RECORDS: Final = 100_000
TASKS: Final = 4
TEN: Final = (
    ("expect_column_mean_to_be_between", {"column": "length_of_stay", "min_value": 0, "max_value": 30}),
    ("expect_column_stdev_to_be_between", {"column": "length_of_stay", "max_value": 60}),
    ("expect_column_max_to_be_between", {"column": "discharge_date", "max_value": "2099-12-31"}),
    ("expect_column_sum_to_be_between", {"column": "charge", "min_value": 0}),
    ("expect_column_values_to_be_between", {"column": "age", "min_value": 0, "max_value": 120}),
    ("expect_column_values_to_not_be_null", {"column": "postcode", "mostly": 0.1}),
    (
        "expect_column_distinct_values_to_be_in_set",
        {"column": "ward", "value_set": ["cardiology", "general", "icu", "orthopaedics"]},
    ),
    ("expect_column_values_to_match_regex", {"column": "hospital_id", "regex": "^[A-Z]{3}[0-9]{2}$"}),
    ("expect_column_value_lengths_to_equal", {"column": "patient_id", "value": 9}),
    (
        "expect_column_pair_values_a_to_be_greater_than_b",
        {"column_A": "discharge_date", "column_B": "admission_date", "or_equal": True},
    ),
)


def main() -> None:
    """Measure and write the figures."""
    arguments = benchmark_parser(__doc__).parse_args()
    records, rounds = (10_000, 1) if arguments.smoke else (RECORDS, 9)
    without = compile_plan(contract().model_copy(update={"expectations": ()}))
    ten = tuple(
        Expectation(id=f"e{index}", type=name, kwargs=kwargs) for index, (name, kwargs) in enumerate(TEN)
    )
    expecting = compile_plan(contract().model_copy(update={"expectations": ten}))
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        source = Path(folder) / "source.parquet"
        pq.write_table(kafka_rows(records), source, row_group_size=records // TASKS)
        spark = benchmark_session()
        try:
            rows = spark.read.parquet(str(source)).repartition(TASKS).persist()
            require_all_met(expecting, run(rows, expecting, folder))
            cases: dict[str, Callable[[], object]] = {
                "without": lambda: run(rows, without, folder),
                "ten": lambda: run(rows, expecting, folder),
            }
            seconds = interleaved_seconds(cases, rounds)
        finally:
            spark.stop()
    for name, taken in seconds.items():
        print(f"  {name:12s} {taken * 1000:>8,.0f} ms")
    figure = Figure.of("ten_expectations_over_none", seconds["ten"], "seconds a batch", seconds["without"])
    report_figures([figure], arguments.out)


def kafka_rows(records: int) -> pa.Table:
    """Build a table with the columns of Spark's Kafka source."""
    return pa.table(
        {
            "partition": pa.array([index % TASKS for index in range(records)], pa.int32()),
            "offset": pa.array([index // TASKS for index in range(records)], pa.int64()),
            "timestamp": pa.array([1_700_000_000_000_000 + index for index in range(records)]).cast(
                pa.timestamp("us", "UTC")
            ),
            "key": pa.nulls(records, pa.binary()),
            "value": pa.array(values(records), pa.binary()),
            "headers": pa.nulls(records, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )


def run(rows: DataFrame, plan: EnforcementPlan, folder: str) -> tuple[CheckedExpectation | None, ...]:
    """Judge and write a batch as the job does; return the finding of each expectation."""
    source = pa.struct(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
        ]
    )
    schema = pa.schema([*plan.columns, ("_source", source), ("_contract", pa.string())])
    target = FileTarget(f"{folder}/rows", schema, "admissions", "hospital.admissions@1.0.0", "zstd", {})
    work = judge_and_write(plan, target, Packing())
    results = rows.selectExpr(*INPUT).mapInArrow(work, RESULT_TYPE).toArrow()
    for part in read_results(results, AcceptedPart):
        Path(part.name).unlink()
    noted = (each.pickled for each in read_results(results, ExpectationPartials))
    return plan.expectations.find(read_partials(plan, noted))


def require_all_met(plan: EnforcementPlan, findings: tuple[CheckedExpectation | None, ...]) -> None:
    """Assert that each expectation was evaluated and is met."""
    for each, finding in zip(plan.expectations.compiled, findings, strict=True):
        assert finding is not None, each.expectation
        assert finding.is_met, (each.expectation, finding)
        assert finding.considered, each.expectation


if __name__ == "__main__":
    main()
