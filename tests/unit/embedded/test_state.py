from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.embedded.state import StateDirectory


def test_a_new_folder_is_made_and_ignored_by_git(tmp_path: Path) -> None:
    with StateDirectory(tmp_path / "deep" / "state") as state:
        assert (state.path / ".gitignore").read_text() == "*\n"
        assert state.ended == ()
        assert state.path.stat().st_mode & 0o777 == 0o700
        assert state.database_url == f"sqlite:///{tmp_path}/deep/state/registry.db"


def test_an_empty_folder_that_everybody_can_read_becomes_private(tmp_path: Path) -> None:
    for mode, expected in ((0o755, 0o700), (0o750, 0o750)):
        folder = tmp_path / oct(mode)
        folder.mkdir()
        folder.chmod(mode)
        with StateDirectory(folder):
            assert folder.stat().st_mode & 0o777 == expected


def test_content_survives_a_restart(tmp_path: Path) -> None:
    with StateDirectory(tmp_path / "state") as state:
        (state.path / "registry.db").write_text("kept")
    with StateDirectory(tmp_path / "state") as state:
        assert (state.path / "registry.db").read_text() == "kept"


def test_fresh_removes_what_a_run_makes_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with StateDirectory(path):
        (path / "registry.db").touch()
        (path / "broker" / "data").mkdir(parents=True)
        (path / "warehouse").mkdir()
        (path / "checkpoints").mkdir()
        (path / "my-notes.txt").touch()
    with StateDirectory(path, fresh=True):
        kept = {entry.name for entry in path.iterdir()}
    assert kept == {".gitignore", "tidegate-state.json", "lock", "my-notes.txt"}


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_with_somebody_elses_files_is_left_alone(tmp_path: Path, *, fresh: bool) -> None:
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "precious").touch()
    with pytest.raises(SettingsError, match="holds files that Tidegate did not make"):
        StateDirectory(tmp_path, fresh=fresh).__enter__()
    assert [path.name for path in tmp_path.rglob("*")] == ["warehouse", "precious"]


def test_the_state_of_another_run_may_lie_within(tmp_path: Path) -> None:
    with StateDirectory(tmp_path / "demo"), StateDirectory(tmp_path, fresh=True):
        assert (tmp_path / "demo" / "tidegate-state.json").exists()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(SettingsError, match="is a file, not a folder"):
        StateDirectory(tmp_path / "state").__enter__()


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("{}", "is damaged"),
        ('{"made_by": "tidegate", "format": 2}', "is of format 2, this version of Tidegate knows format 1"),
        ('{"made_by": "something", "format": 1}', "is damaged"),
    ],
)
def test_a_marker_that_says_something_else_is_refused(tmp_path: Path, marker: str, message: str) -> None:
    (tmp_path / "tidegate-state.json").write_text(marker)
    with pytest.raises(SettingsError, match=message):
        StateDirectory(tmp_path, fresh=True).__enter__()


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    with StateDirectory(tmp_path / "state") as state, pytest.raises(SettingsError) as caught:
        StateDirectory(tmp_path / "state", fresh=True).__enter__()
    expected = f"{state.path} is in use by pid {os.getpid()}: stop it, or choose another folder with --state"
    assert str(caught.value) == expected


def test_the_folder_is_free_again_after_the_run(tmp_path: Path) -> None:
    for _ in range(2):
        with StateDirectory(tmp_path / "state"):
            pass
