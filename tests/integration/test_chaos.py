"""Chaos still works; for how long it holds is asked of `make chaos`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.postgresql import newest_binaries


@pytest.mark.full
def test_a_little_chaos_loses_and_doubles_nothing() -> None:
    newest_binaries()  # without them it is left out, but not in CI
    command = [sys.executable, "-m", "tests.chaos.run", "--seconds", "1", "--sink", "postgresql-upsert"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr[-2000:]
    assert finished.stdout.startswith("seed ")
    assert "reconcile: every offset has one fate" in finished.stdout
