"""Folders that the tasks of `tidegate judge --spark` write: whole, private, or not there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.cli.judged_folder import JudgedFolder


def test_a_folder_has_one_file_for_each_task_with_records(tmp_path: Path) -> None:
    path = tmp_path / "good"
    with JudgedFolder.created(path) as folder:
        assert folder is not None
        for task, text in enumerate(["{}\n", "", "[]\n"]):
            scratch = folder.scratch()
            scratch.write_text(text)
            folder.keep(scratch, task)
        again = folder.scratch()  # a second attempt of a task
        again.write_text("{}\n")
        folder.keep(again, 0)
        folder.scratch().write_text("an attempt that was lost")
    assert sorted(each.name for each in path.iterdir()) == [
        "_SUCCESS",
        "part-00000.jsonl",
        "part-00002.jsonl",
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_machine_that_does_not_see_the_folder_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "good"
    with JudgedFolder.created(path) as folder:
        assert folder is not None
        elsewhere = JudgedFolder(tmp_path, folder.mark)
        with pytest.raises(SettingsError, match="does not see the folder"):
            elsewhere.scratch()


def test_after_an_error_there_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "good"
    folders = JudgedFolder.created(path)
    folder = folders.__enter__()
    assert folder is not None
    folder.scratch().write_text("{}\n")
    assert not folders.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert not path.exists()


def test_no_folder_is_overwritten(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="exists; name another folder"), JudgedFolder.created(tmp_path):
        pass
    with (
        pytest.raises(SettingsError, match="cannot create the folder"),
        JudgedFolder.created(tmp_path / "a/b"),
    ):
        pass
    with JudgedFolder.created(None) as folder:
        assert folder is None
