"""Find, in one pass over many values, the few that may contain a number that a fast parser would change.

This is a coarse filter before a regular expression. It looks only at bytes, also inside strings, and misses no such
number.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.contracts.formats.framing import byte_offsets

SHORTEST_RUN: Final = 16
"""Minimum length in digits and dots of a number without exponent that a double or 64 bits may not hold."""

_CHUNK_BYTES: Final = 1 << 17
"""Small enough for the CPU cache, and a multiple of the word size."""
_WORD_BYTES: Final = 4
_FULL_WORD: Final = 0x01010101


def suspect_rows(values: pa.Array) -> list[int]:
    """Return the indexes of the values that may hold an exponent or a run of SHORTEST_RUN digits and dots, ascending.

    Takes an array of binary or large_binary; a null is never suspect.
    """
    data_buffer = values.buffers()[2]
    if len(values) == 0 or data_buffer is None:
        return []
    offsets = byte_offsets(values)
    data = np.frombuffer(data_buffer, np.uint8)
    first, end = int(offsets[0]), int(offsets[-1])
    places = [
        place + start
        for start in range(first, end, _CHUNK_BYTES)
        for place in _suspect_places(data[start : min(end, start + _CHUNK_BYTES + SHORTEST_RUN)])
    ]
    if not places:
        return []
    rows: list[int] = np.unique(np.searchsorted(offsets, np.concatenate(places), side="right") - 1).tolist()
    return rows


def _suspect_places(chunk: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.intp]]:
    """Return where runs of digits and dots, and exponents, may begin, as arrays of positions in the chunk."""
    # One comparison covers `.`, `/` and the digits: their codes are consecutive, and lower ones wrap around.
    is_digit = (chunk - np.uint8(ord("."))) <= ord("9") - ord(".")
    found = []
    # A run of 16 bytes contains three whole words at any alignment.
    words = is_digit[: len(is_digit) // _WORD_BYTES * _WORD_BYTES].view(np.uint32) == _FULL_WORD
    runs = words[:-2] & words[1:-1] & words[2:]
    if runs.any():
        found.append(np.flatnonzero(runs) * _WORD_BYTES)
    exponents = ((chunk[1:] | np.uint8(0x20)) == ord("e")) & is_digit[:-1]
    if exponents.any():
        found.append(np.flatnonzero(exponents))
    return found
