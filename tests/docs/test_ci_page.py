"""The pages about CI: their workflows run, their tables are complete; and what runs every night."""

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

from tests.chaos.run import SINKS
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
OWN_FILE, WORKFLOW, GITLAB, USED_HOOKS = (
    read_yaml("example", text).value for kind, text in BLOCKS if kind == "yaml"
)
HOOKS = {
    hook["id"]: hook for hook in read_yaml("hooks", Path(".pre-commit-hooks.yaml").read_text("utf-8")).value
}
ACTION_INPUTS = read_yaml("action", Path(".github/actions/check/action.yml").read_text("utf-8")).value[
    "inputs"
]
NAMES = set(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)))


@pytest.mark.parametrize(
    "line",
    [*GITLAB["contracts"]["script"], f"{HOOKS['tidegate-check']['entry']} contracts/"],
)
def test_each_step_is_a_command(line: str) -> None:
    app = typer.Typer()
    app.command("check")(check)
    command, _, words = line.partition(" check ")
    assert command == "tidegate"
    assert get_command(app).make_context("check", shlex.split(words)).params


def test_the_job_of_gitlab_writes_its_report(git: Git, tmp_path: Path) -> None:
    contract = git.root / "contracts" / "admissions.json"
    contract.parent.mkdir()
    contract.write_text(contract_text())
    base = git.commit()
    contract.write_text(contract_text(version="1.1.0", maximum=120))
    command = tmp_path / "bin" / "tidegate"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidegate.gateway.cli.main "$@"\n')
    command.chmod(0o755)
    environment = {"PATH": f"{command.parent}:{os.environ['PATH']}", "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    script = ["bash", "-e", "-c", "\n".join(GITLAB["contracts"]["script"])]
    ran = subprocess.run(script, cwd=git.root, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    report = json.loads((git.root / GITLAB["contracts"]["artifacts"]["reports"]["codequality"]).read_text())
    found = {each["check_name"]: each for each in report}["schema.maximum-lowered"]
    assert (found["location"]["path"], found["severity"]) == ("contracts/admissions.json", "blocker")


def test_a_change_of_a_schema_in_its_own_file_is_a_change_of_the_contract(
    git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = git.root / OWN_FILE["schema"]["file"]
    schema.parent.mkdir()

    def write_schema(kind: str) -> None:
        record = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": kind}]}
        schema.write_text(json.dumps(record))

    write_schema("long")
    contract = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "o",
        "version": "1.0.0",
        "topic": "o",
    }
    (git.root / "contract.json").write_text(json.dumps({**contract, **OWN_FILE}))
    base = git.commit()
    write_schema("int")
    with pytest.raises(typer.Exit) as ended:
        check([Path()], against=f"git:{base}")
    assert ended.value.exit_code == ExitCode.FINDINGS
    assert "avro.type-changed" in capsys.readouterr().out


@pytest.mark.parametrize(("schema", "example"), [("github-workflows", WORKFLOW), ("gitlab-ci", GITLAB)])
def test_an_example_has_the_form_that_its_service_publishes(
    schema: str, example: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "example.json").write_text(json.dumps(example))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    checked = subprocess.run(
        [*command, tmp_path / "example.json"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_the_action_and_the_hooks_are_those_of_this_repository() -> None:
    steps = WORKFLOW["jobs"]["check"]["steps"]
    action = re.fullmatch(r"OWNER/tidegate/(.+)@COMMIT", steps[-1]["uses"])
    assert action
    assert Path(action[1], "action.yml").is_file()
    assert set(steps[-1]["with"]) <= set(ACTION_INPUTS)
    assert set(
        re.findall(r"^\| `([a-z-]+)` \| ", PAGE.partition("| input |")[2].partition("\n\n")[0], re.MULTILINE)
    ) == set(ACTION_INPUTS)
    assert [hook["id"] for hook in USED_HOOKS["repos"][0]["hooks"]] == list(HOOKS)


def test_each_long_target_runs_every_night_and_chaos_on_every_sink() -> None:
    nightly = read_yaml("nightly", Path(".github/workflows/nightly.yml").read_text("utf-8")).value
    ran = [step["run"] for job in nightly["jobs"].values() for step in job["steps"] if "run" in step]
    targets = ("test-full", "first-steps", "mutation", "fuzz", "chaos")
    assert sorted(ran) == sorted(f".ci/run {target}" for target in targets)
    chaos = nightly["jobs"]["chaos"]
    assert sorted(chaos["strategy"]["matrix"]["sink"]) == sorted(SINKS)
    assert chaos["steps"][-1]["env"]["SINK"] == "${{ matrix.sink }}"


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


@pytest.mark.full
@pytest.mark.parametrize("verb", ["backtest", "mutate"])
def test_every_member_of_the_other_reports_is_there(verb: str, tmp_path: Path) -> None:
    old, new, data = (tmp_path / name for name in ("old.json", "new.json", "records.jsonl"))
    old.write_text(contract_text())
    new.write_text(contract_text(version="1.1.0", maximum=50))
    data.write_text("".join(f'{{"age": {age}}}\n' for age in range(100)))
    against = ("--against", old) if verb == "backtest" else ()
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", verb, new if against else old]
    ran = subprocess.run(
        [*command, "--data", data, *against, "--format", "json"], capture_output=True, check=False
    )
    report = json.loads(ran.stdout)
    # What is suggested is a rule of a contract.
    assert sorted(members({**report, "rules": []}) - NAMES - {"format"}) == []
    assert report["format"] in NAMES


def members(value: Any) -> set[str]:
    """Return the names of all members, of members too."""
    if isinstance(value, list):
        return set().union(*map(members, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*map(members, value.values()))
