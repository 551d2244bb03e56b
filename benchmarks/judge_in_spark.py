"""Measure judging inside Spark by the contract with ten rules: the same parquet file, read to a noop sink in many ways.

* untouched: parquet to noop
* identity: an Arrow UDF that returns one byte a record
* judge: as the job judges, in `mapInArrow`: exact, and what comes back of it are the refused records with their evidence
* typed in the worker: the same, with the typed columns of the table made where the job writes them, in the worker
* typed: the same, with the typed columns crossing back to the JVM, as when rows go to another sink of Spark
* from_json: Spark's own parser and predicates over the columns. Not exact: it takes "42" for 42
* python UDF: a row-at-a-time UDF with the `jsonschema` package and the same rules

Each way's rate is records a second over the whole file (the Python UDF's over a part of it, since it takes minutes).
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ByteType
from pyspark.util import PythonEvalType

from benchmarks.admissions_data import write_parquet
from benchmarks.figures import Figure, benchmark_parser, interleaved_seconds, report_figures
from benchmarks.rules import RULES, plan_of
from benchmarks.spark_session import benchmark_session
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.evidence import decode_violations, encode_violations
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.judge import column_types

JSON_TYPE = (
    "patient_id string, hospital_id string, age int, sex string, admission_date date, "
    "discharge_date date, length_of_stay int, ward string, diagnosis_codes array<string>, "
    "address struct<postcode: string, country: string>, charge double, note string"
)
# The contract, as far as Catalyst can express it; a null or unparsable value of a required field is refused.
PREDICATE = r"""
    coalesce(
      rlike(j.patient_id, '^P[0-9]{8}$')
      and rlike(j.hospital_id, '^[A-Z]{3}[0-9]{2}$') and j.age >= 0 and j.sex in ('F', 'M', 'X')
      and j.length_of_stay >= 0 and j.ward in ('cardiology', 'general', 'icu', 'orthopaedics')
      and size(j.diagnosis_codes) between 1 and 12
      and forall(j.diagnosis_codes, code -> rlike(code, '^[A-Z][0-9]{2}\\.[0-9]$'))
      and rlike(j.address.postcode, '^[A-Z]{1,2}[0-9]{1,2} [0-9][A-Z]{2}$') and rlike(j.address.country, '^[A-Z]{2}$')
      and j.charge between 0 and 9999999.99 and (j.note is null or length(j.note) <= 2000)
      and j.age <> 999 and j.discharge_date > date'1900-01-01' and j.discharge_date >= j.admission_date
      and j.age <= 130 and j.charge between 0 and 9000000 and j.length_of_stay <= 10000
      and j.admission_date > date'1900-01-01' and j.admission_date < date'2100-01-01'
      and j.address.country not in ('XX', 'ZZ'),
      false)
"""


def main() -> None:
    """Measure and write the figures."""
    arguments = benchmark_parser(__doc__).parse_args()
    records, part, rounds = (20_000, 2_000, 1) if arguments.smoke else (1_000_000, 40_000, 7)
    plan = plan_of(RULES)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        whole, small = Path(folder) / "whole.parquet", Path(folder) / "part.parquet"
        write_parquet(records, whole)
        write_parquet(part, small)
        spark = benchmark_session()
        try:
            rates = measure(spark, plan, (whole, records), (small, part), rounds)
        finally:
            spark.stop()
    for name, rate in rates.items():
        print(f"  {name:20s} {rate:>12,.0f} records/s")
    unit = "records/s"
    report_figures(
        [
            Figure.of("judge_over_identity", rates["judge"], unit, rates["identity"]),
            Figure.of("judge_over_from_json", rates["judge"], unit, rates["from_json"]),
            Figure.of("judge_over_python_udf", rates["judge"], unit, rates["python udf"]),
            Figure.of(
                "judge_typed_in_worker_over_identity", rates["typed in the worker"], unit, rates["identity"]
            ),
            Figure.of("judge_typed_over_identity", rates["typed"], unit, rates["identity"]),
            Figure.of("judge_over_untouched", rates["judge"], unit, rates["untouched"]),
        ],
        arguments.out,
    )


def measure(
    spark: SparkSession, plan: EnforcementPlan, whole: tuple[Path, int], part: tuple[Path, int], rounds: int
) -> dict[str, float]:
    """Return records per second by case, after asserting that judge and Python UDF agree on the part."""
    big, small = spark.read.parquet(str(whole[0])), spark.read.parquet(str(part[0]))
    python = python_udf(plan)
    assert_agreement(small, plan, python)
    typed = f"refused binary, violations binary, columns {column_types(plan.columns).simpleString()}"
    cases: dict[str, Callable[[], object]] = {
        "untouched": lambda: to_noop(big),
        "identity": lambda: to_noop(big.select(identity("value"))),
        "judge": lambda: to_noop(big.select("value").mapInArrow(judging(plan), REFUSED)),
        "typed in the worker": lambda: to_noop(
            big.select("value").mapInArrow(judging(plan, typed=True), REFUSED)
        ),
        "typed": lambda: to_noop(big.select("value").mapInArrow(judging(plan, typed=True, kept=True), typed)),
        "from_json": lambda: to_noop(from_json(big)),
    }
    seconds = interleaved_seconds(cases, rounds)
    rates = {name: whole[1] / taken for name, taken in seconds.items()}
    slow = interleaved_seconds(
        {"python udf": lambda: to_noop(small.select(python("value")))}, max(1, rounds // 2)
    )
    return rates | {"python udf": part[1] / slow["python udf"]}


def to_noop(frame: DataFrame) -> None:
    """Run the whole query without storing the result."""
    frame.write.format("noop").mode("overwrite").save()


def one_byte(values: pa.Array) -> pa.Array:
    """Return one byte for each record, without work in Python."""
    return pa.array(np.zeros(len(values), np.int8))


one_byte.__annotations__ = {
    "values": pa.Array,
    "return": pa.Array,
}  # they are strings here, and pyspark needs the types
identity = arrow_udf(one_byte, ByteType(), PythonEvalType.SQL_SCALAR_ARROW_UDF)


def judging(
    plan: EnforcementPlan, *, typed: bool = False, kept: bool = False
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow`: it yields refused values with violations, and with `kept` the columns of accepted ones."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            (values,) = batch.columns
            judged = plan.judge_typed(values) if typed else plan.judge(values)
            is_refused = pc.greater(judged.field(0), int(Disposition.ALERTED))
            refused = values.filter(is_refused)
            verdicts = plan.explain_each(refused, typed=typed, failed=judged.field(1).filter(is_refused))
            violations = pa.array([encode_violations(each.violations) for each in verdicts], pa.binary())
            arrays = [refused, violations]
            if kept:
                yield pa.RecordBatch.from_arrays(
                    [*arrays, pa.nulls(len(refused), judged.field(2).type)], _NAMES
                )
                columns = judged.field(2).filter(pc.invert(is_refused))
                nothing = pa.nulls(len(columns), pa.binary())
                yield pa.RecordBatch.from_arrays([nothing, nothing, columns], _NAMES)
            else:
                yield pa.RecordBatch.from_arrays(arrays, _NAMES[:2])

    return work


_NAMES: Final = ["refused", "violations", "columns"]
REFUSED: Final = "refused binary, violations binary"


def from_json(frame: DataFrame) -> DataFrame:
    """Judge with Spark's own JSON parser and predicates."""
    parsed = F.from_json(F.col("value").cast("string"), JSON_TYPE, {"mode": "PERMISSIVE"})
    return frame.select(parsed.alias("j")).select(F.expr(PREDICATE).alias("accepted"))


def python_udf(plan: EnforcementPlan) -> Any:
    """Build a row-at-a-time UDF with `jsonschema` and rules in Python, which teams often write first."""
    definition = plan.contract.schema_.definition
    text = json.dumps(definition)

    @F.udf("boolean")
    def accepted(value: bytes) -> bool:
        validator = _VALIDATORS.get(text)
        if validator is None:
            import jsonschema  # noqa: PLC0415 - on the worker, where it is used

            validator = jsonschema.Draft202012Validator(
                json.loads(text), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
            )
            _VALIDATORS[text] = validator
        try:
            record = json.loads(value)
        except ValueError:
            return False
        return bool(
            validator.is_valid(record)
            and record["age"] != 999
            and record["discharge_date"] > "1900-01-01"
            and record["discharge_date"] >= record["admission_date"]
        )

    return accepted


_VALIDATORS: dict[str, Any] = {}


def assert_agreement(frame: DataFrame, plan: EnforcementPlan, python: Any) -> None:
    """Assert that judge and Python UDF refuse the same records, some but not all, and that each has violations."""
    judged = frame.select("value").mapInArrow(judging(plan), REFUSED).collect()
    refused = frame.where(~python("value")).select("value").collect()
    assert Counter(bytes(row["refused"]) for row in judged) == Counter(bytes(row["value"]) for row in refused)
    assert 0 < len(judged) < frame.count()
    assert all(decode_violations(bytes(row["violations"])).violations for row in judged)


if __name__ == "__main__":
    main()
