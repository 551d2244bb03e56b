"""The flights arrive as they were published, and the contract finds in them what a second reading finds."""

from __future__ import annotations

from collections import Counter

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.verdict import Disposition, Severity
from tidegate.gateway.embedded.demo.flights import CONTRACT_FILE, findings, flights_stream
from tidegate.gateway.embedded.demo.stream import DemoStream

FINDINGS = {
    "arrived-flight-was-timed": 717,
    "departed-flight-arrives": 458,
    "arrival-is-a-clock-time": 150,
    "departure-is-a-clock-time": 29,
    "aircraft-is-american": 4,
    "speed-is-possible": 4,
    "leaves-new-york": 1,
}
FLIGHTS = 336_776
"""How many the package holds."""
FLEET_NUMBERS = 22_754
LEFT_TOO_EARLY = 3


@pytest.mark.full
def test_all_flights_are_sent_each_under_its_own_key(flights: DemoStream) -> None:
    assert flights.records.num_rows == FLIGHTS
    assert pc.count_distinct(flights.records["key"]).as_py() == FLIGHTS
    assert flights.records["key"][0].as_py() == b"2013-1-1-EWR-UA-1545"


def test_a_record_has_the_fields_of_the_table_in_their_order(flights: DemoStream) -> None:
    assert flights.records["value"][0].as_py() == (
        b'{"year":2013,"month":1,"day":1,"dep_time":517,"sched_dep_time":515,"dep_delay":2,"arr_time":830,'
        b'"sched_arr_time":819,"arr_delay":11,"carrier":"UA","flight":1545,"tailnum":"N14228","origin":"EWR",'
        b'"dest":"IAH","air_time":227,"distance":1400,"hour":5,"minute":15,"time_hour":"2013-01-01T10:00:00Z"}'
    )


@pytest.mark.full
def test_every_record_is_the_row_that_it_was_made_from(flights: DemoStream, flights_table: pa.Table) -> None:
    rows = flights_table.slice(0, 20_000).to_pylist()
    assert [orjson.loads(value) for value in flights.records["value"][:20_000].to_pylist()] == rows


def test_na_is_null(flights_table: pa.Table) -> None:
    nulls = {name: flights_table[name].null_count for name in flights_table.column_names}
    assert {name: count for name, count in nulls.items() if count} == {
        "dep_time": 8_255,
        "dep_delay": 8_255,
        "arr_time": 8_713,
        "arr_delay": 9_430,
        "tailnum": 2_512,
        "air_time": 9_430,
    }


def test_a_second_reading_finds_what_is_wrong(flights: DemoStream, flights_table: pa.Table) -> None:
    assert {rule: pc.sum(broken).as_py() for rule, broken in findings(flights_table).items()} == FINDINGS
    assert Counter(mark.kind for mark in flights.marks.values()) == FINDINGS
    assert not flights.is_corrupted


def test_the_first_flights_are_the_same_whatever_the_limit(flights: DemoStream) -> None:
    few = flights_stream(1_000)
    assert few.records.equals(flights.records.slice(0, 1_000))
    assert few.marks == {index: mark for index, mark in flights.marks.items() if index < 1_000}


@pytest.mark.full
def test_the_judge_refuses_exactly_what_the_second_reading_finds(flights: DemoStream) -> None:
    plan = compile_plan(lint(CONTRACT_FILE).contract)
    verdicts = plan.judge(flights.records["value"].combine_chunks())
    disposition = verdicts.field("disposition")
    refused = pc.indices_nonzero(pc.equal(disposition, int(Disposition.QUARANTINED))).to_pylist()
    failed = Counter(
        (slot.code, slot.severity)
        for bits in verdicts.field("failed").drop_null().to_pylist()
        for slot in plan.failed_slots(bits)
    )
    assert set(refused) == flights.marks.keys()
    assert {
        code: count for (code, severity), count in failed.items() if severity is Severity.ERROR
    } == FINDINGS
    assert {code: count for (code, severity), count in failed.items() if severity is Severity.WARNING} == {
        "aircraft-mark-is-well-formed": FLEET_NUMBERS,
        "not-before-the-schedule": LEFT_TOO_EARLY,
    }


@pytest.mark.parametrize("index", [0, 1, 5, 336_775])
def test_the_place_of_a_record_leads_back_to_it(flights: DemoStream, index: int) -> None:
    assert flights.index(flights.pointer(index)) == index
