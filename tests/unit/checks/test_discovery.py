"""Which documents a check is about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.checks.workplace import Write, contract_text
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.checks.discovery import affected_contracts, is_contract, read_candidate, select
from tidegate.gateway.checks.places import shown_path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("apiVersion: tidegate/v1\nkind: DataContract\n", True),
        ('{"kind": "DataContract", "apiVersion": "tidegate/v1"}', True),
        ("kind: DataContract\r\napiversion: 'tidegate/v2'\r\n", True),
        ("apiVersion: tidegate/v1\nrules: [", True),
        ("kind: DataContract\n", True),
        ("apiVersion: v3.0.2\nkind: DataContract\n", False),
        ("apiVersion: apps/v1\nkind: Deployment\n", False),
        ('{"type": "object", "title": "tidegate/v1"}', False),
        ("", False),
        ('{"kind": "DataContract", "apiVersion": "tidegate\\/v1"}', True),
        ("apiVersion: &a tidegate/v1\n", True),
        ("apiVersion: !!str tidegate/v1\n", True),
        ("apiVersion: &a !<tag:yaml.org,2002:str> 'tidegate/v1'\n", True),
        ('{"apiVersion": "apps\\/v1", "kind": "Deployment"}', False),
        ("apiVersion: !!str apps/v1\nkind: Deployment\n", False),
        ("apiVersion: &a v3.0.2\nkind: DataContract\n", False),
    ],
)
def test_a_document_says_whether_it_is_a_contract(content: str, *, expected: bool) -> None:
    assert is_contract(content.encode()) is expected


def test_a_folder_gives_its_contracts_and_nothing_else(write: Write) -> None:
    write("contracts/b/contract.yaml", "apiVersion: tidegate/v1\n")
    write("contracts/a b/räume.json")
    write("contracts/a b/admissions.schema.json", "{}")
    write("contracts/compose.yaml", "services: {}\n")
    write("contracts/notes.md", "apiVersion: tidegate/v1\n")
    write("contracts/.cache/contract.yaml")
    selection = select([Path("contracts")])
    assert [str(file.path) for file in selection.files] == [
        "contracts/a b/räume.json",
        "contracts/b/contract.yaml",
    ]
    assert (selection.folders, selection.missing) == ((Path("contracts"),), ())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["c.yaml", "c.yml", "c.json"])
def test_a_file_in_utf_16_is_taken_and_refused_as_no_utf_8(here: Path, name: str, encoding: str) -> None:
    (here / name).write_bytes(f"\ufeff{contract_text()}".encode(encoding))
    (here / "other.json").write_bytes("\ufeff{}".encode(encoding))
    (file,) = select([Path()]).files
    (problem,) = read_candidate(file).problems
    assert (file.path, "not UTF-8" in problem.message) == (Path(name), True)


def test_what_is_no_regular_file_is_left_out_of_a_folder_and_refused_by_name(here: Path) -> None:
    os.mkfifo(here / "pipe.yaml")
    assert select([Path()]).files == ()
    for read in (select, affected_contracts):
        with pytest.raises(SettingsError, match=r"pipe\.yaml is no regular file"):
            read([Path("pipe.yaml")])


def test_a_named_file_is_taken_whatever_it_says(write: Write) -> None:
    assert [file.path for file in select([write("notes.md", "hello")]).files] == [Path("notes.md")]


def test_a_file_is_taken_once_however_often_it_is_named(write: Write, here: Path) -> None:
    path = write("a/contract.json")
    (here / "a" / "current.json").symlink_to("contract.json")
    selection = select([Path("a"), path, here / path])
    assert [file.path for file in selection.files] == [path]


def test_what_is_not_there_is_kept_apart(write: Write) -> None:
    selection = select([write("a.json"), Path("gone.json")])
    assert selection.missing == (Path("gone.json"),)


def test_a_link_that_leads_nowhere_is_no_contract(here: Path) -> None:
    (here / "broken.yaml").symlink_to("nowhere.yaml")
    assert select([Path()]).files == ()


def test_a_candidate_that_does_not_compile_has_every_mistake_and_its_place(write: Write) -> None:
    write("c.json", contract_text(consumer=[], statuss="x"))
    (file,) = select([Path("c.json")]).files
    candidate = read_candidate(file)
    assert candidate.loaded is None
    assert [(one.file, one.line is not None) for one in candidate.problems] == [("c.json", True)] * 2


def test_a_folder_that_cannot_be_read_is_an_error(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.json")

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "a.json")

    monkeypatch.setattr(Path, "open", deny)  # root may read everything
    with pytest.raises(SettingsError, match=r"cannot read a\.json: Permission denied"):
        select([Path()])


def test_no_path_looks_like_a_command_of_the_runner() -> None:
    assert shown_path("::error::x.yaml") == "./::error::x.yaml"
    assert shown_path(Path("a/::b")) == "a/::b"
