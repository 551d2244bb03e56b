"""The table of codes in docs/compatibility.md is the table of the program."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.contracts.inclusion.json_schema.codes import CODES

PAGE = Path(__file__).parents[5] / "docs" / "compatibility.md"


def test_the_page_lists_every_code_with_its_meaning() -> None:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("\n## JSON Schema\n")
    section, _, _ = rest.partition("\n## ")
    rows = re.findall(r"^\| `(schema\.[a-z-]+)` \| (.+) \|$", section, re.MULTILINE)
    assert rows == list(CODES.items())
