"""The mean length of stay, computed from the two dates, as the consumer of the admissions does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
import pyarrow as pa
import pyarrow.compute as pc

STAY_COLUMNS = ("hospital_id", "admission_date", "discharge_date")
_TEXTS = pa.schema([pa.field(name, pa.string()) for name in STAY_COLUMNS])


@dataclass(frozen=True, slots=True)
class Stays:
    """The mean length of stay in days, of all records and by hospital."""

    mean_days: float
    by_hospital: Mapping[str, float]


def stays_as_arrived(values: pa.ChunkedArray) -> Stays:
    """Return the stays of all sent records that are valid JSON, also with wrong dates."""
    records = (record for value in values.to_pylist() if (record := _parse(value)) is not None)
    rows = [{name: record[name] for name in STAY_COLUMNS} for record in records]
    return stays_in_table(pa.Table.from_pylist(rows, _TEXTS))


def stays_in_table(table: pa.Table) -> Stays:
    """Return the stays of a table with STAY_COLUMNS; its dates are dates or text."""
    admitted, discharged = (pc.cast(table[name], pa.date32()) for name in STAY_COLUMNS[1:])
    days = pc.cast(pc.days_between(admitted, discharged), pa.int64())
    stays = pa.table({"hospital": table["hospital_id"], "days": days})
    means = stays.group_by("hospital").aggregate([("days", "mean")])
    return Stays(
        mean_days=pc.mean(days).as_py(),
        by_hospital=dict(zip(means["hospital"].to_pylist(), means["days_mean"].to_pylist(), strict=True)),
    )


def _parse(value: bytes) -> dict[str, str] | None:
    try:
        record: dict[str, str] = orjson.loads(value)
    except ValueError:
        return None
    return record
