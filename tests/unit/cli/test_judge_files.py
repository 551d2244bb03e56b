"""`tidegate judge` on files of every format: one record gets one verdict, however it is written down."""

from __future__ import annotations

import gzip
import io
import json
import re
import stat
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from tidegate.contracts.explain.account import Explanation
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.cli.judge_report import JudgeFindings
from tidegate.gateway.sources import csv_rows

from .conftest import CONTRACT, Run
from .test_judge_framed import NEW, OLD, contract_of, sized

RECORDS: list[dict[str, Any]] = [
    {"age": 3, "ward": "icu"},
    {"age": 999},
    {"age": 4, "ward": "moon"},
    {"ward": "er"},
    {"age": 5, "ward": "er", "admitted": "1900-01-01"},
]
CODES = [[], ["age-is-known"], ["ward-is-known"], ["required"], ["not-the-epoch"]]
ADMISSION = {
    "type": "record",
    "name": "Admission",
    "fields": [
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "ward", "type": ["null", "string"], "default": None},
        {"name": "admitted", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    ],
}

RULES_OF_AVRO = [
    {"id": "age-is-known", "kind": "forbidden", "field": "/age", "values": [999]},
    {"id": "not-the-epoch", "kind": "range", "field": "/admitted", "after": "1900-01-01"},
]


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(record) + b"\n" for record in records)


def with_dates() -> list[dict[str, Any]]:
    return [
        record | {"admitted": date.fromisoformat(record["admitted"])} if "admitted" in record else record
        for record in RECORDS
    ]


def table() -> pa.Table:
    schema = pa.schema([("age", pa.int32()), ("ward", pa.string()), ("admitted", pa.date32())])
    return pa.Table.from_pylist(with_dates(), schema)


def write_parquet(path: Path) -> None:
    pq.write_table(table(), path)


def write_zst(path: Path) -> None:
    with pa.CompressedOutputStream(pa.OSFile(str(path), "w"), "zstd") as file:
        file.write(lines(RECORDS))


def write_iceberg(path: Path) -> None:
    """Write a table whose folder is `path`."""
    catalog = SqlCatalog("test", uri=f"sqlite:///{path.parent}/catalog.db", warehouse=f"file://{path.parent}")
    catalog.create_namespace("hospital")
    catalog.create_table("hospital.stays", table().schema, location=f"file://{path}").append(table())
    catalog.close()


def write_csv(path: Path) -> None:
    rows = [[str(record.get(name, "")) for name in ("age", "ward", "admitted")] for record in RECORDS]
    path.write_text("age,ward,admitted\n" + "".join(",".join(row) + "\n" for row in rows))


def container(schema: Any, records: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, schema, records, codec="deflate")
    return file.getvalue()


WRITERS: dict[str, Callable[[Path], object]] = {
    "records.jsonl": lambda path: path.write_bytes(lines(RECORDS)),
    "records": lambda path: path.write_bytes(lines(RECORDS)),
    "records.jsonl.gz": lambda path: path.write_bytes(gzip.compress(lines(RECORDS))),
    "records.json": lambda path: path.write_text(json.dumps(RECORDS, indent=2)),
    "records.csv": write_csv,
    "records.parquet": write_parquet,
    "records.avro": lambda path: path.write_bytes(container(ADMISSION, with_dates())),
    "records.jsonl.zst": write_zst,
    "delta": lambda path: write_deltalake(path, table()),
    "iceberg": write_iceberg,
}


def verdicts(stdout: bytes) -> list[Any]:
    return [json.loads(line) for line in stdout.splitlines()]


def codes(stdout: bytes) -> list[list[str]]:
    return [[each["code"] for each in verdict["violations"]] for verdict in verdicts(stdout)]


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_verdicts(
    tidegate: Run, contract: Path, tmp_path: Path, name: str
) -> None:
    WRITERS[name](tmp_path / name)
    ran = tidegate("judge", contract, "--data", tmp_path / name, "--format=json")
    assert (codes(ran.stdout), ran.returncode, ran.stderr) == (CODES, 1, b"")


def test_cells_are_values_of_their_field(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    (tmp_path / "records.csv").write_text(
        "age,ward\n7,icu\n07,icu\n12345678901234567890123,icu\nNA,icu\n8,NA\n"
    )
    ran = tidegate("judge", contract, "--data", tmp_path / "records.csv", "--null=NA", "--format=json")
    assert codes(ran.stdout) == [[], ["type"], ["age"], ["required"], []]  # `age` is the column, a long


def test_files_of_a_folder_are_named_in_places(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    folder = tmp_path / "days"
    (folder / "june").mkdir(parents=True)
    (folder / "1.jsonl").write_bytes(lines(RECORDS[:1]))
    (folder / "june/2.jsonl").write_bytes(lines(RECORDS))
    (folder / "_SUCCESS").write_bytes(b"\0")
    ran = tidegate("judge", contract, "--data", folder, "--format=json")
    assert [each["place"] for each in verdicts(ran.stdout)] == [
        "1.jsonl line 1",
        *(f"june/2.jsonl line {number}" for number in range(1, 6)),
    ]
    pattern = tidegate("judge", contract, "--data", folder / "**/2.*")
    shown = f"  {folder}/june/2.jsonl line 2  /age"
    assert shown in pattern.stdout.decode()


def test_one_reading_has_one_format(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "1.jsonl").write_bytes(lines(RECORDS))
    write_parquet(folder / "2.parquet")
    ran = tidegate("judge", contract, "--data", folder)
    assert (ran.returncode, ran.stderr.decode()) == (
        2,
        f"error: {folder}/2.parquet is parquet, and {folder}/1.jsonl is jsonl: read files of one format at a time\n",
    )
    assert tidegate("judge", contract, "--data", tmp_path / "no*").stderr.endswith(b"has no files\n")


def test_what_follows_an_array_is_not_left_out(tidegate: Run, contract: Path) -> None:
    ran = tidegate("judge", contract, stdin=b"[1]\n[2]\n")
    assert ran.returncode == 2
    assert b"goes on after the end of its JSON array" in ran.stderr
    assert (
        tidegate("judge", contract, "--records=lines", "--format=json", stdin=b"[1]\n[2]\n").stdout.count(
            b"\n"
        )
        == 2
    )


def test_a_binary_file_of_no_format_is_refused(tidegate: Run, contract: Path) -> None:
    ran = tidegate("judge", contract, stdin=b"\x7fELF\0\0\0\1")
    assert (ran.returncode, ran.stderr.startswith(b"error: - is in none of the formats")) == (2, True)


def test_records_of_several_lines_are_refused_with_a_way_to_join_them(tidegate: Run, contract: Path) -> None:
    records = "\n".join(json.dumps({"age": age}, indent=2) for age in range(5))
    shown = tidegate("judge", contract, stdin=records.encode()).stdout.decode()
    assert "join records of several lines with `jq -c .`" in shown
    assert "jq" not in tidegate("judge", contract, stdin=b'{"age": 1}\n{\n{"age": 999}\n').stdout.decode()


def test_a_container_is_read_with_its_own_schema(tidegate: Run, tmp_path: Path) -> None:
    stays = [{"age": 1}, {"age": 63}]
    folder = tmp_path / "stays"
    folder.mkdir()
    (folder / "1.avro").write_bytes(container(OLD, stays))
    (folder / "2.avro").write_bytes(container(NEW, [{"ward": "er", "age": 63}]))
    (folder / "3.avro").write_bytes(
        container(
            {"type": "record", "name": "Stay", "fields": [{"name": "age", "type": "string"}]}, [{"age": "x"}]
        )
    )
    ran = tidegate("judge", contract_of(tmp_path, framing="none"), "--data", folder, "--format=json")
    found = codes(ran.stdout)
    assert found[:3] == [[], ["age-is-known"], ["age-is-known"]]
    assert [len(each) for each in found[3:]] == [1]  # the writer's text is no age


def test_accepted_and_refused_are_written_apart_as_they_were(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    contract.write_text(CONTRACT + "classification: {/ward: pii, /age: pii}\n")
    whole = b'{"age": 3, "big": 12345678901234567890123.10}\n{"age": "SECRET", "ward": "icu"}\nno json\xff\n'
    (tmp_path / "data.jsonl").write_bytes(whole)
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    ran = tidegate("judge", contract, "--data", tmp_path / "data.jsonl", "--accepted", good, "--refused", bad)
    assert ran.returncode == 1
    assert b"SECRET" not in ran.stdout
    assert good.read_bytes() == whole.splitlines(keepends=True)[0]
    first, second = map(json.loads, bad.read_text().splitlines())
    assert (first["place"], first["record"]) == ("line 2", {"age": "SECRET", "ward": "icu"})
    assert first["violations"][0]["code"] == "type"
    assert "SECRET" not in first["violations"][0]["sentence"]
    assert (second["base64"], "record" in second) == ("bm8ganNvbv8=", False)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (good, bad)] == [0o600, 0o600]
    again = tidegate("judge", contract, "--data", good, "--accepted", good)
    assert (again.returncode, again.stderr.decode()) == (
        2,
        f"error: {good} exists; name another file, or remove it\n",
    )
    assert good.read_bytes() == whole.splitlines(keepends=True)[0]


def test_an_element_of_several_lines_becomes_one_line(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps(RECORDS[:3], indent=2).replace("\n", "\r\n"), newline="")
    tidegate("judge", contract, "--data", tmp_path / "data.json", "--accepted", tmp_path / "good.jsonl")
    kept = [json.loads(line) for line in (tmp_path / "good.jsonl").read_text().splitlines()]
    assert kept == [RECORDS[0], RECORDS[2]]


def test_framed_records_are_written_as_their_json(tidegate: Run, tmp_path: Path) -> None:
    contract = contract_of(tmp_path, tombstones="pass")
    frame = b"\0\0\0\0\1"
    data = sized(frame + b"\x04er\x02", frame + b"\x04er\x7e", None, b"?")
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    tidegate("judge", contract, "--records=sized", "--accepted", good, "--refused", bad, stdin=data)
    assert good.read_bytes() == b'{"ward":"er","age":1}\nnull\n'
    refused = [json.loads(line) for line in bad.read_text().splitlines()]
    assert [each.get("record", each.get("base64")) for each in refused] == [
        {"ward": "er", "age": 63},
        "Pw==",
    ]


def test_the_report_tells_the_producer_without_values_of_classified_fields(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    contract.write_text(
        CONTRACT.replace("values: [999]", "values: [999], description: Old <b>systems</b>")
        + "classification: {/ward: pii}\n"
    )
    records = [*RECORDS, {"age": 1, "ward": "SECRET"}, {"age": "</td><script>alert(1)</script>"}]
    page = tmp_path / "report.html"
    ran = tidegate("judge", contract, "--report", page, stdin=lines(records * 10))
    assert ran.returncode == 1
    text = page.read_text()
    assert "SECRET" not in text
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(src=|href=|url\(|@import)", text)
    assert "hospital.admissions, version 1.2.0" in text
    cards = re.findall(r"<article>.*?</article>", text, re.DOTALL)
    titles = [re.search(r"<h3>(.*?)</h3>", card)[1] for card in cards]  # type: ignore[index]  # each card has one
    assert titles == [
        "ward-is-known /ward",
        "age-is-known /age",
        "required",
        "not-the-epoch /admitted",
        "type /age",
    ]
    assert "10 records · 14.29%" in cards[1]
    shares = [re.findall(r'class="bar".*?width: (.*?)%', card, re.DOTALL) for card in cards]
    assert shares == [["100.0000"], *[["50.0000"]] * 4]
    assert "Old &lt;b&gt;systems&lt;/b&gt;" in cards[1]
    assert "passes with any value but 999" in cards[1]
    assert re.findall(r'class="place">(.*?)<', cards[1]) == [f"line {2 + 7 * each}" for each in range(5)]


def test_a_report_on_nothing(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    tidegate("judge", contract, "--report", tmp_path / "report.html")
    assert "Nothing was found" in (tmp_path / "report.html").read_text()


def test_findings_are_bounded() -> None:
    findings = JudgeFindings()
    for number in range(600):
        violation = Violation(Stage.SCHEMA, "type", f"/{number}", Severity.ERROR, "must be text")
        findings.add([Verdict(Disposition.QUARANTINED, (violation, violation))], lambda _: (), str)
    assert (len(findings.found), findings.others) == (500, 100)
    assert {each.records for each in findings.found.values()} == {1}


def test_merged_findings_are_those_of_all_records_and_bounded() -> None:
    merged = JudgeFindings()
    for part in range(3):
        findings = JudgeFindings()
        for number in range(200 * part, 200 * part + 300):
            violation = Violation(Stage.SCHEMA, "type", f"/{number}", Severity.ERROR, "must be text")
            told = (Explanation(violation, "m"),)
            findings.add([Verdict(Disposition.QUARANTINED, (violation,))] * 4, lambda _, told=told: told, str)
        merged.merge(findings)
    assert (len(merged.found), merged.others) == (500, 4 * 200)
    counts = Counter(each.records for each in merged.found.values())
    assert counts == {4: 300, 8: 200}
    assert {len(each.examples) for each in merged.found.values()} == {4, 5}


def test_an_error_leaves_no_part_of_a_result(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    ran = tidegate("judge", contract, "--accepted", good, stdin=b'[{"age": 1}, ')
    assert (ran.returncode, good.exists()) == (2, False)


@pytest.mark.parametrize(
    ("data", "advice"), [("kafka:stays", b"kcat -C"), ("postgresql:stays", b"copy TABLE")]
)
def test_what_is_no_file_names_a_way(tidegate: Run, contract: Path, data: str, advice: bytes) -> None:
    ran = tidegate("judge", contract, "--data", data)
    assert (ran.returncode, advice in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--spark", "--format=json"], b"--refused DIR has the verdicts"),
        (["--spark", "--records=sized"], b"leave --spark out"),
        (["--spark", "--reference"], b"leave --spark out"),
        (["--spark"], b"leave it out for -"),
        (["--spark-master=local"], b"give both"),
    ],
)
def test_what_is_done_on_one_machine_only_is_no_work_for_spark(
    tidegate: Run, contract: Path, options: list[str], advice: bytes
) -> None:
    ran = tidegate("judge", contract, *options)
    assert (ran.returncode, advice in ran.stderr) == (2, True)


def test_rows_with_a_wrong_number_of_cells_are_reported_where_they_are(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    data, refused = tmp_path / "records.csv", tmp_path / "refused.jsonl"
    data.write_text('age,ward\n3,icu\n4\n999,"er\nicu"\n5,er,x\n6,er\n7\n')
    ran = tidegate("judge", contract, "--data", data, "--format=json", "--refused", refused)
    found = verdicts(ran.stdout)
    assert ran.returncode == 1
    assert [(each["place"], each["disposition"]) for each in found] == [
        ("row 1", "accepted"),
        ("row 2", None),
        ("row 3", "quarantined"),
        ("row 4", None),
        ("row 5", "accepted"),
        ("row 6", None),
    ]
    assert found[1]["unreadable"] == {"pointer": "", "reason": "has 1 cells, and the header has 2"}
    kept = [json.loads(line)["place"] for line in refused.read_bytes().splitlines()]
    assert kept == ["row 3", "row 2", "row 4", "row 6"]
    report = tmp_path / "report.html"
    shown = tidegate("judge", contract, "--data", data, "--show=2", "--report", report).stdout.decode()
    assert re.search(r"unreadable\s+3\s+not judged", shown)
    assert "row 4  unreadable: has 3 cells, and the header has 2" in shown
    assert "and 1 more that cannot be read" in shown
    assert "cannot be read, and have no verdict" in report.read_text()


def test_a_file_of_rows_that_nearly_all_have_other_cells_is_no_table(
    tidegate: Run, contract: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_rows, "_MOST_SKIPPED", 5)
    (tmp_path / "records.csv").write_text("age,ward\n" + "3\n" * 10)
    ran = tidegate("judge", contract, "--data", tmp_path / "records.csv")
    assert ran.returncode == 2
    assert (
        b"more than 5 rows with another number of cells than its header, which has 2 separated" in ran.stderr
    )


def test_rows_of_several_files_are_numbered_with_those_that_cannot_be_read(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    for name, text in (("a.csv", "age,ward\n1\n2,er\n3\n"), ("b.csv", "age,ward\n4,er\n5\n")):
        (tmp_path / name).write_text(text)
    found = verdicts(tidegate("judge", contract, "--data", tmp_path / "*.csv", "--format=json").stdout)
    assert [each["place"].rpartition("/")[2] for each in found] == [
        "a.csv row 1",
        "a.csv row 2",
        "a.csv row 3",
        "b.csv row 1",
        "b.csv row 2",
    ]


BY_HAND = """\
{"age": 3, "ward": "icu", "admitted": "2026-01-31"}
{"age": {"int": 999}, "ward": null}
{"age": "4"}
{"ward": {"string": "er"}, "admitted": 20484}
{"aeg": 5}
{
"""


@pytest.mark.parametrize("name", ["records.jsonl", "records.csv", "records.parquet"])
def test_records_for_a_contract_of_avro_may_be_written_as_json(
    tidegate: Run, tmp_path: Path, name: str
) -> None:
    contract = contract_of(tmp_path, schema={"type": "avro", "definition": ADMISSION}, rules=RULES_OF_AVRO)
    if name == "records.jsonl":
        (tmp_path / name).write_text(BY_HAND)
    else:
        WRITERS[name](tmp_path / name)
    ran = tidegate("judge", contract, "--data", tmp_path / name, "--format=json")
    found = verdicts(ran.stdout)
    if name != "records.jsonl":
        assert [each["disposition"] for each in found] == [
            "accepted",
            "quarantined",
            "accepted",
            "accepted",
            "quarantined",
        ]
        return
    assert [each["disposition"] for each in found] == [
        "accepted",
        "quarantined",
        None,
        "accepted",
        None,
        None,
    ]
    assert [(each["place"], each["unreadable"]) for each in found if each["disposition"] is None] == [
        ("line 3", {"pointer": "/age", "reason": "is text, and the schema has int here"}),
        ("line 5", {"pointer": "", "reason": "has a field `aeg`, which the record `Admission` does not declare; did you mean `age`?"}),
        ("line 6", {"pointer": "", "reason": "is not JSON"}),
    ]  # fmt: skip


def test_avros_own_json_encoding_has_bytes_as_characters(tidegate: Run, tmp_path: Path) -> None:
    fields = [{"name": "mark", "type": "bytes"}]
    schema = {"type": "avro", "definition": {"type": "record", "name": "Stay", "fields": fields}}
    contract = contract_of(tmp_path, schema=schema, rules=[])
    text = rb'{"mark": "\u00ff"}'
    plain = tidegate("judge", contract, stdin=text)
    assert (plain.returncode, b"not Base64" in plain.stdout) == (1, True)
    assert tidegate("judge", contract, "--records=avro-json", stdin=text).returncode == 0


def test_avros_own_json_encoding_is_none_of_a_contract_of_json(tidegate: Run, contract: Path) -> None:
    ran = tidegate("judge", contract, "--records=avro-json", stdin=b"{}")
    assert (ran.returncode, b"describes JSON records" in ran.stderr) == (2, True)
