"""Framing: what stands before the payload in a record's value.

Source: Confluent wire format, a zero byte and a schema id of four bytes, big-endian.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from contracts.verdict import Severity, Stage, Violation

Framing = Literal["none", "confluent-prefix", "confluent-header", "auto"]

PREFIX_BYTES = 5
"""A zero byte and a schema id."""
_MAGIC = b"\0"


def payloads(values: pa.Array, framing: Framing) -> pa.Array:
    """Cut the frame off each value; null where there is none to cut although the framing wants one."""
    if framing in {"none", "confluent-header"}:
        return values
    if framing == "auto" and not pc.any(pc.starts_with(values, _MAGIC)).as_py():
        return values
    # In Python: Arrow's binary_slice fails on slices of arrays with values shorter than the prefix.
    bare_is_right = framing == "auto"
    return pa.array(
        [_payload(value, bare_is_right=bare_is_right) for value in values.to_pylist()], values.type
    )


def _payload(value: bytes | None, *, bare_is_right: bool) -> bytes | None:
    if value is None or not value.startswith(_MAGIC):
        return value if bare_is_right else None
    return value[PREFIX_BYTES:] if len(value) >= PREFIX_BYTES else None


def frame_violation(value: bytes) -> Violation:
    """Say what is wrong with a value for which `payloads` gave null."""
    if value.startswith(_MAGIC):
        return Violation(
            Stage.FRAME,
            "frame.truncated",
            "",
            Severity.ERROR,
            "ends within its schema id (5 bytes are needed)",
        )
    return Violation(
        Stage.FRAME, "frame.missing", "", Severity.ERROR, "does not begin with the zero byte of a schema id"
    )
