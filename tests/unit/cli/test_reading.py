"""The bar that a command shows while it reads a long source."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tidegate.gateway.cli import reading as module


class HalfRead:
    title = "stays.jsonl"
    size = 1_000

    def progress(self) -> int:
        return 500


@pytest.mark.parametrize(("is_terminal", "is_shown"), [(True, True), (False, False)])
def test_a_terminal_sees_how_far_a_source_has_been_read(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, is_shown: bool
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(module, "SILENT_SECONDS", 0)
    monkeypatch.setattr(
        module,
        "err",
        Console(file=screen, force_terminal=is_terminal, force_interactive=is_terminal, width=100),
    )
    with module.reading(HalfRead()) as show:
        show(1_234)
        show(2_468)
    shown = screen.getvalue()
    assert ("reading stays.jsonl" in shown and "2,468 records" in shown) is is_shown
