"""The tables of the performance page with figure, baseline and ratio are those of benchmarks/latest.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isclose
from pathlib import Path

import pytest

PAGE = Path("docs/explanation/performance.md").read_text()
MEASURED = json.loads(Path("benchmarks/latest.json").read_text())
TABLES = ("Summary", "Replays", "Registry")


def number(cell: str) -> float:
    """Return the first number of a cell, such as 352000 of `352,000 records/s`, without that of `99th`."""
    found = re.search(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)", cell)
    assert found is not None, cell
    return float(found[0].replace(",", ""))


def rows() -> Iterator[tuple[float, float, float]]:
    """Yield figure, baseline and ratio of each row; a row without a figure has that of the row before."""
    figure = 0.0
    for title in TABLES:
        section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) != 4 or not re.fullmatch(r"\d+(\.\d+)?", cells[3]):
                continue
            figure = number(cells[1]) if cells[1] else figure
            yield figure, number(cells[2]) if "same" not in cells[2] else 0.0, float(cells[3])


def test_the_tables_are_found() -> None:
    assert len(list(rows())) >= 23


@pytest.mark.parametrize(("figure", "baseline", "ratio"), list(rows()))
def test_a_row_is_measured(figure: float, baseline: float, ratio: float) -> None:
    close = [
        each["name"]
        for each in MEASURED
        if isclose(each["figure"], figure, rel_tol=0.006)
        and isclose(each["baseline"], baseline or each["baseline"], rel_tol=0.006)
        and isclose(each["ratio"], ratio, rel_tol=0.05 if ratio < 0.1 or ratio >= 1.5 else 0.0, abs_tol=0.006)
    ]
    assert close, (figure, baseline, ratio)
