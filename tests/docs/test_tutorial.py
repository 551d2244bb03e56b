"""The tutorial is carried out as a reader does: its files are written, its commands run and print what it says."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.docs.console import Command, Terminal, steps
from tests.integration.test_up import DEADLINE_SECONDS, Up
from tidegate.gateway.embedded.jars import Jars

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


@pytest.mark.full
def test_the_first_quarantine(tmp_path: Path, jars: Jars) -> None:
    assert jars.broker_dir.is_dir()
    lesson = list(steps(LESSONS / "first-quarantine.md"))
    start = next(step for step in lesson if isinstance(step, Command))
    assert start.line == "tidegate up contract.yaml"
    before = Terminal(tmp_path)
    for step in steps(LESSONS / "first-contract.md"):
        before.do(step)
    run = Up(tmp_path / ".tidegate", str(tmp_path / "contract.yaml"))
    try:
        run.await_ready()
        ports = {"127.0.0.1:19092": run.bootstrap, "http://127.0.0.1:8081": run.registry}
        terminal = Terminal(tmp_path, ports)
        said = "\n".join(run.lines).replace(f"{tmp_path}/", "")
        for real, shown in ((real, shown) for shown, real in ports.items()):
            said = said.replace(real, shown)
        assert start.pattern.fullmatch(said), said
        for step in lesson[lesson.index(start) + 1 :]:
            terminal.do(step, within_seconds=DEADLINE_SECONDS)
        desk = f"{run.registry}/desk/streams/museum.climate"
        assert "temperature-is-known" in httpx.get(desk).raise_for_status().text
    finally:
        run.clean_up()
