"""What an alert channel is: it takes one alert at a time."""

from __future__ import annotations

from typing import Final, Protocol

from tidegate.contracts.errors import Unavailable
from tidegate.gateway.alerts.alert import Alert

TIMEOUT_SECONDS: Final = 10.0


class TargetError(Unavailable):
    """A target that did not take an alert."""


class Target(Protocol):
    """Takes one alert at a time."""

    name: str

    def send(self, alert: Alert) -> None:
        """Hand an alert over. Raises TargetError."""
        ...
