"""The interface that the judge requires of a payload format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.verdict import Severity, Stage, Violation

NO_PAYLOAD: Final = Violation(Stage.FRAME, "value.null", "", Severity.ERROR, "the value is null")
"""The result of decoding a null: a tombstone, or a value whose framing could not be removed."""


class PayloadFormat(Protocol):
    """A compiled schema that decodes payloads and validates the records."""

    @property
    def fields(self) -> SchemaFields:
        """Return the fields that the schema declares."""
        ...

    def decode(self, framed: Framed) -> Iterator[Any]:
        """Yield for each payload the decoded record, or a Violation of stage decode (`NO_PAYLOAD` for null)."""
        ...

    @property
    def is_valid(self) -> Callable[[Any], bool]:
        """Return the function that tests whether a decoded record fits the schema. The function never raises."""
        ...

    def violations(self, record: Any) -> tuple[Violation, ...]:
        """Return the schema violations of a record, at least one if `is_valid` returns False for it."""
        ...
