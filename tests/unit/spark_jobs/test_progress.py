"""The line that says what a command does: on a terminal only, gone at the end, and out of the way of a question."""

from __future__ import annotations

import io
import sys

import pytest

from tidegate.spark_jobs import progress
from tidegate.spark_jobs.progress import doing, shown_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_repainted_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    # Here and not in a fixture: pytest sets the stream of its own before each test.
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_REPAINT_SECONDS", 0.01)
    with shown_progress():
        doing("reading rows: 0 of 9 offsets")
        while "0 of 9" not in terminal.getvalue():
            pass
        doing("reading rows: 5 of 9 offsets")
        while "5 of 9" not in terminal.getvalue():
            pass
        doing("")
        assert terminal.getvalue().endswith("\r\x1b[2K")  # a question follows on an empty line
        doing("deleting rows")
        while "deleting rows" not in terminal.getvalue():
            pass
    assert terminal.getvalue().endswith("\r\x1b[2K")
    assert "\n" not in terminal.getvalue()


def test_nothing_is_shown_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with shown_progress():
        doing("reading rows")
    doing("the job shows none")
    assert written.getvalue() == ""
