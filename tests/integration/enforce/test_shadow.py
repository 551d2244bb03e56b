"""A shadow version is judged beside the enforced one, in the same pass, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from pyspark.sql import SparkSession

from tests.integration.enforce.job import DEADLINE_SECONDS, Publish
from tests.integration.enforce.line import KNOWN, Line, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually, running
from tests.marks import full
from tidegate.contracts.stream.shadow import VerdictChange

STRICTER = {**KNOWN, "id": "amount-is-small", "kind": "range", "maximum": 5}
STRICTER.pop("values")


@pytest.mark.parametrize("sink", ["iceberg", *full("kafka")])
def test_a_shadow_begins_at_a_batch_boundary_counts_and_becomes_the_contract_by_promotion(
    make_line: Callable[..., Line], spark: SparkSession, registry: Registry, publish: Publish, sink: str
) -> None:
    line = make_line(sink=sink)
    publish(line.document())
    publish(line.document(version="2.0.0", status="draft", rules=[STRICTER]))
    stream = f"{registry.url}/api/v1/streams/{line.contract_id}"
    line.produce(row(0), row(1, 999))
    with running(spark, line, registry.url):
        eventually(lambda: len(line.reports) == 1)
        httpx.post(f"{stream}/shadow", json={"version": "2.0.0"}).raise_for_status()
        line.produce(*(row(number, 10) for number in range(2, 6)), row(6, 1), row(7, 999))
        eventually(lambda: sum(report.records for report in line.reports) == 8)
        first, *beside = line.reports
        assert first.shadow is None
        found = [report.shadow for report in beside]
        assert sum(each.compared for each in found if each) == 6
        assert sum(each.would_refuse for each in found if each) == 4
        assert {rule.code for each in found if each for rule in each.refused_by} == {"amount-is-small"}
        places = [each for result in found if result for each in result.samples]
        assert {each.change for each in places} == {VerdictChange.REFUSE}
        assert {reason.pointer for each in places for reason in each.reasons} == {"/amount"}
        assert sum(report.written for report in line.reports) == 6  # nothing was refused by it
        path = f"{registry.url}/api/v1/contracts/{line.contract_id}/versions/2.0.0/status"
        httpx.post(path, json={"status": "active"}).raise_for_status()
        line.produce(row(8, 10))
        eventually(lambda: sum(report.records for report in line.reports) == 9)
    last = line.reports[-1]
    assert (last.contract, last.quarantined, last.shadow) == (f"{line.contract_id}@2.0.0", 1, None)
    assert line.reconcile().holds


@pytest.mark.full
@pytest.mark.parametrize("sink", ["kafka", *full("iceberg")])
def test_a_shadow_that_would_fail_or_cannot_be_judged_by_leaves_every_verdict_alone(
    make_line: Callable[..., Line],
    spark: SparkSession,
    registry: Registry,
    publish: Publish,
    sink: str,
) -> None:
    line = make_line(sink=sink)
    publish(line.document())
    strict = {**STRICTER, "on_violation": "fail"}
    budget = {"ratio": 0.0, "action": "fail"}
    publish(line.document(version="2.0.0", status="draft", rules=[strict], error_budget=budget))
    # Compiles in the registry, which writes no tokens; the job has no key to make them with.
    publish(line.document(version="3.0.0", status="draft", mask={"/id": "hash"}))
    stream = f"{registry.url}/api/v1/streams/{line.contract_id}"
    for number, (version, told) in enumerate((("2.0.0", None), ("3.0.0", "mask"))):
        httpx.post(f"{stream}/shadow", json={"version": version}).raise_for_status()
        line.produce(row(2 * number, 10), row(2 * number + 1, 999))
        with running(spark, line, registry.url, available_now=True) as thread:
            thread.join(DEADLINE_SECONDS)
        assert thread.failure is None
        shadow = line.reports[-1].shadow
        assert shadow is not None
        assert shadow.version == version
        if told is None:
            assert (shadow.would_refuse, shadow.would_stop) == (1, 2)
        else:
            assert shadow.failure is not None
            assert told in shadow.failure.lower()
            assert shadow.compared == 0
    assert sum(report.written for report in line.reports) == 2
    assert sum(report.quarantined for report in line.reports) == 2
    assert line.reconcile().holds
