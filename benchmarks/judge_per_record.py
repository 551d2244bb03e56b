"""Measure the parts of the judge and the whole, on one core, without Spark.

It prints microseconds of CPU time per record. Run it before and after a change of the hot path.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa

from benchmarks.admissions_data import contract, values
from tidegate.contracts.fastpath.json_values import decode_values, may_change_numbers
from tidegate.contracts.judge.plan import compile_plan

RECORDS = 50_000
BATCH = 20_000
ROUNDS = 7


def main() -> None:
    """Measure and print."""
    plan = compile_plan(contract())
    whole = pa.array(values(RECORDS), pa.binary())
    batches = [whole.slice(start, BATCH) for start in range(0, RECORDS, BATCH)]
    raw = whole.to_pylist()
    records = [orjson.loads(value) for value in raw if value[-1:] == b"}"]
    path = plan._judge.path  # noqa: SLF001 - it measures the parts
    document = contract()
    compile_start = time.perf_counter()
    compile_plan(document)
    print(f"{'compile_plan':<32}{(time.perf_counter() - compile_start) * 1e3:>8.2f} ms")
    parts: dict[str, Callable[[], object]] = {
        "to_pylist": lambda: [batch.to_pylist() for batch in batches],
        "numbers": lambda: [may_change_numbers(batch) for batch in batches],
        "orjson": lambda: _each(orjson.loads, (value for value in raw if value[-1:] == b"}")),
        "decode_values": lambda: _each(_drain, map(decode_values, batches)),
        "schema": lambda: _each(path.fits, records),
        f"rules ({len(plan.contract.rules)})": lambda: [path.broken(record, True) for record in records],
        "judge": lambda: [plan.judge(batch) for batch in batches],
        f"judge_typed ({len(plan.columns)} columns)": lambda: [plan.judge_typed(batch) for batch in batches],
    }
    taken: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(ROUNDS):
        for name, run in parts.items():
            start = time.process_time()
            run()
            taken[name].append(time.process_time() - start)
    for name, seconds in taken.items():
        print(f"{name:<32}{statistics.median(seconds) / RECORDS * 1e6:>8.2f} us")


def _each(function: Callable[[Any], object], arguments: Any) -> None:
    for argument in arguments:
        function(argument)


def _drain(iterator: Any) -> None:
    for _ in iterator:
        pass


if __name__ == "__main__":
    main()
