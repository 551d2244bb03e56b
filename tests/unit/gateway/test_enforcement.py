"""Whether a job enforces a contract, as publishing and the pages of the contract say it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tidegate.contracts.stream.control import StreamEvent
from tidegate.gateway.factory import Factory
from tidegate.gateway.streams.controls import StreamControls
from tidegate.gateway.streams.reports import Enforcement, StreamReader

MakeContract = Callable[..., bytes]
STREAM = "hospital.admissions"
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_publishing_says_whether_a_job_enforces_the_contract(
    client: Any, make_contract: MakeContract
) -> None:
    path = f"/api/v1/streams/{STREAM}/heartbeat"
    first = client.post("/api/v1/contracts", make_contract())
    assert first.status_code == 201
    assert first.json()["enforcement"] == {"is_enforced": False, "seen_at": None}
    client.request("POST", path).raise_for_status()
    again = client.post("/api/v1/contracts", make_contract())
    assert again.status_code == 200
    told = again.json()["enforcement"]
    assert told["is_enforced"]
    assert datetime.now(UTC) - datetime.fromisoformat(told["seen_at"]) < timedelta(minutes=1)
    assert client.get(f"/api/v1/contracts/{STREAM}").json()["enforcement"] == told


def test_the_contract_page_says_it_too(client: Any, make_contract: MakeContract) -> None:
    page = f"/desk/contracts/{STREAM}"
    client.post("/api/v1/contracts", make_contract()).raise_for_status()
    assert "No job enforces it: no heartbeat yet." in client.get(page).text
    assert f"tidegate enforce {STREAM}</code>" in client.get(page).text
    client.request("POST", f"/api/v1/streams/{STREAM}/heartbeat").raise_for_status()
    assert "A job enforces it: last heartbeat" in client.get(page).text


def test_a_draft_is_not_to_be_enforced(client: Any, make_contract: MakeContract) -> None:
    client.post("/api/v1/contracts", make_contract(status="draft")).raise_for_status()
    assert "job enforces it" not in client.get(f"/desk/contracts/{STREAM}").text


@pytest.mark.parametrize(
    ("kind", "told_at", "now", "is_enforced"),
    [
        (None, 0, 45, True),
        (None, 0, 46, False),  # its job is gone, and could not say so
        ("started", -5, 10, True),
        ("ended", 1, 10, False),
        ("stopped", 1, 10, False),
        ("failed", 1, 10, False),
        ("overtaken", 1, 10, True),  # by the job whose heartbeats come now
        ("ended", -5, 10, True),  # another job has sent a heartbeat since
    ],
)
def test_a_contract_is_enforced_while_heartbeats_come(
    factory: Factory,
    make_contract: MakeContract,
    kind: str | None,
    told_at: float,
    now: float,
    is_enforced: bool,
) -> None:
    factory.registry().publish(make_contract(), "contract.json")
    StreamControls(factory.database, lambda: NOON).beat(STREAM)
    if kind is not None:
        at = NOON + timedelta(seconds=told_at)
        event = StreamEvent.model_validate({"id": uuid4(), "stream": STREAM, "kind": kind, "at": at})
        factory.stream_controls().record_event(STREAM, event)
    reader = StreamReader(factory.database, lambda: NOON + timedelta(seconds=now))
    assert reader.enforcement(STREAM) == Enforcement(is_enforced, NOON)


def test_a_contract_without_a_job_was_never_seen(factory: Factory) -> None:
    assert StreamReader(factory.database, lambda: NOON).enforcement(STREAM) == Enforcement(False, None)
