"""Inferences of parts that are merged propose what one inference of all records does."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pytest

from tidegate.contracts.infer.columns import Mask
from tidegate.contracts.infer.distinct import DistinctSketch
from tidegate.contracts.infer.infer import VALUES, Inference, Inferred
from tidegate.contracts.infer.number_rules import number_sentinels
from tidegate.contracts.infer.pairs import Path
from tidegate.contracts.infer.presence import Presence
from tidegate.contracts.infer.unread import Unread
from tidegate.contracts.infer.values import NumberProfile, ValueCounts
from tidegate.gateway.embedded.demo.admissions import admissions_stream
from tidegate.gateway.embedded.demo.flights import flights_stream
from tidegate.gateway.embedded.demo.stream import DemoStream

BATCH = 4_096


def inferred(values: pa.Array, ends: Sequence[int]) -> Inferred:
    """Infer from parts of the values, each in an inference that was in another process."""
    whole = Inference()
    for first, last in zip([0, *ends], [*ends, len(values)], strict=True):
        part = Inference()
        for start in range(first, last, BATCH):
            some = values[start : min(start + BATCH, last)]
            part.add(pa.record_batch([some], VALUES), np.arange(start + 1, start + 1 + len(some)))
        whole.merge(pickle.loads(pickle.dumps(part)))  # noqa: S301 - our own bytes
    return whole.finish("test.records")


@pytest.mark.parametrize("make", [admissions_stream, flights_stream])
def test_parts_of_a_stream_give_the_contract_of_the_whole(make: Callable[[int | None], DemoStream]) -> None:
    values = make(20_000).records["value"].combine_chunks()
    whole, merged = inferred(values, []), inferred(values, [3_000, 3_100, 11_000])
    assert merged.document == whole.document
    assert merged.personal == whole.personal
    assert (merged.records, merged.broken) == (whole.records, whole.broken)
    found, expected = (
        {(each.pointer, each.code): (each.support, each.exceptions) for each in one.proposals}
        for one in (merged, whole)
    )
    assert found == expected
    assert merged.evaluation == whole.evaluation


def test_a_field_that_only_one_part_has_is_optional_and_depends_on_what_the_whole_says() -> None:
    """In the first part `b` is always there, so that nothing counts the records which have it without `c`."""
    records = [{"b": 1, "c": 2}, {"b": 1}] * 500 + [{}] * 1_000 + [{"b": 3, "c": 3, "late": 1}] * 1_000
    values = pa.array([orjson.dumps(each) for each in records], pa.binary())
    whole, merged = inferred(values, []), inferred(values, [1_000, 2_000])
    assert merged.document == whole.document
    presence = Presence()
    for part, rows in ((("b", "bc"), 2), (("",), 1), (("bc",), 1)):
        other = Presence()
        masks: dict[Path, Mask] = {(name,): np.array([name in each for each in part]) for name in "bc"}
        other.add(masks, {}, np.arange(rows))
        presence.merge(other)
    assert {pair: tally.count for pair, tally in presence.lone.items()} == {(("b",), ("c",)): 1}
    assert {path: tally.count for path, tally in presence.lacks.items()} == {("b",): 1, ("c",): 2}


def test_batches_find_the_fields_that_one_batch_finds() -> None:
    """The first batches have no `campaign`, and the last one always has `discount`."""
    records: list[dict[str, int]] = []
    for index in range(6_000):
        records.append({"id": index})
        if index % 2:
            records[-1]["discount"] = 1
        if index % 2 and index > 3_000:
            records[-1]["campaign"] = 2
    records += [{"id": index, "discount": 1} for index in range(6_000, 7_000)]
    values = pa.array([orjson.dumps(each) for each in records], pa.binary())
    found = []
    for size in (len(values), 1_000):
        inference = Inference()
        for start in range(0, len(values), size):
            some = values[start : start + size]
            inference.add(pa.record_batch([some], VALUES), np.arange(start, start + len(some)))
        found.append(inference.finish("test.records"))
    assert found[0].rules == found[1].rules
    required = [rule.rule["field"] for rule in found[1].rules if rule.rule and "when" in rule.rule]
    assert required == ["/discount"]


def test_no_rule_is_about_the_presence_of_more_fields_than_are_counted() -> None:
    chance = np.random.default_rng(3)
    presence = Presence()
    for batch, first in enumerate((0, 10)):
        masks: dict[Path, Mask] = {(f"f{each}",): chance.random(500) < 0.5 for each in range(first, 70)}
        presence.add(masks, {}, np.arange(500 * batch, 500 * batch + 500))
    assert presence.optional == [(f"f{each}",) for each in range(60)]
    assert {name for pair in presence.lone for name in pair} == set(presence.optional)


@pytest.mark.parametrize("sentinel", [999, -1, 9999])
def test_a_number_for_unknown_is_found_among_a_million_in_parts(sentinel: int) -> None:
    chance = np.random.default_rng(5)
    profile = NumberProfile()
    for part in range(20):
        values = chance.integers(0, 104, 50_000)
        if part % 7 == 0:
            values[:10] = sentinel
        other = NumberProfile()
        other.add(values, np.arange(part * 50_000, (part + 1) * 50_000))
        profile.merge(other)
    found, low, high = number_sentinels(profile)
    assert [(each.value, each.seen.count, each.seen.first) for each in found] == [(sentinel, 30, 0)]
    assert (low, high, profile.count) == (0, 103, 1_000_000)


def test_edges_are_exact_whichever_part_had_too_many_values() -> None:
    chance = np.random.default_rng(7)
    parts = [chance.integers(0, most, size) for most, size in ((9_000, 9_000), (50, 2_000), (90_000, 9_000))]

    def counted(values: npt.NDArray[np.int64]) -> ValueCounts:
        found = ValueCounts(1_000)
        unique, first, counts = np.unique(values, return_index=True, return_counts=True)
        found.add(unique.tolist(), counts.tolist(), first.tolist())
        return found

    whole = counted(np.concatenate(parts))
    for order in ((0, 1, 2), (1, 0, 2), (1, 2, 0)):
        merged = ValueCounts(1_000)
        for index in order:
            merged.merge(counted(parts[index]))
        for mine, expected in zip(merged.edges(), whole.edges(), strict=True):
            assert [(value, seen.count) for value, seen in mine] == [
                (value, seen.count) for value, seen in expected
            ]


@pytest.mark.parametrize("rows", [50_000, 400_000])
def test_repeated_keys_of_two_parts_are_found(rows: int) -> None:
    merged = DistinctSketch()
    for first in (0, rows - 400):
        part = DistinctSketch()
        part.add_numbers(np.arange(first, first + rows), np.arange(rows))
        merged.merge(part)
    assert not merged.is_off
    assert merged.seen == 2 * rows
    assert merged.repeated == (400 if rows == 50_000 else pytest.approx(400, rel=0.3))


def test_reasons_are_merged_with_the_detail_of_the_first_record_and_bounded() -> None:
    whole, early, late = Unread(), Unread(), Unread()
    for part, positions in ((late, range(50, 60)), (early, range(10, 20))):
        for position in positions:
            value = b"[]" if position % 2 else b"{" * (position - 9)
            for each in (part, whole):
                each.add_value(value, position, is_avro=False)
    late.merge(early)
    assert late == whole
    assert (whole.count, whole.first) == (20, [10, 11, 12, 13, 14])
    assert whole.details["not JSON"].startswith("column 2:")
    for number in range(100):
        whole.add(f"has {number} cells", number)
    assert len(whole.reasons) == 21
    assert whole.count == 120
