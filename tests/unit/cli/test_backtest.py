"""`tidegate backtest`: two versions of a contract on the same records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tests.unit.checks.workplace import Git
from tidegate.gateway.cli.backtest import Reservoir

from .conftest import CONTRACT, WITH_COLUMN, Run
from .test_judge_framed import NEW, OLD, contract_of

RECORDS: list[dict[str, Any]] = [
    {"age": index, "ward": "icu", "admitted": "2024-01-02"} for index in range(100)
]
CHANGED = CONTRACT.replace("version: 1.2.0", "version: 1.3.0").replace(
    "kind: forbidden, field: /age, values: [999]", "kind: range, field: /age, maximum: 89"
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    lines = [*map(json.dumps, RECORDS), '{"age": 999}', '{"age": 1, "admitted": "1899-01-01"}', "{"]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    path = tmp_path / "changed.yaml"
    path.write_text(CHANGED.replace("after: 1900-01-01", "after: 1800-01-01"))
    return path


def found(ran: Any) -> dict[str, Any]:
    # Before the report may stand what a registry in this process logs.
    report: dict[str, Any] = json.loads(ran.stdout[ran.stdout.index(b"{\n") :])
    return report


def test_what_is_newly_refused_and_newly_passing_by_rule_and_position(
    tidegate: Run, contract: Path, changed: Path, data: Path
) -> None:
    ran = tidegate("backtest", changed, "--against", contract, "--data", data, "--format", "json")
    report = found(ran)
    assert ran.returncode == 0
    assert (report["records"], report["newly_refused"], report["newly_passing"]) == (103, 10, 1)
    assert (report["refused_by_base"], report["refused_by_candidate"]) == (3, 12)
    assert report["newly_refused_by"] == [
        {
            "stage": "rule",
            "code": "age-is-known",
            "pointer": "/age",
            "records": 10,
            "first": "lines 91, 92, 93, 94, 95",
        }
    ]
    assert [each["first"] for each in report["newly_passing_by"]] == ["line 102"]
    assert report["unread"] is None


def test_a_share_that_is_newly_refused_fails(
    tidegate: Run, contract: Path, changed: Path, data: Path
) -> None:
    arguments = ("backtest", changed, "--against", contract, "--data", data, "--max-newly-refused")
    assert tidegate(*arguments, "0.1").returncode == 0
    ran = tidegate(*arguments, "0.01")
    assert ran.returncode == 1
    assert b"failed: more is newly refused" in ran.stdout
    assert b"lines 91, 92" in ran.stdout


def test_markdown_for_a_pull_request_in_a_file(
    tidegate: Run, contract: Path, changed: Path, data: Path, tmp_path: Path
) -> None:
    page = tmp_path / "comment.md"
    arguments = ("--format", "markdown", "--output", page, "--max-newly-refused", "0")
    ran = tidegate("backtest", changed, "--against", contract, "--data", data, *arguments)
    assert (ran.returncode, b"newly refused" in ran.stdout) == (1, True)
    text = page.read_text()
    assert "### 🔴 Backtest: 9.709% newly refused" in text
    assert "| age-is-known (rule) | /age | 10 | lines 91, 92, 93, 94, 95 |" in text


@pytest.mark.parametrize("write", [pq.write_table, lambda table, path: write_deltalake(path, table)])
def test_rows_of_parquet_and_of_a_delta_table(
    tidegate: Run,
    contract: Path,
    changed: Path,
    tmp_path: Path,
    write: Callable[[pa.Table, Path], None],
) -> None:
    path = tmp_path / "records"
    write(pa.Table.from_pylist(RECORDS), path)
    report = found(tidegate("backtest", changed, "--against", contract, "--data", path, "--format", "json"))
    assert (report["records"], report["newly_refused"], report["refused_by_base"]) == (100, 10, 0)
    assert report["newly_refused_by"][0]["first"] == "rows 91, 92, 93, 94, 95"


def test_texts_for_null_in_rows_of_csv_are_nulls(
    tidegate: Run, contract: Path, changed: Path, tmp_path: Path
) -> None:
    path = tmp_path / "records.csv"
    path.write_text('age,admitted\n3,NA\n4,"NA"\n')
    options = ("--against", contract, "--data", path, "--format", "json")
    assert found(tidegate("backtest", changed, *options, "--null", "NA"))["refused_by_base"] == 0
    assert found(tidegate("backtest", changed, *options))["refused_by_base"] == 2


def test_containers_are_judged_with_their_schemas(tidegate: Run, tmp_path: Path) -> None:
    old = contract_of(tmp_path, id="stays", schema={"type": "avro", "definition": NEW}, rules=[])
    (tmp_path / "new").mkdir()
    new = contract_of(tmp_path / "new", version="1.1.0", schema={"type": "avro", "definition": NEW})
    for name, schema, ages in (("a.avro", OLD, [5, 63]), ("b.avro", NEW, [63, 7])):
        with (tmp_path / name).open("wb") as file:
            fastavro.writer(file, schema, [{"age": age} for age in ages])
    options = ("--data", tmp_path / "*.avro", "--format", "json")
    report = found(tidegate("backtest", new, "--against", old, *options))
    assert (report["records"], report["newly_refused"], report["refused_by_base"]) == (4, 2, 0)
    assert report["newly_refused_by"][0]["first"].endswith("b.avro record 1")
    by_hand = tmp_path / "hand.jsonl"
    by_hand.write_text('{"age": 63}\n{"age": "63"}\n')
    report = found(tidegate("backtest", new, "--against", old, "--data", by_hand, "--format", "json"))
    assert (report["records"], report["newly_refused"]) == (1, 1)
    assert report["unread"] == "1 record cannot be read (line 2); `tidegate judge` says why"


def test_records_are_of_one_format_in_both_versions(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    avro = contract_of(tmp_path)
    ran = tidegate("backtest", avro, "--against", contract, "--data", "-", stdin=b"{}")
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"the schema of the candidate is avro, that of the base is json-schema" in ran.stderr


def test_a_rule_that_only_alerts_is_no_cause(
    tidegate: Run, contract: Path, changed: Path, data: Path
) -> None:
    alert = "  - {id: noted, kind: range, field: /age, maximum: 5, on_violation: alert}\n"
    changed.write_text(changed.read_text() + alert)
    report = found(tidegate("backtest", changed, "--against", contract, "--data", data, "--format", "json"))
    assert [each["code"] for each in report["newly_refused_by"]] == ["age-is-known"]


def test_the_base_is_the_version_in_the_registry(
    tidegate: Run, registry: str, changed: Path, data: Path
) -> None:
    report = found(tidegate("backtest", changed, "--registry", registry, "--data", data, "--format", "json"))
    assert report["base"] == "hospital.admissions@1.2.0 (registry:hospital.admissions@1.2.0)"
    assert report["newly_refused"] == 10


def test_the_base_is_the_version_of_a_commit(tidegate: Run, git: Git, here: Path, data: Path) -> None:
    path = here / "contract.yaml"
    path.write_text(CONTRACT)
    git.commit()
    path.write_text(CHANGED)
    report = found(tidegate("backtest", path, "--against", "git:HEAD", "--data", data, "--format", "json"))
    assert (report["newly_refused"], report["newly_passing"]) == (10, 0)
    assert report["base"].endswith("(git:HEAD:contract.yaml)")


def test_without_a_base_it_says_so(tidegate: Run, git: Git, here: Path, data: Path) -> None:
    (here / "other.txt").write_text("x")
    git.commit()
    path = here / "contract.yaml"
    path.write_text(CONTRACT)
    ran = tidegate("backtest", path, "--against", "git:HEAD", "--data", data)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"git:HEAD has no version of" in ran.stderr


def test_a_start_that_is_neither_offset_nor_time(tidegate: Run, contract: Path, data: Path) -> None:
    ran = tidegate("backtest", contract, "--against", contract, "--data", data, "--from", "yesterday")
    assert ran.returncode == 2
    assert b"neither an offset nor a time" in ran.stderr


def test_a_sample_is_the_same_each_time(tidegate: Run, contract: Path, changed: Path, data: Path) -> None:
    arguments = (
        "backtest",
        changed,
        "--against",
        contract,
        "--data",
        data,
        "--sample",
        "40",
        "--format",
        "json",
    )
    one, other = (found(tidegate(*arguments)) for _ in range(2))
    assert one == other
    assert one["records"] == 40


def test_a_reservoir_keeps_each_record_as_often_as_any_other() -> None:
    reservoir = Reservoir(200)
    for first in range(1, 1_001, 100):
        positions = range(first, first + 100)
        values = pa.array([str(each).encode() for each in positions], pa.large_binary())
        reservoir.add(values, pa.array(positions).to_numpy())
    values, kept = reservoir.arrays()
    assert kept.tolist() == [int(each) for each in values.to_pylist()] == sorted(set(kept.tolist()))
    assert [sum(low < each <= low + 250 for each in kept) > 30 for low in range(0, 1_000, 250)] == [True] * 4


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_no_record_is_no_success_unless_it_is_allowed(
    tidegate: Run, contract: Path, changed: Path, tmp_path: Path, form: str
) -> None:
    (tmp_path / "none.jsonl").write_bytes(b"")
    command = [
        "backtest",
        changed,
        "--against",
        contract,
        "--data",
        tmp_path / "none.jsonl",
        "--format",
        form,
    ]
    ran = tidegate(*command)
    assert (ran.returncode, ran.stderr) == (1, b"")
    words = {
        "text": "failed: no record was judged",
        "json": '"failed": true',
        "markdown": "No record was judged",
    }
    assert words[form] in ran.stdout.decode()
    allowed = tidegate(*command, "--allow-empty")
    assert allowed.returncode == 0
    assert words[form] not in allowed.stdout.decode()


@pytest.mark.parametrize("report_format", ["text", "markdown"])
def test_a_narrower_column_newly_refuses_what_it_cannot_hold(
    tidegate: Run, tmp_path: Path, report_format: str
) -> None:
    base, changed, data = tmp_path / "base.yaml", tmp_path / "changed.yaml", tmp_path / "records.jsonl"
    base.write_text(WITH_COLUMN.replace("version: 1.1.0", "version: 1.0.0").replace("int}", "double}"))
    changed.write_text(WITH_COLUMN)
    data.write_text('{"x": 1.5}\n{"x": 1}\n')
    narrower = ("backtest", changed, "--against", base, "--data", data, "--max-newly-refused", "0")
    ran = tidegate(*narrower, "--format", report_format)
    assert (ran.returncode, b"The job judges columns for tables" in ran.stdout) == (1, True)
    report = found(tidegate(*narrower, "--format", "json"))
    assert [(each["stage"], each["code"], each["records"]) for each in report["newly_refused_by"]] == [
        ("column", "x", 1)
    ]
    wider = tidegate("backtest", base, "--against", changed, "--data", data, "--format", "json")
    assert (found(wider)["newly_refused"], found(wider)["newly_passing"]) == (0, 1)
