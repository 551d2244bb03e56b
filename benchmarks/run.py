"""Run every benchmark, each in a process of its own, and write benchmarks/latest.json.

`python -m benchmarks.run [--smoke]`: --smoke runs them on little data, to show that they still work. With `--only`, the
figures of the other benchmarks stay in the file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, benchmark_parser, read_figures, report_figures

QUESTIONS = (
    "judge_in_spark",
    "rules",
    "large_records",
    "refused_records",
    "memory",
    "avro",
    "batch_fixed_cost",
    "kafka_throughput",
    "protocol",
    "operations",
    "replay_beside_live",
    "table_growth",
    "table_history",
    "registry",
    "quarantine_index",
    "compatibility",
    "expectations",
    "infer",
    "tracing",
    "light_install",
)


def main() -> int:
    """Run the benchmarks; return 0. Raise CalledProcessError if one fails."""
    parser = benchmark_parser(__doc__)
    parser.set_defaults(out=Path(__file__).with_name("latest.json"))
    parser.add_argument("--only", choices=QUESTIONS, action="append", help="one of them, may be repeated")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    kept = read_figures(arguments.out) if arguments.only and arguments.out.is_file() else []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        for question in arguments.only or QUESTIONS:
            print(f"== {question}", flush=True)
            out = Path(folder) / f"{question}.json"
            command = [sys.executable, "-m", f"benchmarks.{question}", "--out", str(out)]
            subprocess.run(command + ["--smoke"] * arguments.smoke, check=True)
            figures += read_figures(out)
    new = {figure.name for figure in figures}
    report_figures([figure for figure in kept if figure.name not in new] + figures, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
