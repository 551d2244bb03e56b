"""The interface of a payload format for the judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.verdict import Severity, Stage, Violation

NO_PAYLOAD: Final = Violation(Stage.FRAME, "value.null", "", Severity.ERROR, "the value is null")
"""The decoded form of a null: a tombstone, or a value whose frame could not be cut off."""


class PayloadFormat(Protocol):
    """A schema, compiled: it decodes payloads and says whether they fit."""

    @property
    def fields(self) -> SchemaFields:
        """Return the fields that the schema declares."""
        ...

    def decode(self, framed: Framed) -> Iterator[Any]:
        """Decode each payload: the record, or the Violation that it is (`NO_PAYLOAD` for null)."""
        ...

    @property
    def is_valid(self) -> Callable[[Any], bool]:
        """Return whether a decoded record fits the schema. Never raises."""
        ...

    def violations(self, record: Any) -> tuple[Violation, ...]:
        """Return every way in which a record violates the schema, at least one if `is_valid` returns False."""
        ...
