"""`tidegate mutate`: what a contract would miss, as people and programs read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from .conftest import Run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    lines = [
        json.dumps(
            {"age": 20 + index, "ward": ("icu", "er")[index % 2], "admitted": f"2024-03-{1 + index % 30:02d}"}
        )
        for index in range(60)
    ]
    path.write_text("\n".join([*lines, '{"age": 999}', "{"]))
    return path


def test_the_missed_corruptions_and_the_rules_to_paste(tidegate: Run, contract: Path, data: Path) -> None:
    ran = tidegate("mutate", contract, "--data", data)
    text = ran.stdout.decode()
    assert ran.returncode == 0
    assert "hospital.admissions@1.2.0 · 60 accepted records of 62" in text
    assert "/age" in text
    assert "20 of 20  20 age-is-possible" in text
    rules = yaml.safe_load("rules:" + text.partition("\nrules:")[2])["rules"]
    assert {"id": "age-is-possible", "kind": "range", "field": "/age", "minimum": 0, "maximum": 100} in rules


def test_the_suggested_rules_are_pasted_and_accept_the_data(
    tidegate: Run, contract: Path, data: Path
) -> None:
    found = json.loads(tidegate("mutate", contract, "--data", data, "--format", "json").stdout)
    contract.write_text(contract.read_text() + found["rules_yaml"].removeprefix("rules:\n"))
    again = json.loads(tidegate("mutate", contract, "--data", data, "--format", "json").stdout)
    assert again["records"] == found["records"] == {"read": 62, "accepted": 60}
    assert again["missed"] <= found["missed"] - sum(each["caught"] for each in found["outcomes"])


def test_a_share_that_is_missed_fails(tidegate: Run, contract: Path, data: Path) -> None:
    assert tidegate("mutate", contract, "--data", data, "--max-missed", "1").returncode == 0
    ran = tidegate("mutate", contract, "--data", data, "--max-missed", "0")
    assert ran.returncode == 1
    assert b"more than --max-missed 0.0%" in ran.stderr


def test_without_an_accepted_record_there_is_nothing_to_corrupt(tidegate: Run, contract: Path) -> None:
    ran = tidegate("mutate", contract, stdin=b'{"age": 999}\n')
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert b"accepts no record of standard input; 1 record judged" in ran.stderr
    assert b"standard input has no records" in tidegate("mutate", contract, stdin=b"").stderr


def test_cells_of_csv_are_values_of_the_types_of_the_schema(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    path = tmp_path / "records.csv"
    path.write_text("age,ward,admitted\n" + "".join(f"{20 + index},icu,\n" for index in range(30)))
    found = json.loads(tidegate("mutate", contract, "--data", path, "--format", "json").stdout)
    assert (found["records"], found["unread"]) == ({"read": 30, "accepted": 30}, None)


def test_texts_for_null_are_nulls_and_rows_that_cannot_be_read_are_counted(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    path = tmp_path / "records.csv"
    rows = "".join(f'{20 + index},"NA",\r\n' for index in range(30))
    path.write_text(f"age,ward,admitted\r\n{rows}50,icu\r\n")
    options = ("--data", path, "--format", "json")
    unread = "1 record cannot be read (row 31); `tidegate judge` says why"
    found = json.loads(tidegate("mutate", contract, *options, "--null", "NA").stdout)
    assert (found["records"], found["unread"]) == ({"read": 30, "accepted": 30}, unread)
    ran = tidegate("mutate", contract, "--data", path)
    assert ran.returncode == 1
    assert f"30 records judged; {unread}: nothing to corrupt" in " ".join(ran.stderr.decode().split())
