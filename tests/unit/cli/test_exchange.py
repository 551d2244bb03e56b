"""Contracts of other formats, imported and exported on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.contracts.exchange.test_odcs import DOCUMENT
from tidegate.contracts.compiled import check_compiles
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.exchange import read
from tidegate.contracts.lint.lint import lint
from tidegate.gateway.cli import exchange
from tidegate.gateway.exits import ExitCode

from .conftest import Run


def test_what_is_imported_lints_and_is_exported_again(tidegate: Run, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "admissions.odcs.yaml", tmp_path / "contract.yaml"
    theirs.write_text(DOCUMENT)
    imported = tidegate("import", theirs, "--topic", "stays", "--out", ours)
    assert imported.returncode == ExitCode.OK
    assert b"not judged /schema/0/properties/1/quality/1: SQL is not run on a stream" in imported.stderr
    assert lint(ours).contract.topic == "stays"
    assert "# Not judged: /schema/0/quality/0: " in ours.read_text()
    refused = tidegate("import", theirs, "--out", ours)
    assert (refused.returncode, refused.stdout) == (ExitCode.USAGE, b"")
    assert b"exists" in refused.stderr
    exported = read_yaml("exported", tidegate("export", ours).stdout.decode()).value
    expected = read_yaml("theirs", DOCUMENT).value
    expected["schema"][0]["physicalName"] = "stays"
    # Only the topic was changed.
    assert exported["schema"][0]["properties"] == expected["schema"][0]["properties"]
    assert exported["servers"] == expected["servers"]


def test_a_rule_that_does_not_suit_its_field_is_left_out_and_named(tidegate: Run, tmp_path: Path) -> None:
    models = tmp_path / "schema.yml"
    range_test = "{name: status, data_type: text, tests: [dbt_utils.accepted_range: {min_value: 0}]}"
    models.write_text(f"models: [{{name: orders, columns: [{range_test}]}}]")
    imported = tidegate("import", models)
    assert imported.returncode == ExitCode.OK
    place = b"/models/0/columns/0/tests/0"
    assert b"not judged %s: `status-in-range` does not suit its field" % place in imported.stderr
    assert b"# Not judged: %s: `status-in-range`" % place in imported.stdout


def test_an_expectation_that_does_not_suit_is_named_with_its_place(tidegate: Run, tmp_path: Path) -> None:
    suite = tmp_path / "suite.json"
    mean = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "ward", "max_value": 3}}
    ward = {"type": "expect_column_values_to_be_of_type", "kwargs": {"column": "ward", "type_": "TEXT"}}
    suite.write_text(json.dumps({"name": "s", "expectations": [ward, mean]}))
    imported = tidegate("import", suite)
    assert b"not judged /expectations/1: `column-mean-to-be-between-ward` does not suit" in imported.stderr


def test_bounds_of_the_standard_that_do_not_suit_are_named_with_their_place(
    tidegate: Run, tmp_path: Path
) -> None:
    theirs = tmp_path / "stays.odcs.yaml"
    options = "logicalTypeOptions: {minimum: 2024-01-02, maximum: 2024-01-01}"
    days = f"{{name: day, logicalType: date, {options}}}"
    theirs.write_text(
        "apiVersion: v3.1.0\nkind: DataContract\nid: stays\nversion: 1.0.0\nstatus: active\n"
        f"schema: [{{name: stays, properties: [{days}]}}]\n"
    )
    imported = tidegate("import", theirs)
    place = b"/schema/0/properties/0/logicalTypeOptions"
    assert b"not judged %s: `day-in-range` does not suit" % place in imported.stderr


def test_what_does_not_suit_is_exported_again(tidegate: Run, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "admissions.odcs.yaml", tmp_path / "contract.yaml"
    theirs.write_text(DOCUMENT.replace('pattern: "[a-z]+"', 'pattern: "(?=x)y"'))
    imported = tidegate("import", theirs, "--out", ours)
    place = b"/schema/0/properties/2/quality/1"
    assert b"not judged %s: `ward-invalidvalues-2` does not suit" % place in imported.stderr
    exported = read_yaml("exported", tidegate("export", ours).stdout.decode()).value
    assert exported == read_yaml("theirs", theirs.read_text()).value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.avsc", '{"type": "record", "name": "R", "fields": [\n {"name": "a", "type": "Gone"}]}', "a.avsc:2:24: not an "),
        ("a.json", '{"type": "object",\n "properties": {"a": {"$ref": "https://a.example/b"}}}', "a.json:2:31: the refe"),
        ("a.odcs.yaml", DOCUMENT.replace("^A[0-9]+$", "["), "a.odcs.yaml: the schema that it describes has a mistake at /p"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_schema_has_its_place_in_the_document(
    tidegate: Run, tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    refused = tidegate("import", tmp_path / name)
    assert refused.returncode == ExitCode.FINDINGS
    assert f"{tmp_path}/{message}" in refused.stderr.decode()


def test_many_rules_that_do_not_suit_are_left_out_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "schema.yml"
    test = "{name: f%d, data_type: text, tests: [dbt_utils.accepted_range: {min_value: 0}]}"
    columns = ", ".join(test % number for number in range(50))
    models.write_text(f"models: [{{name: orders, columns: [{columns}]}}]")
    compiled: list[DataContract] = []

    def counting(contract: DataContract) -> None:
        compiled.append(contract)
        check_compiles(contract)

    monkeypatch.setattr(read, "check_compiles", counting)
    exchange.import_(str(models))
    assert [len(each.rules) for each in compiled] == [50, 0]
    assert "\nrules: []\n" in capsys.readouterr().out


def test_lint_names_the_command_for_another_format(tidegate: Run, tmp_path: Path) -> None:
    theirs = tmp_path / "admissions.odcs.yaml"
    theirs.write_text(DOCUMENT)
    refused = tidegate("lint", theirs)
    assert refused.returncode == ExitCode.FINDINGS
    assert b"another format (Open Data Contract Standard); `tidegate import`" in refused.stderr


def test_the_schema_is_exported_alone(tidegate: Run, contract: Path) -> None:
    assert b'"type": "integer"' in tidegate("export", contract, "--to", "schema").stdout
