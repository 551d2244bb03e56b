"""The page about sinks shows how others read the tables: each of its commands does."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.console import Terminal
from tests.integration.enforce.line import Line, row

PAGE = Path("docs/how-to/sinks.md").absolute()
SHOWN = "/var/lib/tidegate/warehouse", "hospital.admissions"


def blocks(language: str) -> list[str]:
    """Return the blocks of the section in a language."""
    (section,) = re.findall(
        r"^## Read the tables\n(.*?)^## ", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)


@pytest.fixture
def line(make_line: Callable[..., Line]) -> Line:
    """A line with two accepted and three refused records."""
    line = make_line(quarantine_table=True)
    line.produce(*(row(n, 999 if n > 1 else 1) for n in range(5)))
    line.enforce()
    return line


def real(text: str, line: Line) -> str:
    """Return a block about the tables of a line."""
    for shown, there in zip(SHOWN, (str(line.settings.warehouse), line.contract_id), strict=True):
        assert shown in text
        text = text.replace(shown, there)
    return text


@pytest.mark.full
def test_pyiceberg_reads_both_tables(line: Line) -> None:
    (block,) = blocks("python")
    names: dict[str, Any] = {}
    exec(real(block, line), names)  # noqa: S102 - our own page
    assert sorted(names["accepted"]["id"].to_pylist()) == ["r0", "r1"]
    refused = names["refused"].to_pylist()
    assert [[each["code"] for each in found["reasons"]] for found in refused] == [["amount-is-known"]] * 3


@pytest.mark.full
def test_spark_sql_reads_both_tables(line: Line, tmp_path: Path) -> None:
    (block,) = blocks("sh")
    terminal = Terminal(tmp_path)
    ran = subprocess.run(
        ["bash", "-euc", real(block, line)],
        cwd=tmp_path,
        env=terminal.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert [each.split("\t") for each in ran.stdout.splitlines()] == [["accepted", "2"], ["refused", "3"]]
