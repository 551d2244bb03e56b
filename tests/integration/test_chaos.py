"""Chaos still works; for how long it holds is asked of `make chaos`."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.postgresql import newest_binaries

pytestmark = pytest.mark.full


def chaos(*options: str, reconciled: str = "every offset has one fate") -> str:
    """Run chaos for as long as one fault takes; return what it has printed, `reconciled` among it."""
    command = [sys.executable, "-m", "tests.chaos.run", "--seconds", "1", *options]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr[-2000:]
    assert finished.stdout.startswith("seed ")
    assert re.search(f"^reconcile: {reconciled}$", finished.stdout, re.MULTILINE), finished.stdout
    return finished.stdout


def test_a_little_chaos_loses_and_doubles_nothing() -> None:
    newest_binaries()  # without them it is left out, but not in CI
    chaos("--sink", "postgresql-upsert")


@pytest.mark.parametrize(
    ("sink", "fault"),
    [
        ("kafka", "restart_broker"),
        ("kafka", "add_partition"),
        ("kafka", "shorten_retention"),
        ("iceberg", "publish_version"),
        ("kafka-tasks", "change_slots"),
        ("iceberg", "roll_back"),
        ("delta", "roll_back"),
        ("postgresql", "replay"),
        ("iceberg", "send_back"),
        ("postgresql", "discard"),
        pytest.param(
            *("iceberg", "fill_disk"),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk to fill"),
        ),
        ("postgresql", "restore"),
    ],
)
def test_what_is_around_a_job_may_change(sink: str, fault: str) -> None:
    assert f"faults: 1 {fault};" in chaos("--sink", sink, "--only", fault)


@pytest.mark.parametrize("sink", ["kafka-tasks", "delta-upsert"])
def test_records_that_retention_deleted_are_not_lost(sink: str) -> None:
    """The ledger names the offsets below which no start reads the topics. Tasks write the accepted topic, too."""
    beyond_proof = r"[\d,]+ offsets are beyond proof, because retention deleted records"
    told = chaos("--sink", sink, "--only", "shorten_retention", reconciled=beyond_proof)
    assert "faults: 1 shorten_retention;" in told
