"""Frames of Spark judged through the public package: classic in the session of the run, and over Spark Connect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate import Contract, SettingsError

CONTRACT = """\
apiVersion: tidegate/v1
kind: DataContract
id: stays
version: 1.0.0
topic: stays
schema:
  type: json-schema
  definition:
    type: object
    required: [age]
    properties: {age: {type: integer}, ward: {type: string}, left: {type: string, format: date}, charge: {type: number}}
rules: [{id: age-is-known, kind: forbidden, field: /age, values: [999]}]
"""
SELECT = "SELECT * FROM VALUES (63, 'icu', DATE'2026-01-31', 1.50), (999, NULL, NULL, NULL), (7, NULL, NULL, NULL) AS t(age, ward, left, charge)"


@pytest.fixture(scope="module")
def contract() -> Contract:
    return Contract.parse(CONTRACT)


def check_frames(session: Any, contract: Contract) -> None:
    """Judge, split and enforce a frame of a session, and check what comes out."""
    frame = session.sql(SELECT)
    judged = contract.judge_frame(frame)
    assert judged.columns == [*frame.columns, "verdict"]
    found = {row["age"]: row["verdict"] for row in judged.collect()}
    assert {age: verdict["accepted"] for age, verdict in found.items()} == {63: True, 999: False, 7: True}
    assert [each["code"] for each in found[999]["violations"]] == ["age-is-known"]
    accepted, refused = contract.split(frame)
    assert accepted.schema == frame.schema
    assert (sorted(row["age"] for row in accepted.collect()), [row["age"] for row in refused.collect()]) == (
        [7, 63],
        [999],
    )
    with pytest.raises(SettingsError, match="rename it first"):
        contract.judge_frame(judged)


def test_a_frame_of_a_session_is_judged_and_split(spark: SparkSession, contract: Contract) -> None:
    check_frames(spark, contract)


def test_a_stream_is_enforced_batch_by_batch(spark: SparkSession, contract: Contract, tmp_path: Path) -> None:
    spark.sql(SELECT).write.json(str(tmp_path / "in"))
    written: dict[str, list[int]] = {"accepted": [], "refused": []}

    def keep(name: str) -> Callable[[DataFrame], None]:
        return lambda batch: written[name].extend(row["age"] for row in batch.collect())

    schema = "age INT, ward STRING, left DATE, charge DECIMAL(3,2)"
    query = (
        spark.readStream.schema(schema)
        .json(str(tmp_path / "in"))
        .writeStream.foreachBatch(contract.enforce(keep("accepted"), refused=keep("refused")))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert (sorted(written["accepted"]), written["refused"]) == ([7, 63], [999])
