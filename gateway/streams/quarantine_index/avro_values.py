"""Decoding of refused Avro records, so that the index knows the shapes of their values, as it does for JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.errors import TidegateError
from tidegate.contracts.formats.framing import PREFIX_BYTES, schema_header
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Violation
from tidegate.gateway.registry.judging import with_writers
from tidegate.gateway.registry.subject_reading import SubjectReader

_MOST_NAMES: Final = 1_000
"""Maximum unknown schemas that are looked up in the registry: every writer to the topic can name any schema."""

Headers = Sequence[tuple[str, bytes | None]]
Decode = Callable[[bytes, Headers], Any]
"""Returns the decoded record for a value and its headers; None if it cannot be decoded."""


def avro_decoder(contract: DataContract, subjects: SubjectReader) -> Decode | None:
    """Return a decoder of the records of a contract version; None if it is not Avro, or no longer compiles."""
    if isinstance(contract.schema_, JsonSchema):
        return None
    try:
        return AvroValues(compile_plan(contract), subjects)
    except TidegateError:
        return None  # published by a release that allowed what this one does not


class AvroValues:
    """A decoder of the records of one contract version, which decodes as the judge does."""

    def __init__(self, plan: EnforcementPlan, subjects: SubjectReader) -> None:
        self._plan = with_writers(plan, subjects)
        self._subjects = subjects
        self._missed: set[bytes] = set()

    def __call__(self, value: bytes, headers: Headers) -> Any:
        """Return the decoded record; None if it does not match its schema, or if the schema is unknown."""
        header = schema_header(headers)
        found = self._plan.record_of(value, header)
        if isinstance(found, Violation) and self._is_newly_named(header or value[:PREFIX_BYTES]):
            self._plan = with_writers(self._plan, self._subjects)
            found = self._plan.record_of(value, header)
        return None if isinstance(found, Violation) else found

    def _is_newly_named(self, name: bytes) -> bool:
        """Return whether a schema may have been registered since the last look; each name is looked up once."""
        if not self._plan.needs_writers or name in self._missed or len(self._missed) >= _MOST_NAMES:
            return False
        self._missed.add(name)
        return True
