"""The two streams of the demo, made once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.gateway.embedded.demo.admissions import admissions_stream
from tidegate.gateway.embedded.demo.flights import flights_stream, read_flights
from tidegate.gateway.embedded.demo.stream import DemoStream


@pytest.fixture(scope="session")
def admissions() -> DemoStream:
    return admissions_stream()


@pytest.fixture(scope="session")
def flights() -> DemoStream:
    return flights_stream()


@pytest.fixture(scope="session")
def flights_table() -> pa.Table:
    return read_flights()
