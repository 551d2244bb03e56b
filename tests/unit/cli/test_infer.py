"""`tidegate infer`: files in, a contract with its evidence out."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

import fastavro
import numpy as np
import orjson
import pytest

from tidegate.contracts.infer.infer import _hashes
from tidegate.contracts.lint.lint import lint
from tidegate.gateway.cli.infer import default_id

from .conftest import Run

CHANCE = random.Random(11)  # noqa: S311 - repeatable records


def write_records(path: Path, count: int = 2_000) -> Path:
    records = [
        {
            "patient_id": f"P{index:06d}",
            "age": 999 if index % 250 == 7 else CHANCE.randrange(100),
            "ward": CHANCE.choice(["icu", "er"]),
        }
        for index in range(count)
    ]
    lines = [orjson.dumps(record) for record in records]
    lines[40] = b'{"patient'
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_writes_a_contract_that_lints_and_judges(tidegate: Run, tmp_path: Path) -> None:
    data = write_records(tmp_path / "admissions.jsonl")
    contract = tmp_path / "contract.yaml"
    ran = tidegate("infer", str(data), "--out", str(contract), "--id", "hospital.admissions")
    assert ran.returncode == 0, ran.stderr
    assert b"age-is-known" in ran.stdout
    loaded = lint(contract)
    assert loaded.warnings == ()
    assert loaded.contract.classification == {"/patient_id": "pii"}
    text = contract.read_text()
    assert "# 999: apart from all other values of the field. Violated by " in text
    assert "# 1 record could not be read, and is not part of it." in text
    judged = tidegate("judge", str(contract), "--data", str(data))
    assert judged.returncode == 1
    assert b"1 refused" not in judged.stdout
    assert [line for line in judged.stdout.decode().splitlines() if "age-is-known" in line]


def test_rows_with_a_wrong_number_of_cells_are_reported(tidegate: Run, tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text(
        "id,age\n" + "".join(f"A{index},{index % 90}\n" for index in range(1, 300)) + "A7\nA8,8,\n"
    )
    ran = tidegate("infer", str(data), "-o", str(tmp_path / "contract.yaml"))
    assert ran.returncode == 0
    assert b"299 records" in ran.stdout
    assert b"2 unreadable (rows 300, 301)" in ran.stdout


def test_empty_rows_do_not_make_every_field_optional(tidegate: Run, tmp_path: Path) -> None:
    """Spreadsheets end with them."""
    rows = "".join(f"A{index},{index % 90}\n" for index in range(1, 300))
    (tmp_path / "rows.csv").write_text(f"id,age\n{rows},\n,\n")
    ran = tidegate("infer", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "c.yaml"))
    assert "no value in any cell: 2 records, rows 300, 301" in ran.stdout.decode()
    schema = json.loads((tmp_path / "c.schema.json").read_text())
    assert [each["type"] for each in schema["properties"].values()] == ["string", "integer"]
    judged = tidegate("judge", str(tmp_path / "c.yaml"), "--data", str(tmp_path / "rows.csv"))
    assert judged.returncode == 1
    assert "row 300" in judged.stdout.decode()


def test_unreadable_records_have_reasons_with_positions_and_a_way_on(tidegate: Run, tmp_path: Path) -> None:
    strange = {
        b'{"id":1,"a" 2}': "not JSON: 1 record, line 301 (the first one: column 13: Expecting ':' delimiter)",
        b'{"id":"\xff"}': "not UTF-8: 1 record, line 302 (the first one: byte 8)",
        b"[1]": "not a JSON object: 1 record, line 303 (the first one: it is an array)",
        b'{"a":-1e400}': "a number beyond the range of a double, such as 1e400: 1 record, line 304",
        b'{"a":NaN}': "NaN or Infinity, which JSON does not have: 1 record, line 305",
        b"": "empty: 1 record, line 306",
        b'{"a":"\\ud800"}': "half of a surrogate pair, which is no character: 1 record, line 307",
        b"[" * 999 + b"]" * 999: "nested too deep: 1 record, line 308",
    }
    data = tmp_path / "a.jsonl"
    data.write_bytes(b'{"id":1}\n' * 300 + b"\n".join(strange))
    ran = tidegate("infer", str(data), "-o", str(tmp_path / "c.yaml"))
    assert b"300 records" in ran.stdout
    lines = ran.stdout.decode().splitlines()
    for reason in strange.values():
        assert lines.count(f"  unreadable: {reason}") == 1
        assert "  " * 7 in lines[lines.index(f"  unreadable: {reason}") + 1], "what to do"
        assert f"# {reason}" in (tmp_path / "c.yaml").read_text()


def test_without_a_readable_record_the_reasons_are_told(tidegate: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{'id': 1}\n" * 3)
    ran = tidegate("infer", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "c.yaml"))
    assert ran.returncode == 1
    assert b"none of 3 records can be read" in ran.stderr
    assert (
        b"not JSON: 3 records, lines 1, 2, 3 (the first one: column 2: Expecting property name" in ran.stderr
    )
    assert b"--input-format" in ran.stderr


def test_the_same_contract_comes_out_twice(tidegate: Run, tmp_path: Path) -> None:
    data = write_records(tmp_path / "admissions.jsonl")
    for name in ("one", "two"):
        assert tidegate("infer", str(data), "-o", str(tmp_path / f"{name}.yaml")).returncode == 0
    assert (tmp_path / "one.yaml").read_text().replace("one.", "two.") == (tmp_path / "two.yaml").read_text()


def test_no_file_is_overwritten_without_force(tidegate: Run, tmp_path: Path) -> None:
    data = write_records(tmp_path / "a.jsonl", 100)
    contract = tmp_path / "contract.yaml"
    contract.write_text("mine")
    ran = tidegate("infer", str(data), "-o", str(contract))
    assert ran.returncode == 2
    assert b"overwrite it with --force" in ran.stderr
    assert contract.read_text() == "mine"
    assert tidegate("infer", str(data), "-o", str(contract), "--force").returncode == 0


def test_proposals_as_json_have_evidence_and_no_value_of_a_personal_field(
    tidegate: Run, tmp_path: Path
) -> None:
    data = write_records(tmp_path / "a.jsonl")
    ran = tidegate("infer", str(data), "-o", str(tmp_path / "c.yaml"), "--format", "json")
    report = json.loads(ran.stdout)
    found = next(each for each in report["proposals"] if each["code"] == "age-is-known")
    assert found["rule"]["values"] == [999]
    assert 5 <= found["exceptions"] <= 8  # of eight, some are held back
    assert found["first_exceptions"].startswith("line")
    assert report["unreadable"] == {
        "records": 1,
        "first": "line 41",
        "reasons": [
            {
                "reason": "not JSON",
                "records": 1,
                "first": "line 41",
                "detail": "column 2: Unterminated string starting at",
            }
        ],
    }
    assert report["held_back"]["expected_false_refusals"] == 0
    assert b"P000123" not in ran.stdout


def test_what_is_doubtful_is_a_comment_and_no_rule(tidegate: Run, tmp_path: Path) -> None:
    lines = []
    for index in range(2_000):
        state = "unknown" if index % 100 == 3 else CHANCE.choice(("open", "shut"))
        number = index - index % 2 if index in (501, 502) else index
        lines.append(json.dumps({"order_id": f"O{number:06d}", "state": state}))
    data = tmp_path / "orders.jsonl"
    data.write_text("\n".join(lines))
    contract = tmp_path / "orders.yaml"
    ran = tidegate("infer", str(data), "-o", str(contract), "--format", "json")
    text = contract.read_text()
    comment = text[text.index("# 'unknown': written for") : text.index("  # - id: state-is-known")]
    assert " ".join(comment.split("\n  # ")).rstrip().endswith("Doubtful: it may be a value of its own.")
    assert "  #   values: [unknown]\n" in text
    assert "(line 502). Is it the key?\n# primary_key: [order_id]\n" in text
    loaded = lint(contract)
    assert (loaded.warnings, loaded.contract.primary_key) == ((), ())
    assert "state-is-known" not in {rule.id for rule in loaded.contract.rules}
    doubts = {each["code"]: each["doubt"] for each in json.loads(ran.stdout)["proposals"]}
    assert doubts["state-is-known"] == "it may be a value of its own"
    assert doubts["order-id-is-well-formed"] is None


def test_each_proposal_has_the_false_refusals_that_are_to_be_expected_of_it(
    tidegate: Run, tmp_path: Path
) -> None:
    """A record that is held back is the only one of its kind, so nothing in the profile predicts its refusal."""
    records = [
        {"age": CHANCE.randrange(100), "room": f"R{CHANCE.randrange(1_000):03d}"} for _ in range(3_000)
    ]
    held = np.flatnonzero(_hashes(np.arange(1, 3_001)) <= np.uint64(0xFFFFFFFFFFFFFFFF // 10))
    records[held[5]]["room"] = "hall"
    data = tmp_path / "rooms.jsonl"
    data.write_text("\n".join(map(json.dumps, records)))
    ran = tidegate("infer", str(data), "-o", str(tmp_path / "c.yaml"), "--format", "json")
    report = json.loads(ran.stdout)
    share = 1 / len(held)
    assert report["held_back"]["records"] == len(held)
    expected = {each["code"]: each["expected_false_refusals"] for each in report["proposals"]}
    assert expected["room-is-well-formed"] == pytest.approx(share)
    assert {code for code, each in expected.items() if each} == {"room-is-well-formed"}


def test_avro_keeps_its_schema(tidegate: Run, tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "Stay",
        "fields": [
            {"name": "age", "type": "int"},
            {"name": "start", "type": {"type": "int", "logicalType": "date"}},
            {"name": "end", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    records = []
    for index in range(3_000):
        day = CHANCE.randrange(18_000, 19_000)
        records.append(
            {
                "age": 999 if index % 300 == 0 else CHANCE.randrange(99),
                "start": day,
                "end": day + CHANCE.randrange(20),
            }
        )
    with (tmp_path / "stays.avro").open("wb") as file:
        fastavro.writer(file, schema, records)
    contract = tmp_path / "stays.yaml"
    ran = tidegate("infer", str(tmp_path / "stays.avro"), "-o", str(contract))
    assert ran.returncode == 0, ran.stderr
    loaded = lint(contract).contract
    assert loaded.schema_.type == "avro"
    assert {"age-is-known", "start-to-end"} <= {rule.id for rule in loaded.rules}
    assert json.loads((tmp_path / "stays.avsc").read_text())["name"].endswith("Stay")


@pytest.mark.parametrize(("content", "code"), [("no json\n" * 30, 2), ("{\n" * 30, 1), ("", 2)])
def test_a_file_without_records_writes_nothing(
    tidegate: Run, tmp_path: Path, content: str, code: int
) -> None:
    (tmp_path / "bad").write_text(content)
    ran = tidegate("infer", str(tmp_path / "bad"), "-o", str(tmp_path / "c.yaml"))
    assert ran.returncode == code
    assert ran.stderr
    assert not (tmp_path / "c.yaml").exists()


def test_init_names_infer(tidegate: Run) -> None:
    ran = tidegate("init")
    assert ran.returncode == 2
    assert b"tidegate infer" in ran.stderr


@pytest.mark.parametrize(
    ("stem", "name"), [("orders", "orders"), ("my orders (1)", "my-orders--1"), ("…", "records")]
)
def test_the_name_of_a_file_becomes_an_id(stem: str, name: str) -> None:
    assert default_id(stem) == name


def test_the_records_are_not_overwritten(tidegate: Run, tmp_path: Path) -> None:
    data = write_records(tmp_path / "a.jsonl", 100)
    before = data.read_bytes()
    ran = tidegate("infer", str(data), "-o", str(data), "--force")
    assert ran.returncode == 2
    assert b"has the records themselves" in ran.stderr
    assert data.read_bytes() == before


def test_local_dates_and_numbers_stay_texts_and_a_comment_says_what_to_do(
    tidegate: Run, tmp_path: Path
) -> None:
    def row(number: int) -> str:
        cents = number * 7_919 % 999_999
        comma = f"{cents / 100:,.2f}"
        point = comma.translate(str.maketrans(",.", ".,"))
        return f"{number % 28 + 1:02}.{number % 12 + 1:02}.2025;{point};{comma};{number % 12 + 1}/{number % 28 + 1}/25"

    rows = "\n".join(map(row, range(1, 1001)))
    (tmp_path / "rows.csv").write_text(f"day;price;cost;due\n{rows}\n")
    tidegate("infer", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "c.yaml"))
    text = " ".join((tmp_path / "c.yaml").read_text().replace("#", "").split())
    assert (
        text.count(
            "these are local dates: as texts they have neither bounds nor order, so write them as 2025-12-31."
        )
        == 2
    )
    assert "these are numbers with a decimal comma: as texts they have neither bounds nor order" in text
    assert "these are numbers with commas between thousands" in text
    judged = tidegate("judge", tmp_path / "c.yaml", "--data", tmp_path / "rows.csv")
    assert judged.returncode == 0
    (tmp_path / "rows.csv").write_text("day;price;cost;due\n31.12.2025;1234.56;1,234.56;1/1/25\n")
    assert (
        b"price-is-well-formed"
        in tidegate("judge", tmp_path / "c.yaml", "--data", tmp_path / "rows.csv").stdout
    )


def test_a_row_of_totals_is_named_with_its_place_and_widens_no_type(tidegate: Run, tmp_path: Path) -> None:
    rows = "".join(f"{number},2026-01-{number % 28 + 1:02},{number % 9}\n" for number in range(1, 501))
    (tmp_path / "rows.csv").write_text(f"id,day,pieces\n{rows}Total,,1996\n")
    ran = tidegate("infer", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "c.yaml"))
    assert ["/id", "type", "1", "row", "501"] in [line.split() for line in ran.stdout.decode().splitlines()]
    schema = json.loads((tmp_path / "c.schema.json").read_text())["properties"]
    assert (schema["id"]["type"], schema["pieces"]["type"]) == ("integer", "integer")
    judged = tidegate("judge", str(tmp_path / "c.yaml"), "--data", str(tmp_path / "rows.csv"))
    assert b"row 501" in judged.stdout


@pytest.mark.parametrize(
    ("content", "command"),
    [
        ("größe,a\n1,2\n".encode("latin-1"), b"iconv -f latin1 -t utf-8"),
        ("a,b\n1,2\n".encode("utf-16"), b"iconv -f utf-16 -t utf-8"),
        (b"a,b\r1,2\r3,4\r", rb"tr '\r' '\n'"),
    ],
    ids=["latin-1", "utf-16", "cr"],
)
def test_a_csv_of_another_encoding_is_refused_with_a_way_on(
    tidegate: Run, tmp_path: Path, content: bytes, command: bytes
) -> None:
    data = tmp_path / "a.csv"
    data.write_bytes(content)
    ran = tidegate("infer", str(data), "-o", str(tmp_path / "c.yaml"))
    assert ran.returncode == 2, ran.stderr
    assert command in ran.stderr


def test_a_compressed_file_is_read_from_a_pipe(tmp_path: Path) -> None:
    data = write_records(tmp_path / "a.jsonl", 200)
    command = [
        sys.executable,
        "-m",
        "tidegate.gateway.cli.main",
        "infer",
        "-",
        "-o",
        str(tmp_path / "c.yaml"),
    ]
    packed = gzip.compress(data.read_bytes())
    ran = subprocess.run(command, input=packed, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert b"199 records" in ran.stdout


def test_doubtful_rules_can_be_enforced_where_no_other_rule_is(tidegate: Run, tmp_path: Path) -> None:
    data, contract = tmp_path / "a.jsonl", tmp_path / "c.yaml"
    data.write_text('{"ward": "icu"}\n{"ward": "er"}\n' * 20)
    assert tidegate("infer", str(data), "-o", str(contract)).returncode == 0
    text = contract.read_text()
    assert "\n# rules:\n" in text
    begin = text.index("# rules:")
    rules = [line for line in text[begin:].splitlines() if line.startswith(("# rules:", "  # - ", "  #   "))]
    enforced = "\n".join(line.replace("# ", "", 1) for line in rules)
    contract.write_text(f"{text[:begin]}{enforced}\n")
    assert lint(contract).contract.rules


def test_the_key_of_a_csv_is_counted_once_and_quoted_headers_do_not_choose_the_delimiter(
    tidegate: Run, tmp_path: Path
) -> None:
    data, contract = tmp_path / "a.csv", tmp_path / "c.yaml"
    rows = "".join(f"{n};1,5;Ulm\n" for n in range(600))
    data.write_text(f'id;"Betrag, netto";"Ort, PLZ, Land"\n{rows}')
    ran = tidegate("infer", str(data), "-o", str(contract), "--format", "json")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["records"] == 600
    assert report["primary_key"] == {"field": "id", "repeated": 0}
    profiled = 600 - report["held_back"]["records"]
    assert f"id is different in every record, in {profiled} records." in contract.read_text()


def test_what_a_tenth_of_the_records_have_is_not_refused(tidegate: Run, tmp_path: Path) -> None:
    data, contract = tmp_path / "a.jsonl", tmp_path / "c.yaml"
    comments = ("" if n % 10 < 2 else f"comment number {n} of somebody" for n in range(2_000))
    data.write_text("".join(f"{json.dumps({'comment': each})}\n" for each in comments))
    assert tidegate("infer", str(data), "-o", str(contract)).returncode == 0
    text = " ".join(contract.read_text().replace("#", " ").split())
    assert "Doubtful: it refuses more than 5% of the values." in text
    assert tidegate("judge", str(contract), "--data", str(data)).returncode == 0


@pytest.mark.parametrize(
    ("name", "text", "known_as"),
    [
        (
            "order.avsc",
            '{"type": "record", "name": "Order",\n "fields": [{"name": "a", "type": "int"}]}',
            "Avro schema",
        ),
        (
            "order.json",
            '{"type": "object",\n "properties": {"a": {"type": "integer"}}}',
            "JSON Schema",
        ),
        (
            "order.yaml",
            "apiVersion: v3.1.0\nkind: DataContract\nid: a\n",
            "Open Data Contract Standard",
        ),
    ],
)
def test_a_document_of_another_format_is_refused_with_the_command(
    tidegate: Run, tmp_path: Path, name: str, text: str, known_as: str
) -> None:
    (tmp_path / name).write_text(text)
    ran = tidegate("infer", tmp_path / name, "--out", tmp_path / "contract.yaml")
    assert ran.returncode == 1
    said = f"this is a document of another format ({known_as}); `tidegate import` makes a contract of it\n"
    assert ran.stderr.decode() == f"{tmp_path / name}: {said}"
    assert not (tmp_path / "contract.yaml").exists()


def test_records_that_resemble_a_schema_are_records(tidegate: Run, tmp_path: Path) -> None:
    schema = b'{"type": "record", "name": "Order", "fields": []}\n'
    for name, text, more in (
        ("several.json", schema * 2, ()),
        ("array.json", b"[" + schema + b', {"type": "other"}]', ()),
        ("one.json", schema, ("--input-format", "jsonl")),
    ):
        (tmp_path / name).write_bytes(text)
        ran = tidegate("infer", tmp_path / name, "--out", tmp_path / f"{name}.yaml", *more)
        assert ran.returncode == 0, ran.stderr
