"""`tidegate lint` as a person sees it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.steps import chain, steps_of
from tests.unit.checks.workplace import Write, contract_text
from tidegate.contracts.errors import ContractError, Problem, SettingsError
from tidegate.gateway.cli.terminal import show_error

from .conftest import CONTRACT, Ran, Run

MOST = 200_000


def worst_schema(keyword: str) -> dict[str, Any]:
    return {"type": "json-schema", "definition": chain(40, lambda ref: {keyword: [ref, ref]})}


def test_a_sound_contract(tidegate: Run, contract: Path) -> None:
    ran = tidegate("lint", contract)
    assert ran.stdout.decode() == f"{contract}: ok · hospital.admissions 1.2.0 · 3 rules\n"
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_problems_are_lines_that_editors_follow(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(CONTRACT.replace("severity", "serverity").replace("on_violation", "on_violaton"))
    ran = tidegate("lint", broken, contract)
    assert ran.stdout.decode() == f"{contract}: ok · hospital.admissions 1.2.0 · 3 rules\n"
    assert ran.stderr.decode() == (
        f"{broken}:14:72: unknown key `serverity`; did you mean `severity`?\n"
        f"{broken}:15:75: unknown key `on_violaton`; did you mean `on_violation`?\n"
        "2 problems in 2 files\n"
    )
    assert ran.returncode == 1


def test_all_contracts_below_a_folder(tidegate: Run, write: Write) -> None:
    folder = write("teams/a/contract.json", contract_id="a.records").parents[1]
    write("teams/b/contract.json", contract_id="b.records")
    write("teams/.hidden/contract.json", contract_id="c.records")
    (folder / "odcs.yaml").write_text("apiVersion: v3.1.0\nkind: DataContract\nid: d\n")
    (folder / "values.yaml").write_text("replicas: 2\n")
    ran = tidegate("lint", folder)
    assert re.findall(r"ok · (\S+)", ran.stdout.decode()) == ["a.records", "b.records"]
    assert "not checked" in ran.stderr.decode()
    assert "odcs.yaml" in ran.stderr.decode()
    assert ran.returncode == 0


def test_a_folder_without_a_contract_is_wrong_usage(tidegate: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = tidegate("lint", tmp_path / "empty")
    assert ran.returncode == 2
    assert "there is no contract in" in ran.stderr.decode()
    assert "tidegate infer SOURCE" in ran.stderr.decode()


def test_a_missing_file_is_wrong_usage(tidegate: Run) -> None:
    ran = tidegate("lint", "nowhere.yaml")
    assert ran.returncode == 2
    assert b"nowhere.yaml" in ran.stderr


class TestChangedFiles:
    def test_a_changed_schema_is_linted_by_its_contract(self, tidegate: Run, write: Write) -> None:
        contract = write("teams/a/contract.json", schema={"type": "json-schema", "file": "schemas/a.json"})
        schema = write(
            "teams/a/schemas/a.json", '{"type": "object", "properties": {"age": {"type": "intger"}}}'
        )
        write("teams/a/other.json", contract_id="other.topic")
        write("elsewhere/contract.json", schema={"type": "json-schema", "file": "schemas/a.json"})
        ran = tidegate("lint", "--changed", schema)
        assert ran.stderr.decode().startswith(f"{schema}:1:")
        assert b"elsewhere" not in ran.stderr + ran.stdout
        assert ran.returncode == 1
        write(str(schema), '{"type": "object", "properties": {"age": {"type": "integer"}, "ward": {}}}')
        ran = tidegate("lint", "--changed", schema)
        assert ran.stdout.decode() == f"{contract}: ok · hospital.admissions 1.0.0 · 0 rules\n"
        assert (ran.returncode, ran.stderr) == (0, b"")

    def test_a_contract_with_mistakes_still_names_its_schema(self, tidegate: Run, write: Write) -> None:
        contract = write("c.json", schema={"type": "json-schema", "file": "s.json"}, on_violaton="drop")
        schema = write("s.json", '{"type": "object"}')
        ran = tidegate("lint", "--changed", schema, contract)
        assert ran.stderr.decode().count("unknown key `on_violaton`") == 1
        assert ran.returncode == 1

    def test_other_files_are_left_alone(self, tidegate: Run, write: Write) -> None:
        changed = [write("compose.yaml", "services: {}\n"), write("a/data.json", "{"), write("notes.md", "x")]
        write("c.json")
        ran = tidegate("lint", "--changed", *changed)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_an_expectation_that_costs_time_in_every_batch_is_named(tidegate: Run, contract: Path) -> None:
    kwargs = "kwargs: {column: age, min_value: 20, max_value: 80}"
    mean = f"{{id: mean-age, type: expect_column_mean_to_be_between, {kwargs}}}"
    median = f"{{id: median-age, type: expect_column_median_to_be_between, {kwargs}}}"
    contract.write_text(f"{CONTRACT}expectations:\n- {mean}\n- {median}\n")
    ran = tidegate("lint", contract)
    assert ran.stdout.decode().splitlines() == [
        f"{contract}: ok · hospital.admissions 1.2.0 · 3 rules · 2 expectations",
        "  note: Great Expectations judges median-age, which costs time in every batch",
    ]
    assert ran.returncode == 0


def test_a_rule_that_only_the_schema_carries_is_named_with_the_rule_that_would_judge_it(
    tidegate: Run, contract: Path
) -> None:
    carried = '{name: grown, doc: No children., expr: "this > 17"}, {name: odd}'
    with_rule = CONTRACT.replace(
        "age: {type: integer}", f'age: {{type: integer, "confluent:rules": [{carried}]}}'
    )
    contract.write_text(with_rule)
    ran = tidegate("lint", contract)
    first, note, other = ran.stdout.decode().splitlines()
    assert first.endswith(" · 2 rules of the schema not judged")
    written = note.partition("contract has it: ")[2]
    assert json.loads(written) == {
        "id": "confluent.grown.age",
        "kind": "cel",
        "field": "/age",
        "expr": "value > 17",
        "description": "No children.",
        "on_violation": "quarantine",
        "strict": True,
    }
    assert (
        other
        == "  note: of the rules that the schema carries for clients, one in the schema at /age is without an expression"
    )
    assert ran.returncode == 0
    contract.write_text(f"{with_rule}  - {written}\n")
    assert tidegate("lint", contract).stdout.decode().splitlines()[1:] == [other]
    assert b"confluent.grown.age" in tidegate("judge", contract, stdin=b'{"age": 3}').stdout


def test_a_mistake_in_an_expectation_is_a_line_that_editors_follow(tidegate: Run, contract: Path) -> None:
    kwargs = "kwargs: {column: agge, max_value: 80}"
    contract.write_text(
        f"{CONTRACT}expectations:\n- {{id: mean, type: expect_column_mean_to_be_between, {kwargs}}}\n"
    )
    ran = tidegate("lint", contract)
    assert "there is no column `agge`; did you mean `age`?" in ran.stderr.decode()
    assert ran.returncode == 1


def test_the_schema_for_editors_is_the_published_one(tidegate: Run) -> None:
    ran = tidegate("schema")
    assert ran.stdout == Path("schemas/meta/tidegate-v1.schema.json").read_bytes()


def test_a_name_that_may_be_misspelt_is_a_warning_with_its_place(tidegate: Run, contract: Path) -> None:
    contract.write_text(CONTRACT.replace("age: {type: integer}", "age: {type: integer, minimun: 0}"))
    ran = tidegate("lint", contract)
    line = 1 + contract.read_text()[: contract.read_text().index("minimun")].count("\n")
    warning, count = ran.stderr.decode().splitlines()
    assert warning.startswith(f"{contract}:{line}:")
    assert warning.endswith("warning: unknown keyword `minimun` refuses nothing; did you mean `minimum`?")
    assert count == "1 warning in 1 file"
    assert ran.returncode == 0
    assert tidegate("lint", "--strict", contract).returncode == 1


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_the_worst_schema_is_a_named_mistake_within_a_bound(
    tidegate: Run, tmp_path: Path, keyword: str
) -> None:
    """A schema that needs 2^40 looks must not hang the run of a pull request."""
    worst = tmp_path / "worst.json"
    worst.write_text(contract_text(schema=worst_schema(keyword)))
    runs: list[Ran] = []
    assert steps_of(lambda: runs.append(tidegate("lint", worst)), MOST) > 0
    (ran,) = runs
    assert ran.returncode == 1
    assert re.search(rb"worst\.json:\d+:\d+: a value is looked at more than 10,", ran.stderr)


@pytest.mark.parametrize("worst_is_candidate", [True, False])
@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_check_with_the_worst_schema_on_either_side_ends_within_a_bound(
    tidegate: Run, tmp_path: Path, keyword: str, *, worst_is_candidate: bool
) -> None:
    """The candidate and what it is compared with both come from a pull request or its base."""
    worst, sound = tmp_path / "worst.json", tmp_path / "sound.json"
    worst.write_text(contract_text(schema=worst_schema(keyword)))
    sound.write_text(contract_text(version="1.0.1"))
    candidate, base = (worst, sound) if worst_is_candidate else (sound, worst)
    runs: list[Ran] = []
    assert steps_of(lambda: runs.append(tidegate("check", candidate, "--against", base)), MOST) > 0
    (ran,) = runs
    assert ran.returncode == int(
        worst_is_candidate
    )  # what is compared with is not to be mended here: a warning
    assert b"a value is looked at more than 10," in ran.stdout + ran.stderr
    assert b"Traceback" not in ran.stderr


def test_a_message_shows_control_and_bidirectional_characters_by_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_error(SettingsError("a\u202eb\x1b[2J\u200f\u061c"))
    show_error(ContractError((Problem("x\u2066", "field `a\u202eb`\nnext"),)))
    said = capsys.readouterr().err
    assert "a\\u202eb\\u001b[2J\\u200f\\u061c" in said
    assert "field `a\\u202eb`" in said
    assert all(line.isprintable() for line in said.splitlines())
