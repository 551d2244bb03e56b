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
    is_framed = pc.fill_null(pc.starts_with(values, _MAGIC), False)
    if framing == "auto" and not pc.any(is_framed).as_py():
        return values
    is_whole = pc.greater_equal(pc.binary_length(values), PREFIX_BYTES)
    cut = pc.if_else(is_whole, pc.binary_slice(values, PREFIX_BYTES), None)
    bare = values if framing == "auto" else pa.nulls(len(values), values.type)
    return pc.if_else(is_framed, cut, bare)


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
