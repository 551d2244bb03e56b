"""The alert channels: one module each, and its line here."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.gateway.alerts.mail import email
from tidegate.gateway.alerts.settings import AlertSettings
from tidegate.gateway.alerts.slack import slack
from tidegate.gateway.alerts.target import Target
from tidegate.gateway.alerts.webhook import webhook

CHANNELS: tuple[Callable[[AlertSettings], Target | None], ...] = (webhook, slack, email)
"""Each returns the target that the settings name, None when they name none of its kind."""


def targets_of(settings: AlertSettings) -> tuple[Target, ...]:
    """Return the targets that the settings name."""
    found = (channel(settings) for channel in CHANNELS)
    return tuple(target for target in found if target is not None)
