"""What is proposed about two fields of one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.contracts.infer.infer import Inference, Inferred, _hashes
from tidegate.contracts.infer.proposal import Proposal


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
