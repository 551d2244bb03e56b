"""Alerts to Slack, or to anything that takes what its incoming webhooks take."""

from __future__ import annotations

from typing import Any

from tidegate.gateway.alerts.alert import Alert
from tidegate.gateway.alerts.settings import AlertSettings
from tidegate.gateway.alerts.target import Target
from tidegate.gateway.alerts.webhook import Webhook


class Slack(Webhook):
    """Posts each alert as Slack's incoming webhooks take it."""

    name = "slack"

    def body(self, alert: Alert) -> dict[str, Any]:
        """Return what is posted: a text for notifications, and a block with the whole message."""
        text = f"*{_escaped(alert.subject)}*\n{_escaped(alert.text)}"
        block = {"type": "section", "text": {"type": "mrkdwn", "text": text[:3000]}}
        return {"text": _escaped(alert.subject), "blocks": [block]}


def slack(settings: AlertSettings) -> Target | None:
    """Return the channel of Slack that the settings name."""
    url = settings.alert_slack_url
    return None if url is None else Slack(url.get_secret_value())


def _escaped(text: str) -> str:
    """Escape what Slack reads as control characters. Source: Slack, "Formatting text for app surfaces"."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
