"""Query parameters that several pages share. They tolerate empty form fields and truncated links."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, TypeAdapter

from tidegate.contracts.stream.bounds import Instant

_INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)


def empty_is_none(value: object) -> object:
    """Return None for an empty form field, else the value."""
    return value or None


def _moment(value: object) -> object:
    """Parse an ISO 8601 timestamp; one without a time zone is in UTC, as forms send it.

    Return None for an empty or invalid one, and for one outside of the supported range.
    """
    if not value:
        return None
    try:
        moment = datetime.fromisoformat(str(value))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return _INSTANT.validate_python(aware).astimezone(UTC)
    except ValueError:
        return None  # a truncated link shows the default time range, not an error


Moment = Annotated[datetime | None, BeforeValidator(_moment)]
Words = Annotated[Annotated[str, Field(max_length=200)] | None, BeforeValidator(empty_is_none)]
Number = Annotated[Annotated[int, Field(ge=0, lt=2**31)] | None, BeforeValidator(empty_is_none)]
