"""`tidegate judge`: lines, verdicts, sums."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.deep_schemas import chained, contract_with, nested
from tidegate.contracts.explain.account import Explanation
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.cli.judge_summary import JudgeCounts
from tidegate.gateway.sources import files, record_files
from tidegate.gateway.sources.record_files import line_batches
from tidegate.gateway.sources.source import Unreadable

from .conftest import CONTRACT, WITH_COLUMN, Run

RECORDS = (
    b'{"age": 3, "ward": "icu"}\n'
    b'{"age": 999}\n'
    b"\n"
    b'{"age": 4, "ward": "moon"}\r\n'
    b'{"age": 5, "admitted": "1900-01-01"}\n'
    b'{"age": "42"}\n'
    b"not json\xff\n"
    b'{"age": 7}'
)


class _Chunks(io.RawIOBase):
    """A pipe that gives what was written to it piece by piece."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = [chunk for chunk in chunks if chunk]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # the buffer that io hands over
        chunk = self._chunks.pop(0) if self._chunks else b""
        buffer[: len(chunk)] = chunk
        return len(chunk)


@given(st.lists(st.binary(max_size=30).map(lambda chunk: chunk.replace(b"\x00", b"\n")), max_size=20))
def test_lines_end_at_lf_only_however_they_arrive(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()  # what follows the last LF is no line
    stream = io.BufferedReader(_Chunks(chunks))
    assert [line for batch in line_batches(stream) for line in batch] == expected


def test_a_tally_keeps_only_the_first_refused() -> None:
    violation = Violation(Stage.RULE, "r", "/a", Severity.ERROR, "m")
    refused = Verdict(Disposition.QUARANTINED, (violation, violation))
    tally = JudgeCounts(limit=1)
    told = (Explanation(violation, "m"),)
    tally.add([Verdict(Disposition.ACCEPTED), refused], ["1", "2"].__getitem__, lambda index: told * index)
    tally.add(
        [refused, Verdict(Disposition.WARNED, (violation,))],
        ["4", "5"].__getitem__,
        lambda index: told * index,
    )
    assert (tally.records, tally.refused, tally.first_refused) == (4, 2, [("2", told)])
    assert tally.codes == {(Stage.RULE, "r", Severity.ERROR): 3}  # a record counts once


def test_merged_tallies_keep_the_first_refused_of_all() -> None:
    violation = Violation(Stage.RULE, "r", "/a", Severity.ERROR, "m")
    merged = JudgeCounts(limit=3)
    for part in range(3):
        tally = JudgeCounts(limit=3)
        places = [str(2 * part), str(2 * part + 1)]
        refused = [Verdict(Disposition.QUARANTINED, (violation,))] * 2
        tally.add(refused, places.__getitem__, lambda _: ())
        tally.add_unreadable([Unreadable(part, "no")], str)
        merged.merge(tally)
    assert (merged.records, merged.refused, merged.unreadable) == (6, 6, 3)
    assert merged.codes == {(Stage.RULE, "r", Severity.ERROR): 6}
    assert [place for place, _ in merged.first_refused] == ["0", "1", "2"]
    assert [place for place, _ in merged.first_unreadable] == ["0", "1", "2"]


def test_every_line_gets_its_verdict(tidegate: Run, contract: Path) -> None:
    ran = tidegate("judge", contract, "--format=json", stdin=RECORDS)
    verdicts = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [
        (verdict["line"], verdict["disposition"], [violation["code"] for violation in verdict["violations"]])
        for verdict in verdicts
    ] == [
        (1, "accepted", []),
        (2, "quarantined", ["age-is-known"]),
        (3, "quarantined", ["json.empty"]),
        (4, "warned", ["ward-is-known"]),
        (5, "dropped", ["not-the-epoch"]),
        (6, "quarantined", ["type"]),
        (7, "quarantined", ["json.invalid-utf8"]),
        (8, "accepted", []),
    ]
    assert verdicts[5]["violations"] == [
        {
            "stage": "schema",
            "code": "type",
            "pointer": "/age",
            "severity": "error",
            "message": "must be of type integer",
            "sentence": 'age is the text "42", not a whole number',
            "description": None,
            "passes": "a whole number",
        }
    ]
    assert (ran.returncode, ran.stderr) == (1, b"")


def test_a_record_beyond_the_budget_of_steps_is_named_and_the_others_are_judged(
    tidegate: Run, tmp_path: Path
) -> None:
    path = tmp_path / "deep.tidegate.json"
    path.write_text(contract_with(chained("allOf")).model_dump_json(by_alias=True, exclude_unset=True))
    ran = tidegate("judge", path, "--format=json", stdin=b"{}\n" + nested(40, "1") + b"\n{}\n")
    verdicts = [json.loads(line) for line in ran.stdout.splitlines()]
    found = [[each["code"] for each in verdict["violations"]] for verdict in verdicts]
    assert found == [[], ["json.too-much-work"], []]
    assert verdicts[1]["violations"][0]["sentence"] == (
        "takes more than 20,000,000 steps to judge by the schema"
    )


def test_the_summary_names_the_first_refused(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    data = tmp_path / "records.jsonl"
    data.write_bytes(RECORDS)
    ran = tidegate("judge", contract, "--data", data, "--show", "2")
    lines = [line.rstrip() for line in ran.stdout.decode().splitlines()]
    assert lines[:7] == [
        "hospital.admissions 1.2.0 · 8 records judged",
        "",
        "  accepted     2  25.00%",
        "  warned       1  12.50%",
        "  dropped      1  12.50%",
        "  quarantined  4  50.00%",
        "",
    ]
    assert "  rule    age-is-known       1" in lines
    assert [line for line in lines if line.startswith("  line ")] == [
        line
        for line in lines
        if line.startswith(("  line 2  /age  age-is-known: ", "  line 3        json.empty: "))
    ]
    assert lines[-1] == "  and 3 more refused; --show N shows more of them, --format json every verdict"
    assert ran.returncode == 1


def test_the_first_refused_records_are_described_in_words(tidegate: Run, contract: Path) -> None:
    contract.write_text(
        CONTRACT.replace("values: [999]", "values: [999], description: Old systems write 999.")
    )
    lines = tidegate("judge", contract, stdin=RECORDS).stdout.decode().splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("  line 2  /age"))
    assert [line.strip() for line in lines[at : at + 3]] == [
        "line 2  /age       age-is-known: age is 999, a placeholder value",
        "Old systems write 999.",
        "passes with any value but 999",
    ]


@pytest.mark.parametrize("options", [(), ("--format=json",)])
def test_values_of_classified_fields_are_not_printed(
    tidegate: Run, contract: Path, options: tuple[str, ...]
) -> None:
    contract.write_text(CONTRACT + "classification: {/ward: pii, /age: pii}\n")
    records = b'{"age": 999, "ward": "SECRET"}\n{"age": "SECRET"}\n{"age": 3, "ward": "SECRET" SECRET\n'
    ran = tidegate("judge", contract, *options, stdin=records)
    assert b"SECRET" not in ran.stdout + ran.stderr
    assert b"999, a placeholder" not in ran.stdout
    assert b"holds a value that the contract forbids" in ran.stdout
    assert b"passes" in ran.stdout


def test_values_cannot_speak_to_the_terminal(tidegate: Run, contract: Path) -> None:
    records = b'{"age": "\\u001b[2Jx\\u202etxt"}\n'
    ran = tidegate("judge", contract, stdin=records)
    assert b'age is the text "\\u001b[2Jx\\u202etxt"' in ran.stdout


def test_names_of_fields_and_words_of_the_contract_cannot_speak_to_the_terminal(
    tidegate: Run, contract: Path
) -> None:
    text = CONTRACT.replace("properties: {", 'properties: {"x\\e[2J\\u202E": {type: integer}, ')
    contract.write_text(text.replace("values: [999]", 'values: [999], description: "told\\e[2J\\u202E"'))
    ran = tidegate("judge", contract, stdin=b'{"age": 1, "x\\u001b[2J\\u202e": "text"}\n{"age": 999}\n')
    said = ran.stdout.decode()
    assert "/x\\u001b[2J\\u202e" in said
    assert "told\\u001b[2J\\u202e" in said
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize("data", [b'{"age": 1}', b'{"age": 1, "ward": "moon"}\n'])
def test_nothing_refused(tidegate: Run, contract: Path, data: bytes) -> None:
    ran = tidegate("judge", contract, stdin=data)
    assert ran.returncode == 0
    assert ran.stdout.decode().splitlines()[0] == "hospital.admissions 1.2.0 · 1 record judged"


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_record_is_no_success_unless_it_is_allowed(tidegate: Run, contract: Path, form: str) -> None:
    """A command before the pipe that fails must not let a check in CI pass."""
    ran = tidegate("judge", contract, "--format", form, stdin=b"")
    assert ran.returncode == 1
    assert ran.stderr.decode() == (
        "no record was judged: standard input has none; --allow-empty takes that for a success\n"
    )
    allowed = tidegate("judge", contract, "--format", form, "--allow-empty", stdin=b"")
    assert (allowed.returncode, allowed.stderr, allowed.stdout) == (0, b"", ran.stdout)


@pytest.mark.parametrize(
    ("name", "content"), [("a.jsonl", b""), ("a.json", b"[]"), ("a.csv", b""), ("a.csv", b"age,ward\n")]
)
def test_an_empty_file_has_no_records(
    tidegate: Run, contract: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    ran = tidegate("judge", contract, "--data", tmp_path / name)
    assert ran.returncode == 1
    assert f"no record was judged: {name} has none" in ran.stderr.decode()


def test_lines_have_no_frame(tidegate: Run, contract: Path) -> None:
    contract.write_text(CONTRACT + "framing: confluent-prefix\n")
    assert tidegate("judge", contract, stdin=b'{"age": 1}\n').returncode == 0


def test_data_that_is_not_there(tidegate: Run, contract: Path) -> None:
    ran = tidegate("judge", contract, "--data", "nowhere.jsonl")
    assert ran.stderr == (
        b"error: there is no file nowhere.jsonl; a topic is kafka:TOPIC, a table iceberg:NAMESPACE.TABLE or "
        b"postgresql:TABLE\n"
    )
    assert (ran.returncode, ran.stdout) == (2, b"")


def test_a_broken_contract_judges_nothing(tidegate: Run, contract: Path) -> None:
    contract.write_text(CONTRACT.replace("/age", "/aeg"))
    ran = tidegate("judge", contract, stdin=RECORDS)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr.startswith(f"{contract}:13:".encode())


def test_the_reference_agrees_on_every_record_that_reaches_the_schema(tidegate: Run, contract: Path) -> None:
    ran = tidegate("judge", contract, "--reference", stdin=RECORDS)
    assert b"python-jsonschema agrees on 6 of 6 records that reach the schema" in ran.stdout


def test_a_difference_from_the_reference_is_a_finding(tidegate: Run, tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT.replace("ward: {type: string}", r"ward: {type: string, pattern: '^\d$'}"))
    records = '{"age": 1, "ward": "3"}\n{"age": 1.0, "ward": "٣"}\n{"age": 1.5}\nnone\n'.encode()
    ran = tidegate("judge", path, "--reference", stdin=records)
    assert b"python-jsonschema agrees on 2 of 3 records" in ran.stdout
    assert b"line 2  the judge refuses by the schema, python-jsonschema accepts" in ran.stdout
    ran = tidegate("judge", path, "--reference", "--format=json", stdin=records)
    answers = [json.loads(line)["reference_accepts"] for line in ran.stdout.splitlines()]
    assert (answers, ran.returncode) == ([True, True, False, None], 1)


def test_the_reference_reads_json_without_frames_only(tidegate: Run, tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT.replace("topic:", "framing: confluent-prefix\ntopic:"))
    ran = tidegate("judge", path, "--reference", "--records", "sized", stdin=b"")
    assert ran.returncode == 2
    assert b"JSON records without frames only" in ran.stderr


def test_a_value_that_does_not_fit_its_column_is_refused_as_in_the_job(tidegate: Run, tmp_path: Path) -> None:
    path = tmp_path / "columns.yaml"
    path.write_text(WITH_COLUMN)
    ran = tidegate("judge", path, "--format=json", stdin=b'{"x": 1.5}\n{"x": 1}\n')
    first, second = (json.loads(line) for line in ran.stdout.splitlines())
    assert (ran.returncode, first["disposition"], second["disposition"]) == (1, "quarantined", "accepted")
    (violation,) = first["violations"]
    assert (violation["stage"], violation["code"], violation["pointer"]) == ("column", "x", "/x")


def test_the_summary_says_which_sinks_judge_columns(tidegate: Run, tmp_path: Path) -> None:
    path = tmp_path / "columns.yaml"
    path.write_text(WITH_COLUMN)
    note = b"The job judges columns for tables, and for topics if the contract has expectations"
    assert note in tidegate("judge", path, stdin=b'{"x": 1.5}\n').stdout
    assert note not in tidegate("judge", path, stdin=b'{"x": "a"}\n').stdout


def test_the_reference_compares_the_schema_and_no_columns(tidegate: Run, tmp_path: Path) -> None:
    path = tmp_path / "columns.yaml"
    path.write_text(WITH_COLUMN)
    ran = tidegate("judge", path, "--reference", stdin=b'{"x": 1.5}\n')
    assert b"agrees on 1 of 1 records that reach the schema" in ran.stdout


@pytest.mark.parametrize("command", ["judge", "backtest", "infer"])
def test_a_record_that_is_too_long_is_unreadable(
    tidegate: Run, contract: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(files, "LONGEST_RECORD", 100)
    monkeypatch.setattr(record_files, "_BLOCK_BYTES", 50)
    data = tmp_path / "long.jsonl"
    data.write_bytes(b'{"age": 1}\n' * 30 + b'{"ward": "%s"}\n' % (b"x" * 1000) + b'{"age": 2}\n' * 30)
    ran = {
        "judge": lambda: tidegate("judge", contract, "--data", data),
        "backtest": lambda: tidegate("backtest", contract, "--against", contract, "--data", data),
        "infer": lambda: tidegate("infer", data, "--id", "a.b", "--out", tmp_path / "a.yaml"),
    }[command]()
    said = (ran.stdout + ran.stderr).decode()
    assert "line 31" in said
    assert "empty" not in said
    if command != "backtest":
        assert "longer than 67,108,864 bytes" in said
