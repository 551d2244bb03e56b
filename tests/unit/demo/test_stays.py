"""Thirty records in two hundred thousand are enough to make the mean length of stay wrong."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.gateway.embedded.demo.stays import stays_as_arrived, stays_in_table
from tidegate.gateway.embedded.demo.stream import DemoStream


def test_the_mean_is_taken_from_the_dates() -> None:
    values = [
        b'{"hospital_id":"A","admission_date":"2024-02-28","discharge_date":"2024-03-01"}',
        b'{"hospital_id":"A","admission_date":"2024-01-01","discharge_date":"2024-01-01"}',
        b'{"hospital_id":"B","admission_date":"1900-01-04","discharge_date":"1900-01-01"}',
        b'{"hospital_id":"B","admission_da',
    ]
    stays = stays_as_arrived(pa.chunked_array([values], pa.binary()))
    assert stays.mean_days == pytest.approx(-1 / 3)
    assert stays.by_hospital == {"A": 1.0, "B": -3.0}


def test_a_table_has_dates() -> None:
    dates = pa.array([19_782, 19_782], pa.date32()), pa.array([19_784, 19_782], pa.date32())
    table = pa.table([pa.array(["A", "A"]), *dates], ["hospital_id", "admission_date", "discharge_date"])
    assert stays_in_table(table).mean_days == 1.0


def test_a_few_placeholders_make_the_whole_figure_wrong(admissions: DemoStream) -> None:
    arrived = stays_as_arrived(admissions.records["value"])
    right = [index for index in range(admissions.records.num_rows) if index not in admissions.marks]
    clean = stays_as_arrived(admissions.records["value"].take(right))
    assert (round(arrived.mean_days, 2), round(clean.mean_days, 2)) == (1.67, 8.55)
    lowest = min(arrived.by_hospital, key=lambda hospital: arrived.by_hospital[hospital])
    assert lowest == "LHR07"
    assert (round(arrived.by_hospital[lowest]), round(clean.by_hospital[lowest])) == (-321, 8)
    assert sum(mean < 0 for mean in clean.by_hospital.values()) == 0
