"""How `tidegate check` helps those who call it: what it refuses, and what a shell completes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.checks.workplace import Git, Write, contract_text
from tidegate.gateway.cli.check import complete_against

from .conftest import Ran, Run


class TestWrongUsage:
    def refused(self, ran: Ran, *parts: str) -> None:
        message = ran.stderr.decode()
        assert (ran.returncode, ran.stdout) == (2, b"")
        assert [part for part in parts if part not in message] == []

    def test_an_empty_folder(self, tidegate: Run, here: Path, write: Write) -> None:
        (here / "empty").mkdir()
        write("old.json")
        for against in ("registry", "old.json"):
            self.refused(
                tidegate("check", "empty", "--against", against),
                "no contract in empty: nothing to check",
                "tidegate/v1",
            )

    def test_an_empty_folder_that_always_was(self, tidegate: Run, git: Git, here: Path) -> None:
        (here / "empty").mkdir()
        git.commit()
        self.refused(
            tidegate("check", "empty", "--against", "git:HEAD"), "no contract in empty: nothing to check"
        )

    def test_a_path_that_is_not_there(self, tidegate: Run, git: Git, write: Write) -> None:
        write("old.json")
        git.commit()
        self.refused(
            tidegate("check", "gone.yaml", "--against", "old.json"), "gone.yaml: there is no such file"
        )
        self.refused(
            tidegate("check", "gone.yaml", "--against", "git:HEAD"),
            "gone.yaml does not exist, neither here nor in HEAD",
        )

    def test_a_base_that_is_not_there(self, tidegate: Run, write: Write, here: Path) -> None:
        (here / "empty").mkdir()
        path = write("a.json")
        self.refused(
            tidegate("check", path, "--against", "mian"), "mian does not exist; compare with", "git:REF"
        )
        self.refused(
            tidegate("check", path, "--against", "empty"), "no contract in empty: nothing to compare with"
        )

    def test_no_repository_and_no_commit(self, tidegate: Run, write: Write, here: Path) -> None:
        path = write("a.json")
        self.refused(tidegate("check", path, "--against", "git:HEAD"), f"{here} is in no git repository")
        Git(here).commit()
        self.refused(
            tidegate("check", path, "--against", "git:mian"), "git knows no commit `mian`", "git fetch"
        )

    def test_a_file_outside_of_the_repository(
        self, tidegate: Run, git: Git, write: Write, tmp_path: Path
    ) -> None:
        write("a.json")
        git.commit()
        other = tmp_path / "b.json"
        other.write_text(contract_text("b"))
        self.refused(
            tidegate("check", "a.json", other, "--against", "git:HEAD"), "lies outside the repository"
        )

    def test_options_that_do_not_exist(self, tidegate: Run, write: Write) -> None:
        path = write("a.json")
        self.refused(tidegate("check", path, "--level", "SIDEWAYS"), "SIDEWAYS")
        self.refused(tidegate("check", path, "--format", "xml"), "xml")
        self.refused(tidegate("check"), "FILE_OR_FOLDER")


FOREIGN = {
    "orders.odcs.yaml": ("apiVersion: v3.1.0\nkind: DataContract\nid: a\n", "Open Data Contract Standard"),
    "orders.json": ('{"dataContractSpecification": "1.2.1", "id": "a"}', "Data Contract Specification"),
    "schema.yml": ("version: 2\nmodels:\n  - name: orders\n", "dbt"),
}


class TestOtherFormats:
    @pytest.mark.parametrize("name", FOREIGN)
    def test_a_document_that_is_named_fails_and_names_the_command(
        self, tidegate: Run, write: Write, name: str
    ) -> None:
        text, known_as = FOREIGN[name]
        write("old.json")
        ran = tidegate("check", write(name, text), "--against", "old.json")
        assert ran.returncode == 1
        message = f"another format ({known_as}); `tidegate import` makes a contract of it"
        assert message in ran.stdout.decode()

    def test_documents_in_a_folder_are_named_beside_the_contracts(self, tidegate: Run, write: Write) -> None:
        write("contracts/a.json")
        for name, (text, _) in FOREIGN.items():
            write(f"contracts/b/{name}", text + "\n" * 300_000)  # more than a YAML document of ours may have
        # Neither of these describes a contract.
        write("contracts/dbt_project.yml", "name: shop\nmodels:\n  shop: {materialized: table}\n")
        write(
            "contracts/odcs.schema.json", '{"properties": {"dataContractSpecification": {"type": "string"}}}'
        )
        write("contracts/kubernetes.yaml", "apiVersion: v3.1\nkind: Deployment\n")
        write("contracts/a.schema.json", '{"type": "object", "properties": {}}')
        write("contracts/broken.yaml", "models: [")
        ran = tidegate("check", "contracts", "--against", "contracts")
        assert ran.returncode == 0
        assert ran.stderr.decode().splitlines() == [
            f"not checked contracts/b/{name}: another format ({known_as}); "
            "`tidegate import` makes a contract of it"
            for name, (_, known_as) in sorted(FOREIGN.items())
        ]

    def test_a_folder_without_a_contract_is_refused_with_what_is_there(
        self, tidegate: Run, write: Write
    ) -> None:
        write("old.json")
        write("contracts/schema.yml", FOREIGN["schema.yml"][0])
        ran = tidegate("check", "contracts", "--against", "old.json")
        assert ran.returncode == 2
        assert b"not checked contracts/schema.yml: another format (dbt); `tidegate import`" in ran.stderr
        assert b"there is no contract in contracts: nothing to check" in ran.stderr


class TestShell:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("tidegate ch", ["check"]),
            ("tidegate check --fo", ["--format"]),
            ("tidegate check --format s", ["sarif"]),
            ("tidegate check --fail-on w", ["warning"]),
            ("tidegate check --against reg", ["registry"]),
            ("tidegate check --against git:fea", ["git:feature"]),
            ("tidegate diff --format j", ["json"]),
        ],
    )
    def test_words_are_completed(
        self, tidegate: Run, git: Git, monkeypatch: pytest.MonkeyPatch, words: str, expected: list[str]
    ) -> None:
        git.commit()
        git("branch", "feature")
        monkeypatch.setenv("_TIDEGATE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        assert tidegate().stdout.decode().split() == expected

    def test_without_git_the_registry_is_still_offered(
        self, monkeypatch: pytest.MonkeyPatch, here: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(here))
        assert complete_against("") == ["registry", "git:HEAD"]
