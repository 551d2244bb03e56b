"""`tidegate enforce` before Spark is loaded: its cost, its settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.gateway.exits import ExitCode
from tidegate.spark_jobs import cli
from tidegate.spark_jobs.cli import enforce, reconcile


def test_the_command_is_cheap_to_import() -> None:
    code = (
        "import sys, tidegate.spark_jobs.cli; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_settings_are_named_with_their_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOOTSTRAP_SERVERS", "WAREHOUSE", "REGISTRY_URL", "CHECKPOINTS"):
        monkeypatch.delenv(f"TIDEGATE_{name}", raising=False)
    with pytest.raises(SettingsError) as raised:
        enforce(["s"], registry="http://r")
    assert str(raised.value) == (
        "settings are missing: give --bootstrap-servers, --warehouse, --checkpoints, or set "
        "TIDEGATE_BOOTSTRAP_SERVERS, TIDEGATE_WAREHOUSE, TIDEGATE_CHECKPOINTS"
    )
    with pytest.raises(
        SettingsError, match=r"setting is missing: give --registry, or set TIDEGATE_REGISTRY_URL$"
    ):
        enforce(["s"], bootstrap_servers="b:1", warehouse=Path("w"), checkpoints=Path("c"))
    with pytest.raises(
        SettingsError, match="give --bootstrap-servers, --warehouse, or set TIDEGATE_BOOTSTRAP"
    ):
        reconcile("s")


def test_a_missing_setting_stands_beside_one_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_WAREHOUSE", raising=False)
    with pytest.raises(
        SettingsError, match=r"max-offsets: Input .*; .* give --warehouse, or set TIDEGATE_WAREHOUSE"
    ):
        enforce(["s"], bootstrap_servers="b:1", registry="http://r", checkpoints=Path("c"), max_offsets=0)


def test_a_setting_that_cannot_work_is_named() -> None:
    with pytest.raises(
        SettingsError, match="sink: Input should be 'iceberg', 'delta', 'postgresql' or 'kafka'"
    ):
        enforce(["s"], bootstrap_servers="b:1", registry="http://r", sink="paper")


NEEDED: dict[str, Any] = {"bootstrap_servers": "b:1", "registry": "http://r", "warehouse": Path("w")}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "name the contracts to enforce, or choose them with --all, --prefix or --domain"),
        ({"contracts": ["s"], "every": True}, "name the contracts to enforce, or choose them"),
        ({"contracts": ["s"], "prefix": ["s"]}, "name the contracts to enforce, or choose them"),
        ({"every": True, "domain": ["d"]}, "--all leaves no contract out"),
        ({"prefix": [""]}, "an empty --prefix or --domain chooses nothing"),
    ],
)
def test_contracts_are_named_or_chosen(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        enforce(**given, **NEEDED)


def test_each_answer_of_reconcile_ends_with_a_code_of_its_own() -> None:
    """The third is neither success nor a finding."""
    assert cli._EXIT_CODES == {
        ReconciliationAnswer.HOLDS: ExitCode.OK,
        ReconciliationAnswer.LOST: ExitCode.FINDINGS,
        ReconciliationAnswer.UNPROVEN: ExitCode.UNPROVEN,
    }
    assert sorted(cli._EXIT_CODES.values()) == [0, 1, 6]
