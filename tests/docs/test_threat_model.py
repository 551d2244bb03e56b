"""Every boundary of the threat model names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path("docs/explanation/threat-model.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "`tests/" in line]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE)))


def test_every_threat_has_a_test() -> None:
    tables = re.split(r"\n## ", PAGE)
    of_threats = [part for part in tables if "| threat |" in part]
    rows = [line for part in of_threats for line in part.splitlines() if line.startswith("| ")]
    assert len([row for row in rows if not row.startswith("| threat")]) == len(ROWS) >= 20


@pytest.mark.parametrize("name", NAMED)
def test_a_named_test_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert re.search(rf"^\s*def {function or 'test_'}", Path(file).read_text(), re.MULTILINE) or (
        not function and "TestCase" in Path(file).read_text()
    )
