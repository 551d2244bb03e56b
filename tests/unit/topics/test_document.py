"""A file of topics: what it says for each environment, and each mistake with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.contracts.errors import ContractError, SettingsError
from tidegate.contracts.stream.output_topics import marks_settings, output_settings
from tidegate.gateway.topics.document import WantedTopic, load_topics

FILE = """\
apiVersion: tidegate/v1
kind: Topics
defaults:
  replication: 3
  config: {min.insync.replicas: 2}
ledger: {}
topics:
  hospital.admissions:
    partitions: 6
    config: {retention.ms: 604800000, max.message.bytes: 2000000}
    quarantine: {config: {retention.ms: 2592000000}}
  hospital.wards:
    partitions: 3
    config: {cleanup.policy: [compact, delete], unclean.leader.election.enable: false}
    accepted: {partitions: 1}
environments:
  dev:
    defaults: {replication: 1, config: {min.insync.replicas: 1}}
    topics:
      hospital.admissions: {partitions: 1}
      hospital.trials: {}
  prod: {}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "topics.yaml"
    path.write_text(FILE)
    return path


def by_name(file: Path, environment: str | None) -> dict[str, WantedTopic]:
    return {topic.name: topic for topic in load_topics(file, environment)}


@pytest.mark.parametrize("kind", ["replayed", "marks"])
def test_positions_of_replayed_records_and_marks_are_kept_for_ever(file: Path, kind: str) -> None:
    file.write_text(FILE.replace("    quarantine:", f"    {kind}: {{}}\n    quarantine:", 1))
    wanted = {topic.name: topic for topic in load_topics(file, None)}
    found = wanted[f"hospital.admissions.{kind}"]
    assert (found.partitions, found.config["retention.ms"]) == (1, "-1")


DAY = 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    ("days", "of_source", "kept"),
    [(None, DAY, -1), (30, -1, -1), (30, DAY, 30 * DAY), (3, 7 * DAY, 7 * DAY), (1, 1000, DAY)],
)
def test_marks_are_kept_as_long_as_refused_records_and_the_source(
    days: int | None, of_source: int, kept: int
) -> None:
    assert marks_settings(1000, days, of_source)["retention.ms"] == str(kept)


def test_positions_of_dropped_records_are_kept_as_long_as_their_source(file: Path) -> None:
    text = FILE.replace("    quarantine:", "    dropped: {}\n    quarantine:")
    file.write_text(text.replace("    accepted: {partitions: 1}", "    dropped: {}"))
    wanted = by_name(file, None)
    admissions, wards = (wanted[f"hospital.{name}.dropped"] for name in ("admissions", "wards"))
    assert (admissions.partitions, admissions.replication) == (1, 3)
    assert admissions.config["retention.ms"] == "604800000"
    assert wards.config["retention.ms"] == "-1"


def test_outputs_and_the_ledger_get_what_the_job_needs(file: Path) -> None:
    wanted = by_name(file, None)
    assert list(wanted) == [
        "hospital.admissions",
        "hospital.admissions.quarantine",
        "hospital.wards",
        "hospital.wards.accepted",
        "tidegate.ledger",
    ]
    quarantine = wanted["hospital.admissions.quarantine"]
    assert (quarantine.partitions, quarantine.replication) == (6, 3)
    assert quarantine.config == {
        **output_settings(2_000_000),
        "min.insync.replicas": "2",
        "retention.ms": "2592000000",
    }
    accepted = wanted["hospital.wards.accepted"]
    assert (accepted.partitions, accepted.config["cleanup.policy"]) == (1, "delete")
    assert accepted.config["max.message.bytes"] == str(1_048_588 + 64 * 1024)
    ledger = wanted["tidegate.ledger"]
    assert (ledger.partitions, ledger.replication) == (4, 3)
    assert ledger.config == {
        "cleanup.policy": "compact",
        "segment.bytes": "16777216",
        "min.insync.replicas": "2",
    }
    assert wanted["hospital.wards"].config == {
        "cleanup.policy": "compact,delete",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    }


def test_an_environment_comes_before_the_file(file: Path) -> None:
    dev = by_name(file, "dev")
    assert all(topic.replication == 1 for topic in dev.values())
    assert all(topic.config.get("min.insync.replicas") == "1" for topic in dev.values())
    assert (dev["hospital.admissions"].partitions, dev["hospital.admissions.quarantine"].partitions) == (1, 1)
    assert dev["hospital.admissions"].config["retention.ms"] == "604800000"
    assert dev["hospital.trials"] == WantedTopic("hospital.trials", 1, 1, {"min.insync.replicas": "1"})
    assert by_name(file, "prod") == by_name(file, None)


def test_an_environment_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(SettingsError, match=r"has no environment `pord`.*prod.*it has dev, prod"):
        load_topics(file, "pord")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("partitions: 6", "partitions: 0", r":9:17: input should be greater than or equal to 1"),
        ("partitions: 6", "partition: 6", r":9:5: unknown key `partition`"),
        ("hospital.wards:", "hospital/wards:", r"should match pattern"),
        ("kind: Topics", "kind: Topic", r":2:7: input should be 'Topics'"),
        (
            "replication: 3\n",
            "replication: 1\n",
            r"wants 2 replicas in sync and has 1: nothing could be written",
        ),
        ("min.insync.replicas: 2", "min.insync.replicas: two", r"is not a number: two"),
        (
            "max.message.bytes: 2000000",
            "max.message.bytes: 1MB",
            r":10:58: max.message.bytes of hospital.admissions is not a number: 1MB",
        ),
        (
            "retention.ms: 2592000000",
            "cleanup.policy: compact",
            r":11:43: hospital.admissions.quarantine would lose records with cleanup.policy compact",
        ),
        (
            "retention.ms: 2592000000",
            "retention.ms: 3600000",
            r"would lose records with retention.ms 3600000",
        ),
        ("retention.ms: 2592000000", "retention.ms: week", r"would lose records with retention.ms week"),
        ("ledger: {}", "ledger: {partitions: 1}", r"must be compacted and have at least 4 partitions"),
        ("ledger: {}", "ledger: [", r"topics.yaml:"),
    ],
)
def test_each_mistake_has_its_place(file: Path, before: str, after: str, told: str) -> None:
    assert before in FILE
    file.write_text(FILE.replace(before, after, 1))
    with pytest.raises(ContractError, match=told):
        load_topics(file, None)
