"""A generated stream of hospital admissions, with known corruptions at known positions.

The same seed gives the same bytes on every machine and Python version. All random values come from
`Random.random()`, whose sequence Python guarantees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any, TypeVar

import orjson
import pyarrow as pa

from tidegate.contracts.verdict import Stage
from tidegate.gateway.embedded.demo.stream import EXAMPLES, RECORDS, DemoStream, ExpectedRefusal

NAME = "hospital.admissions"
CONTRACT_FILE = EXAMPLES / "admissions" / "contract.yaml"
ADMISSIONS = 200_000
"""The number of admissions that the demo sends."""

_CHUNK = 5_000
EPOCH = "1900-01-01"
_SEED = 19_000_101
_FIRST_DAY = date(2021, 1, 1)
_DAYS = 1_400
_LONGEST_STAY = 72
_HOSPITALS = tuple(f"{city}{number:02d}" for city in ("BSL", "CAM", "LHR", "ZRH") for number in range(1, 13))
_WARDS = ("general", "general", "general", "orthopaedics", "orthopaedics", "cardiology", "icu")
_NOTES = (
    None,
    "Observed overnight, no complications.",
    "Transferred from another hospital by ambulance; records requested.",
    "Discharged to own home with a walking aid.",
    "Follow-up in the outpatient clinic in six weeks.",
    "Family informed. Medication reconciled at discharge, list given to the patient.",
    "Readmission within thirty days; previous letter attached.",
)

Record = dict[str, Any]
Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class Corruption:
    """A kind of corruption in the stream.

    Of ADMISSIONS records, `count` have it, between the fractions `start` and `end` of the stream. `stage` and `code`
    identify the expected violation. `hospital` is the only hospital with this corruption; None for any.
    """

    kind: str
    stage: Stage
    code: str
    count: int
    start: float = 0.0
    end: float = 1.0
    hospital: str | None = None


CORRUPTIONS = (
    Corruption("age 999", Stage.RULE, "age-is-known", 1_000),
    Corruption("discharge 1900-01-01", Stage.RULE, "not-the-epoch", 30, hospital="LHR07"),
    # A batch of records with swapped dates.
    Corruption("discharge before admission", Stage.RULE, "stay-not-negative", 1_470, 0.2, 0.6, "CAM03"),
    # Since a new release of one interface.
    Corruption('"42" for 42', Stage.SCHEMA, "type", 1_500, 0.5, 1.0, "ZRH11"),
    Corruption("missing id", Stage.SCHEMA, "required", 1_200),
    # An unreliable connection for some time.
    Corruption("truncated JSON", Stage.DECODE, "json.invalid", 800, 0.3, 0.7),
)
"""About 3 % in total. No record has more than one."""


FIX = """\
fix: age-as-number
description: A new release of one interface sends "42" for 42.
steps:
  - action: cast
    field: /age
    to: integer
"""
"""A fix for the ages that are texts."""


def admissions_stream(limit: int | None = None) -> DemoStream:
    """Return the admissions, or `limit` of them with the same share of each corruption, but at least one."""
    count = ADMISSIONS if limit is None else min(limit, ADMISSIONS)
    planted = _plant(count)
    random = _chance(_SEED)
    # In chunks, because keeping 200,000 small objects costs more than creating them.
    chunks = [
        _chunk(random, range(first, min(first + _CHUNK, count)), planted) for first in range(0, count, _CHUNK)
    ]
    return DemoStream(
        name=NAME,
        records=pa.Table.from_batches(chunks),
        marks={
            index: ExpectedRefusal(found.kind, found.stage, found.code) for index, found in planted.items()
        },
        is_corrupted=True,
    )


def _chunk(random: Random, indices: range, planted: Mapping[int, Corruption]) -> pa.RecordBatch:
    keys, values = [], []
    for index in indices:
        record = _admission(random, index)
        keys.append(record["admission_id"].encode())
        corruption = planted.get(index)
        values.append(_corrupt(record, corruption, index) if corruption else orjson.dumps(record))
    return pa.record_batch([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], RECORDS)


def _chance(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - made-up patients, no secrets


def _plant(count: int) -> dict[int, Corruption]:
    """Return the corruptions by index of the record."""
    random = _chance(_SEED + 1)
    planted: dict[int, Corruption] = {}
    for corruption in CORRUPTIONS:
        wanted = max(1, corruption.count * count // ADMISSIONS)
        first, last = int(corruption.start * count), int(corruption.end * count)
        while wanted:
            index = first + int(random.random() * (last - first))
            if index not in planted:
                planted[index] = corruption
                wanted -= 1
    return planted


def _admission(random: Random, index: int) -> Record:
    """Build a valid record."""
    draw = random.random
    # The product of three draws makes most stays short and a few long, 8.5 days in the mean.
    stay = int(draw() * draw() * draw() * _LONGEST_STAY)
    admitted = _FIRST_DAY + timedelta(days=int(draw() * _DAYS))
    ward = _pick(_WARDS, draw())
    attended = draw() < (0.995 if ward == "icu" else 0.6)
    record = {
        "admission_id": f"A{index + 1:09d}",
        "patient_id": f"P{int(draw() * 10_000_000):08d}",
        "hospital_id": _pick(_HOSPITALS, draw()),
        "age": int(draw() * 104),
        "sex": _pick("FFFFFFMMMMMMX", draw()),
        "admission_date": admitted.isoformat(),
        "discharge_date": (admitted + timedelta(days=stay)).isoformat(),
        "length_of_stay": stay,
        "ward": ward,
        "diagnosis_codes": [_diagnosis(draw()) for _ in range(1 + int(draw() * 4))],
        "address": {"postcode": _postcode(draw()), "country": "GB"},
        "charge": (int(draw() * 80_000) + 45_000 * stay) / 100,
        "note": _pick(_NOTES, draw()),
    }
    if attended:
        record["consultant"] = f"C{int(draw() * 900):04d}"
    return record


def _corrupt(record: Record, corruption: Corruption, index: int) -> bytes:
    """Return a record with one corruption, as JSON. Other violations can only follow from it."""
    record["hospital_id"] = corruption.hospital or record["hospital_id"]
    match corruption.kind:
        case "age 999":
            record["age"] = 999
        case "discharge 1900-01-01":
            record["discharge_date"] = EPOCH
        case "discharge before admission":
            _swap_dates(record)
        case '"42" for 42':
            record["age"] = str(record["age"])
        case "missing id":
            del record["patient_id" if index % 2 else "admission_id"]
        case "truncated JSON":
            whole = orjson.dumps(record)
            return whole[: 1 + index * 7_919 % (len(whole) - 1)]
    return orjson.dumps(record)


def _swap_dates(record: Record) -> None:
    if record["length_of_stay"] == 0:  # swapping would change nothing
        admitted = date.fromisoformat(record["admission_date"])
        record["discharge_date"] = (admitted + timedelta(days=1)).isoformat()
        record["length_of_stay"] = 1
    record["admission_date"], record["discharge_date"] = record["discharge_date"], record["admission_date"]


def _pick(choices: Sequence[Choice], chance: float) -> Choice:
    return choices[int(chance * len(choices))]


def _diagnosis(chance: float) -> str:
    """Return an ICD-10 code such as K35.8."""
    number = int(chance * 26_000)
    return f"{chr(ord('A') + number // 1_000)}{number // 10 % 100:02d}.{number % 10}"


def _postcode(chance: float) -> str:
    """Return a British postcode such as CB12 4QA."""
    number = int(chance * 40_000)
    return f"{_pick(('BS', 'CB', 'E', 'SW'), chance)}{number % 20 + 1} {number // 20 % 10}{'ADGHNQ'[number % 6]}A"
