"""The command works where the packages of a user have the names of folders of this repository."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.users_project import environment, imported, make_project
from tidegate.gateway.cli.verbs import VERBS

LOAD = (
    "from pkgutil import resolve_name\n"
    "for target in {targets!r}: resolve_name(target)\n"
    "import contracts, schemas, gateway\n"
    "assert {{contracts.OWNER, schemas.OWNER, gateway.OWNER}} == {{'the user'}}"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_verb_loads_next_to_packages_of_the_same_names(project: Path) -> None:
    targets = [verb.group or verb.target for verb in VERBS]
    loaded = run(project, "-c", LOAD.format(targets=targets))
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert imported(project) == {"contracts", "schemas", "gateway"}  # by the last lines of the program


def test_a_project_with_such_packages_is_linted_and_judged(project: Path, contract: Path) -> None:
    command = ("-m", "tidegate.gateway.cli.main")
    assert run(project, *command, "lint", str(contract)).returncode == 0
    (project / "records.jsonl").write_text('{"age": 63}\n{"age": 999}\n')
    judged = run(project, *command, "judge", str(contract), "--data", "records.jsonl", "--format=json")
    assert judged.returncode == 1, judged.stderr
    verdicts = [json.loads(line)["disposition"] for line in judged.stdout.splitlines()]
    assert verdicts == ["accepted", "quarantined"]
    assert imported(project) == set()
