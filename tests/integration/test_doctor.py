from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from tidegate.contracts.stream.kafka_connection import KafkaConnection, KafkaSettings
from tidegate.contracts.stream.output_topics import LEDGER_PARTITIONS, LEDGER_TOPIC
from tidegate.gateway.embedded import doctor as doctor_checks
from tidegate.gateway.embedded import ports
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.embedded.doctor import CheckResult, examine, examine_topics
from tidegate.gateway.embedded.jars import Jars, default_cache
from tidegate.gateway.embedded.java import Java
from tidegate.gateway.embedded.processes import Command, RunDirectory
from tidegate.spark_jobs.kafka.topics import Topics


def finding(name: str, state: Path) -> CheckResult:
    return next(one for one in examine(state) if one.name == name)


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person does."""
    return subprocess.run(
        [sys.executable, "-m", "tidegate.gateway.cli.main", "doctor", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_there_is_shown(jars: Jars, java: Java, tmp_path: Path) -> None:
    answer = doctor("--format=json", "--state", str(tmp_path))
    report = json.loads(answer.stdout)
    assert answer.stderr == ""
    assert answer.returncode == (0 if report["ok"] else 1)
    assert report["ok"] is all(row["ok"] for row in report["findings"])
    found = {row["name"]: row["found"] for row in report["findings"]}
    assert found["java"] == f"{java.version} ({java.path})"
    assert found["jars"] == f"{len(default_cache().lock)} verified in {jars.broker_dir.parent}"
    assert found["pyspark"] == "4.1.3"
    assert found["state"] == f"{tmp_path}: nothing is running"


def test_a_lack_ends_with_exit_code_1_and_says_what_to_do(jars: Jars, tmp_path: Path) -> None:
    assert jars.broker_dir.is_dir()
    answer = doctor("--state", str(tmp_path), TIDEGATE_JARS_DIR=str(tmp_path / "none"))
    assert answer.returncode == 1
    (problem,) = [line for line in answer.stdout.splitlines() if line.startswith("problem")]
    assert problem == f"problem  jars             not installed in {tmp_path}/none"
    assert "install them: tidegate jars" in answer.stdout


def test_a_missing_java_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = finding("java", tmp_path)
    assert not found.is_ok
    assert found.found == "missing or unfit"


def test_another_spark_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    expected = CheckResult("SPARK_HOME", "/opt/spark", "unset it: the job needs the Spark inside PySpark")
    assert finding("SPARK_HOME", tmp_path) == expected


def test_another_worker_python_is_reported_as_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python2")
    expected = CheckResult("worker python", f"{sys.executable} (PYSPARK_PYTHON=python2 is ignored)")
    assert finding("worker python", tmp_path) == expected


def test_a_port_in_use_names_who_holds_it() -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        found = doctor_checks._port("registry port", port)
    assert found.is_ok
    assert found.found.startswith(f"{port} in use by ")
    assert found.found.endswith(f"(pid {os.getpid()}); another will be picked")


def test_what_runs_for_a_state_folder_is_named(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run", tmp_path / "logs")
    child = run.start(Command("broker", [sys.executable, "-c", "import time; time.sleep(600)"]))
    try:
        assert finding("state", tmp_path).found == f"{tmp_path}: running broker (pid {child.pid})"
    finally:
        child.stop(deadline_seconds=30)


def test_topics_that_forget_too_early_are_a_problem_with_a_command(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    source = make_topic("adm")
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    hour = {"retention.ms": "3600000", "message.timestamp.before.max.ms": str(2**63 - 1)}
    topics = [NewTopic(f"{source}.quarantine", 1, 1, config=hour), NewTopic(f"{source}.accepted.other", 1, 1)]
    for future in client.create_topics(topics).values():
        future.result(30)
    answer = doctor("--format=json", "--state", str(tmp_path), "--bootstrap-servers", broker.bootstrap)
    assert answer.returncode == 1, answer.stderr
    findings = {row["name"]: row for row in json.loads(answer.stdout)["findings"]}
    assert source not in findings
    assert f"{source}.accepted.other" not in findings
    found = findings[f"{source}.quarantine"]
    assert not found["ok"]
    assert "less than 1" in found["found"]
    _, _, settings = found["advice"].partition("--add-config ")
    alter(broker, f"{source}.quarantine", settings)
    assert topic_finding(broker, f"{source}.quarantine").is_ok


def test_a_ledger_topic_that_forgets_ledgers_is_a_problem_with_a_command(broker: Broker) -> None:
    """With retention, the ledger of a stream that is idle for a week would be deleted."""
    Topics(KafkaConnection(broker.bootstrap)).ensure_compacted(LEDGER_TOPIC, LEDGER_PARTITIONS)
    made = topic_finding(broker, LEDGER_TOPIC)
    assert (made.found, made.is_ok) == ("compact, keeps the newest record of each key", True)
    alter(broker, LEDGER_TOPIC, "cleanup.policy=delete,retention.ms=604800000")
    try:
        found = topic_finding(broker, LEDGER_TOPIC)
        assert found.found == "delete, keeps records for 7 days (cleanup.policy=delete)"
        assert found.advice == (
            "a job that writes this topic refuses to start: kafka-configs.sh --alter --entity-type topics --entity-name "
            "tidegate.ledger --add-config cleanup.policy=compact"
        )
    finally:  # the other tests use the topic too
        alter(broker, LEDGER_TOPIC, "cleanup.policy=compact,retention.ms=-1")
    assert topic_finding(broker, LEDGER_TOPIC).is_ok


def test_a_ledger_topic_with_too_few_partitions_is_a_problem_with_a_command(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    Topics(KafkaConnection(broker.bootstrap)).ensure_compacted(LEDGER_TOPIC, LEDGER_PARTITIONS)
    monkeypatch.setattr(doctor_checks, "LEDGER_PARTITIONS", 6)
    found = topic_finding(broker, LEDGER_TOPIC)
    assert found.found == "4 of 6 partitions"
    assert found.advice == (
        "a job that writes this topic refuses to start: kafka-topics.sh --alter --topic tidegate.ledger --partitions 6"
    )


def alter(broker: Broker, topic: str, settings: str) -> None:
    """Change settings of a topic, as `kafka-configs.sh --add-config` does."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for pair in settings.split(","):
        key, _, value = pair.partition("=")
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.incremental_alter_configs([resource])[resource].result(30)


def topic_finding(broker: Broker, topic: str) -> CheckResult:
    found = examine_topics(KafkaSettings().connection_to(broker.bootstrap))
    return next(one for one in found if one.name == topic)


@pytest.mark.full
def test_no_broker_is_an_exit_code_of_its_own(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        answer = doctor("--state", str(tmp_path), "--bootstrap-servers", address)
    assert answer.returncode == 3
    assert address in answer.stderr
