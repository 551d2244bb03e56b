"""The benchmarks still run; their figures are not checked here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.run import QUESTIONS
from tests.jvm import SHORT_LIVED_JAVA

PROMISED = {
    "judge_in_spark": {
        "judge_over_python_udf",
        "judge_over_from_json",
        "judge_over_identity",
        "judge_typed_over_identity",
    },
    "batch_fixed_cost": {"batch_fixed_cost_over_stock"},
    "kafka_throughput": {
        "kafka_to_kafka_over_untouched",
        "kafka_to_kafka_over_tuned",
        "kafka_to_iceberg_over_untouched",
        "kafka_to_iceberg_over_tuned",
        "kafka_to_iceberg_maintained_over_untouched",
    },
    "protocol": {"protocol_large_batch_over_plain", "protocol_small_batch_over_plain"},
    "operations": {
        "latency_median",
        "latency_p99",
        "latency_median_kafka",
        "restart_after_kill",
        "restart_after_kill_archived",
        "takeover_after_kill",
    },
    "table_growth": {"commit_after_backlog_last_over_first", "snapshots_after_expiry"},
    "registry": {"registry_by_id_over_bare_route", "registry_latest_over_by_id"},
    "rules": {"hundred_rules_over_ten", "ten_in_cel_over_ten_rules", "half_refused_over_ten_rules"},
    "avro": {"avro_over_json", "avro_typed_over_json_typed"},
    "compatibility": {"compatibility_300_fields_slowest", "check_200_changed_contracts"},
    "large_records": {"nested_20_kb_megabytes", "nested_20_kb_rule_of_lines_megabytes"},
    "refused_records": {
        "all_refused_by_a_rule_over_all_good",
        "all_refused_by_the_schema_over_all_good",
    },
    "memory": {"memory_at_the_end_over_second_part"},
    "expectations": {"ten_expectations_over_none"},
    "table_history": {
        "commit_after_history_over_first_hour_iceberg",
        "commit_after_history_over_first_hour_delta",
        "commit_after_history_over_first_hour_postgresql",
    },
    "quarantine_index": {"quarantine_index_size", "quarantine_index_records_read", "quarantine_index_by_key"},
    "infer": {"inferred_json_lines_a_second", "inferred_parquet_rows_a_second"},
    "tracing": {"traces_off_over_none", "traces_on_over_off"},
    "replay_beside_live": {
        "latency_median_beside_a_replay",
        "latency_p99_beside_a_replay",
        "replayed_beside_a_stream",
    },
    "light_install": {"light_environment", "first_lint"},
}


def test_every_benchmark_is_tried() -> None:
    assert set(QUESTIONS) == set(PROMISED)


def test_every_promised_figure_is_measured() -> None:
    measured = {figure["name"] for figure in json.loads(Path("benchmarks/latest.json").read_text())}
    assert set().union(*PROMISED.values()) <= measured


QUICK = {"compatibility", "tracing"}  # the others take up to a minute each


@pytest.mark.parametrize(
    "question",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.full) for each in sorted(PROMISED)],
)
def test_a_benchmark_runs_on_little_data(question: str, tmp_path: Path) -> None:
    if question == "registry" and not shutil.which("wrk") and not os.environ.get("CI"):
        pytest.skip("needs wrk; on Debian: apt-get install wrk")
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.run", "--smoke", "--only", question, "--out", str(out)]
    environment = {**os.environ, **SHORT_LIVED_JAVA}
    finished = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env=environment
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    figures = json.loads(out.read_text())
    assert PROMISED[question] - {figure["name"] for figure in figures} == set()
    for figure in figures:
        assert set(figure) == {"name", "figure", "unit", "baseline", "ratio"}
        assert figure["figure"] > 0
        assert figure["baseline"] > 0
