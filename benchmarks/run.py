"""Run every benchmark, each in a process of its own, and write benchmarks/latest.json.

`python -m benchmarks.run [--smoke]`: --smoke runs them on little data, to show that they still work.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, read_figures, write_figures

QUESTIONS = (
    "judge_in_spark",
    "rules",
    "avro",
    "batch_fixed_cost",
    "kafka_throughput",
    "registry",
    "compatibility",
    "expectations",
)


def main() -> int:
    """Run all; the exit status is 0 when every benchmark ran, whatever it measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--smoke", action="store_true", help="little data: shows that they work, measures nothing"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("latest.json"))
    parser.add_argument("--only", choices=QUESTIONS, action="append", help="one of them, may be repeated")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        for question in arguments.only or QUESTIONS:
            print(f"== {question}", flush=True)
            out = Path(folder) / f"{question}.json"
            command = [sys.executable, "-m", f"benchmarks.{question}", "--out", str(out)]
            subprocess.run(command + ["--smoke"] * arguments.smoke, check=True)
            figures += read_figures(out)
    write_figures(figures, arguments.out)
    for figure in figures:
        print(
            f"{figure.name:34s} {figure.figure:>12,.3f} {figure.unit:10s} baseline {figure.baseline:>12,.3f}  ratio {figure.ratio:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
