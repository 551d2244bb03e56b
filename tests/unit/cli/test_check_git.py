"""`tidegate check` against a commit of a real git repository."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.checks.workplace import Git, Write, contract_text

from .check_reports import codes, found
from .conftest import Run


class TestGit:
    def test_a_change_of_the_working_tree(self, tidegate: Run, git: Git, write: Write) -> None:
        write("contracts/räume mit/contract.json")
        git.commit()
        path = write("contracts/räume mit/contract.json", maximum=120, version="2.0.0")
        for argument in ("contracts", path, "."):
            ran = tidegate("check", argument, "--against", "git:HEAD", "--format", "json")
            (contract,) = found(ran)
            assert contract["file"] == "contracts/räume mit/contract.json"
            assert contract["base"]["origin"] == "git:HEAD:contracts/räume mit/contract.json"
            assert [one["code"] for one in contract["findings"]] == ["schema.maximum-lowered"]

    def test_from_a_folder_below_paths_are_those_of_there(
        self, tidegate: Run, git: Git, write: Write, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("contracts/a/contract.json", contract_id="a")
        write("contracts/b/contract.json", contract_id="b")
        git.commit()
        write("contracts/a/contract.json", contract_id="a", maximum=120, version="2.0.0")
        shutil.rmtree(here / "contracts" / "b")
        monkeypatch.chdir(here / "contracts" / "a")
        ran = tidegate("check", "..", "--against", "git:main", "--format", "json")
        assert codes(ran) == {
            "../a/contract.json": ["schema.maximum-lowered"],
            "../b/contract.json": ["contract.deleted"],
        }
        annotated = tidegate("check", "..", "--against", "git:main", "--format", "github").stdout.decode()
        assert "::error file=contracts/a/contract.json,line=" in annotated
        assert "::error file=contracts/b/contract.json,line=1,col=1," in annotated
        sarif = json.loads(tidegate("check", "..", "--against", "git:main", "--format", "sarif").stdout)
        places = [one["locations"][0]["physicalLocation"] for one in sarif["runs"][0]["results"]]
        assert [place["artifactLocation"]["uri"] for place in places] == [
            "contracts/a/contract.json",
            "contracts/b/contract.json",
        ]

    def test_a_schema_file_of_the_commit(self, tidegate: Run, git: Git, write: Write) -> None:
        schema = {"type": "json-schema", "file": "schema.json"}
        write("c/contract.json", schema=schema)
        write("c/schema.json", '{"type": "object", "properties": {"age": {"maximum": 150}, "ward": {}}}')
        git.commit()
        write("c/schema.json", '{"type": "object", "properties": {"age": {"maximum": 120}, "ward": {}}}')
        ran = tidegate("check", "c", "--against", "git:HEAD", "--format", "json")
        (contract,) = found(ran)
        assert {(one["code"], one["file"]) for one in contract["findings"]} == {
            ("schema.maximum-lowered", "c/schema.json"),
            ("version.too-low", "c/contract.json"),
        }

    def test_new_renamed_and_deleted_files(self, tidegate: Run, git: Git, write: Write, here: Path) -> None:
        write("c/kept.json", contract_id="kept")
        write("c/renamed.json", contract_id="renamed")
        write("c/gone.json", contract_id="gone")
        git.commit()
        (here / "c" / "renamed.json").rename(here / "c" / "other name.json")
        (here / "c" / "gone.json").unlink()
        write("c/fresh.json", contract_id="fresh")
        assert codes(tidegate("check", "c", "--against", "git:HEAD", "--format", "json")) == {
            "c/fresh.json": ["contract.new"],
            "c/kept.json": [],
            "c/other name.json": [],
            "c/gone.json": ["contract.deleted"],
        }

    def test_a_file_that_moved_in_is_compared_with_what_it_was(
        self, tidegate: Run, git: Git, write: Write, here: Path
    ) -> None:
        write("attic/contract.json")
        git.commit()
        (here / "attic" / "contract.json").unlink()
        write("contracts/contract.json", maximum=120, version="2.0.0")
        ran = tidegate("check", "contracts", "--against", "git:HEAD", "--format", "json")
        assert codes(ran) == {"contracts/contract.json": ["schema.maximum-lowered"]}

    def test_a_file_that_moved_out_is_not_gone(
        self, tidegate: Run, git: Git, write: Write, here: Path
    ) -> None:
        write("contracts/contract.json")
        git.commit()
        (here / "contracts" / "contract.json").unlink()
        write("attic/x.json")
        ran = tidegate("check", "contracts", "--against", "git:HEAD")
        assert (ran.returncode, ran.stdout.decode().splitlines()[0]) == (
            0,
            "contracts/contract.json:1:1  INFO  hospital.admissions is now in attic/x.json; check it there  [contract.moved]",
        )

    def test_a_deleted_file_or_folder_may_be_named(
        self, tidegate: Run, git: Git, write: Write, here: Path
    ) -> None:
        write("c/contract.json")
        git.commit()
        shutil.rmtree(here / "c")
        for argument in ("c", "c/contract.json"):
            ran = tidegate("check", argument, "--against", "git:HEAD", "--format", "json")
            assert (ran.returncode, codes(ran)) == (1, {"c/contract.json": ["contract.deleted"]})

    def test_another_id_in_the_same_file_is_another_contract(
        self, tidegate: Run, git: Git, write: Write
    ) -> None:
        write("c/contract.json", contract_id="before")
        git.commit()
        write("c/contract.json", contract_id="after")
        ran = tidegate("check", "c", "--against", "git:HEAD", "--format", "json")
        assert [(one["id"], one["findings"][0]["code"]) for one in found(ran)] == [
            ("after", "contract.new"),
            ("before", "contract.deleted"),
        ]

    def test_a_checkout_with_windows_line_ends_has_not_changed(
        self, tidegate: Run, git: Git, write: Write
    ) -> None:
        write("contract.json")
        git.commit()
        write("contract.json", contract_text().replace("\n", "\r\n"))
        assert codes(tidegate("check", ".", "--against", "git:HEAD", "--format", "json")) == {
            "contract.json": []
        }

    def test_a_linked_working_tree_is_one(
        self, tidegate: Run, git: Git, write: Write, tmp_path: Path
    ) -> None:
        write("contract.json")
        git.commit()
        git("worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
        (tmp_path / "other" / "contract.json").write_text(contract_text(maximum=120, version="2.0.0"))
        ran = tidegate("check", tmp_path / "other", "--against", "git:main", "--format", "github")
        assert "::error file=" in ran.stdout.decode()
        assert ran.returncode == 1
