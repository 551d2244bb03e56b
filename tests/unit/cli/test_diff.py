"""`tidegate diff` of files and commits; those of a registry are in test_check_registry.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.checks.workplace import Git, Write, contract_text

from .conftest import Ran, Run


@pytest.fixture
def old(write: Write) -> Path:
    return write("räume mit/old.json")


@pytest.fixture
def new(write: Write) -> Path:
    return write("new.json", maximum=120)


def test_findings_are_shown_and_nothing_is_refused(tidegate: Run, old: Path, new: Path) -> None:
    ran = tidegate("diff", old, new)
    lines = ran.stdout.decode().splitlines()
    assert lines[0].startswith("new.json:")
    assert lines[0].endswith("[schema.maximum-lowered]")
    assert lines[-1] == "suggested version 2.0.0 · 1 finding"
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_the_level_says_what_counts_as_breaking(tidegate: Run, old: Path, new: Path) -> None:
    assert b"BREAKING" in tidegate("diff", old, new).stdout
    assert b"BREAKING" not in tidegate("diff", old, new, "--level", "FORWARD").stdout


def test_two_documents_that_say_the_same(tidegate: Run, old: Path, write: Write) -> None:
    same = write("same.yaml", contract_text().replace("\n", "\r\n"))
    ran = tidegate("diff", old, same)
    assert ran.stdout.decode() == "no difference between räume mit/old.json and same.yaml\n"
    assert ran.returncode == 0


def test_the_name_of_a_file_cannot_turn_the_line_around(tidegate: Run, write: Write) -> None:
    ran = tidegate("diff", write("o\u202e.json"), write("p\u2066\x1b.json"))
    assert ran.stdout.decode() == "no difference between o\\u202e.json and p\\u2066\\u001b.json\n"


def test_as_json(tidegate: Run, old: Path, new: Path) -> None:
    shown = json.loads(tidegate("diff", old, new, "--format", "json").stdout)
    assert (shown["format"], shown["file"], shown["suggested_version"]) == (
        "tidegate/diff/v1",
        "new.json",
        "2.0.0",
    )
    assert shown["base"] == {"version": "1.0.0", "origin": "räume mit/old.json"}
    assert shown["findings"][0]["outcome"] == "refuted"
    same = json.loads(tidegate("diff", old, old, "--format", "json").stdout)
    assert (same["findings"], same["suggested_version"]) == ([], None)


def test_commits(
    tidegate: Run, git: Git, old: Path, write: Write, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git.commit()
    write(str(old), maximum=120)
    git.commit()
    write(str(old), maximum=110)
    codes = [
        [finding["code"] for finding in json.loads(ran.stdout)["findings"]]
        for ran in (
            tidegate("diff", f"git:HEAD~1:{old}", f"git:main:{old}", "--format", "json"),
            tidegate("diff", f"git:HEAD:{old}", old, "--format", "json"),
        )
    ]
    assert codes == [["schema.maximum-lowered"]] * 2
    monkeypatch.chdir(here / old.parent)
    ran = tidegate("diff", f"git:HEAD~1:./{old.name}", f"git:HEAD:{old}")
    assert ran.stdout.decode().startswith(f"git:HEAD:{old}:")
    assert ran.returncode == 0


class TestWhatCannotBeDone:
    def refused(self, ran: Ran, *parts: str) -> None:
        message = ran.stderr.decode()
        assert (ran.returncode, ran.stdout) == (2, b"")
        assert [part for part in parts if part not in message] == []

    def test_a_missing_file(self, tidegate: Run, old: Path) -> None:
        self.refused(tidegate("diff", old, "gone.json"), "gone.json", "No such file")

    def test_a_file_that_is_no_contract(self, tidegate: Run, old: Path, write: Write) -> None:
        self.refused(
            tidegate("diff", old, write("x.json", "{}")),
            "can be compared: x.json:1:1: `apiVersion` is missing (and 5 more)",
        )

    def test_a_contract_that_does_not_compile(self, tidegate: Run, old: Path, write: Write) -> None:
        rules = [{"id": "r", "kind": "range", "field": "/agee", "minimum": 0}]
        path = write("new.json", rules=rules)
        self.refused(tidegate("diff", old, path), "can be compared: new.json:", "did you mean `/age`?")
        self.refused(tidegate("diff", path, old), "can be compared: new.json:", "did you mean `/age`?")

    def test_names_without_a_version_or_a_path(self, tidegate: Run, old: Path) -> None:
        self.refused(tidegate("diff", "registry:a", old), "registry:a@latest")
        self.refused(tidegate("diff", "registry:@1.0.0", old), "registry:hospital.admissions@latest")
        self.refused(tidegate("diff", "git:main", old), "git:main:contract.yaml")

    def test_no_repository_no_commit_no_file(self, tidegate: Run, old: Path, here: Path) -> None:
        self.refused(tidegate("diff", f"git:main:{old}", old), "is in no git repository")
        Git(here).commit()
        self.refused(tidegate("diff", f"git:mian:{old}", old), "git knows no commit `mian`")
        self.refused(tidegate("diff", "git:main:gone.json", old), "gone.json: there is no such file in main")
        self.refused(tidegate("diff", "git:main:../../gone.json", old), "lies outside the repository")


AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "a", "type": "int"}]}'


def test_a_document_of_another_format_is_refused_with_the_command(
    tidegate: Run, git: Git, write: Write, old: Path
) -> None:
    schema = write("order.avsc", AVRO)
    git.commit()
    for name in (schema, "git:HEAD:order.avsc"):
        ran = tidegate("diff", old, name)
        assert ran.returncode == 2
        message = "another format (Avro schema); `tidegate import` makes a contract of it\n"
        assert ran.stderr.decode().endswith(message)
