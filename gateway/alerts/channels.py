"""The alert channels: webhook, Slack and e-mail. To add one, write its class here and add it to `CHANNELS`."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Any, Final, Protocol, Self
from urllib.parse import unquote, urlsplit

import httpx

from tidegate.contracts.errors import Unavailable
from tidegate.gateway.alerts.alert import Alert
from tidegate.gateway.alerts.settings import AlertSettings

TIMEOUT_SECONDS: Final = 10.0
_SLACK_HOST: Final = "hooks.slack.com"


class TargetError(Unavailable):
    """A target did not accept an alert."""


class AlertTarget(Protocol):
    """A destination of alerts; `name` is for logs."""

    name: str

    def send(self, alert: Alert) -> None:
        """Send an alert. Raises TargetError."""
        ...


class AlertChannel(Protocol):
    """A kind of target: a class of this module, listed in `CHANNELS`."""

    def configured(self, settings: AlertSettings) -> AlertTarget | None:
        """Return the target of the settings, which gets all alerts; None if there is none."""
        ...

    def at(self, url: str) -> AlertTarget | None:
        """Return the target for the http address of a team's channel; None if the address is of another kind."""
        ...


class Webhook:
    """A webhook that gets each alert as a JSON object."""

    name = "webhook"

    def __init__(self, url: str) -> None:
        self._url = url

    def send(self, alert: Alert) -> None:
        """Post the alert. Raises TargetError unless the status of the response is 2xx."""
        _post(self._url, self.body(alert))

    def body(self, alert: Alert) -> dict[str, Any]:
        """Return the JSON body of the request."""
        return alert.document

    @classmethod
    def configured(cls, settings: AlertSettings) -> Self | None:
        """Return the configured webhook; None if there is none."""
        url = settings.alert_webhook_url
        return None if url is None else cls(url.get_secret_value())

    @classmethod
    def at(cls, url: str) -> Self | None:
        """Return the webhook at any address."""
        return cls(url)


def _post(url: str, body: dict[str, Any]) -> None:
    try:
        answer = httpx.post(url, json=body, timeout=TIMEOUT_SECONDS)
    except httpx.HTTPError as error:
        # The URL may contain a secret, and some messages of httpx quote the URL.
        raise TargetError(f"it cannot be reached: {type(error).__name__}") from error
    if not answer.is_success:
        raise TargetError(f"it answered {answer.status_code}")


class Slack(Webhook):
    """An incoming webhook of Slack."""

    name = "slack"

    def body(self, alert: Alert) -> dict[str, Any]:
        """Return the JSON body: a text for notifications, and a block with the message (at most 3,000 characters)."""
        text = f"*{_escaped(alert.subject)}*\n{_escaped(alert.text)}"
        block = {"type": "section", "text": {"type": "mrkdwn", "text": text[:3000]}}
        return {"text": _escaped(alert.subject), "blocks": [block]}

    @classmethod
    def configured(cls, settings: AlertSettings) -> Self | None:
        """Return the configured Slack webhook; None if there is none."""
        url = settings.alert_slack_url
        return None if url is None else cls(url.get_secret_value())

    @classmethod
    def at(cls, url: str) -> Self | None:
        """Return the webhook at an address of Slack's host; None for other hosts."""
        return cls(url) if urlsplit(url).hostname == _SLACK_HOST else None


def _escaped(text: str) -> str:
    """Escape Slack's control characters. Source: Slack, "Formatting text for app surfaces"."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Email:
    """An SMTP server. Each alert is one e-mail to all receivers."""

    name = "email"

    def __init__(self, smtp_url: str, sender: str, receivers: tuple[str, ...]) -> None:
        self._server = urlsplit(smtp_url)
        self._sender = sender
        self._receivers = receivers

    def send(self, alert: Alert) -> None:
        """Send the alert. If the URL has a user, the connection is encrypted before the login. Raises TargetError."""
        message = EmailMessage()
        message["Subject"] = alert.subject
        message["From"] = self._sender
        message["To"] = ", ".join(self._receivers)
        message["Date"] = format_datetime(alert.at)
        message["Message-ID"] = make_msgid(domain="tidegate.invalid")
        message.set_content(alert.text)
        try:
            with self._connect() as server:
                server.send_message(message)
        except (OSError, smtplib.SMTPException) as error:
            raise TargetError(f"the mail server refused the message: {error}") from error

    def _connect(self) -> smtplib.SMTP:
        host, port = self._server.hostname or "", self._server.port or 0
        if self._server.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                host, port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context()
            )
        else:
            server = smtplib.SMTP(host, port, timeout=TIMEOUT_SECONDS)
        try:
            if self._server.username is not None:
                if self._server.scheme == "smtp":
                    server.starttls(context=ssl.create_default_context())
                server.login(unquote(self._server.username), unquote(self._server.password or ""))
        except BaseException:
            server.close()
            raise
        return server

    @classmethod
    def configured(cls, settings: AlertSettings) -> Self | None:
        """Return the configured mail server; None if the settings have no server or no sender."""
        url, sender = settings.alert_smtp_url, settings.alert_email_from
        if url is None or sender is None:
            return None
        return cls(url.get_secret_value(), sender, settings.alert_email_to)

    @classmethod
    def at(cls, url: str) -> None:
        """Return None: the channel of a team is an http address."""


CHANNELS: tuple[AlertChannel, ...] = (Slack, Webhook, Email)
"""The kinds of targets. The channel of a team is of the first kind that takes its address, so Webhook is after Slack."""


def targets_of(settings: AlertSettings) -> tuple[AlertTarget, ...]:
    """Return the configured targets, which get all alerts."""
    found = (channel.configured(settings) for channel in CHANNELS)
    return tuple(target for target in found if target is not None)


def channels_of(settings: AlertSettings) -> dict[str, AlertTarget]:
    """Return the channels of teams by name."""
    return {name: _channel(name, url.get_secret_value()) for name, url in settings.alert_channels.items()}


def _channel(name: str, url: str) -> AlertTarget:
    target = next(target for channel in CHANNELS if (target := channel.at(url)) is not None)
    target.name = f"channel-{name}"
    return target
