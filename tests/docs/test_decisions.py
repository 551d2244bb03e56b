"""Each decision has its parts: status, context, decision, consequence and the place of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path("docs/decisions.md").read_text("utf-8")
ENTRIES = re.findall(r"^#### ([^\n]+)\n(.*?)(?=^#{2,4} |\Z)", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_has_two_parts() -> None:
    parts = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert parts == ["Architectural decisions", "Design notes", "Smaller decisions"]
    assert len(ENTRIES) >= 62


@pytest.mark.parametrize(("title", "text"), ENTRIES, ids=[title for title, _ in ENTRIES])
def test_a_decision_is_whole(title: str, text: str) -> None:
    assert text.startswith("\n*Accepted"), title
    found = re.findall(r"^\* \*\*(\w+)\.\*\* ", text, re.MULTILINE)
    assert [*dict.fromkeys(found)] == ["Context", "Decision", "Consequence", "Code"]
