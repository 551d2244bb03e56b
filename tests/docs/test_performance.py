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
TABLES = ("Summary", "Replays", "Long histories", "Registry")


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


MOST: dict[str, float] = {
    "latency_median_kafka": 1.0,  # 0.5 s
    "latency_median_beside_a_replay": 1.5,
    "takeover_after_kill": 1.0,  # 15 s, the lease of 10 s included
    "registry_latest_p99_ms": 1.0,  # 30 ms
    "compatibility_300_fields_slowest": 1.0,  # 100 ms
    "contracts_300_fields_slowest": 1.0,  # 100 ms
    "commit_after_backlog_last_over_first": 1.5,
    "commit_after_history_over_first_hour_iceberg": 1.5,
    "commit_after_history_over_first_hour_delta": 1.5,
    "commit_after_history_over_first_hour_postgresql": 1.5,
}
"""The highest ratio of a figure to its baseline that the documentation promises."""


LEAST: dict[str, float] = {"registry_latest_over_bare_route": 2_000}
"""The lowest figure that the documentation promises: requests a second."""


@pytest.mark.parametrize("name", LEAST)
def test_a_measured_rate_keeps_its_limit(name: str) -> None:
    (found,) = [each for each in MEASURED if each["name"] == name]
    assert found["figure"] >= LEAST[name]


@pytest.mark.parametrize("name", MOST)
def test_a_measured_figure_keeps_its_limit(name: str) -> None:
    (found,) = [each for each in MEASURED if each["name"] == name]
    assert found["ratio"] <= MOST[name]


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


def test_the_readme_has_the_rates_of_the_page() -> None:
    line = next(each for each in PAGE.splitlines() if each.startswith("| Kafka to Iceberg, exactly once |"))
    rates = re.findall(r"\d+,000", line)
    text = Path("README.md").read_text()
    assert f"the job writes {rates[0]} records of 327 bytes a second to Iceberg" in text
    assert f"appends them without judging writes {rates[1]}" in text
