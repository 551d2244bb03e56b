"""The time of day, for whoever is not told another: of its own, so that a command need not load the gateway for it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Return the instant, in UTC."""
    return datetime.now(UTC)
