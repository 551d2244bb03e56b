"""The text of one inferred contract, as a careful person would accept it. Read a change of the file before you keep it."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate

GOLDEN = Path(__file__).with_name("golden_stays.yaml")
WRITE = "python -m tests.unit.contracts.infer.test_golden > tests/unit/contracts/infer/golden_stays.yaml"
ROWS = 6_000
FIRST_DAY = date(2024, 1, 1)


def stays() -> list[dict[str, Any]]:
    """Return made-up stays in a hospital, with mistakes of every kind that is looked for."""
    chance = np.random.default_rng(22)
    letters = np.array(list("abcdefghij ,.éü"))
    rows = []
    for index in range(ROWS):
        admitted = FIRST_DAY + timedelta(days=int(chance.integers(0, 700)))
        rows.append(
            {
                "stay_id": f"S{index:06d}",
                "patient_name": "".join(chance.choice(letters, int(chance.integers(3, 9))))
                .strip(" ,.")
                .title()
                or "Ö",
                "age": int(chance.integers(0, 100)),
                "ward": str(chance.choice(["icu", "general", "maternity"])),
                "admitted": admitted,
                "left": admitted + timedelta(days=int(chance.integers(0, 40))),
                "charge": round(float(chance.uniform(80, 4_000)), 2),
                "digest": "".join(chance.choice(list("0123456789abcdef"), 64)),
                "remark": "".join(chance.choice(letters, int(chance.integers(3, 120)))),
                "triage": str(chance.choice(["red", "yellow", "green"])),
            }
        )
    for index in range(0, ROWS, 500):
        rows[index + 7]["age"] = 999
        rows[index + 11]["left"] = date(1900, 1, 1)
        rows[index + 13]["ward"] = "N/A"
        rows[index + 17]["triage"] = "unknown"
    for index in range(40, ROWS, 400):
        rows[index]["left"] = rows[index]["admitted"] - timedelta(days=3)
    rows[1_234]["digest"] = rows[1_234]["digest"][:40]
    return rows


def inferred() -> tidegate.InferredContract:
    return tidegate.Contract.infer(pa.Table.from_pylist(stays()), id="hospital.stays")


def test_the_contract_of_the_stays_is_the_golden_file() -> None:
    proposed = inferred()
    assert proposed.text == GOLDEN.read_text("utf-8"), f"read the new text first; to keep it: {WRITE}"
    assert tidegate.Contract.load(GOLDEN).fingerprint == proposed.contract.fingerprint


if __name__ == "__main__":
    print(inferred().text, end="")  # noqa: T201 - the golden file
