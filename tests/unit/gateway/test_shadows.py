"""Shadow versions in the gateway: declared, reported about, shown, and ended by a promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as prometheus_text

from tidegate.contracts.document.model import Status
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory
from tidegate.gateway.storage.audit_chain import AuditEntry

MakeContract = Callable[..., bytes]
MakeReport = Callable[..., BatchReport]
STREAM = "hospital.admissions"
PATH = f"/api/v1/streams/{STREAM}/shadow"
DRAFT = "9.0.0"
RULE = {"stage": "rule", "code": "age-is-known", "severity": "error", "records": 3}
RESULT: dict[str, Any] = {
    "version": DRAFT,
    "compared": 100,
    "would_refuse": 3,
    "refused_by": [RULE],
    "samples": [
        {
            "partition": 0,
            "offset": 7,
            "change": "refuse",
            "reasons": [{"stage": "rule", "code": "age-is-known", "pointer": "/age"}],
        }
    ],
}


@pytest.fixture(autouse=True)
def contract(factory: Factory, make_contract: MakeContract) -> str:
    """Publish an enforced version and a draft; give the enforced one."""
    enforced = factory.registry().publish(make_contract(), "contract.json").version.version
    factory.registry().publish(make_contract(version=DRAFT, status="draft"), "contract.json")
    return enforced


def actions(factory: Factory) -> list[str]:
    entries: list[AuditEntry] = factory.audit().read(list)
    assert factory.audit().check().is_intact
    return [entry.action for entry in entries if entry.action.startswith("stream.")]


def test_a_draft_is_declared_and_ended_and_both_stand_in_the_log(client: Any, factory: Factory) -> None:
    before = client.get(f"/api/v1/streams/{STREAM}/control")
    assert before.json()["shadow"] is None
    declared = client.post(PATH, f'{{"version": "{DRAFT}"}}')
    assert (declared.status_code, declared.json()["shadow"]) == (200, DRAFT)
    after = client.get(f"/api/v1/streams/{STREAM}/control", headers={"If-None-Match": before.headers["ETag"]})
    assert (after.status_code, after.json()["shadow"]) == (200, DRAFT)  # the job sees it at its next batch
    again = client.post(PATH, f'{{"version": "{DRAFT}"}}')
    assert again.json() == declared.json()
    assert client.post(PATH, b'{"version": null}').json()["shadow"] is None
    assert actions(factory) == ["stream.shadow-declared", "stream.shadow-ended"]


def test_a_shadow_leaves_a_pause_and_its_reason_alone(factory: Factory) -> None:
    factory.stream_controls().pause(STREAM, "the clock is wrong")
    control = factory.shadows().declare(STREAM, DRAFT)
    assert (control.is_paused, control.reason, control.by) == (True, "the clock is wrong", "anonymous")
    assert factory.stream_controls().resume(STREAM, accept_batch=False).shadow == DRAFT


def test_what_cannot_be_a_shadow_is_refused(factory: Factory, contract: str) -> None:
    shadows = factory.shadows()
    with pytest.raises(ConflictError, match="is the version that is enforced"):
        shadows.declare(STREAM, contract)
    with pytest.raises(NotFoundError, match=r"has no version 7\.7\.7"):
        shadows.declare(STREAM, "7.7.7")
    with pytest.raises(NotFoundError, match="no contract is published under the id x"):
        shadows.declare("x", DRAFT)
    factory.lifecycle().change_status(STREAM, DRAFT, Status.RETIRED)
    with pytest.raises(ConflictError, match="is retired"):
        shadows.declare(STREAM, DRAFT)


def test_findings_are_added_up_once_a_batch_and_shown(
    client: Any, factory: Factory, make_report: MakeReport
) -> None:
    assert client.get(PATH).status_code == 404
    factory.shadows().declare(STREAM, DRAFT)
    for n in (1, 2, 2):
        factory.reports().record(STREAM, make_report(n, shadow=RESULT))
    factory.reports().record(STREAM, make_report(3, shadow={**RESULT, "version": "8.0.0"}))
    found = client.get(PATH).json()
    assert found["batches"] == 2
    assert found["against"] == make_report().contract
    assert found["result"] == {
        **RESULT,
        "compared": 200,
        "would_refuse": 6,
        "would_accept": 0,
        "would_stop": 0,
        "refused_by": [{**RULE, "records": 6}],
        "accepted_by": [],
        "samples": RESULT["samples"] * 2,
        "failure": None,
    }
    page = client.get(f"/desk/streams/{STREAM}").text
    assert "judged beside the enforced version" in page
    assert "age-is-known /age" in page
    client.post(PATH, b'{"version": null}')
    assert client.get(PATH).json() == found  # what it found is kept
    assert "ended; this is what it found" in client.get(f"/desk/streams/{STREAM}").text


def test_another_shadow_begins_again(
    client: Any, factory: Factory, make_contract: MakeContract, make_report: MakeReport
) -> None:
    factory.registry().publish(make_contract(version="9.1.0", status="draft"), "contract.json")
    factory.shadows().declare(STREAM, DRAFT)
    factory.reports().record(STREAM, make_report(1, shadow=RESULT))
    factory.shadows().declare(STREAM, "9.1.0")
    assert client.get(PATH).status_code == 404
    assert "No batch was judged by it yet" in client.get(f"/desk/streams/{STREAM}").text


def test_a_promotion_shows_what_would_change_and_ends_the_shadow(
    client: Any, factory: Factory, make_report: MakeReport, contract: str
) -> None:
    path = f"/api/v1/contracts/{STREAM}/versions/{DRAFT}"
    untried = client.get(f"{path}/promotion").json()
    assert (untried["status"], untried["enforced"], untried["shadow"]) == ("draft", contract, None)
    assert untried["change"]["version"] == DRAFT
    factory.shadows().declare(STREAM, DRAFT)
    factory.reports().record(STREAM, make_report(1, shadow=RESULT))
    tried = client.get(f"{path}/promotion").json()
    assert tried["shadow"]["result"]["would_refuse"] == 3
    assert client.post(f"{path}/status", b'{"status": "active"}').status_code == 200
    control = factory.stream_controls().control(STREAM)
    assert control.shadow is None


def test_the_shadow_of_now_is_in_the_metrics(client: Any, factory: Factory, make_report: MakeReport) -> None:
    factory.shadows().declare(STREAM, DRAFT)
    factory.reports().record(STREAM, make_report(1, shadow={**RESULT, "failure": "some"}))

    def samples() -> dict[tuple[str, ...], float]:
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in prometheus_text(client.get("/metrics").text)
            for sample in family.samples
            if sample.name.startswith("tidegate_shadow")
        }

    assert samples() == {
        ("tidegate_shadow_records_total", "compared", STREAM, DRAFT): 100,
        ("tidegate_shadow_records_total", "would_refuse", STREAM, DRAFT): 3,
        ("tidegate_shadow_records_total", "would_accept", STREAM, DRAFT): 0,
        ("tidegate_shadow_records_total", "would_stop", STREAM, DRAFT): 0,
        ("tidegate_shadow_violations_total", "refuse", "age-is-known", "error", "rule", STREAM, DRAFT): 3,
        ("tidegate_shadow_failed", STREAM, DRAFT): 1,
    }
    factory.shadows().declare(STREAM, None)
    assert samples() == {}
