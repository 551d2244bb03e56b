"""Reading contracts out of real repositories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.checks.workplace import Git, Write, contract_text
from tidegate.contracts.errors import ContractError, SettingsError
from tidegate.gateway.checks.git import Revision, load_contract_at

SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}, "ward": {"type": "string"}}}


def test_files_are_those_of_the_commit_not_of_the_working_tree(git: Git, write: Write, here: Path) -> None:
    write("sub/räume mit\ttab.json", "old")
    write("gone.json", "gone")
    commit = git.commit()
    write("sub/räume mit\ttab.json", "new")
    write("untracked.json", "x")
    (here / "gone.json").unlink()
    with Revision(here / "sub", "HEAD") as revision:
        assert (revision.root, revision.commit) == (here, commit)
        assert sorted(revision.files) == ["gone.json", "sub/räume mit\ttab.json"]
        assert revision.read("sub/räume mit\ttab.json") == b"old"
        assert revision.read("gone.json") == b"gone"


def test_bytes_come_back_as_they_are(git: Git, write: Write, here: Path) -> None:
    content = b"a\r\n\x00\xff\n\n"
    (here / "crlf.json").write_bytes(content)
    (here / "empty.json").touch()
    write("last.json", "x" * 1_000_000)
    git.commit()
    with Revision(here, "main") as revision:
        assert revision.read("crlf.json") == content
        assert revision.read("empty.json") == b""
        assert len(revision.read("last.json")) == 1_000_000


@pytest.mark.parametrize("ref", ["HEAD~1", "main~1", "v1", "v1-annotated"])
def test_a_commit_has_many_names(git: Git, write: Write, here: Path, ref: str) -> None:
    write("a.json", "1")
    git.commit()
    git("tag", "v1")
    git("tag", "-a", "-m", "one", "v1-annotated")
    write("a.json", "2")
    git.commit()
    with Revision(here, ref) as revision:
        assert revision.read("a.json") == b"1"


def test_links_and_submodules_are_no_files(git: Git, write: Write, here: Path) -> None:
    write("a.json")
    (here / "link.json").symlink_to("a.json")
    commit = git.commit()
    git("update-index", "--add", "--cacheinfo", f"160000,{commit},module")
    git("commit", "-q", "-m", "module")
    with Revision(here, "HEAD") as revision:
        assert list(revision.files) == ["a.json"]
        with pytest.raises(FileNotFoundError):
            revision.read("link.json")


@pytest.mark.parametrize("ref", ["nowhere", "", "--all", "HEAD:a.json", "@{99}"])
def test_an_unknown_commit_says_what_to_do(git: Git, write: Write, here: Path, ref: str) -> None:
    write("a.json")
    git.commit()
    with pytest.raises(SettingsError, match=r"git knows no commit `.*fetch it first"):
        Revision(here, ref)


def test_a_folder_in_no_repository_says_so(here: Path) -> None:
    with pytest.raises(SettingsError, match="is in no git repository; compare with a folder or the registry"):
        Revision(here, "HEAD")


def test_git_that_is_not_installed_says_so(git: Git, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git.commit()
    monkeypatch.setenv("PATH", str(here))
    with pytest.raises(SettingsError, match="git is not installed here"):
        Revision(here, "HEAD")


def test_content_that_an_incomplete_clone_lacks_is_an_error(git: Git, write: Write, here: Path) -> None:
    write("a.json", "1")
    git.commit()
    name = git("rev-parse", "HEAD:a.json").strip()
    (here / ".git" / "objects" / name[:2] / name[2:]).unlink()
    with Revision(here, "HEAD") as revision, pytest.raises(SettingsError, match="is the clone complete"):
        revision.read("a.json")


def test_git_that_ends_by_itself_is_an_error(git: Git, write: Write, here: Path) -> None:
    write("a.json", "1")
    git.commit()
    with Revision(here, "HEAD") as revision:
        revision._reader.kill()
        revision._reader.wait()
        with pytest.raises(SettingsError, match=r"git does not give a\.json at HEAD"):
            revision.read("a.json")


class TestContracts:
    def test_a_schema_file_comes_from_the_same_commit(self, git: Git, write: Write, here: Path) -> None:
        schema = {"type": "json-schema", "file": "schemas/admissions.json"}
        write("räume/contract.json", schema=schema)
        write("räume/schemas/admissions.json", json.dumps(SCHEMA))
        git.commit()
        write("räume/schemas/admissions.json", json.dumps(SCHEMA | {"title": "new"}))
        with Revision(here, "HEAD") as revision:
            loaded = load_contract_at(revision, "räume/contract.json")
        assert loaded.contract.schema_.definition == SCHEMA
        assert loaded.document.name == "git:HEAD:räume/contract.json"

    @pytest.mark.parametrize(
        ("file", "message"),
        [
            ("../secret.json", "is outside the contract's folder"),
            ("a/../../secret.json", "is outside the contract's folder"),
            ("/etc/passwd", "is outside the contract's folder"),
            ("gone.json", "cannot read `gone.json`: there is no such file in HEAD"),
        ],
    )
    def test_no_schema_file_comes_from_elsewhere(
        self, git: Git, write: Write, here: Path, file: str, message: str
    ) -> None:
        write("a/contract.json", schema={"type": "json-schema", "file": file})
        write("secret.json", json.dumps(SCHEMA))
        git.commit()
        with Revision(here, "HEAD") as revision, pytest.raises(ContractError, match=message):
            load_contract_at(revision, "a/contract.json")

    def test_windows_line_ends_make_no_difference(self, git: Git, write: Write, here: Path) -> None:
        write("a.json", contract_text().replace("\n", "\r\n"))
        write("b.json", contract_text())
        git.commit()
        with Revision(here, "HEAD") as revision:
            assert (
                load_contract_at(revision, "a.json").contract == load_contract_at(revision, "b.json").contract
            )

    def test_a_file_that_was_not_there_is_an_error(self, git: Git, here: Path) -> None:
        git.commit()
        with (
            Revision(here, "HEAD") as revision,
            pytest.raises(SettingsError, match=r"a\.json: there is no such file"),
        ):
            load_contract_at(revision, "a.json")
