"""Parameters of addresses that several pages have: a form sends every field, filled in or not, and links get cut."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, TypeAdapter

from tidegate.contracts.stream.bounds import Instant

_INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)


def empty_is_none(value: object) -> object:
    """Return None for a field that was left empty."""
    return value or None


def _moment(value: object) -> object:
    """Read a moment of the address; one without a zone is in UTC, as the form sends it. None at the ends of the calendar."""
    if not value:
        return None
    try:
        moment = datetime.fromisoformat(str(value))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return _INSTANT.validate_python(aware).astimezone(UTC)
    except ValueError:
        return None  # a link that was cut in a chat shows the default span, not an error


Moment = Annotated[datetime | None, BeforeValidator(_moment)]
Words = Annotated[Annotated[str, Field(max_length=200)] | None, BeforeValidator(empty_is_none)]
Number = Annotated[Annotated[int, Field(ge=0, lt=2**31)] | None, BeforeValidator(empty_is_none)]
