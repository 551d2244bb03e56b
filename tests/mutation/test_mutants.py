"""The run detects mutants, and `survivors.md` names only mutants that exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutants import ROOT, mutants
from tests.mutation.run import NEEDS_JVM, PURE, SURVIVORS, explained

EVERY = [*PURE, *NEEDS_JVM]


@pytest.mark.parametrize("module", EVERY)
def test_the_mutants_of_a_module_have_a_key_each(module: str) -> None:
    keys = [each.key for each in mutants(module)]
    assert keys
    assert len({*keys}) == len(keys)


def test_every_test_of_a_module_is_there() -> None:
    named = {path for tests in (*PURE.values(), *NEEDS_JVM.values()) for path in tests}
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


def test_every_explanation_names_a_mutant() -> None:
    headings = [line.removeprefix("## ") for line in SURVIVORS.read_text().splitlines() if line[:3] == "## "]
    assert {*headings} <= {*EVERY}
    for module in headings:
        assert explained(module) - {each.key for each in mutants(module)} == set()


def test_a_claim_that_counts_backwards_is_noticed(tmp_path: Path) -> None:
    """It runs in a process that has not imported the module."""
    (number,) = [
        number
        for number, each in enumerate(mutants("tidegate.contracts.stream.ledger"))
        if each.key == "Ledger.claim: `self.epoch + 1` -> `self.epoch - 1`"
    ]
    code = (
        "from tests.mutation.mutants import install, mutants\n"
        f"install(mutants('tidegate.contracts.stream.ledger')[{number}])\n"
        "from tests import ledgers\n"
        "print(ledgers.LEDGER.epoch, ledgers.LEDGER.claim(1).epoch)\n"
    )
    script = tmp_path / "claim.py"
    script.write_text(code)
    told = subprocess.run(
        [sys.executable, script], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["3", "2"]


def test_a_run_tells_noticed_mutants_from_survivors() -> None:
    """The run would report tests that fail without a mutant."""
    command = [sys.executable, "-m", "tests.mutation.run", "tidegate.contracts.stream.ledger", "--only"]
    told = subprocess.run(
        [*command, "Ledger.claim: `self.epoch + 1`"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "1 tried, 1 noticed, 0 survive as explained" in told.stdout, told.stdout + told.stderr
    assert told.returncode == 0
