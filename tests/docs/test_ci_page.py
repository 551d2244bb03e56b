"""The pages about CI: their workflows run, their tables are complete."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from tests.unit.checks.workplace import Git, contract_text, git, here, write
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.gateway.checks import checking
from tidegate.gateway.checks.codes import OWN_CODES
from tidegate.gateway.cli.check import check
from tidegate.gateway.exits import ExitCode

__all__ = ["git", "here", "write"]

PAGE = "".join(
    Path("docs", name).read_text("utf-8") for name in ("how-to/ci.md", "reference/check-reports.md")
)
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, flags=re.DOTALL)
WORKFLOW, GITLAB, HOOKS = (read_yaml("example", text).value for kind, text in BLOCKS if kind == "yaml")
STEPS = [
    step["run"] for step in WORKFLOW["jobs"]["check"]["steps"] if "tidegate check" in step.get("run", "")
]
NAMES = set(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)))


@pytest.mark.parametrize(
    "line",
    [*STEPS, *GITLAB["contracts"]["script"], f"{HOOKS['repos'][0]['hooks'][0]['entry']} contract.yaml"],
)
def test_each_step_of_a_workflow_is_a_command(line: str) -> None:
    app = typer.Typer()
    app.command("check")(check)
    command, _, words = line.partition(" check ")
    assert command == "tidegate"
    assert get_command(app).make_context("check", shlex.split(words)).params


class TestWorkflow:
    @pytest.fixture
    def run(self, git: Git, tmp_path: Path) -> Any:
        """Run a step of the workflow as GitHub's runner does, on a branch that breaks a contract."""
        contract = git.root / "contracts" / "admissions.json"
        contract.parent.mkdir()
        contract.write_text(contract_text())
        git.commit()
        git("update-ref", "refs/remotes/origin/main", "HEAD")
        contract.write_text(contract_text(version="1.1.0", maximum=120))
        git.commit()
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "tidegate").write_text(
            f'#!/bin/sh\nexec {sys.executable} -m tidegate.gateway.cli.main "$@"\n'
        )
        (tmp_path / "bin" / "tidegate").chmod(0o755)
        env = {
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "GITHUB_BASE_REF": "main",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        }

        def run_step(script: str) -> subprocess.CompletedProcess[str]:
            command = ["bash", "-e", "-o", "pipefail", "-c", script]
            return subprocess.run(command, cwd=git.root, env=env, capture_output=True, text=True, check=False)

        return run_step

    def test_its_steps_do_what_the_page_says(self, run: Any, git: Git, tmp_path: Path) -> None:
        sarif, annotated = (run(step) for step in STEPS)
        assert (sarif.returncode, annotated.returncode) == (0, 1), sarif.stderr + annotated.stderr
        uploaded = WORKFLOW["jobs"]["check"]["steps"][-2]["with"]["sarif_file"]
        results = json.loads((git.root / uploaded).read_text())["runs"][0]["results"]
        assert "schema.maximum-lowered" in [result["ruleId"] for result in results]
        assert "::error file=contracts/admissions.json,line=" in annotated.stdout
        assert "Ask before merging: **bed-planning**" in (tmp_path / "summary.md").read_text()


def test_every_exit_code_is_there() -> None:
    rows = re.findall(r"^\| (\d+) \|", PAGE, flags=re.MULTILINE)
    used = (ExitCode.OK, ExitCode.FINDINGS, ExitCode.USAGE, ExitCode.UNAVAILABLE)
    assert [int(row) for row in rows] == [int(code) for code in used]


def test_every_code_of_the_check_is_there() -> None:
    source = Path(checking.__file__).read_text()
    assert set(re.findall(r'"((?:contract|base|version)\.[a-z-]+)"', source)) == set(OWN_CODES)
    rows = re.findall(r"^\| `((?:contract|base|version)\.[a-z-]+)` \|", PAGE, flags=re.MULTILINE)
    assert set(rows) == set(OWN_CODES)


@pytest.mark.full
def test_every_member_of_the_json_is_there(git: Git, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", git.root / "new.json"
    old.write_text(contract_text())
    new.write_text(contract_text(maximum=120))
    command = [
        sys.executable,
        "-m",
        "tidegate.gateway.cli.main",
        "check",
        new,
        "--against",
        old,
        "--format",
        "json",
    ]
    report = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    assert sorted(members(report) - NAMES - {"format"}) == []
    assert report["format"] in NAMES


def members(value: Any) -> set[str]:
    """Return the names of all members, of members too."""
    if isinstance(value, list):
        return set().union(*map(members, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*map(members, value.values()))
