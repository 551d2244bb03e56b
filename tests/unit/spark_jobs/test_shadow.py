"""A shadow's verdicts beside the enforced ones: what is counted, and that nothing of it ever raises."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.integration.enforce.line import KNOWN, SCHEMA
from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.stream.shadow import ShadowReason, ShadowResult, VerdictChange
from tidegate.contracts.verdict import Stage
from tidegate.spark_jobs.job.shadow_source import RegistryShadows
from tidegate.spark_jobs.sinks.merging import merge_limits
from tidegate.spark_jobs.worker.comparing import ShadowComparison
from tidegate.spark_jobs.worker.shadow import Shadow, merged

FAILING = {**KNOWN, "id": "never-7", "values": [7], "on_violation": "fail"}


def plan_of(version: str = "1.0.0", **changes: object) -> EnforcementPlan:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "a.b",
        "version": version,
        "topic": "a.b",
        "schema": {"type": "json-schema", "definition": SCHEMA},
        "rules": [KNOWN],
        **changes,
    }
    return compile_plan(parse_contract(json.dumps(document), name="c.json", read_schema=None).contract)


def batch_of(*values: Any) -> pa.RecordBatch:
    count = len(values)
    return pa.record_batch(
        {
            "partition": pa.array([1] * count, pa.int32()),
            "offset": pa.array(range(100, 100 + count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array([json.dumps(value).encode() for value in values], pa.binary()),
            "headers": pa.array([None] * count, pa.string()),
        }
    )


def compared(active: EnforcementPlan, shadow: Shadow, batch: pa.RecordBatch) -> ShadowResult:
    found = []
    if (comparison := ShadowComparison.of(active, shadow, typed=True)) is not None:
        judged = active.judge_typed(batch.column("value"), Moments(records=batch.column("timestamp")))
        comparison.add(batch, judged)
        found.append(comparison.result().model_dump_json().encode())
    result = merged(shadow, found)
    assert result is not None
    return result


def good(amount: int = 1, **more: object) -> dict[str, object]:
    return {"id": "r", "amount": amount, **more}


def test_what_would_be_refused_and_accepted_is_counted_by_the_rule_that_refuses() -> None:
    shadow = plan_of("2.0.0", rules=[FAILING, {**KNOWN, "id": "not-8", "values": [8]}])
    values = [good(1), good(999), good(7), good(8), good(8), {"id": "r"}]
    found = compared(plan_of(), Shadow.of(shadow), batch_of(*values))
    assert (found.compared, found.would_refuse, found.would_accept, found.would_stop) == (6, 3, 1, 1)
    assert {(each.code, each.records) for each in found.refused_by} == {("never-7", 1), ("not-8", 2)}
    assert {(each.code, each.records) for each in found.accepted_by} == {("amount-is-known", 1)}
    places = [(each.partition, each.offset, each.change) for each in found.samples]
    assert places == [
        (1, 101, VerdictChange.ACCEPT),
        (1, 102, VerdictChange.REFUSE),
        (1, 103, VerdictChange.REFUSE),
        (1, 104, VerdictChange.REFUSE),
    ]
    assert found.samples[1].reasons == (ShadowReason(stage=Stage.RULE, code="never-7", pointer="/amount"),)
    assert "999" not in found.model_dump_json()


def test_it_is_held_to_what_its_table_asks_of_rows() -> None:
    shadow = Shadow.of(plan_of("2.0.0", primary_key=["id", "day"])).for_table(merge_limits)
    active = plan_of("1.0.0", primary_key=["id"])
    found = compared(active.for_table(merge_limits(active)), shadow, batch_of(good(day="2024-01-01"), good()))
    assert (found.compared, found.would_refuse) == (2, 1)
    (sample,) = found.samples
    assert (sample.offset, [(each.stage, each.code) for each in sample.reasons]) == (
        101,
        [(Stage.COLUMN, "day")],
    )


def test_a_table_that_cannot_be_compared_is_reported_and_raises_nothing() -> None:
    def broken(plan: EnforcementPlan) -> TableLimits:
        raise KeyError(plan.contract.id)

    shadow = Shadow.of(plan_of("2.0.0")).for_table(broken)
    assert shadow.pickled is None
    assert "KeyError" in str(compared(plan_of(), shadow, batch_of(good())).failure)


def test_places_say_the_keyword_and_no_undeclared_name_and_are_few() -> None:
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "amount": {"type": "integer", "maximum": 5}}}
    shadow = plan_of("2.0.0", schema={"type": "json-schema", "definition": schema})
    found = compared(plan_of(), Shadow.of(shadow), batch_of(*(good(6) for _ in range(50))))
    assert [(each.code, each.records) for each in found.refused_by] == [("schema", 50)]
    assert len(found.samples) == 3
    assert [each.code for each in found.samples[0].reasons] == ["maximum"]


def test_the_same_version_changes_nothing() -> None:
    found = compared(plan_of(), Shadow.of(plan_of("2.0.0")), batch_of(good(), good(999), 3, None))
    assert (found.compared, found.would_refuse, found.would_accept, found.failure) == (4, 0, 0, None)


def test_a_shadow_that_cannot_be_made_in_a_worker_is_reported_and_raises_nothing() -> None:
    found = compared(plan_of(), Shadow("2.0.0", b"no pickle"), batch_of(good(), good(999)))
    assert (found.compared, found.would_refuse, found.would_accept) == (0, 0, 0)
    assert found.failure == "the shadow version could not judge some records: UnpicklingError"


def test_a_shadow_without_a_plan_says_why_and_compares_nothing() -> None:
    shadow = Shadow("2.0.0", failure="the registry does not answer")
    assert ShadowComparison.of(plan_of(), shadow, typed=True) is None
    assert ShadowComparison.of(plan_of(), None, typed=True) is None
    assert merged(shadow, ()) == ShadowResult(version="2.0.0", failure="the registry does not answer")
    assert merged(None, ()) is None


class Versions(httpx.MockTransport):
    """A registry that answers with what a test puts into it; counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.documents: dict[str, object] = {}
        self.status: int | None = None
        self.asked = 0

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.status == 0:
            raise httpx.ConnectError("cut")
        if self.status is not None:
            return httpx.Response(self.status)
        return httpx.Response(200, json=self.documents[request.url.path.rpartition("/")[2]])


@pytest.fixture
def registry() -> Versions:
    return Versions()


@pytest.fixture
def shadows(registry: Versions) -> RegistryShadows:
    return RegistryShadows(httpx.Client(transport=registry, base_url="http://registry"), "a.b")


def document(version: str, **changes: object) -> dict[str, object]:
    return json.loads(
        plan_of(version, **changes).contract.model_dump_json(by_alias=True, exclude_defaults=True)
    )


def test_a_shadow_is_fetched_once_and_gets_the_moment_of_its_batch(
    registry: Versions, shadows: RegistryShadows
) -> None:
    registry.documents = {"2.0.0": document("2.0.0"), "3.0.0": document("3.0.0")}
    assert shadows.of(None, plan_of(), 1) is None
    assert shadows.of("1.0.0", plan_of(), 1) is None  # it is enforced by now
    first, second = (shadows.of("2.0.0", plan_of(), now) for now in (1, 2))
    assert first is not None
    assert second is not None
    assert (first.version, first.plan()._judge.now, second.plan()._judge.now, registry.asked) == (
        "2.0.0",
        1,
        2,
        1,
    )
    third = shadows.of("3.0.0", plan_of(), 3)
    assert third is not None
    assert (third.version, registry.asked) == ("3.0.0", 2)


@pytest.mark.parametrize("status", [0, 503, 429])
def test_while_the_registry_does_not_answer_it_is_asked_again(
    registry: Versions, shadows: RegistryShadows, status: int
) -> None:
    registry.status = status
    unknown = shadows.of("2.0.0", plan_of(), 1)
    assert unknown == Shadow("2.0.0", failure="the registry does not answer, so that it is not known yet")
    registry.status, registry.documents = None, {"2.0.0": document("2.0.0")}
    known = shadows.of("2.0.0", plan_of(), 1)
    assert known is not None
    assert known.failure is None


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (404, "the registry answers 404 to the request for version 2.0.0"),
        ({"apiVersion": "of a later release"}, "registry:a.b@2.0.0"),
    ],
)
def test_one_that_is_gone_or_does_not_compile_is_reported_and_not_asked_for_again(
    registry: Versions, shadows: RegistryShadows, broken: Any, told: str
) -> None:
    registry.status = broken if isinstance(broken, int) else None
    registry.documents = {"2.0.0": broken}
    for _ in range(3):
        shadow = shadows.of("2.0.0", plan_of(), 1)
        assert shadow is not None
        assert shadow.failure is not None
        assert told in shadow.failure
    assert registry.asked == 1


def test_after_a_batch_that_failed_the_next_goes_without_and_after_three_all_do(
    registry: Versions, shadows: RegistryShadows
) -> None:
    registry.documents = {"2.0.0": document("2.0.0"), "3.0.0": document("3.0.0")}

    def is_judged(version: str = "2.0.0") -> bool:
        shadow = shadows.of(version, plan_of(), 1)
        assert shadow is not None
        return shadow.pickled is not None

    shadows.batch_failed()  # before any was declared
    seen = []
    for _ in range(3):
        seen.append(is_judged())
        shadows.batch_failed()
        seen.append(is_judged())
    assert seen == [True, False] * 3
    assert not is_judged()
    assert is_judged("3.0.0")
