"""Alerts by e-mail."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from urllib.parse import unquote, urlsplit

from tidegate.gateway.alerts.alert import Alert
from tidegate.gateway.alerts.settings import AlertSettings
from tidegate.gateway.alerts.target import TIMEOUT_SECONDS, Target, TargetError


class Email:
    """Sends each alert to all receivers in one message."""

    name = "email"

    def __init__(self, smtp_url: str, sender: str, receivers: tuple[str, ...]) -> None:
        self._server = urlsplit(smtp_url)
        self._sender = sender
        self._receivers = receivers

    def send(self, alert: Alert) -> None:
        """Send the message. With a user the connection is encrypted before the password goes over it."""
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
            raise TargetError(f"the mail server did not take it: {error}") from error

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


def email(settings: AlertSettings) -> Target | None:
    """Return the mail server that the settings name."""
    url, sender = settings.alert_smtp_url, settings.alert_email_from
    if url is None or sender is None:
        return None
    return Email(url.get_secret_value(), sender, settings.alert_email_to)
