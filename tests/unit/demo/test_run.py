"""The command that the demo prints at its end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidegate.gateway.embedded.demo.run import own_command, shown_path

FOLDER = Path(sys.executable).parent


def test_the_command_runs_as_it_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`make demo` puts nothing on the path of the shell, and another Tidegate may be there."""
    monkeypatch.chdir(FOLDER.parent)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_command() == f"{FOLDER.name}/tidegate"
    (tmp_path / "tidegate").touch(0o755)
    assert own_command() == f"{FOLDER.name}/tidegate"
    monkeypatch.setenv("PATH", str(FOLDER))
    assert own_command() == "tidegate"


def test_paths_are_short_and_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(tmp_path / "a b" / "fix.yaml") == "'a b/fix.yaml'"
    assert shown_path(Path("/elsewhere")) == "/elsewhere"
