"""Figures of benchmarks: timing, report, and command line."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement. `ratio` is `figure / baseline`; both have the unit `unit`."""

    name: str
    figure: float
    unit: str
    baseline: float
    ratio: float

    @classmethod
    def of(cls, name: str, figure: float, unit: str, baseline: float) -> Figure:
        """Build a figure with its ratio, rounded to three digits."""
        return cls(name, round(figure, 3), unit, round(baseline, 3), round(figure / baseline, 3))


def interleaved_seconds(
    cases: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    before: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Time every case once per round, after an untimed round if there are several; return the median seconds of each.

    Interleaving spreads the noise of the machine over all cases, so that ratios stay comparable.
    With `time.process_time` as the clock, seconds are the CPU time of this process. `before` is called before each
    case, untimed.
    """
    taken: dict[str, list[float]] = {name: [] for name in cases}
    untimed = 1 if rounds > 1 else 0
    for round_number in range(untimed + rounds):
        for name, run in cases.items():
            before()
            start = clock()
            run()
            if round_number >= untimed:
                taken[name].append(clock() - start)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def benchmark_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--smoke", action="store_true", help="little data: shows that it works, measures nothing"
    )
    parser.add_argument("--out", type=Path, help="where the figures are written, as JSON")
    return parser


def run_on_records(
    description: str | None, measure: Callable[[int, int], list[Figure]], *, records: int, rounds: int
) -> None:
    """Run the command line of a benchmark with records and rounds; `--smoke` uses a tenth of the records once."""
    parser = benchmark_parser(description)
    parser.add_argument("--records", type=int, default=records)
    parser.add_argument("--rounds", type=int, default=rounds)
    arguments = parser.parse_args()
    figures = measure(records // 10, 1) if arguments.smoke else measure(arguments.records, arguments.rounds)
    report_figures(figures, arguments.out)


def report_figures(figures: list[Figure], path: Path | None) -> None:
    """Print figures, and write them to `path` if it is not None."""
    for figure in figures:
        print(
            f"{figure.name:42s} {figure.figure:>12,.3f} {figure.unit:10s} baseline {figure.baseline:>12,.3f}  ratio {figure.ratio:.3f}"
        )
    if path:
        write_figures(figures, path)


def write_figures(figures: list[Figure], path: Path) -> None:
    """Write figures as a JSON list, the format of `benchmarks/latest.json`."""
    path.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")


def read_figures(path: Path) -> list[Figure]:
    """Return the figures of a file of `write_figures`."""
    return [Figure(**entry) for entry in json.loads(path.read_text())]
