"""Whether a stream runs, on the API and on its page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tidegate.contracts.stream.control import (
    Condition,
    EventKind,
    StreamCondition,
    StreamControl,
    StreamEvent,
    condition_of,
)
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
STREAM = "hospital.admissions"


def event_of(kind: str, at: datetime = NOON, message: str | None = None) -> StreamEvent:
    return StreamEvent.model_validate(
        {"id": uuid4(), "stream": STREAM, "kind": kind, "at": at, "message": message}
    )


@pytest.mark.parametrize(
    ("kind", "committed", "condition"),
    [
        (None, None, Condition.RUNNING),
        ("started", None, Condition.RUNNING),
        ("ended", NOON, Condition.ENDED),
        ("stopped", NOON - HOUR, Condition.STOPPED),
        ("failed", None, Condition.STOPPED),
        ("failed", NOON, Condition.STOPPED),
        ("stopped", NOON + HOUR, Condition.RUNNING),
    ],
)
def test_the_last_that_was_told_counts(
    kind: str | None, committed: datetime | None, condition: Condition
) -> None:
    event = None if kind is None else event_of(kind)
    running = StreamControl(stream=STREAM)
    assert condition_of(running, event, committed).condition is condition
    paused = running.paused("why", "me", NOON)
    assert condition_of(paused, event, committed) == StreamCondition(Condition.PAUSED, "why", "me", NOON)


@pytest.fixture
def stream(
    factory: Factory, make_contract: Callable[..., bytes], make_report: Callable[..., BatchReport]
) -> str:
    factory.registry().publish(make_contract(), "contract.json")
    factory.reports().record(STREAM, make_report(1, committed_at=NOON))
    return f"/api/v1/streams/{STREAM}"


def test_the_list_and_the_page_show_a_pause_with_its_reason(
    client: Any, factory: Factory, stream: str
) -> None:
    factory.stream_controls().pause(STREAM, "the clock is <wrong>")
    told = client.get(stream).json()["condition"]
    assert (told["condition"], told["reason"], told["by"]) == ("paused", "the clock is <wrong>", "anonymous")
    assert client.get("/api/v1/streams").json()["streams"][0]["condition"] == told
    page = client.get(f"/desk/streams/{STREAM}").text
    assert "Paused: the clock is &lt;wrong&gt; (anonymous)" in page
    assert f"tidegate resume {STREAM}" in page
    assert "1 of 1 needs a look" in client.get("/desk").text
    factory.stream_controls().resume(STREAM, accept_batch=False)
    assert client.get(stream).json()["condition"]["condition"] == "running"
    assert "Paused" not in client.get(f"/desk/streams/{STREAM}").text


def test_the_list_and_the_page_show_what_stopped_a_stream(client: Any, factory: Factory, stream: str) -> None:
    factory.stream_controls().record_event(
        STREAM, event_of(EventKind.STOPPED, NOON + HOUR, "the topic is gone")
    )
    assert client.get(stream).json()["condition"] == {
        "condition": "stopped",
        "reason": "the topic is gone",
        "by": None,
        "at": "2026-07-01T13:00:00Z",
    }
    assert "Stopped: the topic is gone" in client.get(f"/desk/streams/{STREAM}").text


def test_an_instance_that_was_overtaken_leaves_the_stream_as_it_is(
    client: Any, factory: Factory, stream: str
) -> None:
    """It reports its end after the new instance has reported its start."""
    controls = factory.stream_controls()
    assert controls.record_event(STREAM, event_of(EventKind.STARTED, NOON + HOUR))
    assert controls.record_event(
        STREAM, event_of(EventKind.OVERTAKEN, NOON + HOUR, "another instance has taken over")
    )
    assert client.get(stream).json()["condition"]["condition"] == "running"
    assert controls.record_event(STREAM, event_of(EventKind.ENDED, NOON + HOUR))
    assert client.get(stream).json()["condition"]["condition"] == "ended"
