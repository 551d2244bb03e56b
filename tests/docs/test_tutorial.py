"""The tutorial is carried out as a reader does: its files are written, its commands run and print what it says."""

from __future__ import annotations

from pathlib import Path

from tests.docs.console import Command, Terminal, steps

LESSONS = Path("docs/tutorial").absolute()


def test_the_first_contract(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    lesson = list(steps(LESSONS / "first-contract.md"))
    assert sum(isinstance(step, Command) for step in lesson) >= 6
    for step in lesson:
        terminal.do(step)


def test_the_first_check_in_ci(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    for step in steps(LESSONS / "first-contract.md"):
        terminal.do(step)
    lesson = list(steps(LESSONS / "first-ci-check.md"))
    assert sum(isinstance(step, Command) for step in lesson) >= 8
    for step in lesson:
        terminal.do(step)
