"""The pre-commit hooks, run by pre-commit itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.checks.workplace import Git, Write, contract_text, git, here, write
from tidegate.contracts.document.yaml_source import read_yaml

__all__ = ["git", "here", "write"]

MANIFEST = Path(".pre-commit-hooks.yaml").absolute()
HOOKS: list[dict[str, Any]] = read_yaml("hooks", MANIFEST.read_text("utf-8")).value


def pre_commit(*arguments: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PRE_COMMIT_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = [sys.executable, "-m", "pre_commit", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_the_manifest_is_valid(tmp_path: Path) -> None:
    checked = pre_commit("validate-manifest", str(MANIFEST), cwd=tmp_path, home=tmp_path)
    assert checked.returncode == 0, checked.stdout


def breaking_change(git: Git, write: Write) -> None:
    """Commit a contract whose schema is a file; then stage a schema that breaks its consumers."""
    write("contracts/a/contract.json", schema={"type": "json-schema", "file": "a.schema.json"})
    schema = json.loads(contract_text())["schema"]["definition"]
    write("contracts/a/a.schema.json", json.dumps(schema))
    write("compose.yaml", "services: {}\n")
    git.commit()
    schema["properties"]["age"]["maximum"] = 120
    write("contracts/a/a.schema.json", json.dumps(schema))
    git("add", "-A")


def test_the_hooks_see_a_changed_schema(git: Git, write: Write, tmp_path: Path) -> None:
    """With this environment instead of an installation: `language: system` is the only difference."""
    breaking_change(git, write)
    hooks = [hook | {"language": "system"} for hook in HOOKS]
    write(".pre-commit-config.yaml", json.dumps({"repos": [{"repo": "local", "hooks": hooks}]}))
    git("add", "-A")
    ran = pre_commit("run", "--verbose", cwd=git.root, home=tmp_path / "home")
    lint, _, check = ran.stdout.partition("- hook id: tidegate-check")
    assert "contracts/a/contract.json: ok · hospital.admissions 1.0.0" in lint
    assert "[schema.maximum-lowered]" in check
    assert ran.returncode == 1
    git("reset", "-q", "--hard")
    write("compose.yaml", "services: {a: {image: b}}\n")
    write(".pre-commit-config.yaml", json.dumps({"repos": [{"repo": "local", "hooks": hooks[:1]}]}))
    git("add", "-A")
    ran = pre_commit("run", cwd=git.root, home=tmp_path / "home")
    assert ran.returncode == 0, ran.stdout


@pytest.mark.full
def test_the_hooks_are_installed_from_the_repository(git: Git, write: Write, tmp_path: Path) -> None:
    """As `repo: https://...` does: pre-commit clones the repository and builds its wheel."""
    breaking_change(git, write)
    ran = pre_commit(
        *("try-repo", str(MANIFEST.parent), "tidegate-lint", "--verbose"),
        cwd=git.root,
        home=tmp_path / "home",
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "contracts/a/contract.json: ok · hospital.admissions 1.0.0" in ran.stdout
