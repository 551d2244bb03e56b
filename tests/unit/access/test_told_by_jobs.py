"""What a job tells counts for its own stream alone, and a hostile job makes no page or series grow without end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.contracts.stream.bounds import MOST_RULES, MOST_STEPS
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.access.principal import ANONYMOUS
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import REPORT
from tidegate.gateway.storage.reports import OTHER

from .conftest import Hire, Person
from .test_native_api import HIDDEN, registry

__all__ = ["registry"]

OURS = "hospital.admissions"
TRIP: dict[str, Any] = {
    "id": "0b7a3c52-6c1e-4d64-9f0c-2f6f3c1d7a10",
    "stream": OURS,
    "topic": OURS,
    "contract": f"{OURS}@1.2.0",
    "epoch": 3,
    "at": "2026-07-01T12:00:02Z",
    "start": {"0": 600},
    "end": {"0": 1600},
    "records": 2000,
    "refused": 612,
    "allowed": 0.2,
    "action": "pause",
}


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    "change",
    [
        {"quarantine_topic": f"{HIDDEN}.quarantine"},
        {"quarantine_topic": "__consumer_offsets"},
        {"quarantine_topic": OURS},
        {"topic": HIDDEN},
        {"topic": "hospital.other", "quarantine_topic": "hospital.other.quarantine"},
        {"contract": f"{HIDDEN}@1.2.0"},
        {"contract": "1.2.0"},
    ],
)
def test_a_report_that_names_what_is_not_its_streams_is_refused(hire: Hire, change: dict[str, Any]) -> None:
    for grant in ("producer:hospital.", "admin"):
        answer = hire(grant).ask("POST", f"/api/v1/streams/{OURS}/batches", REPORT | {"n": 9_000} | change)
        assert answer.status_code == 409, answer.text
        assert "names the" in answer.json()["detail"]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("change", [{"topic": HIDDEN}, {"contract": f"{HIDDEN}@1.2.0"}])
def test_a_trip_that_names_what_is_not_its_streams_is_refused(
    hire: Hire, factory: Factory, change: dict[str, Any]
) -> None:
    answer = hire("producer:hospital.").ask("POST", f"/api/v1/streams/{OURS}/trips", TRIP | change)
    assert answer.status_code == 409
    assert not factory.stream_controls().control(OURS).is_paused


@pytest.mark.usefixtures("registry")
def test_a_stream_is_a_contract_whatever_one_may(hire: Hire) -> None:
    report = REPORT | {
        "stream": "new",
        "topic": "new",
        "quarantine_topic": "new.quarantine",
        "contract": "new@1.0.0",
    }
    for grant in ("admin", "producer:new"):
        assert hire(grant).ask("POST", "/api/v1/streams/new/batches", report).status_code == 404
    assert hire("producer:nyc.").ask("POST", f"/api/v1/streams/{OURS}/batches", REPORT).status_code == 404
    assert hire("viewer:hospital.").ask("POST", f"/api/v1/streams/{OURS}/batches", REPORT).status_code == 403


def test_streams_are_seen_by_their_contract_and_not_by_what_was_reported(
    hire: Hire, registry: Person, factory: Factory
) -> None:
    """As a database of an earlier version has it, which took a report's word."""
    forged = {"epoch": 2, "topic": HIDDEN, "quarantine_topic": f"{HIDDEN}.quarantine", "stream": OURS}
    factory.database.write(
        lambda stores: stores.reports.add_report(BatchReport.model_validate(REPORT | forged))
    )
    theirs = hire("viewer:nyc.")
    assert [each["stream"] for each in theirs.json("/api/v1/streams")["streams"]] == [HIDDEN]
    assert theirs.ask("GET", f"/api/v1/streams/{OURS}").status_code == 404
    assert OURS not in theirs.ask("GET", "/metrics").text
    shown = registry.json(f"/api/v1/streams/{OURS}")
    assert (shown["topic"], shown["quarantine_topic"]) == (OURS, f"{OURS}.quarantine")
    assert f'topic="{HIDDEN}"' not in hire("viewer:hospital.").ask("GET", "/metrics").text


def test_a_million_names_of_rules_and_steps_do_not_grow_what_is_kept(
    registry: Person, factory: Factory
) -> None:
    names = MOST_RULES
    for batch in range(3):
        counts = [
            {"stage": "rule", "code": f"rule-{batch}-{n}", "severity": "error", "records": 1}
            for n in range(names)
        ]
        steps = {f"step-{batch}-{n}": 1 for n in range(MOST_STEPS)}
        report = REPORT | {"n": 500 + batch, "rules": counts, "timings_ms": steps}
        answer = registry.ask("POST", f"/api/v1/streams/{OURS}/batches", report)
        assert answer.status_code == 201, answer.text
    rules = factory.database.read(lambda stores: stores.sums.rules([OURS])[OURS])
    steps_kept = factory.database.read(lambda stores: stores.sums.milliseconds([OURS])[OURS])
    assert len(rules) <= MOST_RULES + 1
    assert sum(rule.records for rule in rules if rule.code != "age-is-known") == 3 * names
    assert next(rule.records for rule in rules if rule.code == OTHER) > 2 * names
    assert (len(steps_kept), steps_kept[OTHER] > MOST_STEPS) == (MOST_STEPS + 1, True)
    (slice_,) = factory.streams(ANONYMOUS).refusals(
        OURS, datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), 1
    )
    assert len(slice_.counts) <= MOST_RULES + 1
    series = [line for line in registry.ask("GET", "/metrics").text.splitlines() if OURS in line]
    assert len(series) < 400
