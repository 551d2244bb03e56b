"""`tidegate topics` against a real broker."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.topics.cluster import Cluster
from tidegate.spark_jobs.kafka.topics import Topics

Ran = subprocess.CompletedProcess[str]
Run = Callable[..., Ran]


@pytest.fixture
def run(broker: Broker, tmp_path: Path) -> Run:
    """Return a function that runs `tidegate topics` on a text: `run("plan", text)`."""

    def tidegate(verb: str, text: str, *options: str, servers: str = broker.bootstrap) -> Ran:
        file = tmp_path / "topics.yaml"
        file.write_text(text)
        command = [sys.executable, "-m", "tidegate.gateway.cli.main", "topics", verb, str(file)]
        return subprocess.run(
            [*command, "--bootstrap-servers", servers, *options],
            capture_output=True,
            text=True,
            check=False,
        )

    return tidegate


def text_of(name: str, partitions: int = 1, retention: str = "-1") -> str:
    return f"""\
apiVersion: tidegate/v1
kind: Topics
defaults: {{replication: 3, config: {{min.insync.replicas: 2}}}}
topics:
  {name}:
    partitions: {partitions}
    config: {{retention.ms: {retention}, cleanup.policy: [compact, delete]}}
    quarantine: {{}}
environments:
  dev: {{defaults: {{replication: 1, config: {{min.insync.replicas: 1}}}}}}
"""


def test_a_file_is_planned_applied_and_then_nothing_is_left_to_do(broker: Broker, run: Run) -> None:
    name = f"adm-{uuid.uuid4().hex[:8]}"
    dev = ("--environment", "dev")
    pending = run("plan", text_of(name), *dev)
    assert pending.returncode == 2
    assert f"+ {name}: partitions 1, replication 1" in pending.stdout
    assert "    cleanup.policy = compact,delete" in pending.stdout
    cluster = Cluster(KafkaConnection(broker.bootstrap))
    assert cluster.topics([name]) == {}  # a plan changes nothing
    applied = run("apply", text_of(name), *dev)
    assert (applied.returncode, applied.stdout.splitlines()[-1]) == (0, "2 changes made")
    done = run("plan", text_of(name), *dev)
    assert (done.returncode, done.stdout) == (0, "nothing to do\n")
    # The job takes the quarantine topic as it is.
    topics = Topics(KafkaConnection(broker.bootstrap))
    source = topics.describe(name)
    assert source is not None
    topics.ensure_quarantine(f"{name}.quarantine", source, None)

    grown = run("plan", text_of(name, 3, "86400000"), *dev)
    assert grown.returncode == 2
    assert grown.stdout.splitlines() == [
        f"~ {name}: partitions 1 -> 3",
        f"~ {name}: retention.ms -1 -> 86400000",
        f"~ {name}.quarantine: partitions 1 -> 3",
    ]
    assert run("apply", text_of(name, 3, "86400000"), *dev).returncode == 0
    found = cluster.topics([name, f"{name}.quarantine"])
    assert {topic.partitions for topic in found.values()} == {3}
    assert found[name].config["retention.ms"] == "86400000"
    assert found[name].config["cleanup.policy"] == "compact,delete"  # others keep their values

    shrunk = run("apply", text_of(name, 2, "5"), *dev)
    assert shrunk.returncode == 1
    assert (
        f"! {name}: it has 3 partitions, and 2 are wanted: partitions cannot be taken away" in shrunk.stdout
    )
    assert cluster.topics([name])[name].config["retention.ms"] == "86400000"  # nothing at all was done


def test_what_the_cluster_refuses_or_the_file_gets_wrong_has_its_own_code(run: Run) -> None:
    name = f"adm-{uuid.uuid4().hex[:8]}"
    refused = run("apply", text_of(name))  # three replicas on one broker
    assert refused.returncode == 2
    assert f"create topic {name}: the cluster refuses: " in refused.stderr
    wrong = run("plan", text_of(name, 0))
    assert wrong.returncode == 1
    assert "topics.yaml:6:17" in wrong.stderr


@pytest.mark.full
def test_a_cluster_that_does_not_answer_is_an_outage(run: Run) -> None:
    away = run("plan", text_of("adm"), servers="127.0.0.1:1")
    assert away.returncode == 3
    assert "no answer from 127.0.0.1:1" in away.stderr
