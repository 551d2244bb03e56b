"""The tutorial is carried out as a reader does: its files are written, its commands run and print what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import Command, Terminal, steps
from tests.docs.first_steps import (
    QUARANTINE_SECONDS,
    fill_topic,
    show,
    walk_first_quarantine,
    walk_first_verdict,
)
from tidegate.gateway.embedded.broker import Broker

LESSONS = Path("docs/tutorial").absolute()


def test_the_first_contract(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    lesson = list(steps(LESSONS / "first-contract.md"))
    assert sum(isinstance(step, Command) for step in lesson) >= 6
    for step in lesson:
        terminal.do(step)


@pytest.mark.full
def test_the_first_check_in_ci(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    for step in steps(LESSONS / "first-contract.md"):
        terminal.do(step)
    lesson = list(steps(LESSONS / "first-ci-check.md"))
    assert sum(isinstance(step, Command) for step in lesson) >= 8
    for step in lesson:
        terminal.do(step)


@pytest.mark.full
def test_the_first_verdict(tmp_path: Path) -> None:
    assert walk_first_verdict(tmp_path) > 0


@pytest.mark.full
def test_the_first_quarantine(tmp_path: Path, broker: Broker) -> None:
    """The times are those of `tests.docs.first_steps`; here they are only printed."""
    folders = [tmp_path / name for name in ("producers", "reader")]
    for folder in folders:
        folder.mkdir()
    fill_topic(folders[0], broker.bootstrap)
    seconds = walk_first_quarantine(folders[1], broker.bootstrap)
    show("own Kafka to first quarantined record", seconds, QUARANTINE_SECONDS)
