"""The admissions are the same bytes everywhere, and corrupted exactly where and as they say."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import date

import orjson
import pyarrow.compute as pc
import pytest

from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.stream.evidence import EventPointer
from tidegate.contracts.verdict import Disposition, Severity
from tidegate.gateway.embedded.demo.admissions import (
    ADMISSIONS,
    CONTRACT_FILE,
    CORRUPTIONS,
    admissions_stream,
)
from tidegate.gateway.embedded.demo.stream import DemoStream

PLANTED = {
    "age 999": 1_000,
    "discharge 1900-01-01": 30,
    "discharge before admission": 1_470,
    '"42" for 42': 1_500,
    "missing id": 1_200,
    "truncated JSON": 800,
}


def _values(stream: DemoStream, kind: str) -> list[bytes]:
    return [
        stream.records["value"][index].as_py() for index, mark in stream.marks.items() if mark.kind == kind
    ]


@pytest.mark.full
def test_the_bytes_are_the_same_on_every_machine(admissions: DemoStream) -> None:
    lines = b"\n".join(admissions.records["value"].to_pylist())
    assert (
        hashlib.sha256(lines).hexdigest()
        == "ac5c1ab71f689231b80697917df1f5bc342b06eecf48ab2e31c19e28176da782"
    )


def test_three_records_in_a_hundred_are_corrupted(admissions: DemoStream) -> None:
    assert admissions.records.num_rows == ADMISSIONS
    assert Counter(mark.kind for mark in admissions.marks.values()) == PLANTED
    assert sum(PLANTED.values()) / ADMISSIONS == 0.03
    assert admissions.is_corrupted


def test_a_clean_record_agrees_with_itself(admissions: DemoStream) -> None:
    clean = [index for index in range(20_000) if index not in admissions.marks]
    for index in clean:
        record = orjson.loads(admissions.records["value"][index].as_py())
        admitted, discharged = (
            date.fromisoformat(record[f"{day}_date"]) for day in ("admission", "discharge")
        )
        assert record["length_of_stay"] == (discharged - admitted).days >= 0
        assert record["admission_id"].encode() == admissions.records["key"][index].as_py()


@pytest.mark.full
def test_each_corruption_is_what_it_is_called(admissions: DemoStream) -> None:
    records = {
        kind: list(map(orjson.loads, _values(admissions, kind)))
        for kind in PLANTED
        if kind != "truncated JSON"
    }
    assert {record["age"] for record in records["age 999"]} == {999}
    assert {record["discharge_date"] for record in records["discharge 1900-01-01"]} == {"1900-01-01"}
    swapped = records["discharge before admission"]
    assert all("1900" < record["discharge_date"] < record["admission_date"] for record in swapped)
    assert all(
        isinstance(record["age"], str) and record["age"].isdecimal() for record in records['"42" for 42']
    )
    missing = Counter("patient_id" in record for record in records["missing id"])
    assert missing == {True: 625, False: 575}
    assert all(("patient_id" in record) != ("admission_id" in record) for record in records["missing id"])


def test_truncated_json_is_no_json(admissions: DemoStream) -> None:
    for value in _values(admissions, "truncated JSON"):
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(value)


def test_a_corruption_of_one_hospital_comes_from_there(admissions: DemoStream) -> None:
    for corruption in CORRUPTIONS:
        if corruption.hospital is not None:
            hospitals = {orjson.loads(value)["hospital_id"] for value in _values(admissions, corruption.kind)}
            assert hospitals == {corruption.hospital}


def test_fewer_records_have_as_large_a_share_of_each_corruption() -> None:
    few = admissions_stream(20_000)
    assert few.records.num_rows == 20_000
    assert Counter(mark.kind for mark in few.marks.values()) == {kind: n // 10 for kind, n in PLANTED.items()}
    one_of_each = admissions_stream(1_000)
    assert Counter(mark.kind for mark in one_of_each.marks.values())["discharge 1900-01-01"] == 1


def test_a_record_lies_where_the_stream_says(admissions: DemoStream) -> None:
    assert admissions.pointer(0) == EventPointer("hospital.admissions", 0, 0)
    assert admissions.pointer(7) == EventPointer("hospital.admissions", 3, 1)
    assert admissions.index(EventPointer("hospital.admissions", 3, 1)) == 7


def test_the_judge_refuses_exactly_what_was_planted(admissions: DemoStream) -> None:
    plan = compile_plan(lint(CONTRACT_FILE).contract)
    values = admissions.records["value"].combine_chunks()
    disposition = plan.judge(values).field("disposition")
    refused = pc.indices_nonzero(pc.equal(disposition, int(Disposition.QUARANTINED))).to_pylist()
    assert set(refused) == admissions.marks.keys()
    also = {"discharge 1900-01-01": {"stay-not-negative"}}
    for index in refused:
        mark = admissions.marks[index]
        violations = plan.explain(values[index].as_py()).violations
        broken = {violation.code for violation in violations if violation.severity is Severity.ERROR}
        assert broken == {mark.code} | also.get(mark.kind, set())
        assert mark.stage in {violation.stage for violation in violations if violation.code == mark.code}
