"""The time of day. In its own module so that a command can use it without loading the gateway."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Return the instant, in UTC."""
    return datetime.now(UTC)
