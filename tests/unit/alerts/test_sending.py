"""The threads that send alerts."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tidegate.gateway.alerts.alert import Alert, AlertKind
from tidegate.gateway.alerts.channels import TargetError
from tidegate.gateway.alerts.sending import AlertSender

_SECONDS = 30
_ALERT = Alert(AlertKind.FAILED, "hospital.admissions", datetime(2026, 7, 1, tzinfo=UTC), "it failed", "")


def test_all_targets_are_told_of_the_end_before_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.gateway.alerts.sending._RETRY_SECONDS", (_SECONDS, _SECONDS))
    tried, retried = threading.Event(), threading.Event()
    found: list[bool] = []

    class Waiting:
        name = "waits for the other"

        def send(self, _: Alert) -> None:
            found.append(retried.wait(3))  # less than the sender waits at its end

    class Refusing:
        name = "gets the second alert at the end, because it refuses the first"

        def send(self, _: Alert) -> None:
            if tried.is_set():
                retried.set()
            tried.set()
            raise TargetError("503")

    sender = AlertSender([Waiting(), Refusing()], interval_seconds=0)
    for kind in (AlertKind.FAILED, AlertKind.PAUSED):
        sender.send(replace(_ALERT, kind=kind))
    assert tried.wait(_SECONDS)
    sender.close()
    assert found[0]


def test_alerts_that_are_held_back_are_sent_at_the_end() -> None:
    """The next run of the registry does not know them."""
    sent = threading.Event()
    found: list[tuple[str, int]] = []

    class Target:
        name = "takes all"

        def send(self, alert: Alert) -> None:
            found.append((alert.sentence, alert.held_back))
            sent.set()

    sender = AlertSender([Target()], interval_seconds=3_600)
    sender.send(replace(_ALERT, sentence="first"))
    assert sent.wait(_SECONDS)
    for sentence in ("second", "third"):
        sender.send(replace(_ALERT, sentence=sentence))
    sender.close()
    assert found == [("first", 0), ("third", 1)]
