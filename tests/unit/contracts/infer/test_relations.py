"""What is proposed about two fields of one object."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import time
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pytest

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.infer.infer import VALUES, Inference, Inferred, _hashes
from tidegate.contracts.infer.proposal import Proposal
from tidegate.contracts.infer.text import contract_text
from tidegate.contracts.judge.plan import compile_plan


def inferred(columns: Mapping[str, Any], size: int = 4_000) -> Inferred:
    inference = Inference()
    first = 0
    for batch in pa.table(dict(columns)).to_batches(size):
        inference.add(batch, np.arange(first, first + batch.num_rows))
        first += batch.num_rows
    return inference.finish("test.records")


def named(found: Inferred, code: str) -> list[Proposal]:
    return [each for each in found.rules if each.code == code]


@pytest.mark.parametrize("size", [4_000, 15])
def test_a_ratio_is_no_rule_if_zeros_break_it(size: int) -> None:
    chance = np.random.default_rng(1)
    items = chance.integers(1, 50, 16_000)
    points = 10 * items + chance.integers(0, 5, 16_000)
    points[777] = 1_499
    assert [
        each.exceptions for each in named(inferred({"items": items, "points": points}), "points-per-items")
    ] == [1]
    few = np.arange(16_000) % 20 == 0
    items[few], points[few] = 0, chance.integers(5, 21, 800)
    assert named(inferred({"items": items, "points": points}, size), "points-per-items") == []


@pytest.mark.parametrize("right", [0, -1])
def test_a_ratio_counts_each_pair_that_its_rule_refuses(right: int) -> None:
    chance = np.random.default_rng(1)
    items = chance.integers(1, 50, 30_000)
    points = 10 * items + chance.integers(0, 5, 30_000)
    points[777] = 1_499
    items[778], points[778] = right, 1
    items[780], points[780] = 0, 0
    points[1_000:2_000] = 0
    found = inferred({"items": items, "points": points})
    (ratio,) = named(found, "points-per-items")
    assert (ratio.exceptions, ratio.first, ratio.held_back) == (2, (777, 778), 0)
    assert ratio.support == found.records - found.evaluation.records


def test_negative_numbers_that_grow_together_have_no_ratio() -> None:
    """-10 is below 5 times -1, and above 20 times -1."""
    chance = np.random.default_rng(1)
    items = chance.integers(1, 50, 20_000)
    points = 10 * items + chance.integers(0, 5, 20_000)
    points[777] = 1_499
    items[900:903] *= -1
    points[900:903] *= -1
    assert named(inferred({"items": items, "points": points}), "points-per-items") == []


@pytest.mark.parametrize(("refused", "is_enforced"), [(2, True), (30, False)])
def test_a_rule_with_exceptions_is_doubtful_if_it_refuses_clearly_more(
    refused: int, *, is_enforced: bool
) -> None:
    chance = np.random.default_rng(1)
    is_held = _hashes(np.arange(3_000)) <= np.uint64(0xFFFFFFFFFFFFFFFF // 10)
    start = chance.integers(0, 1_000, 3_000)
    end = start + chance.integers(0, 20, 3_000)
    for rows in (np.flatnonzero(~is_held)[:10], np.flatnonzero(is_held)[:refused]):
        end[rows] = start[rows] - 1
    found = inferred({"start": start, "end": end})
    (order,) = named(found, "start-to-end")
    assert (order.exceptions, order.held_back, order.is_enforced) == (10, refused, is_enforced)
    assert found.evaluation.explained == (refused if is_enforced else 0)
    assert found.evaluation.unexpected.count == 0
    assert order.doubt is None or f"it refuses {refused} of" in order.doubt


def of_records(records: list[dict[str, Any]]) -> Inferred:
    inference = Inference()
    values = pa.array([orjson.dumps(each) for each in records], pa.binary())
    inference.add(pa.record_batch([values], VALUES), np.arange(len(records)))
    found = inference.finish("test.records")
    compile_plan(DataContract.model_validate(found.document))
    return found


def test_numbers_are_not_put_in_order_with_dates() -> None:
    chance = np.random.default_rng(1)
    records: list[dict[str, Any]] = []
    for index, start in enumerate(chance.integers(0, 1_000, 3_000).tolist()):
        records.append({"start": start, "end": start + 5})
        if index % 3 == 0:
            records[-1]["start"] = f"2026-01-{1 + start % 28:02d}"
    found = of_records(records)
    assert found.structure.types["start",].format == "date"
    assert named(found, "start-to-end") == []


def test_a_text_that_the_type_refuses_requires_no_other_field() -> None:
    chance = np.random.default_rng(1)
    due = [f"2026-01-{1 + day:02d}" for day in chance.integers(0, 12, 12_000).tolist()]
    for index in range(0, 12_000, 67):
        due[index] = "open"
    reason = [each == "open" or some < 0.3 for each, some in zip(due, chance.random(12_000), strict=True)]
    records = [
        {"due": each, "reason": 1} if is_there else {"due": each}
        for each, is_there in zip(due, reason, strict=True)
    ]
    assert named(of_records(records), "due-decides-reason") == []
    codes = chance.choice(["1", "2", "3"], 3_000)
    notes = [f"n{index}" if each == "1" else None for index, each in enumerate(codes)]
    inference = Inference()
    cells = pa.record_batch({"code": pa.array(codes, pa.string()), "note": notes})
    inference.add(cells, np.arange(3_000), untyped=True)
    assert named(inference.finish("test.records"), "code-decides-note") == []


def test_names_that_are_words_of_cel_are_members_like_others() -> None:
    chance = np.random.default_rng(1)
    items = chance.integers(1, 50, 16_000)
    out = 10 * items + chance.integers(0, 5, 16_000)
    out[777] = 1_499
    (ratio,) = named(inferred({"in": items, "out": out}), "out-per-in")
    assert ratio.rule is not None
    assert ratio.rule["expr"].startswith('this.out <= this["in"] * ')
    assert ratio.is_enforced


def test_a_rule_that_does_not_compile_is_a_comment() -> None:
    """A time of Avro is decoded as a time, and its field in the schema holds integers."""
    time_of_day = {"type": "int", "logicalType": "time-millis"}
    fields = [{"name": "id", "type": "long"}, {"name": "at", "type": time_of_day}]
    schema = {"type": "record", "name": "visit", "fields": fields}
    values = []
    for index in range(3_000):
        encoded = io.BytesIO()
        fastavro.schemaless_writer(encoded, schema, {"id": index % 90, "at": time(8 + index % 3)})
        values.append(encoded.getvalue())
    inference = Inference(schema)
    inference.add(pa.record_batch([pa.array(values, pa.binary())], VALUES), np.arange(3_000))
    found = inference.finish("test.records")
    (listed,) = named(found, "at-is-listed")
    assert listed.doubt is not None
    assert listed.doubt.startswith("it does not suit the schema: the field never holds a string")
    assert found.document["rules"] == []
    assert found.evaluation.records > 0
    text = contract_text(found, source="a test", schema_file="s.avsc", places=str)
    assert "  # - id: at-is-listed" in text.splitlines()


@pytest.mark.parametrize("names", [("lat", "lon"), ("🏠_lat", "🏠_lon")])
@pytest.mark.parametrize("parts", [1, 3])
def test_coordinates_that_do_not_correlate_are_counted(names: tuple[str, str], parts: int) -> None:
    """Neither is usually the larger one, so their order and their ratio are dropped early."""
    chance = np.random.default_rng(1)
    columns = {name: chance.uniform(-80, 80, 12_000) for name in names}
    for name in names:
        columns[name][np.arange(0, 12_000, 200)] = 0
    inferences = [Inference() for _ in range(parts)]
    for index, batch in enumerate(pa.table(columns).to_batches(1_000)):
        inferences[index % parts].add(batch, np.arange(1_000 * index, 1_000 * index + 1_000))
    for other in inferences[1:]:
        inferences[0].merge(other)
    found = inferences[0].finish("test.records")
    (known,) = named(found, "lat-and-lon-are-known")
    assert known.is_enforced
    assert known.exceptions + known.held_back == 60
    assert known.support == found.records - found.evaluation.records
    plan = compile_plan(DataContract.model_validate(found.document))
    records = [dict.fromkeys(names, 0), dict(zip(names, (0, 5), strict=True))]
    judged = plan.judge(pa.array([orjson.dumps(each) for each in records], pa.large_binary()))
    assert [each == 0 for each in judged.field("disposition").to_pylist()] == [False, True]
