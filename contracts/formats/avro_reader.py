"""Reader of data that was written with one Avro schema, as records of the contract's schema."""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.avro_decoder import MALFORMED, MalformedError, compile_reader, malformed
from tidegate.contracts.formats.avro_nodes import Node
from tidegate.contracts.verdict import Severity, Stage, Violation

MAX_POINTER_TOKENS: Final = 16
"""Maximum tokens in the pointer of a violation; the pointer of a deeper place is cut to its beginning."""


class ResolvedReader:
    """Reads data of one writer's schema; `node` is that schema resolved against the contract's."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._read = compile_reader(node)

    def record(self, payload: bytes) -> Any:
        """Return the decoded record, or a Violation of stage decode if the payload is malformed."""
        try:
            return self.read(payload)
        except MALFORMED as error:
            return _violation(malformed(error))

    def read(self, payload: bytes) -> Any:
        """Return the decoded record. Raises one of MALFORMED, or TypeError for a null."""
        record, end = self._read(payload, 0, 0)
        if end < len(payload):
            raise MalformedError("avro.trailing-bytes", "goes on after its last field")
        return record


def _violation(error: MalformedError) -> Violation:
    path = tuple(reversed(error.path[-MAX_POINTER_TOKENS:]))
    return Violation(Stage.DECODE, error.code, join(path), Severity.ERROR, error.message)
