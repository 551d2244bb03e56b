"""An inferred contract accepts the records that it was inferred from, except for those that its evidence lists."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.infer.evaluate import evaluate
from tidegate.contracts.infer.infer import VALUES, Inference
from tidegate.contracts.infer.profile import Profile

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70).filter(lambda number: -(2**63) <= number < 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [
            "",
            "N/A",
            "x",
            "AB12",
            "2024-02-30",
            "2024-02-29",
            "1900-01-01",
            "2024-01-01T00:00:00Z",
            "é",
            "a\nb",
        ]
    )
    | st.text(max_size=8)
)
VALUE = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc*/~"), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(["id", "age", "start", "end", "ward", "lat", "lon", "", "a b", "*"])


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.dictionaries(NAMES, VALUE, max_size=7), min_size=1, max_size=12),
    st.integers(1, 60),
    st.integers(0, 2**20),
    st.lists(st.floats(0, 1), max_size=3),
)
def test_what_it_was_inferred_from_is_accepted(
    records: list[dict[str, Any]], times: int, offset: int, cuts: list[float]
) -> None:
    """As a whole, or in parts whose inferences are merged."""
    values = pa.array([orjson.dumps(record) for record in records] * times, pa.binary())
    positions = np.arange(offset, offset + len(values))
    inference = Inference()
    ends = sorted({0, len(values), *(int(cut * len(values)) for cut in cuts)})
    for start, end in pairwise(ends):
        part = Inference()
        part.add(pa.record_batch([values[start:end]], VALUES), positions[start:end])
        inference.merge(part)
    held = {position for some, _, _ in inference._held for position in some.tolist()}
    found = inference.finish("test.records")
    is_trained = np.array([position not in held for position in positions]) | (len(held) == len(positions))
    again = evaluate(
        DataContract.model_validate(found.document),
        [values.filter(pa.array(is_trained))],
        positions[is_trained],
        found.proposals,
        int(np.count_nonzero(is_trained)),
    )
    assert again.unexpected.count == 0, again.reasons
    assert again.broken <= found.broken.count


RUN = st.tuples(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys("abcd", st.none() | st.sampled_from(["x", "y", "z" * 61]))
    ),
    st.integers(1, 9),
)


@settings(max_examples=examples(300), deadline=None)
@given(
    runs=st.lists(RUN, min_size=1, max_size=6),
    cuts=st.lists(st.floats(0, 1), max_size=4),
    is_merged=st.booleans(),
)
def test_presence_is_counted_in_batches_and_parts_as_in_one_batch(
    runs: list[tuple[dict[str, Any], int]], cuts: list[float], *, is_merged: bool
) -> None:
    """Of a run of equal records, each field is in all or in none, although it is optional in the whole."""
    records = [record for record, times in runs for _ in range(times)]
    positions = np.arange(len(records))
    whole, cut = Profile(), Profile()
    whole.add_rows(records, positions)
    ends = sorted({0, len(records), *(int(each * len(records)) for each in cuts)})
    for start, end in pairwise(ends):
        part = Profile() if is_merged else cut
        part.add_rows(records[start:end], positions[start:end])
        if is_merged:
            cut.merge(part)
    assert vars(cut.relations[()].presence) == vars(whole.relations[()].presence)
