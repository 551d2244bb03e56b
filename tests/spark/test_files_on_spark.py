"""`tidegate judge --spark` and `infer --spark`: what they print and write is what they do on one machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.integration.scale.cluster import SparkCluster
from tests.jvm import SHORT_LIVED_JAVA
from tests.marks import full
from tests.unit.cli.conftest import CONTRACT
from tests.unit.cli.test_judge_files import ADMISSION, RULES_OF_AVRO, WRITERS, container, with_dates
from tests.unit.cli.test_judge_framed import contract_of
from tidegate.contracts.lint.lint import lint
from tidegate.gateway.cli import infer_parts
from tidegate.gateway.cli.main import main
from tidegate.gateway.embedded.demo.admissions import admissions_stream
from tidegate.gateway.sources import file_parts

OTHERS = [name for name in WRITERS if name not in ("records.jsonl", "delta", "iceberg")]
"""Formats of files. `--spark` refuses tables, as the tests of the command show."""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT)
    return path


@pytest.fixture
def ran(capfd: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capfd.readouterr()

    return run


@pytest.fixture
def judge(ran: Command) -> Command:
    return partial(ran, "judge")


def written(folder: Path) -> bytes:
    assert (folder / "_SUCCESS").read_bytes() == b""
    assert {each.name[:5] for each in folder.iterdir()} <= {"_SUCC", "part-"}
    assert {each.stat().st_mode & 0o077 for each in folder.iterdir() if each.name != "_SUCCESS"} <= {0}
    return b"".join(part.read_bytes() for part in sorted(folder.glob("part-*.jsonl")))


def report(path: Path) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "now", path.read_text())


def check_both_ways(judge: Command, contract: Path, data: Path, folder: Path) -> str:
    """Judge data on one machine and in Spark, compare all that comes out, and return what is printed."""

    def options(way: str) -> list[str | Path]:
        files = {"accepted": f"good-{way}", "refused": f"bad-{way}", "report": f"report-{way}.html"}
        return ["--data", data, "--show", "4", *(f"--{each}={folder / name}" for each, name in files.items())]

    expected = judge(contract, *options("here"))
    assert judge(contract, *options("there"), "--spark") == expected
    for name in ("good", "bad"):
        assert written(folder / f"{name}-there") == (folder / f"{name}-here").read_bytes()
    assert report(folder / "report-there.html") == report(folder / "report-here.html")
    assert expected[0] == 1
    return expected[1]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["records.jsonl", *full(*OTHERS)])
def test_every_format_is_judged_as_on_one_machine(
    judge: Command, contract: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(file_parts, "_PART_BYTES", 60)  # a file has several parts
    data = tmp_path / "data"
    for day in ("1", "2/3", "4"):
        (data / day).mkdir(parents=True)
        WRITERS[name](data / day / name)
    printed = check_both_ways(judge, contract, data, tmp_path)
    assert "15 records judged" in printed
    assert f"  1/{name} " in printed


@pytest.mark.usefixtures("spark")
@pytest.mark.full
def test_records_of_avro_and_what_cannot_be_encoded_are_judged_as_on_one_machine(
    judge: Command, tmp_path: Path
) -> None:
    contract = contract_of(tmp_path, schema={"type": "avro", "definition": ADMISSION}, rules=RULES_OF_AVRO)
    for each in ("containers", "lines"):
        (tmp_path / each / "data").mkdir(parents=True)
    file = tmp_path / "containers/data/1.avro"
    file.write_bytes(container(ADMISSION, with_dates()))
    assert "\n  record 2  /age" in check_both_ways(judge, contract, file, tmp_path / "containers")
    folder = tmp_path / "lines/data"
    WRITERS["records.jsonl"](folder / "1.jsonl")
    (folder / "2.jsonl").write_bytes(b'{"age": "x"}\n{"age": 999}\nno\n')
    assert "2.jsonl line 3  unreadable" in check_both_ways(judge, contract, folder, tmp_path / "lines")


@pytest.mark.usefixtures("spark")
@pytest.mark.full
def test_an_error_in_a_worker_ends_the_command_and_leaves_no_folder(
    judge: Command, contract: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "1.json").write_bytes(b'[{"age": 1}, ')
    (data / "2.json").write_bytes(b'[{"age": 1}]')
    here = judge(contract, "--data", data)
    good = tmp_path / "good"
    assert judge(contract, "--data", data, "--spark", "--accepted", good) == here
    assert (here[0], good.exists()) == (2, False)
    good.mkdir()
    ran = judge(contract, "--data", data, "--spark", "--accepted", good)
    assert ran == (2, "", f"error: {good} exists; name another folder, or remove it\n")


@pytest.mark.usefixtures("spark")
@pytest.mark.full
def test_a_contract_is_inferred_from_the_parts_of_files(
    ran: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [value.replace(b"\n", b" ") for value in admissions_stream(20_000).records["value"].to_pylist()]
    data = tmp_path / "admissions"
    data.mkdir()
    (data / "1.jsonl").write_bytes(b"\n".join(values[:200]))
    (data / "2.jsonl").write_bytes(b"\n".join(values[200:]))
    monkeypatch.setattr(file_parts, "_PART_BYTES", 500_000)
    monkeypatch.setattr(infer_parts, "_TASK_BYTES", 1_000_000)
    here, there = tmp_path / "here.yaml", tmp_path / "there.yaml"
    assert ran("infer", data, "-o", here)[0] == 0
    code, printed, error = ran("infer", data, "-o", there, "--spark")
    assert (code, error) == (0, "")
    assert "2.jsonl line " in printed
    found, expected = (lint(path).contract for path in (there, here))
    assert {rule.id: rule for rule in found.rules} == {rule.id: rule for rule in expected.rules}
    assert (found.primary_key, found.classification) == (expected.primary_key, expected.classification)


@pytest.mark.full
def test_a_cluster_judges_in_its_executors(contract: Path, tmp_path: Path) -> None:
    """In a process of its own, which starts a session without the jars of the job."""
    cluster = SparkCluster(tmp_path)
    try:
        data, bad = tmp_path / "data", tmp_path / "bad"
        data.mkdir()
        for number in range(6):
            WRITERS["records.parquet"](data / f"{number}.parquet")
        command = [sys.executable, "-m", "tidegate.gateway.cli.main", "judge", str(contract)]
        options = ["--data", str(data), "--spark", "--spark-master", cluster.url, "--refused", str(bad)]
        settings = {"TIDEGATE_SPARK_DRIVER_HOST": "127.0.0.1", **os.environ, **SHORT_LIVED_JAVA}
        ran = subprocess.run([*command, *options], capture_output=True, check=False, env=settings)
        assert ran.returncode == 1, ran.stderr
        assert b"30 records judged" in ran.stdout
        assert written(bad).count(b"\n") == 18
        assert any(cluster.executors(number) for number in (1, 2))
    finally:
        cluster.stop()


@pytest.mark.full
def test_a_java_that_does_not_start_is_an_error_with_a_way_on(contract: Path, tmp_path: Path) -> None:
    WRITERS["records.jsonl"](tmp_path / "records.jsonl")
    command = [sys.executable, "-m", "tidegate.gateway.cli.main", "judge", str(contract)]
    options = ["--data", str(tmp_path / "records.jsonl"), "--spark"]
    settings = {**os.environ, **SHORT_LIVED_JAVA, "TIDEGATE_SPARK_DRIVER_MEMORY": "900000g"}
    ran = subprocess.run([*command, *options], capture_output=True, check=False, env=settings)
    assert ran.returncode == 2, ran.stderr
    assert b"Java ended when it was started (JAVA_GATEWAY_EXITED); its message is above" in ran.stderr
