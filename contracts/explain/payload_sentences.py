"""What would have passed where bytes are no record, and what a column can hold. Nothing here holds a value."""

from __future__ import annotations

import json
from typing import Final

_PREFIX: Final = (
    "a value that begins with the zero byte and a schema id of 4 bytes, as Confluent's serialisers write it"
)
_AVRO: Final = "bytes that were written with the schema of the contract"
_WHOLE: Final = "one complete JSON value"
REMEDIES: Final = {
    "value.null": "a value; the contract lets no tombstone pass (`tombstones: refuse`)",
    "frame.truncated": _PREFIX,
    "frame.missing": _PREFIX,
    "json.empty": _WHOLE,
    "json.invalid": _WHOLE,
    "json.invalid-utf8": "JSON in UTF-8",
    "json.not-finite": "a finite number, or null where the schema allows it",
    "json.lone-surrogate": "whole characters: both halves of a pair, or none",
    "json.number-range": "an exponent of at most 18 digits",
    "json.too-deep": "at most 254 levels",
    "json.too-much-work": "a record of fewer levels and items, or a schema that names each part of a value once",
    "avro.too-deep": "at most 254 levels",
}
"""What would have passed, by the code of the violation."""

_COLUMNS: Final = {
    "boolean": "true or false",
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "float": "a number of at most 3.4e38",
    "double": "a number of at most 1.7e308",
    "string": "text",
    "binary": "bytes",
    "date": "a date from 0001-01-01 to 9999-12-31",
    "timestamp": "a date and time with its offset, in whole microseconds, from year 1 to 9999",
    "timestamp_ntz": "a date and time without an offset, in whole microseconds, from year 1 to 9999",
    "json": "a value without NaN or infinities",
}


def payload_remedy(code: str) -> str | None:
    """Return what would have passed where a frame or a payload cannot be read."""
    return REMEDIES.get(code) or (_AVRO if code.startswith("avro.") else None)


def column_remedy(column_type: str) -> str | None:
    """Return what a column can hold."""
    name, _, parameters = column_type.partition("(")
    if name == "decimal":
        precision, scale = (int(each) for each in parameters.rstrip(")").split(","))
        return f"a number of at most {precision - scale} digits before the point and {scale} after it"
    return _COLUMNS.get(name)


def json_flaw(payload: bytes) -> str | None:
    """Return where a payload stops being JSON: line and column, counted from 1, and never what stands there."""
    try:
        json.loads(payload)
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1:,} is not UTF-8"
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc):
            return "it ends before the value is complete"
        return f"it stops being JSON at line {error.lineno:,}, column {error.colno:,}"
    except (ValueError, RecursionError):
        return None
    return None
