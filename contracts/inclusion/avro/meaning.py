"""What a value means under its logical type, in words that compare.

Source: Apache Avro 1.12 specification, "Logical Types".
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from tidegate.contracts.formats.avro_types import AvroType, Fixed, Logical, Primitive

_EPOCH: Final = date(1970, 1, 1)
_PER_SECOND: Final = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


def logical_of(node: AvroType) -> Logical | None:
    """Return the logical type of a type."""
    return node.logical if isinstance(node, Primitive | Fixed) else None


def time_unit(logical: Logical) -> tuple[str, str] | None:
    """Split a time or timestamp into what it is and its unit; None for other logical types."""
    kind, _, unit = logical.name.rpartition("-")
    return (kind, unit) if unit in _PER_SECOND else None


def meaning(value: Any, logical: Logical | None) -> str | None:
    """Return what a value of the underlying type means; None when the logical type does not have it.

    `value` is as fastavro reads it without logical types: an int, bytes or a str.
    """
    if logical is None:
        return repr(value) if isinstance(value, bytes) else str(value)
    if logical.name == "decimal":
        number = int.from_bytes(value, "big", signed=True)
        is_held = len(str(abs(number))) <= logical.precision
        return str(Decimal(number).scaleb(-logical.scale)) if is_held else None
    if logical.name == "date":
        return (_EPOCH + timedelta(days=value)).isoformat()
    if logical.name == "uuid":
        text = value.hex() if isinstance(value, bytes) else value
        return text if isinstance(value, bytes) or _UUID.fullmatch(text) else None
    if logical.name == "duration":
        months, days, millis = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
        return f"{months} months, {days} days and {millis} ms"
    return _time(value, logical)


def _time(value: int, logical: Logical) -> str:
    kind, unit = time_unit(logical) or ("", "nanos")
    per_second = _PER_SECOND[unit]
    seconds, fraction = divmod(value, per_second)
    days, second = divmod(seconds, 86_400)
    digits = f".{fraction:0{len(str(per_second)) - 1}}".rstrip("0").rstrip(".") if fraction else ""
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{digits}"
    if kind == "time":
        return clock
    return f"{(_EPOCH + timedelta(days=days)).isoformat()}T{clock}{'Z' if kind == 'timestamp' else ''}"
