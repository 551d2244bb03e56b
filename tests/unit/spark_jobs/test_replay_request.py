"""What workers do with the records of a replay before and after they judge them."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pyarrow as pa

from tests.documents import plan_with
from tidegate.contracts.fix.apply import CompiledFix
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.request import JUDGED_AT, WorkerRequest

SET = {"fix": "a", "steps": [{"action": "set", "field": "/a", "value": "long enough"}]}
FIX = CompiledFix(parse_fix(json.dumps(SET), name="f.json"))


def rows(*values: bytes | None, moments: list[int] | None = None) -> pa.RecordBatch:
    offsets = pa.array(range(len(values)), pa.int64())
    judged_at = pa.array(moments or [0] * len(values), pa.int64())
    return pa.RecordBatch.from_arrays(
        [offsets, pa.array(values, pa.binary()), judged_at], ["offset", "value", JUDGED_AT]
    )


def test_records_are_fixed_and_judged_together_with_those_of_their_moment() -> None:
    asked = pickle.loads(pickle.dumps(WorkerRequest(is_replay=True, fix=FIX, most_bytes=100)))  # noqa: S301 - as Spark does
    parts = list(asked.parts(rows(b"{}", None, b"{}", b"no json", moments=[2, 1, 2, 1])))
    found = {now: [part.column(name).to_pylist() for name in ("offset", "value")] for part, now in parts}
    assert found == {2: [[0, 2], [b'{"a":"long enough"}'] * 2], 1: [[1, 3], [None, b"no json"]]}
    assert all(JUDGED_AT not in part.schema.names for part, _ in parts)


def test_a_record_that_a_fix_makes_too_long_for_a_topic_stays_as_it_is() -> None:
    asked = WorkerRequest(is_replay=True, fix=FIX, most_bytes=12)
    ((part, _),) = asked.parts(rows(b"{}", b'{"b":"' + b"x" * 40 + b'"}'))
    assert part.column("value").to_pylist()[0] == b"{}"
    ((part, _),) = asked.parts(rows(b'{"a":"' + b"x" * 40 + b'"}'))
    assert part.column("value").to_pylist() == [b'{"a":"long enough"}']  # shorter than before


def test_a_batch_of_the_stream_is_judged_as_it_is() -> None:
    batch = rows(b"{}")
    assert list(WorkerRequest().parts(batch)) == [(batch, None)]


def test_what_a_contract_drops_or_fails_stays_refused() -> None:
    dispositions = np.array([int(each) for each in Disposition], np.int8)
    refused = WorkerRequest(is_replay=True).refuse(dispositions, rows())
    written = [Disposition(number) for number in refused.tolist()]
    assert written[:3] == [Disposition.ACCEPTED, Disposition.WARNED, Disposition.ALERTED]
    assert {*written[3:]} == {Disposition.QUARANTINED}


def test_a_record_is_judged_by_the_moment_of_its_first_verdict() -> None:
    """A rule about the time of the batch must not refuse a record because its replay comes later."""
    rule = {"id": "fresh", "kind": "freshness", "field": "/at", "max_age": "1 hour", "now": "batch"}
    schema = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    plan = plan_with(schema, rules=[rule])
    value = b'{"at":"2025-01-01T00:00:00Z"}'
    then = 1_735_689_600 * 10**9
    asked = WorkerRequest(is_replay=True)
    for moment, expected in ((then + 60 * 10**9, 0), (then + 7_200 * 10**9, int(Disposition.QUARANTINED))):
        ((part, now),) = asked.parts(rows(value, moments=[moment]))
        judged = plan.judge(part.column("value"), Moments(now))
        assert judged.field(0).to_pylist() == [expected]
