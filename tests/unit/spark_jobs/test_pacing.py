"""How often a stream commits: tables seldom, topics often, and a full batch at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.spark_jobs.job.source import pacing_options
from tidegate.spark_jobs.settings import JobSettings


def settings(**changes: object) -> JobSettings:
    known: dict[str, object] = {
        "bootstrap_servers": "none:0",
        "registry_url": "http://none",
        "warehouse": Path("warehouse"),
        "checkpoints": Path("checkpoints"),
    }
    return JobSettings.model_validate(known | changes)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 5.0),
        ({"sink": "delta"}, 5.0),
        ({"sink": "kafka"}, 0.5),
        ({"trigger_seconds": 0.5}, 0.5),
        ({"sink": "kafka", "trigger_seconds": 2}, 2.0),
        ({"trigger_seconds": 0}, 0.0),
    ],
)
def test_tables_are_committed_to_less_often_than_topics(changes: dict[str, object], seconds: float) -> None:
    assert settings(**changes).batch_seconds == seconds


def test_a_batch_waits_for_more_records_until_it_is_full() -> None:
    paced = {"minOffsetsPerTrigger": "1000", "maxTriggerDelay": "5000ms"}
    assert pacing_options(settings(max_offsets=1000)) == paced


@pytest.mark.parametrize("changes", [{"sink": "kafka"}, {"trigger_seconds": 0.1}, {"available_now": True}])
def test_a_batch_does_not_wait(changes: dict[str, object]) -> None:
    assert pacing_options(settings(**changes)) == {}
