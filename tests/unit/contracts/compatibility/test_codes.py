"""The codes of findings are stable, each in one table and on the page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from tidegate.contracts.compatibility import (
    consumers,
    declarations,
    expectations,
    rules,
    schemas,
    weakening,
)
from tidegate.contracts.inclusion import avro

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "finding-codes.md"
TABLES = [each.CODES for each in (avro, consumers, declarations, expectations, rules, schemas)]


def test_every_code_stands_in_one_table() -> None:
    codes = [code for table in TABLES for code in table]
    assert len(codes) == len(set(codes))


def test_the_page_explains_every_code() -> None:
    page = PAGE.read_text()
    assert [
        row for table in TABLES for row in table.items() if f"| `{row[0]}` | {row[1]} |" not in page
    ] == []


def test_every_code_of_a_weakening_has_a_meaning() -> None:
    source = inspect.getsource(weakening)
    given = set(re.findall(r'(?:_changed|Weakening)\(\s*"([a-z-]+\.[a-z-]+)"', source))
    of_findings = {code for table in TABLES for code in table}
    assert given - of_findings <= weakening.CODES.keys() <= given
