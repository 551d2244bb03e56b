"""Formats of JSON Schema for texts, tested on whole arrays."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.infer.columns import Mask


class TextFormat(StrEnum):
    """A value of the keyword `format`. Source: JSON Schema 2020-12 validation, chapter 7.3."""

    DATE = "date"
    DATE_TIME = "date-time"
    LOCAL_DATE_TIME = "date-time-local"
    UUID = "uuid"
    EMAIL = "email"
    URI = "uri"
    IPV4 = "ipv4"
    DURATION = "duration"

    def test(self, labels: pa.Array) -> Mask:
        """Return for each text whether it has the format. `labels` must not contain nulls."""
        found: Mask = pc.match_substring_regex(labels, _PATTERNS[self]).to_numpy(zero_copy_only=False)
        if self not in _PARSED or not found.any():
            return found
        candidates = labels.filter(pa.array(found))
        try:  # usually all matches are days of the calendar, which one cast confirms
            candidates.cast(_PARSED[self])
        except pa.ArrowInvalid:
            found = found.copy()
            found[found] = [_parses(text, self) for text in candidates.to_pylist()]
        return found


_DAY: Final = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_DATE_PART: Final = "([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)"
_TIME_PART: Final = "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)"
"""Time part of a duration. RFC 3339 appendix A allows no fractions, and requires each unit between first and last."""
_PATTERNS: Final = {
    TextFormat.DATE: rf"\A{_DAY}\z",
    TextFormat.DATE_TIME: rf"\A{_DAY}T{_CLOCK}(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])\z",
    TextFormat.LOCAL_DATE_TIME: rf"\A{_DAY}T{_CLOCK}\z",
    TextFormat.UUID: r"\A[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\z",
    TextFormat.EMAIL: r"\A[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\z",
    TextFormat.URI: r"\A(https?|ftp|s3|urn):[!-;=?-\[\]_a-z~]+\z",
    TextFormat.IPV4: r"\A((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\z",
    TextFormat.DURATION: rf"\AP([0-9]+W|{_DATE_PART}({_TIME_PART})?|{_TIME_PART})\z",
}
_PARSED: Final = {
    TextFormat.DATE: pa.date32(),
    TextFormat.DATE_TIME: pa.timestamp("us", "UTC"),
    TextFormat.LOCAL_DATE_TIME: pa.timestamp("us"),
}
FORMATS: Final = tuple(TextFormat)


def days_of_dates(labels: pa.Array, has_format: Mask) -> npt.NDArray[np.float64]:
    """Return each text as days since 1970, NaN where it does not have the format."""
    dates = _parsed(labels, has_format, pa.date32())
    return _floats(dates.cast(pa.int32()))


def instants_of_texts(labels: pa.Array, has_format: Mask) -> npt.NDArray[np.float64]:
    """Return each text as seconds since 1970, NaN where it does not have the format."""
    try:
        instants = _parsed(labels, has_format, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:  # without a zone
        instants = _parsed(labels, has_format, pa.timestamp("us"))
    return _floats(instants.cast(pa.int64())) / 1e6


def _parsed(labels: pa.Array, has_format: Mask, kind: pa.DataType) -> pa.Array:
    return pc.if_else(pa.array(has_format), labels, pa.scalar(None, pa.string())).cast(kind)


def _floats(array: pa.Array) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _parses(text: str, kind: TextFormat) -> bool:
    try:
        if kind is TextFormat.DATE:
            date.fromisoformat(text)
        else:
            datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
