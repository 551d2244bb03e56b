"""What a benchmark reports, and how repeated timings become one figure."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: `ratio` is `figure / baseline`, both in `unit` and taken in the same run."""

    name: str
    figure: float
    unit: str
    baseline: float
    ratio: float

    @classmethod
    def of(cls, name: str, figure: float, unit: str, baseline: float) -> Figure:
        """Build a figure, rounded for reading."""
        return cls(name, round(figure, 3), unit, round(baseline, 3), round(figure / baseline, 3))


def interleaved_seconds(cases: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Time every case once a round, after one untimed round; return the median seconds of each.

    Interleaving spreads the machine's moods over all cases, so that the ratios hold on a noisy machine.
    """
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for round_number in range(rounds + 1):
        for name, run in cases.items():
            start = time.perf_counter()
            run()
            if round_number:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def write_figures(figures: list[Figure], path: Path) -> None:
    """Write figures as the JSON list that `benchmarks/latest.json` is."""
    path.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")


def read_figures(path: Path) -> list[Figure]:
    """Read what `write_figures` wrote."""
    return [Figure(**entry) for entry in json.loads(path.read_text())]
