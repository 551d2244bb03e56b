"""Large files are profiled in parts, by several processes, with the result of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fastavro
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from tests.marks import full
from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.contracts.infer.infer import Inference
from tidegate.gateway.cli import infer, infer_parts, judge
from tidegate.gateway.cli.infer import _read
from tidegate.gateway.cli.infer_parts import large_files
from tidegate.gateway.cli.workers import local_workers
from tidegate.gateway.sources import file_parts
from tidegate.gateway.sources.open_source import SourceOptions, open_source

from .test_infer import write_records

PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_parts, "_PART_BYTES", 30_000)
    monkeypatch.setattr(infer_parts, "_TASK_BYTES", 60_000)
    monkeypatch.setattr(infer_parts, "processors", lambda: 2)


@pytest.mark.full
@pytest.mark.full
def test_very_large_files_of_several_parts_name_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path)
    Path("one.csv").write_text("age\n" + "63\n" * 50_000)
    for module in (infer, judge):
        monkeypatch.setattr(module, "_LARGE_BYTES", 100_000)
    infer.infer("admissions.jsonl", output_format="text")
    hint = "admissions.jsonl has 0 GB: --spark with --spark-master reads them on a cluster"
    assert capsys.readouterr().err.splitlines().count(hint) == 1
    with pytest.raises(typer.Exit):  # it has refused records
        judge.judge(Path("contract.yaml"), data="admissions.jsonl")
    assert "admissions.jsonl has 0 GB: --spark judges them on all processors" in capsys.readouterr().err
    with pytest.raises(typer.Exit):
        judge.judge(Path("contract.yaml"), data="admissions.jsonl", output_format="json")
    infer.infer("admissions.jsonl", output_format="json", force=True)
    infer.infer("one.csv", output=Path("one.yaml"))
    assert "--spark" not in capsys.readouterr().err


def infer_alone(name: str) -> Inference:
    with open_source(name, SourceOptions()) as source:
        return _read(source, None)


def write_lines(folder: Path) -> str:
    return str(write_records(folder / "admissions.jsonl", 4_000))


def write_table(folder: Path) -> str:
    path = folder / "stays.parquet"
    days = pa.array(range(4_000)).cast(pa.int32()).cast(pa.date32())
    ages = pa.array([999 if row % 250 == 7 else row % 97 for row in range(4_000)])
    pq.write_table(pa.table({"id": range(4_000), "age": ages, "day": days}), path, row_group_size=500)
    return str(path)


@pytest.mark.parametrize("write", [write_lines, *full(write_table)])
def test_several_processes_propose_the_contract_of_one(write: object, tmp_path: Path) -> None:
    assert callable(write)
    name = write(tmp_path)
    parts = large_files(name, SourceOptions())
    assert parts is not None
    found, expected = parts.infer(), infer_alone(name)
    assert (found.records, found.broken.count) == (expected.records, expected.broken.count)
    first, second = found.finish("a.b"), expected.finish("a.b")
    assert first.document == second.document
    for inferred in (first, second):
        unknown = next(each for each in inferred.rules if each.code == "age-is-known")
        assert unknown.exceptions + unknown.held_back == 16
    position = next(each for each in first.rules if each.code == "age-is-known").first[0]
    assert int(parts.places([position]).split()[-1]) % 250 == 8


def test_small_files_and_what_is_no_file_are_read_by_this_process(tmp_path: Path) -> None:
    write_records(tmp_path / "few.jsonl", 100)
    assert large_files(str(tmp_path / "few.jsonl"), SourceOptions()) is None
    assert large_files("kafka:orders", SourceOptions()) is None
    assert large_files(str(tmp_path / "none.jsonl"), SourceOptions()) is None


def test_files_of_two_schemas_of_avro_are_refused(tmp_path: Path) -> None:
    for number, kind in enumerate(("string", "long")):
        schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
        with (tmp_path / f"{number}.avro").open("wb") as file:
            fastavro.writer(file, schema, [{"a": 7 if kind == "long" else "7"}] * 20_000)
    refused = pytest.raises(SettingsError, match=r"2 files of .* have more than one Avro schema")
    parts = large_files(str(tmp_path), SourceOptions())
    assert parts is not None
    with refused:
        parts.infer()
    with refused:
        infer_alone(str(tmp_path))


def kill_myself(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_is_reported() -> None:
    with pytest.raises(Unavailable, match="was killed"):
        list(local_workers(kill_myself, [1, 2]))


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "from tidegate.gateway.cli.workers import local_workers\n"
        "if __name__ == '__main__':\n"
        "    list(local_workers(time.sleep, [600, 600]))\n"
    )
    with subprocess.Popen([sys.executable, script]) as parent:
        children = _children(parent.pid)
        parent.kill()
    assert len(psutil.wait_procs(children, PATIENCE_SECONDS)[1]) == 0


def _children(parent: int) -> list[psutil.Process]:
    """Return the children of a process, once there are some that work."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        children = psutil.Process(parent).children()
        workers = [each for each in children if "spawn_main" in " ".join(each.cmdline())]
        if workers and all(each.num_threads() > 1 for each in workers):
            return children
        time.sleep(0.1)
    raise AssertionError("no process was started")
