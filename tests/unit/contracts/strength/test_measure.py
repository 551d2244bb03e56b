"""What a contract misses, and the rules that would catch it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.strength.measure import (
    GoodRecords,
    MutationResult,
    Strength,
    measure,
    plan_for_mutation,
)
from tidegate.contracts.strength.text import suggested_rules
from tidegate.gateway.embedded.demo.admissions import CONTRACT_FILE, admissions_stream

OPEN = """\
apiVersion: tidegate/v1
kind: DataContract
id: stays
version: 1.0.0
topic: stays
schema:
  type: json-schema
  definition:
    type: object
    properties:
      id: {type: string}
      ward: {type: string}
      age: {type: integer}
      came: {type: string, format: date}
      left: {type: string, format: date}
      name: {type: string}
"""
WARDS = ("icu", "er", "general")
RECORDS: list[dict[str, Any]] = [
    {
        "id": f"A{index:06d}",
        "ward": WARDS[index % 3],
        "age": 20 + index % 70,
        "came": f"2024-03-{1 + index % 20:02d}",
        "left": f"2024-03-{3 + index % 20 + index % 5:02d}",
        "name": f"Zoë {'abcdefgh'[index % 8] * (1 + index % 9)} Müller",
    }
    for index in range(200)
]


def contract(more: str = "") -> DataContract:
    return parse_contract(OPEN + more, name="stays.yaml", read_schema=None).contract


def strength(found: DataContract, records: list[bytes], *, seed: int = 0, mutants: int = 10) -> Strength:
    good = GoodRecords(plan_for_mutation(found), len(records))
    good.add(pa.array(records, pa.large_binary()))
    return measure(good, mutants=mutants, seed=seed)


@cache
def measured(more: str = "", *, seed: int = 0) -> Strength:
    return strength(contract(more), [orjson.dumps(each) for each in RECORDS], seed=seed)


def outcome(found: Strength, mutation: str, *pointers: str) -> MutationResult:
    (one,) = [each for each in found.outcomes if (each.mutation, each.pointers) == (mutation, pointers)]
    return one


@pytest.mark.parametrize(
    ("mutation", "pointers", "kind"),
    [
        ("swapped", ("/came", "/left"), "ordered"),
        ("missing", ("/age",), "cel"),
        ("sentinel -1", ("/age",), "range"),
        ("sentinel 999", ("/age",), "range"),
        ("unit x10", ("/age",), "range"),
        ("sentinel 1900-01-01", ("/came",), "range"),
        ("century off", ("/came",), "range"),
        ("wrong reference", ("/ward",), "one_of"),
        ("case", ("/ward",), "one_of"),
        ("truncated", ("/id",), "matches"),
        ("whitespace", ("/name",), "matches"),
        ("encoding", ("/name",), "matches"),
        ('sentinel "N/A"', ("/name",), "forbidden"),
    ],
)
def test_a_rule_is_found_for_what_an_open_contract_misses(
    mutation: str, pointers: tuple[str, ...], kind: str
) -> None:
    found = outcome(measured(), mutation, *pointers)
    assert found.mutants == found.missed == 10
    assert found.rule is not None
    assert (found.rule["kind"], found.caught) == (kind, 10)


def test_what_the_schema_refuses_is_not_missed() -> None:
    found = outcome(measured(), "number as text", "/age")
    assert (found.refused, found.missed, found.rule) == (10, 0, None)


def test_the_suggested_rules_pasted_into_the_contract_catch_what_they_say() -> None:
    """The YAML is read back, lints, accepts every good record, and leaves only what is not said to be caught."""
    before = measured()
    text = "rules:\n" + "\n".join(suggested_rules(before)) + "\n"
    after = measured(text)
    assert after.good == len(RECORDS)
    assert after.mutants == before.mutants
    assert after.missed <= before.missed - before.caught
    for old, new in zip(before.outcomes, after.outcomes, strict=True):
        assert new.missed <= old.missed - old.caught, old


def test_the_seed_decides() -> None:
    again = strength(contract(), [orjson.dumps(each) for each in RECORDS])
    assert again == measured()
    assert again != measured(seed=1)


def test_a_mutant_with_a_warning_is_not_missed() -> None:
    warning = "rules: [{id: age-known, kind: range, field: /age, maximum: 500, severity: warning}]"
    found = outcome(measured(warning), "sentinel 999", "/age")
    assert (found.refused, found.warned, found.missed) == (0, 10, 0)


def test_a_sentinel_that_good_records_have_is_none() -> None:
    records = [orjson.dumps({**each, "age": -1 if each["age"] < 30 else each["age"]}) for each in RECORDS]
    found = strength(contract(), records)
    assert not [each for each in found.outcomes if each.mutation == "sentinel -1"]


def test_a_field_that_may_be_absent_is_not_required() -> None:
    records = [
        orjson.dumps({**each, "age": None} if index == 7 else each) for index, each in enumerate(RECORDS)
    ]
    loose = OPEN.replace("age: {type: integer}", "age: {}")
    found = strength(parse_contract(loose, name="a.yaml", read_schema=None).contract, records)
    assert not [
        each for each in found.outcomes if each.pointers == ("/age",) and each.mutation in ("null", "missing")
    ]


def test_values_of_classified_fields_are_in_no_result() -> None:
    names = ("ward", "age", "came", "left", "id", "name")
    found = measured(f"classification: {{{', '.join(f'/{name}: pii' for name in names)}}}")
    text = repr(found.rules) + "".join(suggested_rules(found))
    assert not [
        word for word in ("icu", "general", "2024", "2010", "Zoë", "A0", "[0-9]", "imum") if word in text
    ]
    assert outcome(found, "sentinel 999", "/age").caught == 10  # well-known sentinels need no value


def test_records_of_avro_cannot_be_corrupted() -> None:
    avro = parse_contract(
        OPEN.partition("schema:")[0]
        + "schema: {type: avro, definition: {type: record, name: r, fields: [{name: a, type: int}]}}\n",
        name="a.yaml",
        read_schema=None,
    ).contract
    with pytest.raises(SettingsError, match="Avro"):
        plan_for_mutation(avro)


@pytest.mark.parametrize(
    "record",
    [
        {"age": 2**63 - 1, "ward": "", "came": "0001-01-01", "name": "x"},
        {"age": -(2**63), "name": "ß", "left": "2024-02-29"},
        {},
        {"age": 1.7e308},
        {"age": 0, "id": "~", "undeclared": [{}]},
    ],
)
def test_a_single_odd_record_is_measured(record: dict[str, Any]) -> None:
    found = strength(contract(), [orjson.dumps(record)])
    assert found.good == 1
    assert all(each.mutants == each.refused + each.warned + each.missed for each in found.outcomes)


def test_the_admissions_of_the_demo() -> None:
    """Its contract misses 999 nights and 1900-01-01 as day of admission; the suggestions accept every clean record."""
    demo = admissions_stream(2_000)
    plan = compile_plan(lint(Path(CONTRACT_FILE)).contract)
    good = GoodRecords(plan_for_mutation(plan.contract), 1_000)
    values = demo.records.column("value").cast(pa.large_binary()).combine_chunks()
    good.add(values)
    assert good.is_full
    found = measure(good, mutants=5, seed=0)
    assert outcome(found, "swapped", "/admission_date", "/discharge_date").missed == 0
    assert outcome(found, "sentinel 999", "/age").missed == 0
    for mutation, field in (("sentinel 999", "/length_of_stay"), ("sentinel 1900-01-01", "/admission_date")):
        assert outcome(found, mutation, field).missed == outcome(found, mutation, field).caught == 5
    document = plan.contract.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    stronger = compile_plan(
        DataContract.model_validate({**document, "rules": [*document["rules"], *found.rules]})
    )
    before, after = (each.judge(values).field("disposition").to_pylist() for each in (plan, stronger))
    assert after[: good.read] == before[: good.read]
