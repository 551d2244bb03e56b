"""Workers judge in the job of a user whose packages have the names of folders of this repository."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jvm import SHORT_LIVED_JAVA
from tests.users_project import environment, imported, make_project

CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: a.b
version: 1.0.0
topic: t
schema:
  type: json-schema
  definition: {properties: {age: {type: integer}}}
rules:
  - {id: known, kind: forbidden, field: /age, values: [999]}
"""
JOB = """\
import json
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.spark_jobs.worker.part_writer import judge_and_write
from tidegate.spark_jobs.worker.record_spool import Packing, RecordTarget
from tidegate.spark_jobs.worker.result_kinds import RESULT_TYPE, RecordCount, read_results


def owners(value):
    import contracts, gateway, schemas
    return " ".join({contracts.OWNER, gateway.OWNER, schemas.OWNER})


plan = compile_plan(lint(Path("contract.yaml")).contract)
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
table = pa.table(
    {
        "partition": pa.array([0, 1], pa.int32()),
        "offset": [0, 0],
        "timestamp": pa.array([0, 0], pa.timestamp("us", "UTC")),
        "key": pa.nulls(2, pa.binary()),
        "value": pa.array([b'{"age": 63}', b'{"age": 999}'], pa.binary()),
        "headers": pa.nulls(2, pa.string()),
    }
)
frame = spark.createDataFrame(table)
work = judge_and_write(plan, RecordTarget(Packing()), Packing())
judged = read_results(frame.mapInArrow(work, RESULT_TYPE).toArrow(), RecordCount)
judged = [each.disposition for each in sorted(judged, key=lambda each: each.partition)]
theirs = frame.select(F.udf(owners)("value").alias("owner"))
print(json.dumps([judged, [row[0] for row in theirs.collect()]]))
spark.stop()
"""


@pytest.mark.full
def test_a_worker_judges_next_to_packages_of_the_same_names(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    (project / "contract.yaml").write_text(CONTRACT)
    (project / "job.py").write_text(JOB)
    ran = subprocess.run(
        [sys.executable, "job.py"],
        cwd=project,
        env=environment(project) | SHORT_LIVED_JAVA | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout) == [[0, 4], ["the user", "the user"]]
    assert imported(project) == {"contracts", "schemas", "gateway"}
