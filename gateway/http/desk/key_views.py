"""The page of the API keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.access.keys import Credentials, KeyService
from tidegate.gateway.access.principal import Grant, Role, read_grants
from tidegate.gateway.clock import now
from tidegate.gateway.http.desk.desk_route import Form
from tidegate.gateway.storage.access import StoredKey

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One key. `state` is a CSS class, `label` the state in words."""

    key: StoredKey
    state: str
    label: str


@dataclass(frozen=True, slots=True)
class KeysView:
    """All keys, valid ones first, then newest first. `made` is a key that was just created; None otherwise."""

    rows: tuple[KeyLine, ...]
    in_use: int
    made: Credentials | None
    roles: tuple[str, ...]


def keys_view(keys: KeyService, made: Credentials | None = None) -> KeysView:
    """Return the page of the keys; `made` shows the secret of a key that was just created."""
    at = now()
    rows = [_row(key, at) for key in reversed(keys.all())]
    return KeysView(
        tuple(sorted(rows, key=lambda row: row.label != "In use")),
        sum(row.label == "In use" for row in rows),
        made,
        tuple(role.word for role in Role),
    )


def _row(key: StoredKey, at: datetime) -> KeyLine:
    if key.revoked_at is not None:
        return KeyLine(key, "quiet", "Revoked")
    if key.expires_at is not None and key.expires_at <= at:
        return KeyLine(key, "quiet", "Expired")
    return KeyLine(key, "live", "In use")


def wanted_key(form: Form) -> tuple[str, Sequence[Grant], datetime | None]:
    """Parse the name, grants and expiry (None: never) of a new key. Raises SettingsError."""
    name = form.text("name")
    if name is None or len(name) > _LONGEST_NAME:
        raise SettingsError(f"a key needs a name of 1 to {_LONGEST_NAME} characters")
    grants = read_grants((form.text("grants") or "").replace(",", " ").split())
    return name, grants, _expiry(form.text("expires_on"))


def _expiry(day: str | None) -> datetime | None:
    """Parse the last day of a key, which expires at the end of that day in UTC."""
    if day is None:
        return None
    try:
        return datetime.strptime(day, "%Y-%m-%d").replace(hour=23, minute=59, second=59, tzinfo=UTC)
    except ValueError:
        raise SettingsError(f"{day} is not a day; write it as 2030-12-31") from None
