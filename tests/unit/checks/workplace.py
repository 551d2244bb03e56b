"""Contracts in folders and in real git repositories."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Write = Callable[..., Path]

PROPERTIES = {"age": {"type": "integer", "maximum": 150}, "ward": {"type": "string"}}


def contract_text(contract_id: str = "hospital.admissions", version: str = "1.0.0", **changes: Any) -> str:
    """Return a contract as JSON; keyword arguments replace top-level fields, `maximum` that of the age."""
    maximum = changes.pop("maximum", 150)
    properties = {**PROPERTIES, "age": {"type": "integer", "maximum": maximum}}
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": contract_id,
        "version": version,
        "topic": contract_id,
        "schema": {"type": "json-schema", "definition": {"type": "object", "properties": properties}},
        "consumers": [
            {"id": "bed-planning", "reads": ["/age"]},
            {"id": "los-report", "reads": ["/ward"]},
        ],
    }
    return json.dumps(document | changes, indent=2, ensure_ascii=False) + "\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands run in."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def write(here: Path) -> Write:
    """Write a file below the folder; give its path as a person there would."""

    def write_file(name: str, text: str | None = None, **changes: Any) -> Path:
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((contract_text(**changes) if text is None else text).encode())
        return Path(name)

    return write_file


class Git:
    """A repository whose every setting is its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self("init", "-q", "-b", "main")

    def __call__(self, *arguments: str) -> str:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", *identity, "-c", "core.autocrlf=false", *arguments]
        ran = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True)
        return ran.stdout

    def commit(self) -> str:
        """Commit everything; give the id."""
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", "change")
        return self("rev-parse", "HEAD").strip()


@pytest.fixture
def git(here: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """The folder as a repository, independent of the user's settings of Git."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return Git(here)
