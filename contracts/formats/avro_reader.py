"""Readers of data that was written with one Avro schema: as records of the contract's schema, and for fastavro.

fastavro recurses and allocates as the bytes say: a few kilobytes of a schema that contains itself end the process, and
an array of nulls takes all memory. Bytes of others are measured by `EncodedSize` first.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro_decoder import MALFORMED, MalformedError, compile_reader, malformed
from tidegate.contracts.formats.avro_nodes import Node, resolve
from tidegate.contracts.formats.avro_types import MAX_NESTING, AvroTooDeepError, AvroType, parse
from tidegate.contracts.verdict import Severity, Stage, Violation

MAX_POINTER_TOKENS: Final = 16
"""Maximum tokens in the pointer of a violation; the pointer of a deeper place is cut to its beginning."""


class ResolvedReader:
    """Reads data of one writer's schema; `node` is that schema resolved against the contract's.

    `writer` is that schema itself; None if it is not known, and then nothing can be read.
    """

    def __init__(self, node: Node, writer: AvroType | None = None) -> None:
        self.node = node
        self.writer = writer
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


class EncodedSize:
    """Measures values of one schema: those that it finds are nested and as many as fastavro can read."""

    def __init__(self, schema: Any) -> None:
        """Compile a schema, also one that fastavro has parsed. Raises ContractError."""
        try:
            node = parse(_without_logical_types(schema))
        except AvroTooDeepError:
            raise ContractError.at("", f"a schema is nested at most {MAX_NESTING} levels deep") from None
        self._read = compile_reader(resolve(node, node))

    def end(self, data: bytes, start: int = 0) -> int:
        """Return the position after the value at `start`. Raises ValueError if none can be read."""
        try:
            return self._read(data, start, 0)[1]
        except MALFORMED as error:
            raise ValueError(f"a value {malformed(error).message}") from None


def _without_logical_types(schema: Any) -> Any:
    """Return a schema whose values are only encoded ones: dates out of range and the like are not its concern."""
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in ("default", "symbols") else _without_logical_types(value)
        for key, value in schema.items()
        if key != "logicalType" and not key.startswith("__")  # marks of fastavro
    }


def _violation(error: MalformedError) -> Violation:
    path = tuple(reversed(error.path[-MAX_POINTER_TOKENS:]))
    return Violation(Stage.DECODE, error.code, join(path), Severity.ERROR, error.message)
