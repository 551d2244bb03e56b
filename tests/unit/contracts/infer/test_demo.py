"""The contracts that are inferred from the raw streams of the demo refuse what was planted, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tests.marks import full
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.infer.infer import VALUES, Inference, Inferred
from tidegate.contracts.judge.plan import compile_plan
from tidegate.gateway.embedded.demo.admissions import admissions_stream
from tidegate.gateway.embedded.demo.flights import flights_stream
from tidegate.gateway.embedded.demo.stream import DemoStream

BATCH = 4_096


@pytest.mark.parametrize("make", [admissions_stream, flights_stream])
@pytest.mark.parametrize("limit", [20_000, *full(None)])
def test_every_planted_kind_is_refused(make: Callable[[int | None], DemoStream], limit: int | None) -> None:
    stream = make(limit)
    values = stream.records["value"].combine_chunks()
    found = _inferred(stream.name, values)
    plan = compile_plan(DataContract.model_validate(found.document))
    dispositions = plan.judge(values.cast(pa.large_binary())).field("disposition").to_numpy()
    refused = Counter(
        stream.marks[index].kind for index in np.flatnonzero(dispositions > 2) if index in stream.marks
    )
    wrongly = [
        index
        for index in np.flatnonzero(dispositions > 2)
        if index not in stream.marks and not _lacks_consultant(values[index])
    ]
    planted = Counter(mark.kind for mark in stream.marks.values())
    # A kind of one or two records in a part of the stream is no pattern yet.
    assert {kind: refused[kind] for kind in planted if planted[kind] > 2 or limit is None} == {
        kind: count for kind, count in planted.items() if count > 2 or limit is None
    }
    assert len(wrongly) / len(values) < 0.001
    assert found.evaluation.false_refusals < 0.001


def _inferred(name: str, values: pa.Array) -> Inferred:
    inference = Inference()
    for start in range(0, len(values), BATCH):
        some = values.slice(start, BATCH)
        inference.add(pa.record_batch([some], VALUES), np.arange(start + 1, start + 1 + len(some)))
    return inference.finish(name)


def _lacks_consultant(value: pa.Scalar) -> bool:
    """Return whether a record violates what the contract of the demo only warns of."""
    text: bytes = value.as_py()
    return b'"ward":"icu"' in text and b'"consultant"' not in text
