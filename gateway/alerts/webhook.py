"""Alerts to a webhook, as JSON."""

from __future__ import annotations

from typing import Any

import httpx

from tidegate.gateway.alerts.alert import Alert
from tidegate.gateway.alerts.settings import AlertSettings
from tidegate.gateway.alerts.target import TIMEOUT_SECONDS, Target, TargetError


class Webhook:
    """Posts each alert as a JSON object."""

    name = "webhook"

    def __init__(self, url: str) -> None:
        self._url = url

    def send(self, alert: Alert) -> None:
        """Post the alert; any answer below 300 takes it."""
        _post(self._url, self.body(alert))

    def body(self, alert: Alert) -> dict[str, Any]:
        """Return what is posted."""
        return alert.document


def webhook(settings: AlertSettings) -> Target | None:
    """Return the webhook that the settings name."""
    url = settings.alert_webhook_url
    return None if url is None else Webhook(url.get_secret_value())


def _post(url: str, body: dict[str, Any]) -> None:
    try:
        answer = httpx.post(url, json=body, timeout=TIMEOUT_SECONDS)
    except httpx.HTTPError as error:
        # The address may hold a secret, and some of the client's messages quote it.
        raise TargetError(f"it cannot be reached: {type(error).__name__}") from error
    if not answer.is_success:
        raise TargetError(f"it answered {answer.status_code}")
