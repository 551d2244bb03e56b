"""What is proposed from records that are made for one question each."""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from tests.hostile_avro import HOSTILE
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.infer.infer import VALUES, Inference, Inferred, _hashes
from tidegate.contracts.infer.number_rules import nice_above, number_sentinels
from tidegate.contracts.infer.profile import Profile
from tidegate.contracts.infer.proposal import Proposal
from tidegate.contracts.infer.text import contract_text
from tidegate.contracts.infer.values import NumberProfile, Occurrences
from tidegate.contracts.judge.plan import compile_plan

CHANCE = random.Random(5)  # noqa: S311 - repeatable records
FIRST_DAY = date(2022, 1, 1)


def inferred(records: list[Any], batch: int = 1_000) -> Inferred:
    inference = Inference()
    values = [record if isinstance(record, bytes) else orjson.dumps(record) for record in records]
    for start in range(0, len(values), batch):
        some = values[start : start + batch]
        inference.add(
            pa.record_batch([pa.array(some, pa.binary())], VALUES),
            np.arange(start + 1, start + 1 + len(some)),
        )
    return inference.finish("test.records")


def rules(found: Inferred, kind: str, pointer: str) -> list[dict[str, Any]]:
    """Return the enforced rules of a kind that name a field."""
    return [
        each.rule
        for each in found.rules
        if each.rule and each.is_enforced and each.rule["kind"] == kind and pointer in str(each.rule)
    ]


def accepts(found: Inferred, record: object) -> bool:
    plan = compile_plan(DataContract.model_validate(found.document))
    judged = plan.judge(pa.array([orjson.dumps(record)], pa.large_binary()))
    return bool(judged.field("disposition")[0].as_py() == 0)


@pytest.mark.parametrize("name", ["*", "**"])
def test_a_field_whose_name_stands_for_many_is_left_out(name: str) -> None:
    found = inferred([{"a/b": number, "a_b": number, name: number} for number in range(30)])
    assert accepts(found, {"a/b": 1, "a_b": 2})
    assert {each["from"] for each in found.document["columns"]} == {"/a~1b", "/a_b"}


@pytest.mark.parametrize("sentinel", [999, -1, -99, 9999, 2147483647])
def test_a_number_that_stands_for_unknown_is_found_among_a_million(sentinel: int) -> None:
    profile = NumberProfile()
    values = np.array([CHANCE.randrange(0, 104) for _ in range(50_000)])
    for batch in range(20):
        some = values.copy()
        if batch < 3:
            some[batch * 7 : batch * 7 + 10] = sentinel
        profile.add(some, np.arange(batch * 50_000, (batch + 1) * 50_000))
    found, low, high = number_sentinels(profile)
    assert [(each.value, each.seen.count, each.seen.first) for each in found] == [(sentinel, 30, 0)]
    assert (low, high) == (0, 103)


def test_zero_stands_for_unknown_only_where_everything_else_is_far_from_it() -> None:
    weights = [
        {"weight": CHANCE.randrange(2_700, 6_300), "visits": CHANCE.randrange(0, 30)} for _ in range(4_000)
    ]
    for index in range(0, 4_000, 200):
        weights[index]["weight"] = 0
    found = inferred(weights)
    assert [rule["values"] for rule in rules(found, "forbidden", "/weight")] == [[0]]
    assert rules(found, "forbidden", "/visits") == []


@pytest.mark.parametrize("sentinel", ["1900-01-01", "1970-01-01", "9999-12-31"])
@pytest.mark.parametrize("is_time", [False, True])
def test_a_date_that_stands_for_unknown_is_found(sentinel: str, is_time: bool) -> None:
    suffix = "T00:00:00Z" if is_time else ""
    days = [(FIRST_DAY + timedelta(days=CHANCE.randrange(900))).isoformat() + suffix for _ in range(3_000)]
    days[1_000] = days[2_000] = days[2_500] = sentinel + suffix
    found = inferred([{"left": day} for day in days])
    assert not accepts(found, {"left": sentinel + suffix})
    assert accepts(found, {"left": "2023-05-05" + suffix})


def test_texts_that_stand_for_unknown_are_forbidden_and_left_out_of_lists() -> None:
    wards = [CHANCE.choice(("icu", "general", "maternity")) for _ in range(2_000)]
    wards[10] = wards[999] = "N/A"
    wards[500] = "ICU"
    found = inferred([{"ward": ward} for ward in wards])
    assert [rule["values"] for rule in rules(found, "forbidden", "/ward")] == [["N/A"]]
    assert [rule["values"] for rule in rules(found, "one_of", "/ward")] == [["general", "icu", "maternity"]]
    assert not accepts(found, {"ward": "ICU"})


def test_a_text_that_may_be_a_value_of_its_own_is_asked_for_and_not_refused() -> None:
    states = [CHANCE.choice(("open", "shut")) for _ in range(2_000)]
    for index in range(0, 2_000, 100):
        states[index] = "unknown"
    states[7] = "void"
    found = inferred([{"state": state} for state in states])
    assert [rule["values"] for rule in rules(found, "one_of", "/state")] == [["open", "shut", "unknown"]]
    assert [each.rule["values"] for each in found.rules if each.rule and each.doubt] == [["unknown", "void"]]
    assert accepts(found, {"state": "unknown"})
    assert not accepts(found, {"state": "void"})


def test_coordinates_at_the_origin_are_refused() -> None:
    places = [{"lat": CHANCE.uniform(45, 48), "lon": CHANCE.uniform(-10, 10)} for _ in range(500)]
    places[3] = places[77] = places[78] = {"lat": 0, "lon": 0}
    found = inferred(places)
    assert not accepts(found, {"lat": 0, "lon": 0})
    assert accepts(found, {"lat": 46.5, "lon": 0})


MILLION = 1_000_000
CHOICE = np.random.default_rng(5)
DAYS = CHOICE.integers(18_993, 19_893, MILLION).astype("datetime64[D]")
RARE = np.arange(7, MILLION, MILLION // 30)[:30]


def rarely(values: Any, value: Any) -> pa.Array:
    """Return a million values of which 30 stand for "unknown"."""
    values = values.copy()
    values[RARE] = value
    return pa.array(values)


def some_places(least: float, most: float) -> pa.Array:
    return rarely(CHOICE.uniform(least, most, MILLION), 0)


@pytest.mark.parametrize(
    ("columns", "unknown", "known"),
    [
        ({"left": rarely(DAYS, np.datetime64("1900-01-01"))}, ["1900-01-01"], ["2023-05-05"]),
        (
            {"left": rarely(DAYS, np.datetime64("9999-12-31")).cast(pa.string())},
            ["9999-12-31"],
            ["2023-05-05"],
        ),
        (
            {"left": rarely(DAYS.astype("datetime64[s]"), np.datetime64("1970-01-01T00:00:00"))},
            ["1970-01-01T00:00:00"],
            ["2023-05-05T00:00:00"],
        ),
        ({"ward": rarely(CHOICE.choice(["icu", "er", "onc"], MILLION), "N/A")}, ["N/A"], ["icu"]),
        (
            {"note": rarely(CHOICE.integers(0, 10**12, MILLION).astype("U12").astype(object), "n/a")},
            ["n/a"],
            ["123456789"],
        ),
        ({"lat": some_places(45, 48), "lon": some_places(-10, 10)}, [0, 0], [46.5, 0]),
    ],
    ids=["days", "days as text", "timestamps", "texts", "many texts", "coordinates"],
)
def test_thirty_of_a_million_that_stand_for_unknown_are_found(
    columns: dict[str, pa.Array], unknown: list[Any], known: list[Any]
) -> None:
    inference = Inference()
    first = 1
    for batch in pa.table(columns).to_batches(50_000):
        inference.add(batch, np.arange(first, first + batch.num_rows))
        first += batch.num_rows
    found = inference.finish("test.records")
    assert not accepts(found, dict(zip(columns, unknown, strict=True)))
    assert accepts(found, dict(zip(columns, known, strict=True)))
    counted = [
        each.exceptions + each.held_back for each in found.rules if each.is_enforced and each.exceptions
    ]
    assert set(counted) == {30}
    assert found.evaluation.unexpected.count == 0


def test_ordered_dates_are_found_and_others_are_not() -> None:
    records = []
    for index in range(3_000):
        start = FIRST_DAY + timedelta(days=CHANCE.randrange(900))
        end = start + timedelta(days=CHANCE.randrange(30)) if index % 200 else start - timedelta(days=3)
        other = FIRST_DAY + timedelta(days=CHANCE.randrange(900))
        records.append({"start": start.isoformat(), "end": end.isoformat(), "other": other.isoformat()})
    found = inferred(records)
    ordered = [each for each in found.rules if each.rule and each.rule["kind"] == "ordered"]
    assert [each.rule["fields"] for each in ordered if each.rule] == [["/start", "/end"]]
    assert 10 <= ordered[0].exceptions <= 15
    assert all(position % 200 == 1 for position in ordered[0].first)


def test_times_with_and_without_a_zone_are_not_put_in_order() -> None:
    records = []
    for index in range(1_000):
        start = FIRST_DAY + timedelta(days=CHANCE.randrange(900))
        end = start + timedelta(days=1)
        records.append({"start": f"{start}T10:00:00", "end": f"{end}T10:00:00Z", "late": f"{end}T10:00:00"})
        if index >= 500:  # its format is known only in the end
            records[-1]["late"] = f"{end} 10:00"
    found = inferred(records, batch=100)
    assert rules(found, "ordered", "/start") == []
    compile_plan(DataContract.model_validate(found.document))


def test_a_field_that_depends_on_the_value_of_another_is_required_then() -> None:
    records: list[dict[str, Any]] = []
    for _ in range(4_000):
        ward = CHANCE.choice(("icu", "general", "maternity"))
        record: dict[str, Any] = {"ward": ward}
        if ward == "icu" or CHANCE.random() < 0.4:
            record["consultant"] = "C1"
        records.append(record)
    found = inferred(records)
    assert [rule["when"] for rule in rules(found, "required_when", "/consultant")] == [
        {"field": "/ward", "equals": "icu"}
    ]


def test_elements_of_arrays_have_rules_of_their_own() -> None:
    records = [
        {"lines": [{"net": net, "gross": net * 1.2} for net in CHANCE.sample(range(1, 900), 3)]}
        for _ in range(900)
    ]
    found = inferred(records)
    assert [rule["fields"] for rule in rules(found, "ordered", "/lines/*/net")] == [
        ["/lines/*/net", "/lines/*/gross"]
    ]


def test_the_key_and_personal_fields_are_named_and_their_values_never_written() -> None:
    records = [
        {
            "order_id": f"O{index:06d}",
            "email": f"person{index % 3}@example.org",
            "surname": ("Kay", "Noor", "Smit")[index % 3],
        }
        for index in range(1_000)
    ]
    found = inferred(records)
    assert found.document["primary_key"] == ["order_id"]
    assert found.document["classification"] == {"/email": "pii", "/surname": "pii"}
    assert "Noor" not in str(found.document)
    assert "person1" not in str(found.document)


def test_no_rule_has_a_value_of_a_personal_field() -> None:
    records: list[dict[str, Any]] = []
    for index in range(3_000):
        record: dict[str, Any] = {
            "surname": CHANCE.choice(("Kay", "Noor")),
            "phone": 31612345678 if index % 100 == 0 else CHANCE.randrange(1_000),
            "birth_date": "1234-05-06" if index % 100 == 0 else f"1980-{1 + index % 12:02d}-01",
        }
        if record["surname"] == "Noor" or CHANCE.random() < 0.5:
            record["visit"] = "V1"
        records.append(record)
    found = inferred(records)
    assert {"/surname", "/phone", "/birth_date"} <= set(found.document["classification"])
    written = str(found.document) + str(found.rules)
    assert [value for value in ("Noor", "31612345678", "1234-05-06") if value in written] == []


def test_mixed_types_are_kept_if_both_are_usual_and_a_mistake_if_one_is_rare() -> None:
    records = [
        {"code": index if index % 2 else str(index), "age": str(index) if index == 50 else index}
        for index in range(1_000)
    ]
    found = inferred(records)
    assert set(found.definition["properties"]["code"]["type"]) == {"integer", "string"}
    assert found.definition["properties"]["age"] == {"type": "integer"}
    mistake = next(
        each for each in found.structure.proposals if each.code == "type" and each.pointer == "/age"
    )
    assert (mistake.exceptions, mistake.first) == (1, (51,))


@pytest.mark.parametrize("name", ["year", "2024"])
def test_exceptions_of_a_field_explain_refusals_whatever_its_name(name: str) -> None:
    """A name of digits is not the index of an element."""
    found = inferred([{name: "unknown" if n % 200 == 7 else n} for n in range(10_000)])
    assert found.evaluation.explained > 0
    assert found.evaluation.unexpected.count == 0


def test_records_that_cannot_be_read_are_counted_with_positions() -> None:
    records: list[Any] = [{"a": index} for index in range(500)]
    records[99] = b'{"a": '
    records[199] = b"[1]"
    records[299] = b"[" * 100_000
    found = inferred(records)
    assert found.broken.count == 3
    assert found.broken.first == [100, 200, 300]


def test_the_positions_of_exceptions_are_the_first_ones_also_of_records_that_were_held_back() -> None:
    records: list[Any] = [{"a": index, "b": "x", "c": None} for index in range(6_000)]
    for index in range(0, 100, 2):
        records[index] = b"{"
        records[index + 1] = {"a": "text", "c": index}
    found = inferred(records, batch=500)
    assert found.broken.first == [1, 3, 5, 7, 9]
    of_type, required = (
        next(each for each in found.structure.proposals if (each.code, each.pointer) == wanted)
        for wanted in (("type", "/a"), ("required", "/b"))
    )
    assert of_type.first == required.first == tuple(sorted(of_type.first))
    # Of the records that have an exception, about one in ten is held back.
    assert set(of_type.first) < set(range(2, 18, 2))


def test_a_tally_keeps_the_smallest_positions_whatever_the_order_of_the_batches() -> None:
    tally = Occurrences()
    for start in (400, 100, 300, 200):
        tally.add(np.ones(3, bool), np.arange(start, start + 3))
    assert (tally.count, tally.first) == (12, [100, 101, 102, 200, 201])


@pytest.mark.parametrize(
    ("text", "is_format"), [("PT15M", True), ("PT1.5S", False), ("PT1H3S", False), ("P", False)]
)
def test_durations_have_the_format_that_the_judge_knows(text: str, is_format: bool) -> None:
    found = inferred([{"took": text}] * 200)
    assert ("format" in found.definition["properties"]["took"]) is is_format
    assert accepts(found, {"took": text})


def test_numbers_that_are_not_finite_are_listed_as_exceptions() -> None:
    numbers = [float("nan") if index % 100 == 0 else index / 2 for index in range(2_000)]
    inference = Inference()
    inference.add(pa.record_batch({"x": numbers}), np.arange(2_000))
    found = inference.finish("a")
    proposal = next(each for each in found.proposals if each.code == "json.not-finite")
    assert (proposal.pointer, proposal.support) == ("/x", found.records - found.evaluation.records)
    assert proposal.exceptions + found.evaluation.broken == 20
    assert set(proposal.first) <= set(range(0, 2_000, 100))
    assert "NaN" not in contract_text(found, source="a", schema_file=None, places=str)


def test_a_million_names_are_a_map_and_bounded() -> None:
    profile = Profile()
    for start in (0, 1_000):
        rows = [{"map": {f"k{start}-{index}-{each}": 1 for each in range(500)}} for index in range(1_000)]
        profile.add_rows(rows, np.arange(start, start + 1_000))
    assert len(list(profile.fields())) == 1
    found = inferred([{"map": {f"k{index}": 1}} for index in range(5_000)])
    assert "keys" in found.definition["properties"]["map"]["description"]
    assert accepts(found, {"map": {"new": "text"}})


def test_fields_of_an_object_that_turns_out_to_be_a_map_are_in_no_rule() -> None:
    """Relations are found before the names are too many: optional, ordered and deciding fields of every kind."""
    fields = [
        {"a": 1.5, "b": 2.5, "kind": "x", "from": "2026-01-01", "to": "2026-01-02", "lat": 0, "lon": 0},
        {"kind": "y", "c": 1},
    ]
    some = [{**fields[index % 2], "n": index} for index in range(2_000)]
    many = [{f"k{index}": index} for index in range(1_200)]
    for records in (some + many, [{"map": each} for each in some + many]):
        found = inferred(records)
        assert found.rules == []
        assert accepts(found, records[0])


def test_deep_and_long_values_are_bounded() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"in": deep}
    found = inferred([{"deep": deep, "text": "x" * (10 << 20) if index == 7 else "y"} for index in range(60)])
    assert len(orjson.dumps(found.definition)) < 5_000
    assert accepts(found, {"deep": deep, "text": "y"})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (104.2, 120),
        (1, 1),
        (0.31, 0.4),
        (0.3, 0.3),
        (7_000, 8_000),
        (155, 200),
        (1.5e-13, 1.5e-13),
        (1.6e-13, 2e-13),
        (6e-5, 6e-5),
        (1.2000000000001, 1.5),
        (10**17 + 1, 1.2e17),
        (5e-324, 5e-324),
        (1.7e308, 1.7e308),
    ],
)
def test_bounds_are_round_numbers(value: float, expected: float) -> None:
    assert nice_above(value) == expected


@pytest.mark.parametrize(
    "values",
    [[1e-13, 1.5e-13], [0.0, 3e-300], [1.2000000000001], [10**17 + 1], [1.7e308, 1.75e308], [1e-320, 2e-320]],
    ids=str,
)
def test_a_range_allows_the_values_that_it_was_made_from(values: list[Any]) -> None:
    found = inferred([{"share": values[index % len(values)]} for index in range(2_000)])
    (rule,) = rules(found, "range", "/share")
    assert rule["maximum"] >= max(values)
    assert all(accepts(found, {"share": each}) for each in values)


@pytest.mark.parametrize(("least", "most"), [(1e300, 1.7e308), (5e-324, 1.7e308), (1e-320, 1e-310)])
def test_numbers_at_the_ends_of_doubles_are_read_without_a_warning(least: float, most: float) -> None:
    """Two fields that grow together, whose squares and quotients are no doubles."""
    steps = np.linspace(least, most, 500).tolist()
    records = [{"a": each, "b": each, "c": least} for each in steps]
    found = inferred(records)
    assert all(accepts(found, record) for record in records[::50])


def test_two_runs_agree() -> None:
    records = [{"a": CHANCE.randrange(50), "b": CHANCE.choice("xyz")} for _ in range(3_000)]
    assert inferred(records, 1_000).document == inferred(records, 777).document


def text_schema(found: Inferred, name: str) -> dict[str, Any]:
    schema: dict[str, Any] = found.definition["properties"][name]
    return {each: value for each, value in schema.items() if each != "type"}


def proposal(found: Inferred, code: str, pointer: str) -> Proposal:
    return next(each for each in found.proposals if (each.code, each.pointer) == (code, pointer))


def test_lengths_are_proposed_where_no_pattern_and_no_list_says_them() -> None:
    records = [
        {
            "note": "".join(CHANCE.choices("abcdé ,.", k=CHANCE.randrange(5, 80))),
            "digest": f"{CHANCE.getrandbits(256):064x}",
            "code": f"S{index:06d}",
            "ward": CHANCE.choice(("icu", "general")),
        }
        for index in range(3_000)
    ]
    records[7]["digest"] = "N/A"
    records[8]["digest"] = records[9]["digest"][:60]
    found = inferred(records)
    assert text_schema(found, "note") == {"minLength": 1, "maxLength": 250}
    assert text_schema(found, "digest") == {"minLength": 64, "maxLength": 64}
    assert text_schema(found, "code") == text_schema(found, "ward") == {}
    least, most = (proposal(found, code, "/digest") for code in ("minLength", "maxLength"))
    assert (least.exceptions, least.first, most.exceptions) == (2, (8, 9), 0)
    assert least.support == most.support == proposal(found, "maxLength", "/note").support
    assert proposal(found, "maxLength", "/note").exceptions == 0
    assert not accepts(found, {**records[0], "digest": "0" * 63})
    assert accepts(found, {**records[0], "note": "x" * 250})


def test_few_texts_say_nothing_about_lengths() -> None:
    assert text_schema(inferred([{"note": f"{'é' * (index % 50)}"} for index in range(150)]), "note") == {}
    assert text_schema(inferred([{"note": "é" * 50} for _ in range(3_000)]), "note") == {
        "minLength": 1,
        "maxLength": 150,
    }


def test_a_length_that_held_back_records_refuse_is_left_out_of_the_schema() -> None:
    positions = np.arange(3_000)
    is_held = _hashes(positions) <= np.uint64(0xFFFFFFFFFFFFFFFF // 10)
    notes = [f"{'é' * (5 + index % 50)}" for index in range(3_000)]
    for index in np.flatnonzero(is_held)[:3]:
        notes[index] = "é" * 5_000
    inference = Inference()
    inference.add(pa.record_batch({"note": notes}), positions)
    found = inference.finish("test.records")
    assert text_schema(found, "note") == {"minLength": 1}
    assert accepts(found, {"note": "é" * 10_000})
    assert found.evaluation.unexpected.count == 0
    text = contract_text(found, source="a test", schema_file="s.json", places=str)
    assert "Doubtful, so the schema has no maxLength: it refuses 3 of" in " ".join(text.split("\n# "))


@pytest.mark.parametrize(("schema", "payload"), HOSTILE)
def test_hostile_avro_counts_as_unreadable(schema: dict[str, Any], payload: bytes) -> None:
    inference = Inference(avro_schema=schema)
    inference.add(pa.record_batch([pa.array([b"\0", payload], pa.binary())], schema=VALUES), np.arange(2))
    inference.finish("hostile")
    assert (inference.records, inference.broken.count) == (1, 1)
