"""The current time. In its own module so that a command can use it without importing the gateway."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time as an aware datetime in UTC."""
    return datetime.now(UTC)
