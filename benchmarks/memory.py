"""What memory a worker holds while it judges 50 million records: batch after batch in one process, without Spark.

Each batch is judged with its typed columns, and every refused record of it is explained. No two batches have the same
identifiers. The resident set is read after each part; that of the end is compared with that of the second part, when
everything has been compiled and every kind of record was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import psutil
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.admissions_data import values
from benchmarks.figures import Figure, benchmark_parser, report_figures
from benchmarks.rules import BATCH, RULES, plan_of
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.verdict import Disposition

RECORDS: Final = 50_000_000
PARTS: Final = 25
_POOL: Final = 200_000
_MEGABYTE: Final = 2**20


def main() -> None:
    """Measure, print and write the figure."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    arguments = parser.parse_args()
    records = PARTS * BATCH if arguments.smoke else arguments.records
    sizes = []
    for judged, size in resident_sizes(plan_of(RULES), records):
        print(f"{judged:>14,} records {size / _MEGABYTE:>10.1f} MB", flush=True)
        sizes.append(size / _MEGABYTE)
    report_figures(
        [Figure.of("memory_at_the_end_over_second_part", sizes[-1], "MB", sizes[1])], arguments.out
    )


def resident_sizes(plan: EnforcementPlan, records: int) -> Iterator[tuple[int, int]]:
    """Judge records in PARTS parts; yield the number of judged records and the resident set in bytes after each part."""
    pool = pa.array(values(_POOL), pa.binary())
    process = psutil.Process()
    per_part = max(1, records // PARTS // BATCH)
    refused = 0
    for part in range(PARTS):
        for batch in range(per_part):
            number = part * per_part + batch
            start = number * BATCH % len(pool)
            refused += _judge(plan, _numbered(pool.slice(start, BATCH), number))
        yield (part + 1) * per_part * BATCH, process.memory_info().rss
    if not 0 < refused < records / 10:
        raise RuntimeError(f"{refused:,} of {records:,} records are refused")


def _numbered(batch: pa.Array, number: int) -> pa.Array:
    """Return the records with identifiers of patients that depend on the number of the batch."""
    numbered = pc.replace_substring_regex(batch, '"P[0-9]{3}', f'"P{number % 1000:03d}')
    if numbered.equals(batch):
        raise RuntimeError("no record has the identifier that is replaced")
    return numbered


def _judge(plan: EnforcementPlan, batch: pa.Array) -> int:
    judged = plan.judge_typed(batch)
    others = pc.indices_nonzero(judged.field("disposition")).to_pylist()
    for index in others:
        if plan.explain(batch[index].as_py(), typed=True).disposition is Disposition.ACCEPTED:
            raise RuntimeError("a record is refused without evidence")
    return len(others)


if __name__ == "__main__":
    main()
