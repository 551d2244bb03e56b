"""The composite action: its steps in a fake job, its comment, and its form."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.action.runner import ACTION, ACTION_DIR, STEPS, CommentApi, Runner, serving
from tests.unit.checks.workplace import Git, contract_text, git, here

__all__ = ["git", "here"]

MARKER = "<!-- tidegate check: contracts -->"


@pytest.fixture
def api() -> Iterator[CommentApi]:
    with serving(CommentApi()) as found:
        yield found


@pytest.fixture
def push(git: Git, tmp_path: Path, api: CommentApi) -> Callable[..., Runner]:
    """Push a contract to the branch of a pull request; return the runner of its job, in a shallow checkout."""
    contract = git.root / "contracts" / "admissions.json"
    contract.parent.mkdir()
    contract.write_text(contract_text())
    git.commit()
    git("branch", "change")

    def push_contract(number: int = 1, head: str | None = "o/r", **changes: Any) -> Runner:
        git("checkout", "-q", "change")
        contract.write_text(contract_text(**changes))
        git.commit()
        git("checkout", "-q", "--detach", "main")
        git("merge", "-q", "--no-ff", "-m", "Merge", "change")
        merge = git("rev-parse", "HEAD").strip()
        git("update-ref", "refs/pull/7/merge", merge)
        folder = tmp_path / f"runner-{number}"
        checkout = folder / "checkout"
        checkout.mkdir(parents=True)
        Git(checkout)("fetch", "-q", "--depth=1", f"file://{git.root}", "refs/pull/7/merge")
        Git(checkout)("checkout", "-q", "FETCH_HEAD")
        Git(checkout)("remote", "add", "origin", f"file://{git.root}")
        repository = None if head is None else {"full_name": head}
        event = {"pull_request": {"number": 7, "head": {"repo": repository}}}
        runner = Runner(folder, checkout, {"GITHUB_SHA": merge, "GITHUB_API_URL": api.url}, event)
        runner.install()
        return runner

    return push_contract


@pytest.mark.full
def test_a_second_push_updates_the_comment(push: Callable[..., Runner], api: CommentApi) -> None:
    job = push(1, version="1.1.0", maximum=120).run()
    assert job.exit_code == 1, job.log
    assert job.steps == [
        STEPS[0]["uses"],
        *("Install", "Check", "Comment", "Upload SARIF", "Result"),
    ]
    assert "::error file=contracts/admissions.json,line=" in job.log
    assert "Ask before merging: **bed-planning**" in job.summary
    report = json.loads(Path(job.outputs["sarif-file"]).read_text())
    assert "schema.maximum-lowered" in [result["ruleId"] for result in report["runs"][0]["results"]]
    assert [comment["body"] for comment in api.comments] == [f"{MARKER}\n{job.summary}"]

    job = push(2, version="1.1.0").run()
    assert job.exit_code == 0, job.log
    assert len(api.comments) == 1
    assert "bed-planning" not in api.comments[0]["body"]
    assert len([one for one in api.requests if one.startswith("POST")]) == 1


@pytest.mark.full
@pytest.mark.parametrize("head", ["someone/r", None])
def test_a_fork_gets_its_verdict_without_a_token(
    push: Callable[..., Runner], api: CommentApi, head: str | None
) -> None:
    job = push(head=head, version="1.1.0", maximum=120).run()
    assert job.steps[1:] == ["Install", "Check", "Result"]
    assert "::notice title=tidegate::the token of this pull request cannot write" in job.log
    assert "::error file=contracts/admissions.json,line=" in job.log
    assert (job.exit_code, api.requests) == (1, [])


@pytest.mark.full
def test_what_others_merged_since_is_no_change_of_this_one(
    push: Callable[..., Runner], git: Git, api: CommentApi
) -> None:
    runner = push(version="1.0.1")
    git("checkout", "-q", "main")
    (git.root / "contracts" / "other.json").write_text(contract_text("hospital.other"))
    git.commit()
    job = runner.run()
    assert (job.exit_code, "hospital.other" in job.summary) == (0, False), job.log
    assert len(api.comments) <= 1


@pytest.mark.full
def test_a_backtest_is_part_of_the_one_comment(push: Callable[..., Runner], api: CommentApi) -> None:
    runner = push(version="1.1.0", maximum=120, consumers=[])
    (runner.checkout / "day.jsonl").write_text('{"age": 130}\n{"age": 5}\n')
    inputs = {"paths": "contracts/admissions.json", "backtest_data": "day.jsonl"}
    job = runner.run(**inputs, fail_on="never")
    assert job.exit_code == 0, job.log
    assert "Backtest: 50.000% newly refused" in job.summary
    assert [comment["body"] for comment in api.comments] == [f"{MARKER}\n{job.summary}"]
    job = runner.run(**inputs, fail_on="never", max_newly_refused="0.1")
    assert (job.exit_code, len(api.comments)) == (1, 1)

    unchanged = push(2)
    (unchanged.checkout / "day.jsonl").write_text('{"age": 5}\n')
    job = unchanged.run(backtest_data="day.jsonl", backtest_contract="contracts/admissions.json")
    assert (job.exit_code, len(api.comments)) == (0, 1), job.log
    assert "Backtest" in api.comments[0]["body"]
    job = unchanged.run(backtest_data="day.jsonl")
    assert (job.exit_code, "`backtest-contract`" in job.log) == (2, True)


@pytest.mark.full
def test_inputs_are_never_run(push: Callable[..., Runner], api: CommentApi) -> None:
    text = "$(touch pwned); `touch pwned`; \"; touch pwned; ' --> <script>"
    runner = push(version="1.1.0", maximum=120)
    for name in ("against", "fail_on", "paths"):
        assert runner.run(**{name: text}).exit_code == 2
    for name in ("backtest_contract", "max_newly_refused"):
        assert runner.run(**{"backtest_data": text, name: text}).exit_code == 2
    assert runner.run(paths="--output=pwned\ncontracts").exit_code == 2
    runner.run(name=text)
    assert api.comments[0]["body"].splitlines()[0].count("-->") == 1
    assert list(runner.folder.rglob("pwned")) == []


@pytest.mark.full
def test_a_commit_that_is_no_merge_needs_the_input(push: Callable[..., Runner], git: Git) -> None:
    runner = push(version="1.1.0")
    head = git("rev-parse", "change").strip()
    runner.environment["GITHUB_SHA"] = head
    job = runner.run()
    assert (job.exit_code, job.steps[-1]) == (2, "Check")
    assert "or set the input `against`" in job.log
    Git(runner.checkout)("fetch", "-q", "origin", "main")
    assert runner.run(against="git:FETCH_HEAD").exit_code == 0


@pytest.mark.full
def test_options_reach_the_check(push: Callable[..., Runner], api: CommentApi) -> None:
    runner = push(version="2.0.0", maximum=120)
    assert runner.run(fail_on="never", comment="false", sarif="false").steps[1:] == [
        "Install",
        "Check",
        "Result",
    ]
    assert runner.run(paths="\ncontracts\n").exit_code == 1
    assert runner.run(allow_major="true").exit_code == 0
    assert len(api.comments) == 1


class TestComment:
    """The step alone, with the server that stands for GitHub's API."""

    @pytest.fixture
    def comment(
        self, tmp_path: Path, api: CommentApi, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., None]:
        def write_comment(findings: int = 1, summary: str = "### Contracts", number: int | None = 7) -> None:
            event = {} if number is None else {"pull_request": {"number": number}}
            files = {
                "GITHUB_EVENT_PATH": json.dumps(event),
                "SARIF_FILE": json.dumps({"runs": [{"results": [{}] * findings}]}),
                "SUMMARY_FILE": summary,
            }
            for name, text in files.items():
                (tmp_path / name).write_text(text)
                monkeypatch.setenv(name, str(tmp_path / name))
            monkeypatch.setenv("GITHUB_API_URL", api.url)
            monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
            monkeypatch.setenv("HAS_BACKTEST", "false")
            monkeypatch.setenv("INPUT_NAME", "contracts")
            monkeypatch.setenv("TOKEN", "token-of-the-job")
            runpy.run_path(str(ACTION_DIR / "comment.py"), run_name="__main__")

        return write_comment

    def test_the_own_comment_is_found_among_many(self, comment: Callable[..., None], api: CommentApi) -> None:
        for number in range(230):
            api.add(f"talk {number}", "User")
        api.add(f"{MARKER}\nold")
        api.add("talk", "User")
        comment()
        assert (len(api.comments), api.comments[230]["body"]) == (232, f"{MARKER}\n### Contracts")

    def test_a_persons_comment_is_left_alone(self, comment: Callable[..., None], api: CommentApi) -> None:
        forged = api.add(f"{MARKER}\nall is well", "User")
        api.comments.append({"id": 1, "body": f"{MARKER}\n", "user": None})
        comment()
        assert forged["body"] == f"{MARKER}\nall is well"
        assert len(api.comments) == 3

    def test_comments_of_two_runs_at_once_become_one(
        self, comment: Callable[..., None], api: CommentApi
    ) -> None:
        api.add(f"{MARKER}\na")
        api.add(f"{MARKER}\nb")
        comment()
        assert [one["body"] for one in api.comments] == [f"{MARKER}\n### Contracts"]

    def test_without_findings_only_a_comment_that_is_there_says_so(
        self, comment: Callable[..., None], api: CommentApi
    ) -> None:
        comment(findings=0)
        assert api.comments == []
        comment(findings=2)
        comment(findings=0)
        assert [one["body"] for one in api.comments] == [f"{MARKER}\n### Contracts: no findings\n"]

    @pytest.mark.parametrize(
        ("status", "reason"),
        [(403, "pull-requests: write"), (404, "pull-requests: write"), (502, "answered 502")],
    )
    def test_a_token_that_cannot_write_is_a_warning(
        self,
        comment: Callable[..., None],
        api: CommentApi,
        capsys: pytest.CaptureFixture[str],
        status: int,
        reason: str,
    ) -> None:
        api.refuse = status
        comment()
        said = capsys.readouterr().out
        assert said.startswith("::warning title=tidegate::no comment was written: ")
        assert (reason in said, "token-of-the-job" in said) == (True, False)

    def test_a_push_has_no_comment(
        self, comment: Callable[..., None], api: CommentApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        comment(number=None)
        assert api.requests == []
        assert "no pull request" in capsys.readouterr().out

    def test_a_long_report_is_cut_at_a_line(self, comment: Callable[..., None], api: CommentApi) -> None:
        comment(summary="| a row |\n" * 10_000)
        body = api.comments[0]["body"]
        assert len(body) < 65_536
        assert body.endswith("| a row |\n\nThe job summary has the other findings.\n")


def test_the_form_is_that_of_an_action() -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-actions",
        str(ACTION_DIR / "action.yml"),
    ]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_no_expression_stands_in_a_script() -> None:
    scripts = [step["run"] for step in STEPS if "run" in step]
    assert len(scripts) == 4
    assert [script for script in scripts if "${{" in script] == []
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(STEPS)))
    assert used == set(ACTION["inputs"])


@pytest.mark.full
def test_the_installation_has_the_locked_versions_and_no_extras(tmp_path: Path) -> None:
    environment = os.environ | {
        "PYTHON": sys.executable,
        "GITHUB_ACTION_PATH": str(ACTION_DIR),
        "RUNNER_TEMP": str(tmp_path),
    }
    script = next(step["run"] for step in STEPS if step.get("name") == "Install")
    ran = subprocess.run(
        ["bash", "-e", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"tidegate \d+\.\d+\.\d+\n", ran.stdout)
    pip = [str(tmp_path / "tidegate" / "bin" / "pip"), "list", "--format=json"]
    listed = json.loads(subprocess.run(pip, capture_output=True, check=True).stdout)
    found = {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in listed}
    # A package may have several versions, for several versions of Python.
    locked = set(
        re.findall(r"^([a-z0-9][a-z0-9-]*)==(\S+)", Path("requirements.lock").read_text(), re.MULTILINE)
    )
    assert {name for name, _ in found.items() - locked} <= {"pip", "setuptools", "tidegate"}
    assert not {"pyspark", "fastapi", "confluent-kafka"} & found.keys()
