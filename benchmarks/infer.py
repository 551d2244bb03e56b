"""How many records a second `tidegate infer` profiles: processor time of reading, profiling and judging what is held back.

Admissions of the demo as JSON Lines, and flights as Parquet. The baseline is 10 million records in three minutes of two
cores: 27,778 records a second of processor time.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from benchmarks.figures import Figure, run_on_records
from tidegate.contracts.infer.infer import Inference
from tidegate.gateway.embedded.demo.admissions import admissions_stream
from tidegate.gateway.embedded.demo.flights import read_flights
from tidegate.gateway.sources.files import FileSource

ASKED: Final = 10_000_000 / (3 * 60 * 2)


def main() -> None:
    """Measure, print and write the figures."""
    run_on_records(__doc__, measure, records=200_000, rounds=3)


def measure(records: int, rounds: int) -> list[Figure]:
    """Return the rates of inferring contracts from two files; the fastest round counts."""
    with tempfile.TemporaryDirectory() as folder:
        lines, table = Path(folder) / "admissions.jsonl", Path(folder) / "flights.parquet"
        values = admissions_stream(records).records["value"].to_pylist()
        lines.write_bytes(b"\n".join(values) + b"\n")
        pq.write_table(read_flights(records), table)
        seconds = {path: min(_infer(path) for _ in range(rounds)) for path in (lines, table)}
    return [
        Figure.of("inferred_json_lines_a_second", records / seconds[lines], "records/s", ASKED),
        Figure.of("inferred_parquet_rows_a_second", records / seconds[table], "records/s", ASKED),
    ]


def _infer(path: Path) -> float:
    begun = time.process_time()
    inference = Inference()
    with FileSource(path) as source:
        for chunk in source.chunks():
            inference.add(chunk.batch, chunk.positions)
    found = inference.finish("bench.records")
    taken = time.process_time() - begun
    assert len(found.rules) > 10
    return taken


if __name__ == "__main__":
    main()
