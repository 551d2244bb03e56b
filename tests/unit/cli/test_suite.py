"""Suites of Great Expectations, into a contract and out of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tidegate.contracts.lint.lint import lint
from tidegate.gateway.exits import ExitCode

from .conftest import Run


def entry(column: str) -> dict[str, object]:
    return {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": column, "max_value": 120},
        "severity": "warning",
    }


def test_what_is_imported_is_exported_again(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "suite.json"
    theirs.write_text(json.dumps({"name": "theirs", "expectations": [entry("age")]}))
    imported = tidegate("suite", contract, "--import", theirs)
    assert (imported.returncode, imported.stderr) == (ExitCode.OK, b"")
    contract.write_bytes(contract.read_bytes() + imported.stdout)
    (expectation,) = lint(contract).contract.expectations
    assert (expectation.type, expectation.kwargs["max_value"]) == ("expect_column_mean_to_be_between", 120)
    exported = json.loads(tidegate("suite", contract).stdout)
    assert [{key: each[key] for key in entry("age")} for each in exported["expectations"]] == [entry("age")]


def test_a_suite_about_a_column_that_is_none_is_refused(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "suite.json"
    theirs.write_text(json.dumps({"name": "theirs", "expectations": [entry("agee")]}))
    refused = tidegate("suite", contract, "--import", theirs)
    assert (refused.returncode, refused.stdout) == (ExitCode.FINDINGS, b"")
    assert re.search(rb"suite\.json:1:\d+: there is no column `agee`", refused.stderr)
    assert b"`age`" in refused.stderr


def test_what_is_no_suite_is_named_with_its_place(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "suite.json"
    theirs.write_text("{\n")
    refused = tidegate("suite", contract, "--import", theirs)
    assert b"suite.json:2:1: not JSON: " in refused.stderr


def test_parts_that_are_not_used_are_listed(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "suite.json"
    noted = entry("age") | {"meta": {"notes": "x"}, "id": "3"}
    theirs.write_text(json.dumps({"name": "s", "meta": {"by": 1}, "expectations": [entry("age"), noted]}))
    imported = tidegate("suite", contract, "--import", theirs)
    assert imported.stderr.decode().splitlines() == [
        "not judged /meta: a contract has no field for `meta`",
        "not judged /expectations/1/id: a contract has no field for `id`",
        "not judged /expectations/1/meta/notes: a contract has no field for `notes`",
    ]


def test_a_field_stands_for_the_column_that_is_derived_from_it(
    tidegate: Run, contract: Path, tmp_path: Path
) -> None:
    contract.write_text(
        contract.read_text().replace("{age: {type", "{guest-age: {type: integer}, age: {type")
    )
    theirs = tmp_path / "suite.json"
    theirs.write_text(json.dumps({"name": "theirs", "expectations": [entry("guest-age"), entry("age")]}))
    imported = tidegate("suite", contract, "--import", theirs)
    assert (imported.returncode, imported.stderr) == (ExitCode.OK, b"")
    assert b'"column":"guest_age"' in imported.stdout
    assert b'"column":"age"' in imported.stdout


def test_an_expectation_gets_another_id_than_the_rules(tidegate: Run, contract: Path, tmp_path: Path) -> None:
    contract.write_text(contract.read_text().replace("id: age-is-known", "id: column-mean-to-be-between-age"))
    theirs = tmp_path / "suite.json"
    theirs.write_text(json.dumps({"name": "theirs", "expectations": [entry("age"), entry("age")]}))
    imported = tidegate("suite", contract, "--import", theirs)
    assert (imported.returncode, imported.stderr) == (ExitCode.OK, b"")
    contract.write_bytes(contract.read_bytes() + imported.stdout)
    found = [each.id for each in lint(contract).contract.expectations]
    assert found == ["column-mean-to-be-between-age-2", "column-mean-to-be-between-age-3"]
    again = tidegate("suite", contract, "--import", theirs)
    assert again.stdout == imported.stdout
