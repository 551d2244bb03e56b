"""The settings of alerts, a part of the gateway's."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode

from tidegate.contracts.words import split_words

Addresses = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_words)]


class AlertSettings(BaseSettings):
    """The targets of alerts and their minimum interval. Without a target, no alerts are sent."""

    alert_webhook_url: SecretStr | None = Field(
        default=None, description="Takes each alert as a JSON object by POST; the address may hold a secret."
    )
    alert_slack_url: SecretStr | None = Field(
        default=None, description="An incoming webhook of Slack, or of anything that takes the same."
    )
    alert_email_to: Addresses = Field(default=(), description="Addresses that get each alert as an e-mail.")
    alert_email_from: str | None = Field(default=None, description="Sender of these e-mails.")
    alert_smtp_url: SecretStr | None = Field(
        default=None,
        description="smtp://user:password@host:587 (with STARTTLS when there is a user) or smtps://host:465.",
    )
    alert_channels: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Channels of teams, a JSON object of names and addresses (Slack's or another webhook). A contract names one as `team.alert_channel`; it gets the alerts about problems.",
    )
    alert_interval_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Between two alerts of one kind about one stream; what comes meanwhile is counted.",
    )
    alert_page_url: str = Field(
        default="http://127.0.0.1:8081",
        description="Address under which people open the pages; alerts link there.",
    )

    @field_validator("alert_webhook_url", "alert_slack_url")
    @classmethod
    def _is_web_address(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _require_scheme(value.get_secret_value(), ("http", "https"))
        return value

    @field_validator("alert_channels")
    @classmethod
    def _are_web_addresses(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for url in value.values():
            _require_scheme(url.get_secret_value(), ("http", "https"))
        return value

    @field_validator("alert_page_url")
    @classmethod
    def _is_page_address(cls, value: str) -> str:
        _require_scheme(value, ("http", "https"))
        return value.rstrip("/")

    @field_validator("alert_smtp_url")
    @classmethod
    def _is_mail_address(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _require_scheme(value.get_secret_value(), ("smtp", "smtps"))
        return value

    @model_validator(mode="after")
    def _email_is_configured_whole_or_not_at_all(self) -> Self:
        given = {
            "TIDEGATE_ALERT_EMAIL_TO": bool(self.alert_email_to),
            "TIDEGATE_ALERT_EMAIL_FROM": self.alert_email_from is not None,
            "TIDEGATE_ALERT_SMTP_URL": self.alert_smtp_url is not None,
        }
        missing = [name for name, is_given in given.items() if not is_given]
        if missing and len(missing) < len(given):
            raise ValueError(
                f"e-mail needs receivers, a sender and a server: set {' and '.join(missing)} too"
            )
        return self


def _require_scheme(url: str, schemes: tuple[str, ...]) -> None:
    parts = urlsplit(url)
    if parts.scheme not in schemes or not parts.hostname:
        # The message is shown, and the URL may contain a secret.
        raise ValueError(
            f"it is not an address that begins with {' or '.join(f'{each}://' for each in schemes)}"
        )
